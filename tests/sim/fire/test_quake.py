"""A frame shaken before it burns: exact oscillations, books of energy, and what the fire finds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path as File

import numpy as np
import pytest

from tamis.errors import SimulationError
from tamis.signals import response_spectrum
from tamis.sim.common.records import GENERATED, read_record
from tamis.sim.fire import heating
from tamis.sim.fire.braced import COLD, Braced
from tamis.sim.fire.drive import follow
from tamis.sim.fire.kernels import Loading
from tamis.sim.fire.path import Path
from tamis.sim.fire.quake import Shaking
from tamis.sim.fire.sections import bar
from tamis.sim.fire.simulators import after_earthquake
from tamis.sim.fire.structure import Profile, Structure

SMALL = {"storeys": 1, "elements": 2, "calm": 2.0, "record": 20.0}


def oscillator(omega: float) -> tuple[Path, np.ndarray, np.ndarray, int]:
    """Return a mass on a bar along x that is as stiff as the frequency wants."""
    structure = Structure()
    structure.profile(Profile(*bar(1.0, 1.0), "linear", 1e3 * omega**2, 1.0, 0.0, 0.0))
    a, b = structure.node(0.0, 0.0, "ground"), structure.node(1.0, 0.0, "mass")
    structure.member(a, b, 1, 0, 0, "spring")
    structure.fix(a, (0, 1, 2))
    structure.fix(b, (1, 2))
    elements, load = structure.frame(), structure.load_vector()
    path = Path(structure, Loading(load, 0.0 * load, np.array([0.0]), np.full((1, 1, 2), 20.0)), elements)
    path.settle()
    return path, np.array([1e3]), np.array([True]), structure.number(b, 0)


def test_an_oscillator_follows_a_record_as_its_response_spectrum_says() -> None:
    """Peak displacement by the exact recursion of `tamis.signals`; the trapezoidal rule errs by (omega dt)^2/12."""
    motion = read_record(GENERATED)
    omega = 10.0
    path, mass, along, place = oscillator(omega)
    shaken = Shaking(path, mass, along, 0.05).run(motion.a, motion.dt, 0.01, 1)
    exact = response_spectrum(motion.a, motion.dt, np.array([2.0 * np.pi / omega]), 0.05)
    peak = np.abs(shaken.u[: len(motion.a), place]).max()
    assert peak == pytest.approx(float(np.ravel(exact)[0]) / omega**2, rel=0.01)
    assert abs(shaken.energies["missing"]) < 1e-8 * shaken.energies["input"]  # elastic: Newton's tolerance


def test_books_of_energy_close_with_the_square_of_the_step() -> None:
    """Yielding and buckling: what fibres store and dissipate against the work done on the frame."""
    missing = []
    for dt in (0.01, 0.0025):
        out = after_earthquake(Braced(**SMALL, pga=20.0, dt=dt, until=60.0))
        assert out["energy_dissipated"] > 0.3 * out["energy_input"]
        missing.append(abs(float(out["energy_missing"] / out["energy_input"])))
    assert missing[0] < 0.02
    assert missing[1] < 0.5 * missing[0]  # a sixteenth, if the law had no corners


def test_without_residual_drift_it_is_the_plain_fire() -> None:
    """No earthquake, and one too weak for anything to yield: the fire of the same frame never shaken, to 1e-9."""
    case = Braced(**SMALL, heated="brace", until=3000.0)
    built = case.build()
    path = case.path(built)
    hottest = path.loading.table[:, 1].max(axis=1)
    plain = follow(path, heating.instants(path.loading.times, hottest, case.record))
    place = built.structure.number(built.floors[-1], 0)
    for pga in (0.0, 0.05):
        out = after_earthquake(replace(case, pga=pga))
        assert out["lost_protection"] == 0.0 and len(out["time"]) == len(plain.times)
        assert np.abs(out["roof_ux"] - plain.u[:, place]).max() < 1e-9  # m
        assert out["failure_time"] == pytest.approx(plain.times[-1], rel=1e-9 if pga == 0.0 else 1e-5)


@pytest.mark.parametrize("heated", ["column", "brace"])
@pytest.mark.parametrize("protection", [0.0, 0.015])
def test_failure_comes_sooner_the_more_drift_remains(heated: str, protection: float) -> None:
    """The four cases, on one storey: 2 % of residual drift, and braces that lost their protection."""
    case = Braced(**SMALL, heated=heated, protection=protection)
    before, after = after_earthquake(case), after_earthquake(replace(case, pga=20.0))
    assert before["drift_residual"] == 0.0 and after["drift_residual"] > 0.01
    assert before["failed"] == after["failed"] == 1.0
    assert after["failure_time"] < before["failure_time"]
    if heated == "brace" and protection:
        assert after["lost_protection"] > 0.0 and after["failure_time"] < 0.7 * before["failure_time"]


def test_damage_that_is_only_a_lean_shortens_the_fire() -> None:
    """The same frame pushed further by its lateral load carries more in its brace, and fails sooner."""
    times = [
        float(after_earthquake(Braced(**SMALL, heated="brace", protection=0.0, lateral=load))["failure_time"])
        for load in (20e3, 40e3, 80e3)
    ]
    assert times[0] > times[1] > times[2]


def test_protection_is_lost_where_plastic_strain_was_large() -> None:
    case = Braced(**SMALL, pga=20.0, heated="brace", until=120.0)
    none = after_earthquake(replace(case, spalling=1.0))
    some = after_earthquake(replace(case, spalling=0.0005))
    assert none["lost_protection"] == 0.0 < some["lost_protection"] <= 1.0
    assert some["temperature"][-1] > 2.0 * none["temperature"][-1]  # bare steel beside protected


def test_a_collapse_in_the_earthquake_and_a_record_without_motion_are_said(tmp_path: File) -> None:
    case = Braced(**SMALL)
    built = case.build()
    path = case.path(built)
    path.settle()
    shaking = Shaking(path, *case.masses(path, built), 0.03)
    with pytest.raises(SimulationError, match=r"collapses in the earthquake|does not stand after"):
        shaking.run(np.full(20, 1e5), 0.01, 0.1, 1)
    still = tmp_path / "still.csv"
    still.write_text("t [s],a [m/s2]\n0.00,0\n0.01,0\n0.02,0\n")
    with pytest.raises(SimulationError, match=r"still\.csv: the ground does not move"):
        after_earthquake(Braced(**SMALL, pga=1.0, motion=str(still)))


def test_four_cases_have_their_members() -> None:
    for heated, name in (("column", "left column, storey 1"), ("brace", "brace, storey 1")):
        built = Braced(heated=heated).build()
        assert len(built.burning) == 6
        node = built.structure.ends[int(built.burning[0])][1]
        assert built.structure.names[node].startswith(name)
        assert all(end[5] == COLD for end in built.structure.ends)
