"""The plant on sliding bearings, beside OpenSees; specimens that answer late, beside the theory of delay.

`plant_reference.csv`: the plant with its chain of 30 masses under Corralitos 000 scaled to 4.25 m/s2, by OpenSeesPy
3.7.1 with steps of 1e-4 s, every 20 ms; a second code agrees with it to 3e-7.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tamis.errors import SimulationError, StudyError
from tamis.sim.common import newmark
from tamis.sim.common.impulses import Impulses, impulse_responses
from tamis.sim.common.partitioned import integrate
from tamis.sim.common.subdomains import Subdomain
from tamis.sim.hybrid import drive, kernels, structures
from tamis.sim.hybrid.kernels import slip_of
from tamis.sim.hybrid.scene import Late, Plant
from tests.test_signals import CORRALITOS

REFERENCE = np.genfromtxt(
    Path(__file__).parents[2] / "data" / "plant_reference.csv", delimiter=",", names=True
)
SHAKEN = Plant(record=str(CORRALITOS))
SHORT = replace(SHAKEN, duration=4.0, dt=1e-3)


def off(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a - b).max() / np.abs(b).max())


def beside_reference(outputs: dict[str, np.ndarray]) -> dict[str, float]:
    """Return the largest difference of each history from the reference's, over the reference's largest value."""
    rows = np.round(REFERENCE["t_s"] / outputs["t"][1]).astype(int)
    rows = rows[rows < len(outputs["t"])]
    names = {"u": "u301_m", "force": "F_bearing_N", "u_impulsive": "u_impulsive_m", "u_convective": "u_convective_m",
             "u_pipe": "u_pipe_mid_m"}  # fmt: skip
    return {
        ours: float(
            np.abs(outputs[ours][rows] - REFERENCE[theirs][: len(rows)]).max()
            / np.abs(REFERENCE[theirs]).max()
        )
        for ours, theirs in names.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("method", ["gc", "monolithic"])
def test_the_plant_of_the_reference(method: str) -> None:
    out = drive.plant(replace(SHAKEN, method=method))
    assert float(out["peak"]) == pytest.approx(0.071499, rel=1e-4)
    assert float(out["t_peak"]) == pytest.approx(2.625, abs=1e-3)
    assert float(out["residual"]) == pytest.approx(0.019000, rel=1e-4)
    assert float(out["force_peak"]) == pytest.approx(5.124e5, rel=1e-4)
    assert float(out["gap"]) <= 1e-12 * np.abs(out["v"]).max()
    assert max(beside_reference(out).values()) < 1e-4


@pytest.mark.slow
def test_forty_seconds_of_the_plant_cost_a_few() -> None:
    drive.plant(replace(SHAKEN, duration=0.01))
    start = time.process_time()
    drive.plant(SHAKEN)
    assert time.process_time() - start < 4.0  # OpenSees takes 12.4 s


def test_a_coarser_step_comes_near_the_reference() -> None:
    out = drive.plant(SHORT)
    assert float(out["peak"]) == pytest.approx(0.071499, rel=2e-3)  # ten times the reference's step
    assert beside_reference(out)["u"] < 5e-3
    assert float(out["gap"]) <= 1e-12 * np.abs(out["v"]).max()


@pytest.mark.parametrize(
    "change",
    [{"method": "monolithic"}, {"method": "pm"}, {"subcycling": 5}, {"mass_fraction": 0.9}, {"tested": 4}],
)
def test_ways_to_step_agree(change: dict[str, object]) -> None:
    base, other = drive.plant(SHORT), drive.plant(replace(SHORT, **change))  # type: ignore[arg-type]
    same = "mass_fraction" in change or "tested" in change
    assert off(other["u"], base["u"]) < (1e-9 if same else 1e-2)
    assert off(other["force"], base["force"]) < (1e-8 if same else 0.05)


def test_force_of_bearings_follows_their_law() -> None:
    case = replace(SHAKEN, duration=3.0, dt=1e-3, interval=1e-3)
    out = drive.plant(case)
    k, alpha, limit = structures.bearing_law(case)
    assert alpha == pytest.approx(1.25e-3)
    assert 4 * k == pytest.approx(8.704e8)
    slip, place = 0.0, 0.0
    for u, force in zip(out["u"], out["force"], strict=True):
        slip, place = slip_of(slip, u - place, limit), u
        assert force == pytest.approx(4 * k * (alpha * u + (1 - alpha) * slip), rel=1e-9, abs=1e-3)
    np.testing.assert_allclose(out["force_tested"], out["force"] / 2)


def test_area_of_a_loop() -> None:
    """A cycle between -U and U dissipates 4 (1 - alpha) k delta (U - delta)."""
    k, alpha, delta = structures.bearing_law(SHAKEN)
    largest = 0.07
    u = largest * np.cos(np.linspace(0.0, 4.0 * math.pi, 80001))
    slip, force = 0.0, np.empty(len(u))
    for i, step in enumerate(np.diff(u, prepend=0.0)):
        slip = slip_of(slip, step, delta)
        force[i] = k * (alpha * u[i] + (1 - alpha) * slip)
    area = np.trapezoid(force[40000:], u[40000:])
    assert area == pytest.approx(4 * (1 - alpha) * k * delta * (largest - delta), rel=1e-6)


def test_the_piping_is_what_it_is_said_to_be() -> None:
    chain = structures.chain(100.0)
    held = np.linalg.eigvalsh(chain.stiffness[1:, 1:] / 166.267)
    assert math.sqrt(held[0]) / (2 * math.pi) == pytest.approx(3.0, abs=2e-3)
    assert chain.rayleigh[1] == pytest.approx(0.04 / math.sqrt(held[0]))
    pipe = structures.beam()
    assert len(pipe.mass) == 30
    # a clamped beam of one section, pushed at its end: F L^3 / 3 E I bounds the flexibility from both sections
    tip = np.linalg.solve(pipe.stiffness, np.eye(30)[0])[0]
    bounds = []
    for outer, wall in ((0.21908, 8.18e-3), (0.16828, 7.11e-3)):
        inertia = math.pi / 64 * (outer**4 - (outer - 2 * wall) ** 4)
        bounds.append(30.0**3 / (3 * 2.1e11 * inertia))
    assert bounds[0] < tip < bounds[1]
    assert drive.plant(replace(SHORT, piping="beam"))["u_pipe"].std() > 0
    assert not drive.plant(replace(SHORT, piping="none", duration=0.1))["u_pipe"].any()


def test_piping_that_was_measured_before() -> None:
    """Tank by its matrices, bearings by a function, piping by impulse responses: one list, and the same plant."""
    case = replace(SHAKEN, duration=0.6, dt=1e-3, interval=1e-3)
    tank, bearings, pipe = structures.parts(case)
    k, alpha, limit = structures.bearing_law(case)
    slip = place = 0.0

    def law(u: np.ndarray, v: np.ndarray, t: float) -> np.ndarray:
        nonlocal slip, place
        slip, place = slip_of(slip, u[0] - place, limit), u[0]
        return np.array([4 * k * (alpha * u[0] + (1 - alpha) * slip)])

    responses = Impulses(
        *impulse_responses(pipe.mass, pipe.dissipation, pipe.stiffness, case.dt, 601), case.dt
    )
    known = Subdomain(
        "piping",
        responses.mass,
        np.zeros((31, 31)),
        pipe.interface,
        convolution=responses,
        pattern=pipe.pattern,
    )
    signal = drive.ground(case, case.dt * np.arange(601.0))
    run = integrate([tank, replace(bearings, restoring=law), known], signal, case.dt)
    whole = drive.plant(case)
    assert (
        off(run.u["bearings"][:, 0], whole["u"]) < 1e-3
    )  # two schemes of second order for the piping, which is light
    assert off(run.u["piping"][:, 16], whole["u_pipe"]) < 1e-2
    assert run.gap <= 1e-12 * np.abs(whole["v"]).max()


def test_what_is_wrong_with_a_plant_is_said(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"bearings: a step of 0.001 s is beyond the limit .* 0.00039"):
        drive.plant(replace(SHORT, mass_fraction=0.001))
    still = tmp_path / "still.csv"
    still.write_text("t [s],a [m/s2]\n0,0\n1,0\n2,0\n")
    with pytest.raises(StudyError, match="zero throughout"):
        drive.plant(replace(SHORT, record=str(still)))
    assert drive.plant(replace(SHORT, record=str(still), pga=0.0))["peak"] == 0.0
    with pytest.raises(StudyError, match=r"elastic must be below friction x radius = 0.08 m, found 0.08 m"):
        replace(SHORT, radius=1.0, elastic=0.08)
    with pytest.raises(StudyError, match="method is monolithic"):
        replace(SHORT, method="monolithic", subcycling=2)


def test_late_bearings_of_a_slow_test_are_on_time() -> None:
    exact = drive.plant(SHORT)
    real, slow = (drive.plant(replace(SHORT, delay=0.01, scale=scale)) for scale in (1.0, 200.0))
    assert off(real["u"], exact["u"]) > 0.1  # 2 k tau of negative damping where they stick
    assert off(slow["u"], exact["u"]) < 0.02


def onset(case: Late) -> float:
    """Return the damping at which the amplitude neither grows nor decays."""
    low, high = (replace(case, c=c) for c in (0.5 * expected(case), 1.5 * expected(case)))
    a, b = (float(drive.late(each)["growth"]) for each in (low, high))
    assert a > 0 > b
    return low.c + (high.c - low.c) * a / (a - b)


def expected(case: Late) -> float:
    """Return the same by theory: k_p sin(omega tau)/omega, where m omega^2 = k_n + k_p cos(omega tau)."""
    tau, omega = (case.delay + case.hold / 2) / case.scale, 0.0
    for _ in range(50):
        omega = math.sqrt((case.k_n + case.k_p * math.cos(omega * tau)) / case.mass)
    return case.k_p * math.sin(omega * tau) / omega


@pytest.mark.parametrize(
    "case",
    [
        Late(delay=0.01),
        Late(delay=0.05),
        Late(delay=0.0, hold=0.02, dt=2e-4),
        Late(delay=0.01, hold=0.02, dt=2e-4),
        Late(delay=0.0, hold=0.001),  # one step
        Late(delay=0.0, hold=0.004),
        Late(delay=0.0, hold=0.0004),  # less than half a step
        Late(delay=0.0026, hold=0.0043),  # neither is a number of steps
    ],
)
def test_delay_is_negative_damping(case: Late) -> None:
    assert onset(case) == pytest.approx(expected(case), rel=0.005)  # 5 % is wanted; dt and a held sine's gain


@pytest.mark.parametrize("held", [0.4, 1.0, 2.0, 3.0, 7.0, 2.5, 3.3])
@pytest.mark.parametrize("late", [0.0, 0.3, 2.0])
def test_a_held_command_is_late_by_half_of_its_time(held: float, late: float) -> None:
    """A ramp of commands, one a step: what is imposed lags by late + held/2 on average, exactly."""
    cycle = 2310  # steps, a number of holds of each kind
    ring, place = np.zeros((1, 12)), np.zeros(1)
    one, lag = np.ones(1), []
    delay, kept = (late + held / 2, 0.0) if held < 1 else (late, held)  # as `drive.march` does
    bearings = kernels.Bearings(
        np.zeros(1, dtype=np.int64), one, one, np.full(1, np.inf), np.zeros(1), place, np.zeros(1),
        np.array([delay]), np.array([kept]), ring,
    )  # fmt: skip
    state = newmark.State(*(np.zeros(1) for _ in range(13)))
    for step in range(1, cycle + 101):
        state.u_predicted[0] = float(step)
        kernels.push_bearings(bearings, state, step)
        lag.append(step - place[0])
    assert np.mean(lag[-cycle:]) == pytest.approx(late + held / 2, rel=1e-9)  # rounding


def test_what_grows_is_told_by_its_rate() -> None:
    out = drive.late(Late(delay=0.2, c=0.0))
    assert float(out["growth"]) == pytest.approx(float(out["growth_expected"]), rel=1e-3)
    assert float(out["growth"]) == pytest.approx(1.2689, rel=1e-3)  # m s^2 + k_n + k_p exp(-0.2 s) = 0
    with pytest.raises(SimulationError, match=r"beyond 1e.200 m; a shorter duration"):
        drive.late(Late(delay=0.3, k_p=1e6, duration=100.0))


def test_a_slow_test_does_not_mind_the_delay() -> None:
    fast, slow = (drive.late(Late(delay=0.02, c=100.0, scale=scale)) for scale in (1.0, 50.0))
    assert float(fast["growth"]) > 0
    assert off(fast["u"], fast["u_exact"]) > 0.5
    assert float(slow["growth"]) < 0
    assert off(slow["u"], slow["u_exact"]) < 0.05  # k_p tau = 8 N s/m of 100
