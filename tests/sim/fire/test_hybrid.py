"""Dynamic relaxation, condensation and hybrid tests beside Newton's method on the frame in one piece."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import eigh

from tamis.errors import SimulationError, StudyError
from tamis.sim.fire import kernels
from tamis.sim.fire.condense import craig_bampton
from tamis.sim.fire.drive import follow
from tamis.sim.fire.hybrid import HotSpecimen, run
from tamis.sim.fire.kernels import Loading
from tamis.sim.fire.path import Path
from tamis.sim.fire.relaxation import dense, lowest, masses, relax, steps_needed
from tamis.sim.fire.scene import Frame
from tamis.sim.fire.sections import bar
from tamis.sim.fire.simulators import hybrid
from tamis.sim.fire.structure import Profile, Structure, lumped_masses
from tamis.sim.fire.virtual import Hybrid


def chain(n: int) -> tuple[Structure, Path]:
    """Return springs in a row, from the ground to a force at the end."""
    structure = Structure()
    structure.profile(Profile(*bar(1.0, 1.0), "linear", 1.0, 1.0, 0.0, 0.0))
    nodes = [structure.node(float(i), 0.0, f"{i}") for i in range(n + 1)]
    for i in range(n):
        structure.member(nodes[i], nodes[i + 1], 1, 0, 0, f"spring {i}")
    for node in nodes:
        structure.fix(node, (1, 2))
    structure.fix(nodes[0], (0,))
    structure.load(nodes[-1], 0, 1.0)
    elements, load = structure.frame(), structure.load_vector()
    return structure, Path(
        structure, Loading(load, 0.0 * load, np.array([0.0]), np.full((1, 1, 2), 20.0)), elements
    )


@pytest.mark.parametrize("n", [20, 60])
def test_steps_of_a_relaxed_chain_are_as_many_as_the_frequencies_say(n: int) -> None:
    """9.2 omega_max/omega_0 steps until displacements are within 1e-6, within 5 %."""
    _, path = chain(n)
    stiffness = dense(path.tangent(0.0)).copy()
    exact = np.linalg.solve(stiffness, path.loading.load0)
    dt = 0.01
    mass = masses(stiffness, dt)
    frequencies = np.sqrt(eigh(stiffness, np.diag(mass), eigvals_only=True))
    assert frequencies[-1] == pytest.approx(2.0 / (1.1 * dt), rel=5e-3)  # the bound is nearly reached

    def error(steps: int) -> float:
        u = np.zeros(len(path.state.u))
        state = path.state
        kernels.relax(
            path.frame, path.loading, u, 0.0, state.plastic, path.trial, path.force, mass, dt, frequencies[0], 0.0,
            steps + 1,
        )  # fmt: skip
        return float(np.abs(u[: len(exact)] - exact).max() / np.abs(exact).max())

    low, high = 1, 40 * n
    assert error(high) < 1e-6
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if error(middle) > 1e-6 else (low, middle)
    assert high == pytest.approx(9.2 * frequencies[-1] / frequencies[0], rel=0.05)
    assert high == pytest.approx(steps_needed(frequencies[0], dt), rel=0.05)


@pytest.mark.slow
def test_relaxation_is_newtons_method_at_every_temperature() -> None:
    case = Frame(bays=1, storeys=1, elements=4, fibres="7")
    by_newton, _ = case.path()
    by_newton.settle()
    relaxed, _ = case.path()
    relaxed.settle()
    for temperature in range(70, 691, 20):
        s = (temperature - 20.0) / case.rate
        assert by_newton.to(s)
        relax(relaxed, s)
        # from the same state each time: paths of steel that yields differ where Newton's method halves its steps
        apart = np.abs(relaxed.state.u - by_newton.state.u).max()
        assert apart < 1e-6 * np.abs(by_newton.state.u).max(), temperature
        relaxed.state.u[:] = by_newton.state.u
        relaxed.state.plastic[:] = by_newton.state.plastic


def test_a_relaxation_that_does_not_converge_says_where_and_keeps_the_state() -> None:
    path, _ = Frame(bays=1, storeys=1, elements=2, fibres="7").path()
    path.settle()
    before = path.state.u.copy()
    with pytest.raises(
        SimulationError, match=r"does not converge at 100 s: residual .* after 50 steps.* at 0 s is kept"
    ):
        relax(path, 100.0, most=50)
    assert path.state.s == 0.0 and (path.state.u == before).all()
    far = (1100.0 - 20.0) / 0.75
    with pytest.raises(SimulationError, match=r"(does not converge|not positive definite).* is kept"):
        relax(path, far, most=2000)
    assert path.state.s == 0.0


def test_the_condensed_stiffness_is_exact_at_the_interface() -> None:
    """Static condensation by a dense solve of the whole, 1e-10; displacements inside follow from both."""
    case = Hybrid(modes=4)
    parts = case.parts()
    k, b = parts.stiffness, parts.interface
    inside = np.setdiff1d(np.arange(len(k)), b)
    exact = k[np.ix_(b, b)] - k[np.ix_(b, inside)] @ np.linalg.solve(
        k[np.ix_(inside, inside)], k[np.ix_(inside, b)]
    )
    found = parts.condensed.stiffness[: len(b), : len(b)]
    assert np.abs(found - exact).max() < 1e-10 * np.abs(exact).max()
    # held at some displacement of the interface, the whole and the condensed part agree everywhere
    rng = np.random.default_rng(3)
    u_b = 0.01 * rng.standard_normal(len(b))
    load = parts.cold.load_vector()
    whole = np.zeros(len(k))
    whole[b] = u_b
    whole[inside] = np.linalg.solve(k[np.ix_(inside, inside)], load[inside] - k[np.ix_(inside, b)] @ u_b)
    q = np.concatenate(
        [u_b, np.linalg.solve(parts.condensed.stiffness[len(b) :, len(b) :], parts.condensed.load[len(b) :])]
    )
    again = parts.condensed.held + parts.condensed.shape @ q
    assert np.abs(again - whole).max() < 1e-9 * np.abs(whole).max()  # condition of the frame, 1e6


def test_condensation_lowers_the_highest_frequency_and_the_steps() -> None:
    """With the masses of the steel omega_max falls tenfold at least; relaxed, steps are saved as theory says."""
    case = Hybrid()
    parts = case.parts()
    mass = lumped_masses(parts.cold.frame())
    highest = [
        float(eigh(k, m, eigvals_only=True)[-1]) ** 0.5
        for k, m in ((parts.stiffness, np.diag(mass)), (parts.condensed.stiffness, parts.condensed.mass))
    ]
    assert highest[0] / highest[1] >= 10.0
    hot, dt = parts.hot_stiffness()[0], 0.01
    count = len(parts.imposed)
    omegas = []
    for k, where in ((parts.stiffness, parts.interface), (parts.condensed.stiffness, np.arange(count))):
        together, m = k.copy(), masses(k, dt)
        together[np.ix_(where, where)] += hot
        m[where] += masses(hot, dt)
        omegas.append(lowest(together, m))
    assert steps_needed(omegas[0], dt) / steps_needed(omegas[1], dt) >= 3.0


def test_a_part_that_is_not_held_is_a_mechanism() -> None:
    k = np.array([[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
    with pytest.raises(SimulationError, match="a mechanism: with its interface held"):
        craig_bampton(k, np.eye(3), np.zeros(3), np.array([0]))


SMALL = {"bays": 1, "storeys": 2, "elements": 2, "fibres": "7", "dt": 0.1, "settling": 60.0}


@pytest.mark.parametrize(("reached", "memory"), [(60.0, 0.0), (500.0, 5.0)])
def test_a_hybrid_test_settles_to_the_frame_in_one_piece(reached: float, memory: float) -> None:
    """Cold, and held at a temperature: 1e-4 of the largest displacement; a small frame, so that it is quick."""
    out = hybrid(Hybrid(**SMALL, until=(reached - 20.0) / 0.75, hold=60.0, memory=memory))
    assert out["temperature"][-1] == pytest.approx(reached)
    assert out["deviation"][[0, -1]].max() < 1e-4


def test_what_a_ramp_leaves_is_its_history_and_not_an_error_of_the_test() -> None:
    """Held at 600 C, where steel remembers the lag: the whole frame with the plastic strains of the specimen."""
    case = Hybrid(**SMALL, until=580.0 / 0.75, hold=60.0)
    parts = case.parts()
    done = run(parts, case.dt, case.settling, case.until + case.hold, 10.0)
    path, _ = case.monolithic()
    whole, hot = path.structure, parts.hot.structure
    assert [whole.names[a] for a, *_ in whole.ends][:3] == [hot.names[a] for a, *_ in hot.ends][:3]
    number = {(whole.places[a], whole.places[b]): e for e, (a, b, *_) in enumerate(whole.ends)}
    same = [number[hot.places[a], hot.places[b]] for a, b, *_ in hot.ends]
    follow(path, done.times)
    history = path.state.u.copy()
    path.state.plastic[:, same] = parts.hot.state.plastic
    u = history.copy()
    assert path.rest(u, case.until + case.hold, 1e-11)[0] == kernels.CONVERGED
    joint = [
        (node, d)
        for node, name in enumerate(hot.names)
        for d in (0, 1)
        if "joint" in name and "floor 1" in name
    ]
    found = np.array([done.hot[-1, hot.number(*place)] for place in joint])
    at = [whole.number(whole.places.index(hot.places[node]), d) for node, d in joint]
    assert np.abs(found - u[at]).max() < 1e-8 * np.abs(u[at]).max()  # of what is left of the motion
    assert np.abs(found - history[at]).max() > 1e-4 * np.abs(u[at]).max()  # and that is what history leaves


def test_the_lag_is_what_damping_and_present_stiffness_say() -> None:
    out = hybrid(Hybrid(**SMALL, until=580.0 / 0.75))
    hot = (out["temperature"] > 300.0) & (
        np.abs(out["lag_estimate"]) > 0.2 * np.abs(out["lag_estimate"]).max()
    )
    assert hot.sum() > 5
    # first order in the lag, and corners of the law every 100 C
    assert out["lag"][hot] == pytest.approx(out["lag_estimate"][hot], rel=0.3)


def test_translations_alone_are_another_frame() -> None:
    """Hinges at mid-height: near in the cold, since moments are small there, and not the same."""
    given = {
        "bays": 1,
        "storeys": 2,
        "elements": 2,
        "fibres": "7",
        "dt": 0.1,
        "settling": 200.0,
        "until": 20.0,
    }
    all_, some = (hybrid(Hybrid(**given, coupling=how)) for how in ("rotations", "translations"))
    assert some["deviation"][0] > 10.0 * all_["deviation"][0]


def test_the_specimen_is_reached_by_two_calls_only() -> None:
    case = Hybrid(bays=1, storeys=2, elements=2, fibres="7")
    parts = case.parts()
    specimen = HotSpecimen(parts.hot, parts.imposed, parts.hot_stiffness()[1], 60.0, 1.0)  # before the fire
    zero = np.zeros(len(parts.imposed))
    specimen.impose(zero, zero, 0.0)
    at_rest = specimen.read()
    push = zero.copy()
    push[0] = 1e-6
    specimen.impose(push, zero, 0.01)
    slope = (specimen.read() - at_rest) / 1e-6
    assert slope == pytest.approx(parts.hot_stiffness()[0][0], rel=0.05, abs=0.05 * np.abs(slope).max())


def test_a_specimen_that_fails_ends_the_test_and_keeps_what_came_before() -> None:
    """80 % more load than the ground storey carries at 650 C."""
    case = Hybrid(
        bays=1,
        storeys=2,
        elements=2,
        fibres="7",
        dt=0.1,
        settling=100.0,
        rate=5.0,
        until=230.0,
        load=30e3,
        record=10.0,
    )
    out = hybrid(case)
    assert out["failed"] == 1.0 and len(out["time"]) > 2 and out["time"][-1] < 230.0
    with pytest.raises(StudyError, match="steel is known to 1200 C"):
        replace(case, until=400.0)


@pytest.mark.slow
@pytest.mark.parametrize("reached", [300.0, 500.0, 590.0])
def test_the_virtual_test_of_the_deliverable_with_rotations_held_at_temperatures(reached: float) -> None:
    """Rotations coupled, held and relaxed: the whole frame within 1e-4 of the largest displacement."""
    out = hybrid(Hybrid(fibres="7", until=(reached - 20.0) / 0.75, hold=60.0, memory=0.5))
    assert out["temperature"][-1] == pytest.approx(reached)
    assert out["deviation"][-1] < 1e-4


@pytest.mark.slow
def test_the_virtual_test_of_the_deliverable_with_translations() -> None:
    """Deviations below 5 % of the largest displacement up to 400 C, and growing, as the deliverable found."""
    out = hybrid(Hybrid(fibres="7", coupling="translations"))
    t, apart = out["temperature"], out["deviation"]
    assert apart[(t > 100.0) & (t <= 400.0)].max() < 0.05
    assert apart[-1] > 2.0 * apart[t <= 400.0][-1]
