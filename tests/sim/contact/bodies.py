"""Small contact problems in body space, built by hand: boxes that touch at the corners of their faces."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tamis.jit import kernel
from tamis.sim.contact import gauss_seidel
from tamis.sim.contact.gauss_seidel import prepare, restart_momentum
from tamis.sim.contact.problem import Contacts, impose
from tamis.sim.contact.solve import ERROR, STRATEGY, WORST, Workspace, solve, workspace
from tamis.sim.contact.tuning import LOAD, STILL

G0 = 9.81
relax = kernel(gauss_seidel.relax)  # as the solver has it, in its callers


class Problem(NamedTuple):
    a: Any
    b: Any
    G: Any
    bias: Any
    mu: Any
    free: Any
    scale: Any  # square roots of masses and inertias: v = w / scale


class Found(NamedTuple):
    status: int
    iterations: int
    residual: float
    worst: int
    report: Any
    w: Any
    r: Any


def boxes(sizes, masses, joints, mu, h=1e-3, gravity=(0.0, 0.0, -G0), axes=None) -> Problem:
    """Boxes of the given sizes; a joint is (lower, upper, corners seen from the lower, from the upper, normal)."""
    sizes, masses = np.asarray(sizes, float), np.asarray(masses, float)
    inertia = masses[:, None] / 12 * (np.sum(sizes**2, 1)[:, None] - sizes**2)
    scale = np.sqrt(np.hstack([np.repeat(masses[:, None], 3, 1), inertia]))
    a, b, blocks = [], [], []
    for lower, upper, below, above, normal in joints:
        for x, y in zip(np.asarray(below, float), np.asarray(above, float), strict=True):
            block = np.zeros((3, 12))
            for k, d in enumerate(frame(normal) if axes is None else axes):
                block[k, 6:] = np.concatenate([d, np.cross(y, d)]) / scale[upper]
                if lower >= 0:
                    block[k, :6] = -np.concatenate([d, np.cross(x, d)]) / scale[lower]
            a.append(lower)
            b.append(upper)
            blocks.append(block)
    free = np.zeros((len(masses), 6))
    free[:, :3] = h * np.asarray(gravity) * scale[:, :3]
    n = len(a)
    return Problem(
        np.array(a), np.array(b), np.array(blocks), np.zeros((n, 3)), np.full(n, float(mu)), free, scale
    )


def frame(normal):
    normal = np.asarray(normal, float)
    first = np.cross(normal, np.eye(3)[np.argmin(np.abs(normal))])
    first /= np.linalg.norm(first)
    return np.array([normal, first, np.cross(normal, first)])


def corners(x0, x1, y0, y1, z):
    return np.array([[x, y, z] for x in (x0, x1) for y in (y0, y1)])


def stack(masses, mu=0.6, **options) -> Problem:
    """Equal boxes on each other and on the ground."""
    size = (1.0, 0.8, 0.5)
    face = corners(-0.5, 0.5, -0.4, 0.4, 0.25)
    joints = [(k - 1, k, face, face * (1, 1, -1), (0, 0, 1)) for k in range(len(masses))]
    return boxes([size] * len(masses), masses, joints, mu, **options)


def wall(rows, columns, mu=0.4, **options) -> Problem:
    """Blocks in running bond: each upper one rests on two lower ones."""
    size, number = np.array([1.56, 0.76, 0.80]), {}
    joints = []
    for row in range(rows):
        for column in range(columns - row % 2):
            number[row, column] = len(number)
    for (row, column), upper in number.items():
        if row == 0:
            face = corners(-0.78, 0.78, -0.38, 0.38, 0.4)
            joints.append((-1, upper, face, face * (1, 1, -1), (0, 0, 1)))
            continue
        for side in (-1, 1):
            below = column + (side + 1) // 2 - (1 - row % 2)
            if (row - 1, below) in number:
                on = corners(*sorted((0.0, side * 0.78)), -0.38, 0.38, -0.4)
                joints.append(
                    (number[row - 1, below], upper, on * (1, 1, -1) - (side * 0.78, 0, 0), on, (0, 0, 1))
                )
    return boxes([size] * len(number), [1800.0] * len(number), joints, mu, **options)


def solved(problem: Problem, tol=1e-6, r=None, work: Workspace | None = None) -> Found:
    p = problem
    w = p.free.copy()
    r = np.zeros((len(p.a), 3)) if r is None else r.copy()
    work = workspace(len(w), len(p.a)) if work is None else work
    status = solve(Contacts(*p[:5]), w, r, tol, work)
    report = work.report.copy()
    return Found(status, report[:STRATEGY].sum(), work.reached[ERROR], report[WORST], report, w, r)


def ready(problem: Problem):
    """The problem as the methods take it, in a workspace with its free velocities, local blocks and scale."""
    contacts, work = Contacts(*problem[:5]), workspace(len(problem.free), len(problem.a))
    work.free[:] = problem.free
    return contacts, work, prepare(contacts, problem.free, work.local)


def swept(problem: Problem, sweeps, start=None, quiet=0.0):
    """What plain sweeps over all contacts come to, from the start given or none."""
    contacts, work, speed = ready(problem)
    w, r = problem.free.copy(), np.zeros((len(problem.a), 3)) if start is None else start.copy()
    impose(contacts, r, problem.free, w)
    restart_momentum(w, r, work.last)
    relax(contacts, w, r, work.local, 0.0, quiet * speed, sweeps, work.last)
    return contacts, work, w, r


def dense(problem: Problem):
    """G as a plain matrix, (3 contacts, 6 bodies)."""
    p = problem
    full = np.zeros((len(p.a), 3, len(p.free), 6))
    for i, (x, y) in enumerate(zip(p.a, p.b, strict=True)):
        if x >= 0:
            full[i, :, x] += p.G[i, :, :6]
        if y >= 0:
            full[i, :, y] += p.G[i, :, 6:]
    return full.reshape(3 * len(p.a), -1)


def residuals(problem: Problem, r):
    """The residual of each contact, by its definition and from the impulses alone."""
    p, G = problem, dense(problem)
    w = p.free.ravel() + G.T @ r.ravel()
    u = (G @ w).reshape(-1, 3) + p.bias
    weight = (G**2).reshape(len(p.a), -1).sum(1) / 3
    free = (G @ p.free.ravel()).reshape(-1, 3) + p.bias
    z = weight[:, None] * r
    alone = np.where(p.a >= 0, p.a, p.b)  # one body of each contact, for its velocity in space
    part = np.where((p.a >= 0)[:, None, None], p.G[:, :, :6], p.G[:, :, 6:])
    space = np.einsum("ijk,ik->ij", part, p.free[alone])
    speed = max(np.linalg.norm(free, axis=1).max(), STILL * np.linalg.norm(space, axis=1).max())
    scale = max(speed, min(np.linalg.norm(z, axis=1).max(), LOAD * speed))
    y = z - u
    y[:, 0] -= p.mu * np.hypot(u[:, 1], u[:, 2])
    t = np.hypot(y[:, 1], y[:, 2])
    on = np.maximum((y[:, 0] + p.mu * t) / (1 + p.mu**2), 0.0)
    side = np.column_stack([on, (p.mu * on / np.where(t > 0, t, 1))[:, None] * y[:, 1:]])
    projected = np.where((t <= p.mu * y[:, 0])[:, None], y, side)
    return np.linalg.norm(z - projected, axis=1) / scale, w.reshape(-1, 6)
