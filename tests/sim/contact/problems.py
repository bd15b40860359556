"""Random rigid-body contact problems for the tests of the solvers, and the residuals they are judged by."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, diags

from tamis.sim.contact.tuning import LOAD

Array = NDArray[np.float64]


def frame(normal: Array) -> Array:
    """Rows (N, T1, T2) of an orthonormal contact frame."""
    n = normal / np.linalg.norm(normal)
    t = np.cross(n, (1.0, 0.0, 0.0) if abs(n[0]) < 0.7 else (0.0, 1.0, 0.0))
    t /= np.linalg.norm(t)
    return np.stack([n, t, np.cross(n, t)])


def columns(frame: Array, arm: Array) -> Array:
    """Velocity of a point at ``arm`` from the centre in the contact frame, from (v, omega): (3, 6)."""
    x, y, z = arm
    return np.hstack([frame, frame @ np.array([[0.0, z, -y], [-z, 0.0, x], [y, -x, 0.0]])])


def assemble(
    contacts: list[tuple[int, int, Array, Array]],
    centres: Array,
    mass: Array,
    inertia: Array,
    velocity: Array,
) -> tuple[csr_matrix, Array]:
    """W and q of contacts (body above, body below or -1, point, normal) at given body velocities (n, 6)."""
    rows, cols, data = [], [], []
    for i, (a, b, point, normal) in enumerate(contacts):
        f = frame(normal)
        for body, sign in ((a, 1.0), (b, -1.0)):
            if body < 0:
                continue
            block = sign * columns(f, point - centres[body])
            rows.append(np.repeat(np.arange(3 * i, 3 * i + 3), 6))
            cols.append(np.tile(np.arange(6 * body, 6 * body + 6), 3))
            data.append(block.ravel())
    G = csr_matrix(
        (np.concatenate(data), (np.concatenate(rows), np.concatenate(cols))),
        (3 * len(contacts), 6 * len(centres)),
    )
    weight = np.hstack([np.repeat(mass[:, None], 3, 1), np.repeat(inertia[:, None], 3, 1)]).ravel()
    return csr_matrix(G @ diags(1.0 / weight) @ G.T), np.asarray(G @ velocity.ravel())


def tower(rng: np.random.Generator, bodies: int, ratio: float = 1.0) -> tuple[csr_matrix, Array]:
    """Boxes one on another, four points a face: hyperstatic; masses spread by ``ratio``; weight plus a shake."""
    contacts = []
    centres = np.zeros((bodies, 3))
    centres[:, 2] = 0.5 + np.arange(bodies)
    centres[:, :2] = rng.uniform(-0.1, 0.1, (bodies, 2))
    up = np.array([0.0, 0.0, 1.0])
    for k in range(bodies):
        for dx, dy in ((-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5)):
            contacts.append((k, k - 1, np.array([dx * 0.8, dy * 0.8, float(k)]), up))
    mass = ratio ** rng.uniform(0.0, 1.0, bodies)
    velocity = np.zeros((bodies, 6))
    velocity[:, 2] = -0.01
    velocity += rng.normal(size=(bodies, 6)) * 10.0 ** rng.uniform(-5.0, -1.0)
    return assemble(contacts, centres, mass, mass / 6.0, velocity)


def wall(rng: np.random.Generator, rows: int, length: int, ratio: float = 1.0) -> tuple[csr_matrix, Array]:
    """Blocks in running bond, each on two below, side joints closed here and there; one of them struck."""
    blocks = [(r, c) for r in range(rows) for c in range(length - r % 2)]
    index = {b: i for i, b in enumerate(blocks)}
    centres = np.array([(c + 0.5 * (r % 2), 0.0, 0.5 * r + 0.25) for r, c in blocks])
    contacts = []
    up, along = np.array([0.0, 0.0, 1.0]), np.array([1.0, 0.0, 0.0])
    for (r, c), i in index.items():
        x, _, z = centres[i]
        spans = [(x - 0.45, x + 0.45, -1)]
        if r:
            left, right = (r - 1, c - 1 + r % 2), (r - 1, c + r % 2)
            spans = [(x - 0.45, x - 0.05, index.get(left, -2)), (x + 0.05, x + 0.45, index.get(right, -2))]
        for x0, x1, below in spans:
            if below == -2:
                continue
            for px, py in ((x0, -0.2), (x1, -0.2), (x1, 0.2), (x0, 0.2)):
                contacts.append((i, below, np.array([px, py, z - 0.25]), up))
        if (r, c + 1) in index and rng.random() < 0.5:
            for py, pz in ((-0.2, -0.2), (0.2, 0.2)):
                contacts.append((index[r, c + 1], i, np.array([x + 0.5, py, z + pz]), along))
    mass = ratio ** rng.uniform(0.0, 1.0, len(blocks))
    velocity = np.zeros((len(blocks), 6))
    velocity[:, 2] = -0.01
    velocity[rng.integers(len(blocks)), :3] += rng.normal(size=3) * 10.0 ** rng.uniform(-2.0, 0.5)
    return assemble(contacts, centres, mass, mass / 8.0, velocity)


def pile(rng: np.random.Generator, bodies: int, ratio: float = 1.0) -> tuple[csr_matrix, Array]:
    """Spheres in a heap that touch where they come close, falling and stirred."""
    side = max(2, round((bodies / 3.0) ** (1 / 3)))
    cells = np.array([(i % side, i // side % side, i // side**2) for i in range(bodies)], dtype=float)
    centres = cells * 0.95 + rng.uniform(-0.08, 0.08, (bodies, 3))
    contacts = []
    for i in range(bodies):
        if centres[i, 2] < 0.1:
            contacts.append((i, -1, centres[i] - (0.0, 0.0, 0.5), np.array([0.0, 0.0, 1.0])))
        for j in range(i):
            d = centres[i] - centres[j]
            if np.linalg.norm(d) < 1.0:
                contacts.append((i, j, 0.5 * (centres[i] + centres[j]), d))
    mass = ratio ** rng.uniform(0.0, 1.0, bodies)
    velocity = rng.normal(size=(bodies, 6)) * 10.0 ** rng.uniform(-3.0, 0.0)
    velocity[:, 2] -= 0.1
    return assemble(contacts, centres, mass, 0.1 * mass, velocity)


def stubborn_pile(seed: int) -> tuple[csr_matrix, Array, Array]:
    """W, q and mu of 80 to 200 bodies with masses 1e3 to 1e4 apart and a friction of 0.7 to 1.5.

    There is a solution: moved apart and off the ground, all contacts open (Acary et al. 2011, 10.1002/zamm.201000073).
    """
    rng = np.random.default_rng(1000 + seed)
    bodies, ratio, mu = int(rng.integers(80, 201)), 10.0 ** rng.uniform(3.0, 4.0), rng.uniform(0.7, 1.5)
    W, q = pile(rng, bodies, ratio)
    return W, q, np.full(len(q) // 3, mu)


def residuals(W: csr_matrix, q: Array, mu: Array, r: Array) -> tuple[float, float]:
    """The dimensionless residual (largest contact) and the one relative to ``max(|q|, |u|, |r|)``."""
    u, R = (W @ r + q).reshape(-1, 3), r.reshape(-1, 3)
    w = W.diagonal().reshape(-1, 3).sum(axis=1)[:, None] / 3.0
    hat = u.copy()
    hat[:, 0] += mu * np.hypot(u[:, 1], u[:, 2])
    speed = np.linalg.norm(q.reshape(-1, 3), axis=1).max() or 1.0
    speed = max(speed, min(np.linalg.norm(w * R, axis=1).max(), LOAD * speed))
    size = max(np.linalg.norm(q), np.linalg.norm(u), np.linalg.norm(r)) or 1.0
    local = np.linalg.norm(w * R - onto_cones(w * R - hat, mu), axis=1).max() / speed
    return float(local), float(np.linalg.norm(R - onto_cones(R - hat, mu)) / size)


def onto_cones(z: Array, mu: Array) -> Array:
    """Projection of each row on its cone, written independently of the kernels."""
    t = np.hypot(z[:, 1], z[:, 2])
    along = (z[:, 0] + mu * t) / (1.0 + mu**2)
    out = np.stack(
        [along, mu * along * z[:, 1] / np.where(t > 0, t, 1), mu * along * z[:, 2] / np.where(t > 0, t, 1)], 1
    )
    out[mu * t <= -z[:, 0]] = 0.0
    inside = t <= mu * z[:, 0]
    out[inside] = z[inside]
    return out
