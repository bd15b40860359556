"""Control modes of a rig with more actuators than rigid motions: what is driven in displacement, what in force.

Actuator displacements y = C y_c + D y_d are rigid motions y_c of the loading frame and deformations y_d of it (Plummer
2010, Control Engineering Practice 18, 598). Driving the rigid ones in displacement and the others in force keeps
actuators from working against each other::

    P = (C^T C)^-1 C^T,  y_c = P y            A.14, A.21
    P D = 0,  Q = D^T,   f_d = Q f            A.15, A.19, A.26
    u = C u_c + D u_d                         A.27: the velocities that valves are told

D comes from the reduced row echelon form of P, so that its entries are ratios a person would have written.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tamis.errors import StudyError
from tamis.types import Array

_FIRM = 0.1  # a column is a pivot if it has this much of the largest entry that is left


class Modes(NamedTuple):
    """Transformations of a rig: rigid displacements P y, deforming motions D, internal forces Q f."""

    P: Array
    D: Array
    Q: Array


def modes(C: Array) -> Modes:
    """Return P, D and Q of a rig from C (actuators, rigid motions): what each rigid motion moves each actuator by."""
    c = np.asarray(C, dtype=float)
    if c.ndim != 2 or not np.isfinite(c).all() or not 1 <= c.shape[1] <= c.shape[0]:
        raise StudyError(
            f"modes: expected C (actuators, rigid motions) with at least as many actuators, found shape {c.shape}"
        )
    rank = int(np.linalg.matrix_rank(c))
    if rank < c.shape[1]:
        raise StudyError(
            f"modes: {c.shape[1]} rigid motions, but the actuators only see {rank} of them apart (rank of C): leave "
            "out what no actuator can tell, or move an actuator"
        )
    p = np.linalg.solve(c.T @ c, c.T)  # A.21
    for _ in range(2):
        p = (
            p + (np.eye(rank) - p @ c) @ p
        )  # the normal equations square the condition; this takes the loss back
    d = null_basis(p)
    return Modes(p, d, d.T.copy())


def null_basis(p: Array) -> Array:
    """Return a basis of the null space in which each vector has a one where all others have zeros."""
    rows, columns = p.shape
    reduced = p.copy()
    pivots: list[int] = []
    for row in range(rows):
        left = np.abs(reduced[row:])
        left[:, pivots] = 0.0
        column = int(np.flatnonzero(left.max(axis=0) >= _FIRM * left.max())[0])
        best = row + int(np.argmax(left[:, column]))
        reduced[[row, best]] = reduced[[best, row]]
        reduced[row] /= reduced[row, column]
        others = np.arange(rows) != row
        reduced[others] -= np.outer(reduced[others, column], reduced[row])
        pivots.append(column)
    free = [i for i in range(columns) if i not in pivots]
    basis = np.zeros((columns, len(free)))
    basis[free, np.arange(len(free))] = 1.0
    basis[pivots] = -reduced[:, free]
    return basis
