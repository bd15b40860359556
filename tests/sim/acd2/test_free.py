"""Grains that meet in free space: what no law of contact may change, and that no direction is special."""

from __future__ import annotations

import numpy as np
import pytest

from tamis.sim.acd2 import drive, kernels
from tamis.sim.acd2.packing import grains_of, lattice, scatter
from tamis.sim.common.rotations import hamilton, matrices, quaternion_of

H, SIZE = 1e-3, 3.47e-4 ** (1.0 / 3.0)


def fly(turn: np.ndarray, laws: tuple[float, float, float], steps: int) -> tuple[kernels.Grains, list, list]:
    """Throw twelve spinning grains at each other, all turned; return them, and x, q, v before and after."""
    rng = np.random.default_rng(3)
    shapes = scatter(12, np.array([0.078, 0.053, 0.065, 0.038]), 0.23, SIZE**3, rng)
    x, q, _ = lattice(shapes, rng)
    v = np.zeros((12, 6))
    v[:, :3] = (-14.0 * x + 0.2 * rng.standard_normal((12, 3))) @ turn.T
    v[:, 3:] = 5.0 * rng.standard_normal((12, 3))  # in their own axes
    x, q = x @ turn.T, np.transpose(hamilton(quaternion_of(turn), q.T))
    grains, far = grains_of(shapes, 2600.0), 50.0
    state, room, record = (
        drive.state_of(x, q, far, 400),
        drive.room_of(grains, 1600, 400),
        drive.record_of(12, steps, steps),
    )
    state.v[:] = v
    closing, ease = (far, 1.0, 1.0, 1.0), (0.0, 0.0)
    status, done, _ = kernels.advance(
        grains, state, room, record, closing, ease, *laws, 0.0, 0.0, H, 1e-4 * SIZE, 1e-11, 100_000, 0, steps
    )  # fmt: skip
    assert (status, done) == (kernels.DONE, steps) and record.residual.max() <= 1e-11
    assert record.counts[:, 0].sum() > 50
    return grains, [x, q, v], [state.x, state.q, state.v]


def momenta(grains: kernels.Grains, x: np.ndarray, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Return momentum and angular momentum about the origin."""
    p = grains.mass[:, :3] * v[:, :3]
    spin = np.einsum("bij,bj->bi", matrices(q), grains.mass[:, 3:] * v[:, 3:])
    return np.concatenate([p.sum(axis=0), (np.cross(x, p) + spin).sum(axis=0)])


@pytest.mark.parametrize("laws", [(5e-4, 3e-4, 0.0), (0.0, 0.0, 0.5), (3.0, 1.0, 0.5)])
def test_contacts_keep_momentum_and_angular_momentum_and_take_energy(
    laws: tuple[float, float, float],
) -> None:
    grains, before, after = fly(np.eye(3), laws, 50)
    scale = (grains.mass[:, :1] * np.abs(before[2][:, :3])).sum()
    # round-off of 50 steps; an arm of a wrong sign moves the angular momentum by a tenth of its size
    assert momenta(grains, *after) == pytest.approx(momenta(grains, *before), abs=1e-12 * scale)
    kinetic = [0.5 * (grains.mass * v**2).sum() for v in (before[2], after[2])]
    assert kinetic[1] < 0.6 * kinetic[0]  # they do meet


@pytest.mark.parametrize("mu", [0.0, 0.5])
def test_a_turned_scene_moves_as_the_scene_does(mu: float) -> None:
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    turn *= np.sign(np.linalg.det(turn))
    _, _, (x, _, v) = fly(np.eye(3), (5e-4, 3e-4, mu), 40)
    _, _, (there, _, velocity) = fly(turn, (5e-4, 3e-4, mu), 40)
    assert there == pytest.approx(x @ turn.T, abs=1e-10)  # measured 1e-14: the tolerance of the solver
    assert velocity[:, 3:] == pytest.approx(v[:, 3:], abs=1e-8)  # of spins of some 10 1/s; measured 2e-11
