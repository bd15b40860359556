"""A surrogate of the log-likelihood itself: fitted to the runs of the design, for outputs too long or too many.

One number a run says all that the data say about it, so that nothing of the outputs needs a surrogate (Lebel et al.
2019, 10.1016/j.jsv.2019.06.024). The error model must be known, since the number depends on it. Enrichment
adds runs where the posterior of the surrogate lies.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from tamis.errors import TamisError, TamisWarning
from tamis.files import load_arrays, save_arrays
from tamis.inference.emulated import EmulatedLikelihood, fit_loglike, mct
from tamis.inference.posterior import Posterior
from tamis.results.records import Emulation, save_records
from tamis.study.context import Context, designed
from tamis.study.definition import Study
from tamis.study.layout import places
from tamis.study.stages.enrichment import Enriched, Round, Runs, enriched
from tamis.surrogates.kriging import Kriging
from tamis.types import Array, Event, Gauss

LABEL = "log-likelihood"
DUE = "share of the variance due to data"  # of the least known parameter: what enrichment raises
_FUNCTIONS, _DRAWS = 20, 80  # of a sketch of the posterior


def run_loglike(context: Context) -> None:
    """Fit, enrich if asked, and leave the surrogate of the log-likelihood with the record of its score."""
    study = context.study

    def one_round(runs: Runs, turn: int) -> Round[Kriging]:
        context.progress(Event("surrogate", 0, 1))
        model = _fit(context, runs, log_likelihoods(study, runs), turn)
        fitted = model.surrogate
        if study.tables.surrogate.enrich is None:
            return Round(fitted, fitted.u, fitted.y, [_q2(fitted)], "Q2")
        drawn = _sketch(context, model, turn)
        known = 1 - float(drawn.diagnostics["surrogate_share"].max())
        candidates = np.unique(study.model_space.to_unit(drawn.flat), axis=0)
        return Round(fitted, fitted.u, fitted.y, [known], DUE, lambda _: candidates)

    found = enriched(context, one_round)
    arrays = {**found.surrogate.arrays(), **_named(found.runs), "added": found.added}
    save_arrays(study.results / "surrogate.npz", arrays)
    save_records(study.results / "emulation.npz", [_record(study, found)])
    context.progress(Event("surrogate", 1, 1))


def _sketch(context: Context, model: EmulatedLikelihood, turn: int) -> Posterior:
    """Draw from the posteriors of some functions that the log-likelihood may be.

    They also lie where the predictor is low and nobody has looked, as a posterior of the predictor would not. The
    part of a parameter's variance between them is due to the surrogate; over the whole prior the log-likelihood falls
    by thousands, and a score there says nothing about its top.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TamisWarning)  # short chains, and nothing is concluded from them
        return mct(
            context.study.space,
            model,
            trajectories=_FUNCTIONS,
            draws=_DRAWS,
            rng=context.rng("surrogate", turn, 1),
        )


def _named(runs: Runs) -> dict[str, Any]:
    return {f"runs.{name}": value for name, value in runs.arrays().items()}


def log_likelihoods(study: Study, runs: Runs) -> Array:
    """Return the log-likelihood of all calibrated data at each run of the design; -inf where one failed."""
    total = np.zeros(len(runs.u))
    for series, experiment, columns in places(designed(study)):
        if series.use != "calibrate":
            continue
        answers = runs.y[:, columns]
        for observation, part in zip(experiment.observations, experiment.parts(), strict=True):
            mean = answers[:, part]
            y = np.atleast_2d(observation.y)
            total += observation.noise.loglike(y, Gauss(mean, np.zeros_like(mean)), {}, observation.coord)
    return np.where(np.isfinite(total), total, -np.inf)


def _fit(context: Context, runs: Runs, values: Array, turn: int) -> EmulatedLikelihood:
    table = context.study.tables.surrogate
    if not np.isfinite(values).any():
        raise TamisError(
            "the likelihood is zero at every run of the design; widen the errors or narrow the priors"
        )
    options: dict[str, Any] = {"kernel": table.kernel, "trend": table.trend}
    options = {name: value for name, value in options.items() if value is not None}
    if table.nugget is not None:
        options["nugget"] = float(table.nugget)
    with warnings.catch_warnings():
        if turn:  # said once
            warnings.simplefilter("ignore", TamisWarning)
        return fit_loglike(context.study.space, runs.u, values, **options, rng=context.rng("surrogate", turn))


def _record(study: Study, found: Enriched[Kriging]) -> Emulation:
    score = found.surrogate.score
    values = log_likelihoods(study, found.runs)
    rows = np.flatnonzero(np.isfinite(values))
    left_out = score.residuals[:, :1]
    return Emulation(
        series="all tests",
        label=LABEL,
        xlabel="",
        ylabel=LABEL,
        q2=_q2(found.surrogate),
        failed=len(values) - len(rows),
        worst=int(np.argmax(left_out[:, 0] ** 2)),
        method="kriging",
        x=np.zeros(1),
        points=study.model_space.from_unit(found.runs.u[rows]),
        simulated=values[rows, None],
        predicted=values[rows, None] - left_out,
        q2_points=np.array([_q2(found.surrogate)]),
        growth=found.growth[:, 0],
        judged=score.judged,
        measure="Q2" if study.tables.surrogate.enrich is None else DUE,
    )


def _q2(fitted: Kriging) -> float:
    """Return the score of runs left out, all over the prior; NaN where there are too few points to judge by."""
    return float(fitted.score.q2[0]) if fitted.score.judged else np.nan


def load_loglike(study: Study) -> EmulatedLikelihood:
    """Read the surrogate of the log-likelihood."""
    return EmulatedLikelihood(study.space, Kriging.of(load_arrays(study.results / "surrogate.npz")))
