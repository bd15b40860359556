"""The gabions of Dimnet et al. (2013) at their size: nine packings, four impacts in a row, half the step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tamis.simulation import find

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:the jump was not solved"),
    pytest.mark.filterwarnings("ignore:the grains are not at rest"),  # without friction a wall never is
]
BALL, GABION, BEHIND, K_WW = 260.0, 216 * 0.9, 36, 3e4
ENERGIES = np.array([2040.48, 4080.96, 8161.92, 10202.4])


def plastic(gabions: int, energy: float) -> tuple[float, float]:
    """Return way and force where a ball sticks to so many gabions and all push their springs as one."""
    mass, stiffness = BALL + gabions * GABION, gabions * BEHIND * K_WW
    way = np.sqrt(2.0 * energy * BALL) / np.sqrt(mass * stiffness)
    return float(way), float(stiffness * way)


@pytest.mark.parametrize("seed", range(1, 10))
def test_a_gabion_is_packed_and_rests(seed: int) -> None:
    found = find("tamis:acd2.gabion")(seed=seed)
    assert found["side"][-1] == pytest.approx([0.5] * 3, rel=0.01)
    assert 0.55 < found["solid_fraction"] < 0.65
    assert found["overlap"] < 0.01 * 3.47e-4 ** (1 / 3)
    assert found["drift"] < 1e-3
    assert found["closure"] < 1e-9


@pytest.fixture(scope="module")
def four() -> dict[str, Any]:
    return find("tamis:acd2.gabion_wall")(rebound=0.1)


def test_four_impacts_push_the_wall_back_the_first_most_for_its_energy(four: dict[str, Any]) -> None:
    assert (np.diff(four["back_peak"]) > 0.0).all() and (np.diff(four["force_peak"]) > 0.0).all()
    left = np.diff(four["back_left"], prepend=0.0) / ENERGIES
    assert left[0] > 2.0 * left[1:].max()
    nine, alone = plastic(9, ENERGIES[3]), plastic(1, ENERGIES[3])
    assert alone[1] < four["force_peak"][3] < nine[1]
    own = (
        four["back_peak"][3] - four["back_left"][2]
    )  # by itself: the earlier ones have left something behind
    assert nine[0] < own < alone[0]


def test_the_ball_is_stopped(four: dict[str, Any]) -> None:
    """It is thrown back with the tenth of the work that the sand gives back, and no faster."""
    mass = BALL + GABION
    for number, energy in enumerate(ENERGIES):
        speed = four["ball_speed"].reshape(4, -1)[number]
        assert speed.min() <= 0.0 and abs(speed[-1]) < np.sqrt(0.1 * 2.0 * energy / mass)


def test_contacts_of_the_wall_are_as_many_as_the_paper_counts(four: dict[str, Any]) -> None:
    # fifteen in a hundred less or more: packings keep but slight overlaps, and a gabion that flies has few contacts
    inside = (four["contacts"] >= 0.85 * 6200) & (four["contacts"] <= 1.15 * 8600)
    assert inside.mean() >= 0.99
    assert four["closure"] < 1e-9 and four["momentum_closure"] < 1e-9


def test_half_the_step_moves_peaks_little() -> None:
    wall = find("tamis:acd2.gabion_wall")
    whole, half = (wall(energy_1=2040.48, energy_2=0.0, dt=dt) for dt in (2.5e-4, 1.25e-4))
    for name in ("back_peak", "displacement", "force_peak", "central_peak"):
        assert half[name] == pytest.approx(whole[name], rel=0.1), name
