"""The net's volume, centroid, section, force and stiffness against exact values and differences of its energy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tamis.sim.acd2.net import hold, hold_rough, outside
from tamis.sim.acd2.packing import corners
from tamis.sim.common.geometry import Geometry, World, place, world
from tamis.sim.common.rotations import turned
from tamis.sim.common.shapes import Contactor, Convex, geometry_of, mass_of


def placed(points: np.ndarray, x: np.ndarray, q: np.ndarray) -> tuple[Geometry, World]:
    geometry = geometry_of([Contactor(Convex(tuple(map(tuple, points))), 0, 0)])
    at = world(geometry)
    place(x[None], q[None], geometry, at)
    return geometry, at


@pytest.mark.parametrize(("axis", "sign"), list(itertools.product(range(3), (-1.0, 1.0))))
def test_a_box_that_pokes_out(axis: int, sign: float) -> None:
    sides = np.array([0.4, 0.6, 0.8])
    points = np.array(list(itertools.product((-0.5, 0.5), repeat=3))) * sides
    x, out = np.array([0.1, -0.2, 0.3]), np.empty(9)
    limit = sign * x[axis] + 0.5 * sides[axis] - 0.05  # 0.05 of it is outside
    geometry, at = placed(points, x, np.array([1.0, 0.0, 0.0, 0.0]))
    volume = outside(geometry, at, 0, axis, sign, limit, out)
    j, k = (axis + 1) % 3, (axis + 2) % 3
    area = sides[j] * sides[k]
    assert volume == pytest.approx(0.05 * area, rel=1e-12)  # round-off, here and below
    assert out[:3] == pytest.approx(0.025 * sign * volume * np.eye(3)[axis], abs=1e-15)
    assert out[3] == pytest.approx(area, rel=1e-12)
    assert out[4:6] == pytest.approx(0.0, abs=1e-15)
    assert out[6:] == pytest.approx([area * sides[j] ** 2 / 12, 0.0, area * sides[k] ** 2 / 12], abs=1e-15)


def test_a_grain_that_is_all_outside_has_its_volume_there() -> None:
    points, out = corners(0.08, 0.05, 0.06, 0.04), np.empty(9)
    geometry, at = placed(points, np.array([0.3, 0.1, 0.0]), np.array([0.5, 0.5, 0.5, 0.5]))
    assert outside(geometry, at, 0, 0, 1.0, 0.1, out) == pytest.approx(
        mass_of(Convex(tuple(map(tuple, points)))).volume, rel=1e-12
    )
    assert out[3] == 0.0


def pushed(x: np.ndarray, q: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    force, H, push = np.zeros(6), np.zeros((6, 6)), np.zeros(6)
    geometry, at = placed(corners(0.08, 0.05, 0.06, 0.04), x, q)
    _, energy = hold(geometry, at, 0, q, np.zeros(3), np.full(3, 0.1), 1e11, force, H, push)
    return energy, force, H


def test_force_and_stiffness_are_derivatives_of_the_energy() -> None:
    rng = np.random.default_rng(5)
    x, q = np.array([0.08, 0.075, 0.0]), rng.standard_normal(4)
    q /= np.linalg.norm(q)
    energy, force, H = pushed(x, q)
    assert energy > 0.0 and np.linalg.eigvalsh(H).min() > -1e-9 * np.abs(H).max()  # positive, to round-off
    for m in range(6):
        ends = []
        for step in (-1e-6, 1e-6):
            move = np.zeros(6)
            move[m] = step
            there, turn = x + move[:3], q.copy()
            turned(q, *move[3:], turn)
            ends.append(pushed(there, turn))
        slope = (ends[1][0] - ends[0][0]) / 2e-6
        assert slope == pytest.approx(
            -force[m], rel=1e-5, abs=1e-5 * np.abs(force).max()
        )  # error of differences
        if m < 3:  # along the axes the stiffness is complete
            found = -(ends[1][1] - ends[0][1]) / 2e-6
            assert found[:3] == pytest.approx(H[m, :3], rel=1e-4, abs=1e-4 * np.abs(H).max())


def test_friction_on_the_net_has_its_threshold_and_stops_spin() -> None:
    sides, drag = np.array([0.4, 0.6, 0.8]), 0.3
    points = np.array(list(itertools.product((-0.5, 0.5), repeat=3))) * sides
    x, q = np.array([0.0, 0.0, -0.7]), np.array([1.0, 0.0, 0.0, 0.0])  # 0.1 of it is below a floor at -1
    geometry, at = placed(points, x, q)
    for v in (
        [0.3, -0.4, 0.0, 0.0, 0.0, 0.0],
        [0.0, 0.0, 0.0, 0.0, 0.0, 2.0],
        [0.0, 0.0, 1.0, 0.0, 0.0, 0.0],
    ):
        force, H, D, push, velocity = (
            np.zeros(6),
            np.zeros((6, 6)),
            np.zeros((6, 6)),
            np.zeros(6),
            np.array(v),
        )
        hold_rough(geometry, at, 0, q, np.zeros(3), np.ones(3), 1e3, force, H, push, velocity, drag, D)
        most = drag * force[2]
        assert force[2] == pytest.approx(1e3 * 0.1 * 0.4 * 0.6, rel=1e-12)  # round-off, here and below
        assert pytest.approx(D.T, abs=1e-12 * most) == D
        percussion = D @ velocity
        if v[5] == 0.0:
            slip = np.linalg.norm(velocity[:2])
            expected = most * velocity[:2] / max(slip, 1e-300)
            arm = np.array([0.0, 0.0, -0.35])  # to the centroid of the part outside
            assert percussion[:2] == pytest.approx(expected, abs=1e-12 * most)
            assert percussion[3:] == pytest.approx(np.cross(arm, [*expected, 0.0]), abs=1e-12 * most)
        else:
            radius = np.sqrt((0.4**2 + 0.6**2) / 12.0)  # of gyration of the section
            assert percussion == pytest.approx(most * radius * np.eye(6)[5], abs=1e-12 * most)
