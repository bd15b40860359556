"""One sphere against one wall: closed forms, laws, order and accuracy, the contract of the two interfaces."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tamis
from tamis.errors import SimulationError, StudyError
from tamis.sim.dem.impact import drive, kernels
from tamis.sim.dem.impact.scene import Impact
from tamis.sim.dem.simulators import impact
from tamis.types import Array

M, R, E, NU = Impact.mass, Impact.radius, Impact.young, Impact.poisson
K_N = 4.0 / 3.0 * E / (2.0 * (1.0 - NU**2)) * math.sqrt(R)
STEEL = {"mass": M, "radius": R, "young": E, "poisson": NU, "speed": 2.2, "spin": 0.0}
# largest error over 900 000 random points of the prior box, against steps ten times shorter: cnr 1.3e-5, ctr 2.9e-5
ACCURACY = 5e-5


def run(**inputs: float) -> dict[str, Any]:
    return dict(impact.run(inputs, Path()))


def prior_box(n: int, seed: int) -> dict[str, Array]:
    """Draw from the priors of the steel calibration, and more angles and speeds than it has."""
    rng = np.random.default_rng(seed)
    alpha = rng.choice([0.25, 0.5, np.nan], n)
    return {
        "speed": rng.uniform(0.5, 8.0, n),
        "angle": rng.uniform(1.0, 80.0, n),
        "mu": rng.uniform(0.05, 0.2, n),
        "gamma": rng.uniform(0.1e4, 15e4, n),
        "alpha": np.where(np.isnan(alpha), rng.uniform(0.15, 1.35, n), alpha),
        "k_t": rng.uniform(0.1e8, 15e8, n),
    }


def columns(inputs: dict[str, Array]) -> tuple[Array, ...]:
    n = len(inputs["angle"])
    return tuple(np.ascontiguousarray(np.broadcast_to(inputs.get(k, STEEL.get(k)), n)) for k in impact.inputs)


def at_step(inputs: dict[str, Array], step: float) -> Array:
    """Results (n, 5) with another step."""
    out = np.empty((len(inputs["angle"]), 5))
    for row, values in zip(out, np.transpose(columns(inputs)), strict=True):
        kernels.rebound(step, np.empty((0, 4)), row, *values)
    return out


# --- exact answers ------------------------------------------------------------------------------------------


def tsuji_restitution(gamma: float) -> float:
    """The restitution of alpha = 1/4 in closed form.

    With y = x^(5/4) and d(tau) = x^(1/4) dt the motion is linear, y'' + g y' + 5/4 y = 0, y(0) = 0, y'(0) = 5/4 v,
    g = gamma/sqrt(m k_n), and the velocity is 4/5 y'. The force is proportional to y'', so contact ends at its
    first zero, as for the linear dashpot (Schwager & Poeschel 2007, 10.1007/s10035-007-0065-z), not at y = 0.
    """
    half = 0.5 * gamma / math.sqrt(M * K_N)
    square = 1.25 - half**2
    if square > 0.0:
        omega = math.sqrt(square)
        phase = math.atan2(2.0 * half * omega, half**2 - square)
        return -math.exp(-half * phase / omega) * (math.cos(phase) - half / omega * math.sin(phase))
    slow, fast = half - math.sqrt(-square), half + math.sqrt(-square)
    tau = 2.0 * math.log(fast / slow) / (fast - slow)
    return (slow * math.exp(-slow * tau) - fast * math.exp(-fast * tau)) / (fast - slow)


@pytest.mark.parametrize("gamma", [1.0, 1e3, 8.1e3, 5e4, 1.5e5, 2.1e5, 4e5])
def test_tsuji_restitution_has_a_closed_form(gamma: float) -> None:
    cnr = float(run(alpha=0.25, gamma=gamma)["cnr"])
    # 2e-5: the largest error of cnr at the default step, see ACCURACY
    assert cnr == pytest.approx(tsuji_restitution(gamma), abs=2e-5)


def test_closed_form_against_the_usual_expression() -> None:
    zeta = 8.1e3 / math.sqrt(M * K_N) / math.sqrt(5.0)
    root = math.sqrt(1.0 - zeta**2)
    usual = math.exp(-zeta / root * (math.pi - math.atan(2.0 * zeta * root / (1.0 - 2.0 * zeta**2))))
    assert tsuji_restitution(8.1e3) == pytest.approx(usual, rel=1e-12)  # rounding
    assert usual == pytest.approx(0.884, abs=5e-4)  # three digits known for this gamma


def test_tsuji_restitution_ignores_speed() -> None:
    n = 40
    inputs = {"speed": np.linspace(0.1, 50.0, n), "alpha": np.full(n, 0.25), "gamma": np.full(n, 1e4)}
    cnr = impact.batch({**inputs, "k_t": np.zeros(n)})["cnr"]
    np.testing.assert_allclose(cnr, cnr[0], rtol=1e-11)  # rounding of the scaling: the steps are the same
    np.testing.assert_allclose(impact.batch(inputs)["cnr"], cnr[0], rtol=2e-5)  # steps follow the spring k_t


@pytest.mark.parametrize("alpha", [0.0, 0.25, 0.5, 0.9, 1.4])
@pytest.mark.parametrize("speed", [0.05, 2.2, 30.0])
def test_elastic_contact_of_hertz(alpha: float, speed: float) -> None:
    out = run(gamma=0.0, alpha=alpha, speed=speed, mu=0.0, angle=20.0)
    v = speed * math.cos(math.radians(20.0))
    deepest = (1.25 * M * v**2 / K_N) ** 0.4
    duration = 0.8 * math.sqrt(math.pi) * math.gamma(0.4) / math.gamma(0.9)  # 2.9432, Hertz
    # the integrator's own errors without damping at the default step: 1.5e-5, 2e-5, 4e-5
    assert float(out["cnr"]) == pytest.approx(1.0, abs=2e-5)
    assert float(out["contact_time"]) == pytest.approx(duration * deepest / v, rel=3e-5)
    assert float(out["peak_force"]) == pytest.approx(K_N * deepest**1.5, rel=5e-5)
    # 1e-3: 201 samples, the nearest to the deepest point is 1/400 of the contact away at most
    assert out["xi"].max() == pytest.approx(deepest, rel=1e-3)
    assert duration == pytest.approx(2.9432, abs=1e-4)  # printed with four decimals, cut off


@pytest.mark.parametrize("angle", [45.0, 60.0, 80.0])
@pytest.mark.parametrize(("alpha", "gamma"), [(0.25, 8e3), (0.5, 9e4), (0.9, 1e6)])
def test_sliding_all_along(angle: float, alpha: float, gamma: float) -> None:
    out = run(angle=angle, alpha=alpha, gamma=gamma, mu=0.1, k_t=1e11)
    expected = 1.0 - 0.1 * (1.0 + float(out["cnr"])) / math.tan(math.radians(angle))
    # the spring needs (mu F_n/k_t)/slip of the time to yield; what it then misses of the impulse is below 1e-5 here
    assert float(out["ctr"]) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("alpha", [0.25, 0.5, 0.8])
def test_sticking_all_along_is_an_oscillator(alpha: float) -> None:
    inputs = {"alpha": alpha, "gamma": 1e4, "k_t": 1.3e8, "mu": 2.0}
    small, still = float(run(**inputs, angle=0.01)["ctr"]), run(**inputs, angle=0.0)
    phase = math.sqrt(3.5 * inputs["k_t"] / M) * float(still["contact_time"])
    oscillator = 1.0 - 2.0 / 7.0 * (1.0 - math.cos(phase))
    assert float(still["ctr"]) == pytest.approx(oscillator, rel=1e-12)  # rounding
    # at 0.01 degrees the spring still yields when F_n is below 1e-4 of its peak, in the last 1e-3 of the contact
    assert small == pytest.approx(oscillator, abs=5e-4)


def test_no_friction_no_tangential_change() -> None:
    for free in ({"mu": 0.0}, {"k_t": 0.0}):
        out = run(**free, spin=50.0)
        assert float(out["ctr"]) == 1.0 and float(out["spin_out"]) == 50.0
        assert (out["F_t"] == 0.0).all()
    assert float(run(mu=0.0, angle=0.0)["ctr"]) == 1.0


# --- laws ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spin", [-150.0, 0.0, 80.0])
@pytest.mark.parametrize(("angle", "alpha"), [(8.0, 0.25), (35.0, 0.5), (70.0, 0.7)])
def test_impulses_balance_momentum(spin: float, angle: float, alpha: float) -> None:
    out = run(spin=spin, angle=angle, alpha=alpha, gamma=3e4)
    v_n, v_t = 2.2 * math.cos(math.radians(angle)), 2.2 * math.sin(math.radians(angle))
    normal = np.trapezoid(out["F_n"], out["t"])
    tangential = np.trapezoid(out["F_t"], out["t"])
    gain = v_t * (float(out["ctr"]) - 1.0)
    # trapezoidal rule on 200 intervals of a function with kinks: 1e-3 of the greatest impulse
    assert normal == pytest.approx(M * v_n * (1.0 + float(out["cnr"])), rel=1e-3)
    assert tangential == pytest.approx(M * gain, abs=1e-3 * normal * Impact.mu)
    # angular momentum about the point of contact is kept: both forces pass through it
    assert 0.4 * R * (float(out["spin_out"]) - spin) == pytest.approx(gain, rel=1e-10, abs=1e-12)  # rounding


def test_rolling_contact_feels_no_friction() -> None:
    v_t = 2.2 * math.sin(math.radians(30.0))
    out = run(spin=-v_t / R)
    # the slip speed is a rounding error, 1e-16 of v_t
    assert float(out["ctr"]) == pytest.approx(1.0, abs=1e-12)
    assert float(out["spin_out"]) == pytest.approx(-v_t / R, rel=1e-12)


def test_reversed_slip_reverses_the_impulse() -> None:
    v_t = 2.2 * math.sin(math.radians(25.0))
    forth, back = run(angle=25.0, spin=0.0), run(angle=25.0, spin=-2.0 * v_t / R)
    assert float(forth["ctr"]) + float(back["ctr"]) == pytest.approx(2.0, abs=1e-12)  # rounding
    np.testing.assert_allclose(
        forth["F_t"], -back["F_t"], rtol=0, atol=1e-9 * abs(forth["F_t"]).max()
    )  # rounding


def test_backspin_slows_and_topspin_spares() -> None:
    back, none, top = (float(run(angle=10.0, spin=spin)["ctr"]) for spin in (80.0, 0.0, -10.0))
    assert back < none - 0.1 and none + 0.05 < top < 1.0
    # at 45 degrees both slide all along, so that more backspin changes nothing
    sliding = [float(run(angle=45.0, k_t=15e8, spin=spin)["ctr"]) for spin in (0.0, 80.0)]
    assert sliding[0] == pytest.approx(sliding[1], abs=2e-5)


@given(
    speed=st.floats(0.05, 20.0),
    angle=st.floats(0.5, 85.0),
    spin=st.floats(-300.0, 300.0),
    mu=st.floats(0.0, 1.0),
    gamma=st.floats(0.0, 1e6),
    alpha=st.floats(0.0, 1.4),
    k_t=st.floats(0.0, 1e10),
)
def test_energy_is_never_gained(**inputs: float) -> None:
    out = run(**inputs)
    theta = math.radians(inputs["angle"])
    v_n, v_t = inputs["speed"] * math.cos(theta), inputs["speed"] * math.sin(theta)
    turning = 0.4 * R**2
    before = v_n**2 + v_t**2 + turning * inputs["spin"] ** 2
    after = (
        (float(out["cnr"]) * v_n) ** 2
        + (float(out["ctr"]) * v_t) ** 2
        + turning * float(out["spin_out"]) ** 2
    )
    assert after <= before * (1.0 + 4.0 * ACCURACY)  # velocities may each err by ACCURACY
    assert -2e-5 <= float(out["cnr"]) <= 1.0 + 2e-5
    # 201 samples of histories interpolated to 1e-4 of the peak
    assert float(out["peak_force"]) >= out["F_n"].max() * (1.0 - 2e-4) > 0.0
    # friction obeys its cone at every sample, up to that interpolation; below 1e-300 products lose their digits
    most = inputs["mu"] * (out["F_n"] + 1e-3 * float(out["peak_force"])) + 1e-300
    assert (abs(out["F_t"]) <= most).all()


@pytest.mark.parametrize("alpha", [5e-324, 1e-18, 1e-6, 1e-3, 0.016, 0.04, 0.1])
@pytest.mark.parametrize("gamma", [5e4, 7e5])
def test_peak_force_of_a_strong_damper(alpha: float, gamma: float) -> None:
    # its force rises and falls within the first steps, where no interpolant follows it
    given = {"alpha": alpha, "gamma": gamma, "angle": 30.0, "mu": 0.1, "k_t": 1e8}
    inputs = {name: np.array([value]) for name, value in given.items()}
    fine = at_step(inputs, kernels.STEP / 64.0)[0, drive.RESULTS.index("peak_force")]
    # 20 000 random scenes with alpha to 1e-12 and gamma to 1e6: 6.5e-5 at most
    assert float(run(**given)["peak_force"]) == pytest.approx(fine, rel=1e-4)


def test_histories() -> None:
    out = run(angle=15.0)
    assert (
        out["t"][0] == 0.0 and out["t"][-1] == float(out["contact_time"]) and (np.diff(out["t"]) > 0.0).all()
    )
    assert all(out[name].shape == (drive.HISTORY,) for name in ("t", "F_n", "F_t", "xi"))
    assert out["F_n"][0] == out["F_n"][-1] == out["F_t"][0] == out["xi"][0] == 0.0
    assert abs(out["F_t"][-1]) == 0.0 and out["xi"][-1] > 0.0  # the surface recovers after contact
    # the greatest sample is 1/400 of the contact from the peak at most, where the force is flat: 1e-4
    assert out["F_n"].max() == pytest.approx(float(out["peak_force"]), rel=2e-4)


# --- accuracy -----------------------------------------------------------------------------------------------


@numba.njit
def small_steps(g: float, alpha: float, mu: float, kappa: float, u: float, n: int) -> tuple[float, float]:
    """The same law by brute force: midpoint steps in time, spring moved then cut back, no events."""
    x, p, q, f, dt, u0 = 0.0, 1.0, 0.0, 0.0, 3.3 / n, u
    while True:
        x_mid, p_mid = x + 0.5 * dt * p, p - 0.5 * dt * f
        if x_mid <= 0.0:
            break
        f_mid = x_mid**1.5 + g * x_mid**alpha * p_mid
        x, p = x + dt * p_mid, p - dt * f_mid
        if x <= 0.0:
            break
        f = x**1.5 + g * x**alpha * p
        if f <= 0.0:
            break
        u_mid = u - 1.75 * dt * q
        q = min(max(q + dt * kappa * u_mid, -mu * f), mu * f)
        u = u_mid - 1.75 * dt * q
    return -p, (u0 - u) / 3.5


def test_against_small_steps_in_time() -> None:
    inputs = prior_box(60, seed=2)
    got = impact.batch(inputs)
    for i in range(60):
        speed, angle, mu, gamma, alpha, k_t = (inputs[k][i] for k in inputs)
        v, tan = speed * math.cos(math.radians(angle)), math.tan(math.radians(angle))
        length = (M * v**2 / K_N) ** 0.4
        g, kappa = gamma * length ** (1.0 + alpha) / (M * v), k_t * length**2 / (M * v**2)
        cnr, lost = small_steps(g, alpha, mu, kappa, tan, 200_000)
        # brute force: 1e-6 at 200 000 steps (20 000 steps: 1e-5), so the kernel's own accuracy decides
        assert got["cnr"][i] == pytest.approx(cnr, abs=ACCURACY)
        assert got["ctr"][i] == pytest.approx(1.0 - lost / tan, abs=ACCURACY)


def test_accuracy_over_the_prior_box() -> None:
    inputs = prior_box(20_000, seed=3)
    got = impact.batch(inputs)
    fine = at_step(inputs, kernels.STEP / 8.0)
    for name, column in zip(drive.RESULTS, fine.T, strict=True):
        scale = 1.0 if name in ("cnr", "ctr") else np.maximum(abs(column), 1e-3)
        if name != "spin_out":  # follows ctr by the balance of angular momentum
            assert (abs(got[name] - column) / scale).max() < ACCURACY


def test_observed_order() -> None:
    inputs = prior_box(300, seed=4)
    inputs["angle"] = np.random.default_rng(4).uniform(10.0, 80.0, 300)
    steps = kernels.STEP / np.array([1.0, 2.0, 4.0])
    exact = at_step(inputs, kernels.STEP / 64.0)
    errors = np.array([abs(at_step(inputs, step) - exact).mean(axis=0) for step in steps])
    orders = np.log2(errors[:-1] / errors[1:])
    # Runge-Kutta 4; stick-slip events are located with cubic interpolants, so ctr follows
    assert (orders[:, 0] > 3.7).all() and (orders[:, 0] < 4.6).all()
    assert (orders[:, 1] > 3.3).all()


# --- contract -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "inputs",
    [
        {},
        {"alpha": 0.25, "gamma": 7e3, "angle": 10.0},
        {"alpha": 0.46, "gamma": 7.5e4, "angle": 60.0, "k_t": 4.2e7},
        {"angle": 0.0},
        {"spin": 80.0, "angle": 5.0},
        {"alpha": 0.0, "gamma": 500.0},
        {"alpha": 0.15, "gamma": 15e4, "k_t": 15e8, "speed": 0.5, "angle": 80.0},
    ],
)
def test_contract(inputs: dict[str, float]) -> None:
    tamis.check_simulator(tamis.find("tamis:dem.impact"), inputs)


def test_batch_is_run_bit_for_bit() -> None:
    inputs = prior_box(50, seed=5)
    rows = impact.batch(inputs)
    for i in range(50):
        out = run(**{name: float(values[i]) for name, values in inputs.items()})
        assert all(rows[name][i] == float(out[name]) for name in drive.RESULTS)


def test_number_of_threads_does_not_matter() -> None:
    cols = dict(zip(impact.inputs, columns(prior_box(5000, seed=6)), strict=True))
    one = drive.simulate_many(1, **cols)
    for threads in (2, 3, 7):
        many = drive.simulate_many(threads, **cols)
        assert all(one[name].tobytes() == many[name].tobytes() for name in drive.RESULTS)


def test_runs_without_the_compiler() -> None:
    inputs = {name: values.tolist() for name, values in prior_box(6, seed=7).items()}
    code = (
        "import json, sys, numpy, tamis\n"
        "inputs = {k: numpy.array(v) for k, v in json.loads(sys.argv[1]).items()}\n"
        "out = tamis.find('tamis:dem.impact').batch(inputs)\n"
        "print(json.dumps({k: v.tolist() for k, v in out.items()}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, json.dumps(inputs)],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    compiled = impact.batch({name: np.array(values) for name, values in inputs.items()})
    for name, values in json.loads(done.stdout).items():
        # the same operations in the same order; only exp and log may differ, in the last bit
        np.testing.assert_allclose(values, compiled[name], rtol=1e-12)


def test_bad_inputs_are_refused() -> None:
    with pytest.raises(StudyError, match='did you mean "gamma"'):
        run(gama=1.0)
    with pytest.raises(SimulationError, match="angle"):
        run(angle=90.0)
    with pytest.raises(SimulationError, match="alpha"):
        run(alpha=1.45)
    for name, value in {"mass": -1.0, "mu": -0.1, "angle": 90.0, "poisson": 0.6, "alpha": 1.5}.items():
        with pytest.raises(StudyError, match=name):
            impact(**{name: value})


@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize("name", impact.inputs)
def test_the_kernel_bears_every_input_at_both_ends_of_its_bounds(name: str, end: int) -> None:
    """The step is short enough there too: eight times shorter ones change no coefficient by more than 1e-4."""
    scene = Impact(**{name: impact.inputs[name].bounds[end]})
    coarse, fine, nothing = np.empty(5), np.empty(5), np.empty((0, 4))
    for results, step in ((coarse, kernels.STEP), (fine, kernels.STEP / 8)):
        status, _ = kernels.rebound(step, nothing, results, *scene.values())
        assert status == kernels.DONE
    np.testing.assert_allclose(coarse[:2], fine[:2], atol=1e-4)
    assert 0.0 <= coarse[0] <= 1.0 + 1e-4


def test_failures_are_told() -> None:
    with pytest.raises(SimulationError, match=r"ctr is undefined at angle = 0 with spin = 80"):
        run(angle=0.0, spin=80.0)
    with pytest.raises(SimulationError, match="still in contact after"):
        run(young=1e5, k_t=1e13)
    rows = impact.batch({"angle": np.array([0.0, 10.0, 30.0]), "spin": np.array([80.0, 80.0, 0.0])})
    assert np.isnan(rows["cnr"]).tolist() == [True, False, False]
    stiff = impact.batch({"young": np.array([2.1e11, 1e5]), "k_t": np.array([1.3e8, 1e13])})
    assert all(np.isfinite(column[0]) and np.isnan(column[1]) for column in stiff.values())
