"""Steel and its temperature: the tables of EN 1993-1-2, unloading, restrained bars, bare and protected members."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from tamis.errors import SimulationError, StudyError
from tamis.sim.fire import steel, thermal
from tamis.sim.fire.heating import Heating, checked
from tamis.sim.fire.scene import Member
from tamis.sim.fire.sections import SECTIONS, section
from tamis.sim.fire.simulators import member

S235 = np.array([steel.EN, 210e9, 235e6, 0.0, 0.0])
RESTRAINED = {
    50: 77.364,
    100: 209.664,
    200: 205.862,
    300: 190.645,
    400: 183.938,
    500: 155.377,
    600: 96.070,
    700: 48.569,
}


def stresses(strains: list[float], temperatures: list[float], law: np.ndarray = S235) -> np.ndarray:
    out = np.empty(len(strains))
    steel.loaded(np.array(strains), np.array(temperatures, dtype=float), law, out)
    return out


def test_a_restrained_bar_has_the_stresses_of_the_code() -> None:
    case = Member(
        section="HEB180", length=1.0, axial="held", load=0.0, record=10.0, elements=2, reached=700.0
    )
    out = member(case)
    for temperature, wanted in RESTRAINED.items():
        i = int(np.argmin(np.abs(out["temperature"] - temperature)))
        assert out["temperature"][i] == pytest.approx(temperature, abs=1e-9)
        found = -out["axial_force"][i] / section("HEB180").area / 1e6
        assert found == pytest.approx(wanted, abs=5.001e-4)  # all digits of the closed form that are printed


@pytest.mark.parametrize("stiffness", [1e7, 1e9])
def test_a_spring_at_the_end_takes_its_share(stiffness: float) -> None:
    """Elastic: N = -alpha dT L k K/(k + K), K = EA/L; with the code's law, N = k u with the stress at e - e_th."""
    ea, length = 210e9 * section("HEB180").area, 2.0
    given = {
        "section": "HEB180",
        "length": length,
        "axial": "spring",
        "spring": stiffness,
        "load": 0.0,
        "elements": 2,
    }
    out = member(Member(**given, law="elastic", reached=420.0))
    exact = -1.2e-5 * 400.0 * length * stiffness * (ea / length) / (stiffness + ea / length)
    # strains are engineering strains of the chord, so that the closed form is exact; 1e-9 is Newton's tolerance
    assert out["axial_force"][-1] == pytest.approx(exact, rel=1e-9)
    out = member(Member(**given, reached=550.0))
    for i in (10, 40, 80, -1):
        strain, t = out["end_ux"][i] / length, out["temperature"][i]
        limit, strength, modulus = steel.reduction(t)
        first = steel.first_loading(
            steel.elongation(t) - strain, modulus * 210e9, limit * 235e6, strength * 235e6, -1.0
        )
        assert stiffness * out["end_ux"][i] == pytest.approx(first[0] * section("HEB180").area, rel=1e-8)


def test_reduction_factors_at_the_rows_of_the_table_and_between() -> None:
    assert steel.reduction(20.0) == (1.0, 1.0, 1.0)
    assert steel.reduction(500.0) == pytest.approx((0.36, 0.78, 0.6))
    assert steel.reduction(650.0) == pytest.approx((0.1275, 0.35, 0.22))
    assert steel.reduction(1200.0) == (0.0, 0.0, 0.0)
    for t, jump in ((750.0, 8.4e-6), (860.0, 0.0)):  # as printed
        assert steel.elongation(t - 1e-9) - steel.elongation(t + 1e-9) == pytest.approx(jump, abs=1e-9)


@pytest.mark.parametrize("t", [20.0, 300.0, 550.0, 900.0])
def test_the_curve_of_first_loading_is_smooth_and_its_tangent_is_its_slope(t: float) -> None:
    limit, strength, modulus = steel.reduction(t)
    law = (modulus * 210e9, limit * 235e6, strength * 235e6, -1.0)
    elastic = law[1] / law[0]
    for e in (0.5 * elastic, elastic + 1e-5, 0.005, 0.012, 0.0199, 0.05, 0.17):
        low, high = steel.first_loading(e - 1e-8, *law)[0], steel.first_loading(e + 1e-8, *law)[0]
        assert (high - low) / 2e-8 == pytest.approx(
            steel.first_loading(e, *law)[1], rel=1e-5, abs=1e-6 * law[0]
        )
    assert steel.first_loading(0.02, *law)[0] == pytest.approx(law[2])
    assert steel.first_loading(0.2, *law)[0] == 0.0


def test_unloading_is_elastic_and_plastic_strain_survives_heating() -> None:
    e = stresses([0.01, 0.009, 0.01, 0.012], [20.0] * 4)
    assert e == pytest.approx([235e6, 235e6 - 210e9 * 0.001, 235e6, 235e6])
    # plastic strain 0.01 - 235/210e3 made cold; hot, zero stress is where mechanical strain equals it
    p = 0.01 - 235.0 / 210e3
    hot = stresses(
        [0.01, p + steel.elongation(500.0), p + steel.elongation(500.0) + 1e-4], [20.0, 500.0, 500.0]
    )
    assert hot[1:] == pytest.approx([0.0, 0.6 * 210e9 * 1e-4], abs=1.0)


def test_no_work_is_gained_in_any_cycle() -> None:
    """Random strain histories at one temperature, closed at zero stress: the work done is never negative."""
    rng = np.random.default_rng(5)
    for t in (20.0, 450.0, 700.0):
        for _ in range(20):
            corners = np.concatenate([[0.0], 0.03 * rng.uniform(-1, 1, 6)])
            strains = np.concatenate([np.linspace(a, b, 400) for a, b in itertools.pairwise(corners)])
            s = stresses(list(strains + steel.elongation(t)), [t] * len(strains))
            work = np.cumsum(0.5 * (s[1:] + s[:-1]) * np.diff(strains))
            stored = s[1:] ** 2 / (2.0 * steel.reduction(t)[2] * 210e9)
            assert (work - stored).min() > -1e-3 * work.max()  # 1e-3: trapezia through corners of the law


@pytest.mark.parametrize(("thickness", "minutes"), [(0.0, 40), (0.02, 120), (0.05, 120)])
@pytest.mark.parametrize("name", ["HEB180", "IPE270"])
def test_steel_temperatures_beside_an_independent_integration(
    name: str, thickness: float, minutes: int
) -> None:
    """ISO 834, the differential equations behind 4.25 and 4.27 by an implicit method at tight tolerance: 0.5 C."""
    here, end = section(name), 60.0 * minutes
    fire = Heating(fire="iso834", until=end, protection=thickness)

    def gas(t: float) -> float:
        return 20.0 + 345.0 * math.log10(8.0 * t / 60.0 + 1.0)

    def slope(t: float, y: np.ndarray) -> list[float]:
        stored = thermal.specific_heat(y[0]) * 7850.0
        if thickness == 0.0:
            flux = 25.0 * (gas(t) - y[0]) + 0.7 * 5.67e-8 * ((gas(t) + 273.0) ** 4 - (y[0] + 273.0) ** 4)
            return [0.9 * here.box_factor(4) / stored * flux]
        factor = here.section_factor(4)
        phi = 1700.0 * 800.0 / stored * thickness * factor
        rise = 345.0 / math.log(10.0) * (8.0 / 60.0) / (8.0 * t / 60.0 + 1.0)
        change = 0.2 * factor / thickness / stored * (gas(t) - y[0]) / (1.0 + phi / 3.0)
        return [max(0.0, change - (math.exp(phi / 10.0) - 1.0) * rise)]

    exact = solve_ivp(
        slope, (0.0, end), [20.0], "LSODA", rtol=1e-9, atol=1e-7, max_step=5.0, dense_output=True
    )
    found = fire.steel(here, 4)
    assert np.abs(found - exact.sol(fire.times())[0]).max() < 0.5


def test_parametric_fire_at_the_reference_enclosure_is_the_standard_fire() -> None:
    """O = 0.04 and b = 1160 are chosen in annex A so that the heating approximates ISO 834; then it cools to 20 C."""
    fire = Heating(fire="parametric", fire_load=200.0, opening=0.04, inertia=1160.0, until=14400.0)
    t, found = fire.times(), fire.gas()
    assert t[found.argmax()] == pytest.approx(3600.0)  # 0.2e-3 q/O hours
    iso = 20.0 + 345.0 * np.log10(8.0 * t[600:3600] / 60.0 + 1.0)
    assert np.abs(found[600:3600] / iso - 1.0).max() < 0.04  # after ten minutes; 0.032, and less later
    assert found[3600] - found[4600] == pytest.approx(
        500.0 * 1000.0 / 3600.0, rel=1e-3
    )  # 250 (3 - t*) an hour, t* = 1
    assert found[-1] == 20.0
    fuel = Heating(fire="parametric", fire_load=50.0, opening=0.2, inertia=1160.0, until=3600.0)
    assert fuel.times()[fuel.gas().argmax()] == pytest.approx(1200.0)  # t_lim, medium fire growth


def test_the_shadow_of_flanges_is_counted_by_the_kind_of_fire() -> None:
    """0.9 of the box in nominal fires (4.26a), the box itself in others (4.26b): one explicit step of 4.25."""
    here = section("IPE270")
    for fire, share, convection in (
        ("iso834", 0.9, 25.0),
        ("hydrocarbon", 0.9, 50.0),
        ("parametric", 1.0, 35.0),
    ):
        case = Heating(fire=fire, until=10.0)
        gas = case.gas()[1]
        flux = convection * (gas - 20.0) + 0.7 * 5.67e-8 * ((gas + 273.0) ** 4 - 293.0**4)
        rise = share * here.box_factor(4) / (thermal.specific_heat(20.0) * 7850.0) * flux
        assert case.steel(here, 4)[2] == pytest.approx(20.0 + rise, abs=1e-9)


def test_sections() -> None:
    here = section("HEB180")
    assert here.area == pytest.approx(65.25e-4, rel=0.035)  # EN 10365: 65.3 cm2 with its root fillets
    for points in ("7", "15"):
        y, a = here.fibres(points)
        assert len(y) == int(points) and a.sum() == pytest.approx(here.area)
        exact = (0.18 * 0.18**3 - (0.18 - 0.0085) * 0.152**3) / 12.0
        assert (a * y * y).sum() == pytest.approx(exact, rel=1e-12)  # Gauss points are exact for squares
    assert here.section_factor(4) == pytest.approx(
        1.037 / 65.25e-4, rel=0.06
    )  # fillets take 3 % of it each way
    with pytest.raises(StudyError, match=r'no section "HEB18".*HEB180'):
        section("HEB18")
    assert len(SECTIONS) > 20


def test_temperatures_that_the_code_does_not_cover() -> None:
    with pytest.raises(SimulationError, match=r"from 20 to 1200 C, found -50 C"):
        member(Member(gradient=300.0, reached=100.0))
    with pytest.raises(SimulationError, match=r"found 1250 C"):
        checked(np.array([20.0, 1250.0]), "beam")
    with pytest.raises(StudyError, match="reached must be from 20 to 1200"):
        Member(reached=1300.0)
