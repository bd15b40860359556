"""A train against exact answers: loads at rest, transfer functions, Klingel's wave, eigenvalues, Radau."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq, root

from tamis.errors import SimulationError
from tamis.sim.rail import drive, kernels, tracks, vehicle
from tamis.sim.rail.kernels import BODIES
from tamis.sim.rail.scene import Vehicle
from tamis.types import Array

PERFECT = np.zeros((1, 4, 4))


def write_track(path: Path, s: Array, **signals: Array) -> str:
    columns = [s, *(signals.get(name, np.zeros(len(s))) for name in tracks.NAMES)]
    np.savetxt(
        path, np.column_stack(columns), delimiter=",", header=",".join(("s", *tracks.NAMES)), comments=""
    )
    return str(path)


def slope(
    train: drive.Train, x: Array, v: float, track: Array = PERFECT, s: float = 0.0, spacing: float = 1.0
) -> Array:
    dx = np.empty(len(x))
    kernels.evaluate(
        x, s, v, train.lead, spacing, track, train.car, train.bogies, dx, np.empty((len(train.lead), 4))
    )
    return dx


def roll(train: drive.Train, x: Array, v: float, h: float, steps: int, every: int) -> Array:
    """Run on a perfect track from a state; return the displacements."""
    states = np.empty((steps // every + 1, train.freedoms))
    status, _ = kernels.run(
        x.copy(), 0.0, v, h, every, train.lead, 1.0, PERFECT, train.car, train.bogies, states,
        np.empty_like(states), np.empty((len(states), len(train.lead), 4)),
    )  # fmt: skip
    assert status == kernels.DONE
    return states


# --- wheels on rails -----------------------------------------------------------------------------------------------


def test_wheelsets_stay_on_rails_that_lean(tmp_path: Path) -> None:
    """Rails turn about their own height: a wheelset that stays where it was on them moves by r_0 roll at its axle."""
    s = np.arange(0.0, 500.0, 0.25)
    leaning = write_track(tmp_path / "cant.csv", s, cross_level=np.full(len(s), 0.015))
    train, journey, _ = drive.travel(Vehicle(track=leaning, speed=20.0, duration=8.0))
    roll = 0.015 / (2.0 * train.car.contact_side)
    # what is left is the steering that the weight's component along the rails asks for: tenths of a millimetre
    assert np.abs(journey.states[-1, 15:BODIES:2] + train.car.radius * roll).max() < 3e-4


def test_a_rolling_wheelset_is_a_gyroscope() -> None:
    """Without friction and weight nothing but the spin joins roll and yaw: H = I_y v/r_0 (-yaw, 1, roll), M = H'."""
    car = drive.train_of(Vehicle()).car._replace(friction=0.0, gravity_scale=0.0)
    v, rail, load = 50.0, np.zeros(8), np.empty(4)
    rail[6] = 0.03
    _, moment, _ = kernels.wheelset(0.0, 0.0, 0.0, 0.02, 0.0, 0.0, 0.0, v, rail, car, load)
    momentum = 112.0 * v / car.radius
    assert moment == pytest.approx(-momentum * 0.03, rel=1e-12)
    assert (load[0] - load[1]) * car.contact_side == pytest.approx(-momentum * 0.02, rel=1e-9)


def test_wheel_loads_carry_the_moment_of_the_lateral_forces() -> None:
    """A wheelset that slides sideways on a perfect track, nothing else moving: moments about its axle."""
    train = drive.train_of(Vehicle())
    x, dx, loads = np.zeros(train.size), np.empty(train.size), np.empty((4, 4))
    x[BODIES + 15] = 0.01
    kernels.evaluate(x, 0.0, 30.0, train.lead, 1.0, PERFECT, train.car, train.bogies, dx, loads)
    left, right, *lateral = loads[0]
    assert abs(sum(lateral)) > 1e3
    assert (left - right) * train.car.contact_side == pytest.approx(train.car.radius * sum(lateral), rel=1e-9)


# --- at rest ---------------------------------------------------------------------------------------------------------


def test_a_symmetric_car_on_a_perfect_track_loads_its_wheels_alike() -> None:
    out = drive.simulate(Vehicle(amplitude=0.0, duration=0.5))
    loads = out["wheel_loads"]
    assert np.abs(loads.sum(axis=1) / vehicle.weight() - 1.0).max() < 1e-9
    assert np.ptp(loads) < 1e-9 * vehicle.weight()
    assert np.abs(out["car_vertical"]).max() < 1e-12


def test_on_a_twisted_track_at_rest_the_loads_sum_to_the_weight_and_differ() -> None:
    """A static state on rails whose roll differs from wheelset to wheelset, found by Newton's method."""
    train = drive.train_of(Vehicle(conicity=0.0))
    twist = np.zeros((40, 4, 4))  # steps of 1 m without slopes: nothing moves at rest
    twist[:, 3, 0] = 1e-3 * np.sin(np.arange(40.0))
    twist[:, 2, 0] = 1e-3 * np.cos(np.arange(40.0))
    # velocities and damper forces are zero at rest, wheelsets are held: bodies and bogies find their places
    free = np.arange(15)

    def residual(q: Array) -> Array:
        x = np.zeros(train.size)
        x[free] = q
        return slope(train, x, 1.0, twist, 30.5)[BODIES + free] * 1e-3

    answer = root(residual, np.zeros(15), tol=1e-14)
    x = np.zeros(train.size)
    x[free] = answer.x
    dx, loads = np.empty(train.size), np.empty((4, 4))
    kernels.evaluate(x, 30.5, 1.0, train.lead, 1.0, twist, train.car, train.bogies, dx, loads)
    assert np.abs(dx[BODIES : BODIES + 15]).max() < 1e-9
    assert loads[:, :2].sum() == pytest.approx(vehicle.weight(), rel=1e-9)
    assert np.ptp(loads[:, :2]) > 1000.0  # N: a twist of millimetres is not nothing


# --- the linear limit, vertical ---------------------------------------------------------------------------------------


def transfer(f: Array, v: float) -> tuple[Array, Array]:
    """Return accelerations of floor and bogie frame over the height of the track, 6 degrees of freedom, by matrices.

    Written from the drawing of the vehicle, not from the kernel: bounce and pitch of body and bogies, springs with
    Maxwell dampers beside them, and the delay of every axle.
    """
    c = vehicle.car(0.1, 0.4)
    floor, frame = [], []
    for each in f:
        w = 2.0 * math.pi * each

        def maxwell(series: float, rate: float, w: float = w) -> complex:
            return 1j * w * rate / (1.0 + 1j * w * rate / series)

        secondary = 2.0 * (0.43e6 + maxwell(6e6, 20e3))
        primary = 2.0 * (1.22e6 + maxwell(1e6, 4e3))
        stiff = np.zeros((6, 6), dtype=complex)  # z, pitch of body, front bogie, rear bogie
        load = np.zeros(6, dtype=complex)
        for k in range(2):
            arm = c.pivot * (1 - 2 * k)
            stretch = np.zeros(6)
            stretch[[0, 1, 2 + 2 * k]] = 1.0, -arm, -1.0
            stiff += secondary * np.outer(stretch, stretch)
            for j in range(2):
                reach = c.axle * (1 - 2 * j)
                stretch = np.zeros(6)
                stretch[[2 + 2 * k, 3 + 2 * k]] = 1.0, -reach
                stiff += primary * np.outer(stretch, stretch)
                load += primary * stretch * np.exp(-1j * w * (k * 2 * c.pivot + j * 2 * c.axle) / v)
        mass = np.diag([c.mass, c.pitch, c.bogie_mass, c.bogie_pitch, c.bogie_mass, c.bogie_pitch])
        q = np.linalg.solve(stiff - w * w * mass, load)
        floor.append(-w * w * (q[0] - c.pivot * q[1]))
        frame.append(-w * w * (q[2] - c.axle * q[3]))
    return np.array(floor), np.array(frame)


def test_the_vertical_response_is_the_transfer_function_with_axle_delays(tmp_path: Path) -> None:
    """Waves that repeat over 20 s, after 10 s of run-up; millimetres times 1e-3, so that no damper blows off."""
    v, period, rate = 40.0, 20.0, 200.0
    lines = np.unique(np.round(np.geomspace(0.5, 20.0, 40) * period)).astype(int)
    phases = np.random.default_rng(0).uniform(0.0, 2.0 * math.pi, len(lines))
    s = 0.1 * np.arange(15001)
    height = 1e-6 * np.cos(2.0 * math.pi * np.outer(s, lines) / (v * period) + phases).sum(axis=1)
    out = drive.simulate(
        Vehicle(
            track=write_track(tmp_path / "waves.csv", s, vertical=height),
            speed=v,
            duration=period - 1.0 / rate,
            runup=10.0,
            rate=rate,
        )
    )
    f = lines / period
    floor, frame = transfer(f, v)
    for name, exact in (("car_vertical", floor), ("bogie_vertical", frame)):
        found = 2.0 * np.abs(np.fft.rfft(out[name])[lines]) / len(out["t"]) / 1e-6
        assert np.abs(found / np.abs(exact) - 1.0).max() < 0.005, name
    assert np.abs(out["bogie_lateral"]).max() < 1e-6 * np.abs(out["bogie_vertical"]).max()


def test_the_wheel_base_has_its_nulls(tmp_path: Path) -> None:
    """A bogie does not bounce where its wheel base is half a wavelength, three halves; the transfer function says so.

    Measured at the centre of the frame, between the sensors of head and rear bogie of the same wave.
    """
    v, s = 40.0, 0.05 * np.arange(6001)
    for odd in (1, 3):
        wavelength = 2.0 * 2.56 / odd
        case = Vehicle(
            track=write_track(
                tmp_path / "null.csv", s, vertical=1e-6 * np.sin(2.0 * math.pi * s / wavelength)
            ),
            speed=v,
            duration=2.0,
            runup=4.0,
        )
        _, journey, _ = drive.travel(case)
        bounce, pitch = journey.accelerations[:, 6], 1.28 * journey.accelerations[:, 8]
        # the body moves a little, and so does the frame through the secondary springs: its share was 2e-4
        assert np.abs(bounce).max() < 1e-3 * np.abs(pitch).max()


# --- the free wheelset ------------------------------------------------------------------------------------------------


def test_a_free_conical_wheelset_follows_klingel() -> None:
    """Without suspension and at creeping speed a wheelset runs a sine of 2 pi sqrt(r0 b/lambda), 16.5 m."""
    klingel = 2.0 * math.pi * math.sqrt(0.46 * 0.75 / 0.05)
    assert klingel == pytest.approx(16.5, abs=0.01)
    v = 0.02
    car = vehicle.car(
        0.05, 0.4, primary_lateral=0.0, primary_lateral_damping=0.0, primary_longitudinal_damping=0.0
    )
    train = drive.train_of(Vehicle())._replace(car=car)
    train.bogies.longitudinal[:] = 0.0
    x = np.zeros(train.size)
    x[15] = 1e-3
    kept = [15, 16, 15 + BODIES, 16 + BODIES]

    def rhs(_: float, y: Array) -> Array:
        full = np.zeros(train.size)
        full[kept] = y
        return slope(train, full, v)[kept]

    span = 2.2 * klingel / v
    run = solve_ivp(rhs, (0.0, span), x[kept], method="Radau", rtol=1e-8, atol=1e-12, dense_output=True)
    t = np.linspace(0.0, span, 20001)
    y = run.sol(t)[0]
    falls = np.flatnonzero((y[:-1] > 0) & (y[1:] <= 0))
    at = t[falls] + (t[1] - t[0]) * y[falls] / (y[falls] - y[falls + 1])
    assert v * (at[1] - at[0]) == pytest.approx(klingel, rel=1e-3)


# --- critical speed ---------------------------------------------------------------------------------------------------


def growth(v: float, conicity: float = 0.4) -> float:
    train = drive.train_of(Vehicle(conicity=conicity))
    return float(np.linalg.eigvals(drive.jacobian(train, v)).real.max())


def test_growth_in_time_begins_at_the_critical_speed_of_the_eigenvalues() -> None:
    critical = brentq(growth, 60.0, 100.0, xtol=1e-3)
    train = drive.train_of(Vehicle(conicity=0.4))
    x = np.zeros(train.size)
    x[15::2][:4] = 1e-7  # m: within the play, and no damper near its blow-off

    def measured(v: float) -> float:
        y = roll(train, x, v, 1e-3, 40000, 5)[:, 15]
        envelope = [np.abs(part).max() for part in np.array_split(y[len(y) // 2 :], 8)]
        return float(np.polyfit(np.arange(8) * 2.5, np.log(envelope), 1)[0])

    slow, fast = measured(0.99 * critical), measured(1.01 * critical)
    assert slow < 0.0 < fast
    onset = critical * (0.99 - 0.02 * slow / (fast - slow))
    assert onset == pytest.approx(critical, rel=0.01)
    # 20 s of envelope of a wave of 6 Hz: maxima are within 1e-2 of it
    assert fast == pytest.approx(growth(1.01 * critical), abs=0.01)


def test_above_the_critical_speed_the_motion_is_a_bounded_limit_cycle() -> None:
    v = 1.1 * brentq(growth, 60.0, 100.0, xtol=1e-2)
    train = drive.train_of(Vehicle(conicity=0.4))
    swings = []
    for start in (1e-4, 4e-3):
        x = np.zeros(train.size)
        x[15::2][:4] = start
        y = roll(train, x, v, 1e-3, 60000, 5)[-2000:, 15]
        swings.append(np.ptp(y))
        halves = np.ptp(y[:1000]), np.ptp(y[1000:])
        assert halves[0] == pytest.approx(halves[1], rel=0.02)  # ten seconds, sixty waves, sampled at 200 Hz
        assert 1e-3 < swings[-1] < 0.03
    assert swings[0] == pytest.approx(swings[1], rel=0.02)


# --- the integrator ---------------------------------------------------------------------------------------------------


def rough(duration: float) -> tuple[drive.Train, Array, float, float]:
    """Return a train on a track on which all its nonlinear elements work: stop and blow-off come early."""
    case = Vehicle(spectrum="high", conicity=0.3, duration=duration, seed=3)
    train = drive.train_of(case)
    train = train._replace(car=train.car._replace(stop_play=0.003, clearance=0.004))
    train.bogies.lateral_force[:] = train.bogies.vertical_force[:] = 3e3
    start = float(train.lead[-1])
    line = drive.line_of(case, start + case.speed * duration)
    line = drive.faded(line, start, 60.0)
    return train, tracks.pieces(line), line.spacing, case.speed


def sampled(duration: float, h: float, every: float = 0.01) -> tuple[Array, Array]:
    train, track, spacing, v = rough(duration)
    states = np.empty((round(duration / every) + 1, BODIES))
    loads = np.empty((len(states), 4, 4))
    status, _ = kernels.run(
        np.zeros(train.size), float(train.lead[-1]), v, h, round(every / h), train.lead, spacing, track, train.car,
        train.bogies, states, np.empty_like(states), loads,
    )  # fmt: skip
    assert status == kernels.DONE
    return states, loads


def worst(found: Array, exact: Array) -> float:
    """Return the greatest error of any displacement over the peak of its kind: lengths, angles."""
    angles = np.array([2, 3, 4, 7, 8, 9, 12, 13, 14, 16, 18, 20, 22])
    kinds = angles, np.setdiff1d(np.arange(BODIES), angles)
    return max(float(np.abs(found[:, k] - exact[:, k]).max() / np.abs(exact[:, k]).max()) for k in kinds)


def test_the_order_of_the_integrator() -> None:
    """Fourth order where nothing jumps: small irregularities; a track in cubic pieces costs nothing visible."""
    train, track, spacing, v = rough(1.0)
    errors = []
    answers = []
    for h in (5e-4, 2.5e-4, 1.25e-4, 1.5625e-5):
        states = np.empty((11, BODIES))
        kernels.run(
            np.zeros(train.size), float(train.lead[-1]), v, h, round(0.1 / h), train.lead, spacing, 1e-3 * track,
            train.car, train.bogies, states, np.empty_like(states), np.empty((11, 4, 4)),
        )  # fmt: skip
        answers.append(states)
    errors = [worst(each, answers[-1]) for each in answers[:-1]]
    orders = np.log2(np.array(errors[:-1]) / np.array(errors[1:]))
    assert (np.abs(orders - 4.0) < 0.2).all(), (errors, orders)  # measured: 4.02, 3.97


@pytest.mark.slow
def test_against_radau_with_all_nonlinear_elements_at_work() -> None:
    duration = 5.0
    train, track, spacing, v = rough(duration)
    start = float(train.lead[-1])
    loads = np.empty((4, 4))

    def rhs(t: float, x: Array) -> Array:
        dx = np.empty(len(x))
        kernels.evaluate(x, start + v * t, v, train.lead, spacing, track, train.car, train.bogies, dx, loads)
        return dx

    t = 0.01 * np.arange(round(duration / 0.01) + 1)
    scale = np.concatenate([np.full(BODIES, 1e-3), np.full(BODIES, 1e-2), np.full(16, 1e3)])
    exact = solve_ivp(
        rhs, (0.0, duration), np.zeros(train.size), method="Radau", t_eval=t, rtol=1e-10, atol=1e-10 * scale
    ).y.T
    c, b = train.car, train.bogies
    q, d = exact[:, :BODIES], exact[:, 2 * BODIES :]
    assert np.abs(d[:, [0, 8]]).max() > b.lateral_force[0]  # blown off, all three kinds
    assert np.abs(d[:, [1, 9]]).max() > b.yaw_force[0]
    assert np.abs(d[:, [2, 3, 10, 11]]).max() > b.vertical_force[0]
    reach = q[:, 0] + c.pivot * q[:, 4] + (c.car_height - c.stop_height) * q[:, 2] - q[:, 5]
    assert np.abs(reach).max() > c.stop_play
    fine, coarse = sampled(duration, 5e-4)[0], sampled(duration, 1e-3)[0]
    forces = sampled(duration, 1e-3)[1]
    assert np.abs(forces[:, :, 2:]).max() > 2e4  # N: flanges touch, creep forces saturate
    errors = worst(fine, q), worst(coarse, q)
    print(f"error at 5e-4 s: {errors[0]:.2g} of peak, at 1e-3 s: {errors[1]:.2g}")
    assert errors[0] < 1e-6, errors
    assert errors[1] < 2e-5, errors  # the step of the cost row


# --- the train --------------------------------------------------------------------------------------------------------


def test_head_and_rear_bogies_of_a_train_differ_and_its_middle_is_coupled() -> None:
    given = {"cars": 3, "duration": 2.0, "seed": 5}
    head, rear = (drive.simulate(Vehicle(sensors=end, **given)) for end in ("head", "rear"))
    assert head["car_lateral"].std() != pytest.approx(rear["car_lateral"].std(), rel=0.01)
    alone = drive.simulate(Vehicle(**{**given, "cars": 1}))
    assert np.abs(alone["car_lateral"] - head["car_lateral"]).max() > 1e-3


def test_parameters_change_what_they_say_and_the_other_bogie_matters_least() -> None:
    """Every parameter moves the sensors; the lateral damper at the other end moves them less than that beside them."""
    base = drive.simulate(Vehicle(duration=3.0, spectrum="high"))
    moved = {}
    for k in range(1, 8):
        out = drive.simulate(Vehicle(duration=3.0, spectrum="high", **{f"w{k}": 1.0}))
        moved[k] = max(float(np.std(out[name] - base[name]) / np.std(base[name])) for name in drive.SENSORS)
    assert min(moved.values()) > 1e-3, moved
    assert moved[2] < moved[3], moved
    assert vehicle.bogies(1, 0, {f"w{k}": 0.5 for k in range(1, 8)}).lateral_rate.tolist() == [32e3, 32e3]
    tuned = vehicle.bogies(2, 3, {**{f"w{k}": 0.5 for k in range(1, 8)}, "w2": 0.0, "w3": 1.0})
    assert tuned.lateral_rate.tolist() == [32e3, 32e3, 16e3, 48e3]


def test_a_narrow_gauge_steers_more(tmp_path: Path) -> None:
    train = drive.train_of(Vehicle())
    x = np.zeros(train.size)
    x[15] = 1e-3
    moments = []
    for excess in (-4e-3, 0.0, 4e-3):
        track = np.zeros((1, 4, 4))
        track[0, 1, 0] = excess
        moments.append(slope(train, x, 60.0, track)[BODIES + 16])
    assert moments[0] < moments[1] < moments[2] < 0.0
    x[15] = 6.5e-3  # within the play at nominal gauge, beyond it 4 mm below
    narrow = np.zeros((1, 4, 4))
    narrow[0, 1, 0] = -4e-3
    assert slope(train, x, 60.0, narrow)[BODIES + 15] < slope(train, x, 60.0)[BODIES + 15] - 1.0


def test_derailment_is_a_failure_with_its_place() -> None:
    with pytest.raises(
        SimulationError, match=r"derailment with the first wheelset at s = [\d.]+ m of the track, t = "
    ):
        drive.simulate(Vehicle(amplitude=12.0, spectrum="high", duration=2.0))


def test_bad_tracks(tmp_path: Path) -> None:
    s = 5.0 * np.arange(400)
    coarse = write_track(tmp_path / "coarse.csv", s)
    with pytest.raises(
        SimulationError, match=r"coarse.csv has a sample every 5 m: at 60 m/s it shows nothing above 6 Hz"
    ):
        drive.simulate(Vehicle(track=coarse, duration=2.0))
    short = write_track(tmp_path / "short.csv", 0.25 * np.arange(400))
    with pytest.raises(SimulationError, match=r"short.csv is 99.75 m long; the train needs 201.56 m"):
        drive.simulate(Vehicle(track=short, duration=2.0))


def test_a_finer_step_changes_what_it_should() -> None:
    """The step of the cost row, a millisecond, on the default track: accelerations within 1e-3 of their peak."""
    coarse, fine = (drive.simulate(Vehicle(duration=3.0, step=step)) for step in (1e-3, 1.25e-4))
    for name in drive.SENSORS:
        assert np.abs(coarse[name] - fine[name]).max() < 1e-3 * np.abs(fine[name]).max(), name
