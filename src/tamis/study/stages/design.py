"""The points at which the simulator is run to see what the prior implies."""

from __future__ import annotations

from typing import Any

import numpy as np

from tamis.design import design
from tamis.errors import StudyError
from tamis.files import save_arrays
from tamis.runs.campaign import points
from tamis.study.context import Context
from tamis.study.definition import Fidelity, Study
from tamis.study.stages.table import STAGES
from tamis.types import Array, Inputs


def run(context: Context) -> None:
    """Choose the points at which the simulator is run to see what the prior implies."""
    study = context.study
    space = study.model_space
    if space.dim == 0:
        raise StudyError(f"{study.path.name}: parameters: none of them is an input of {study.simulator.name}")
    u = _unit_points(study)
    save_arrays(
        study.results / "design.npz", {"names": np.array(space.names), "u": u, "x": space.from_unit(u)}
    )


def _unit_points(study: Study) -> Array:
    rng = np.random.default_rng([study.seed, STAGES["design"].number])
    return design(study.tables.design.method, study.tables.design.n, study.model_space.dim, rng)


def design_inputs(study: Study) -> list[Inputs]:
    """Return the inputs of every run of the campaign, test by test."""
    u = _unit_points(study)
    return [point for i in range(len(study.experiments)) for point in design_points(study, u, i)]


def cheap_points(study: Study) -> Array:
    """Return the points of the cheapest level, (n, d): those of the design come first, and of any level in between.

    Sequences go on; other designs are filled up by a Latin hypercube.
    """
    u, n = _unit_points(study), max(level.n for level in study.cheap)
    rng = np.random.default_rng([study.seed, STAGES["design"].number])
    longer = design(study.tables.design.method, n, study.model_space.dim, rng)
    if np.array_equal(longer[: len(u)], u):
        return longer
    more = design(
        "lhs", n - len(u), study.model_space.dim, np.random.default_rng([study.seed, STAGES["cheap"].number])
    )
    return np.vstack([u, more])


def level_inputs(study: Study, level: Fidelity, u: Array) -> list[Inputs]:
    """Return the inputs of every run of a cheaper simulator at points of the unit cube, test by test."""
    options: Any = {"replicates": study.tables.design.replicates, "seed": study.seed}
    tests = [e for s in level.series for e in s.experiments]
    mine: Any = {"simulator": level.simulator, "fixed": level.fixed}
    return [point for e in tests for point in points(study.model_space, u, e, **mine, **options)]


def design_points(study: Study, u: Array, i: int) -> list[Inputs]:
    """Return the inputs of experiment i at points of the unit cube, replicates included."""
    return points(
        study.model_space,
        u,
        study.experiments[i],
        simulator=study.simulator,
        fixed=study.fixed,
        replicates=study.tables.design.replicates,
        seed=study.seed,
    )
