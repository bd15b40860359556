"""From a posterior to the pictures of data and model.

Predictions of every series, and how the measurements sit in them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tamis.analysis.prediction import Predictive, predict_series
from tamis.analysis.variance import variance_split
from tamis.errors import TamisError
from tamis.experiment import Experiment, Observation
from tamis.files import load_arrays
from tamis.inference.likelihood import Forward, Likelihood, answers
from tamis.inference.posterior import Posterior
from tamis.noise import Known, Sum
from tamis.results.records import Panel, Source, load_records, save_records
from tamis.results.shapes import effective, worth_of
from tamis.study.context import Context, behind, load_posterior, load_surrogate
from tamis.study.definition import Study
from tamis.study.layout import Block, layout, size
from tamis.study.origins import best_points
from tamis.study.parts import IDLE, with_idle
from tamis.study.series import Series
from tamis.study.stages.table import applies
from tamis.types import Array, Event, Generator

QUICK, SLOW = 1000, 200  # draws where a batch interface or a surrogate answers, and where every draw is a run
_ENOUGH = 8  # measurements along an abscissa before an autocorrelation says anything


def run(context: Context) -> None:
    """Predict every test, calibrated or held out, and every condition nobody measured."""
    study = context.study
    posterior = load_posterior(study)
    if posterior is not None:
        posterior = with_idle(study, posterior, context.rng("prediction", IDLE))
    designed = applies(study.raw, "observables")
    observed = load_arrays(study.results / "observables.npz") if designed else {}
    model = load_surrogate(study)
    given = behind(study, model)
    panels = []
    index = 0
    for k, series in enumerate(study.series):
        if series.use == "next":
            continue
        context.progress(Event("prediction", k, len(study.series), {"series": series.name}))
        prior: list[Array] = []
        if series.designed and observed:
            prior = [observed[f"{index + i}.y"] for i in range(len(series.experiments))]
            index += len(series.experiments)
        rng = context.rng("prediction", k)
        terms = context.terms(series, model, vary=True)
        if study.chain is not None:
            assert posterior is not None
            panels += chain_panels(context, series, posterior, terms, rng)
        else:
            panels += series_panels(study, series, posterior, prior, terms, rng, given)
    context.progress(Event("prediction", len(study.series), len(study.series)))
    save_records(study.folder / "prediction.npz", panels)


def by_runs(study: Study, *uses: str) -> Iterator[tuple[Series, str]]:
    """Return the series of these uses for which every answer is a run, with the advice that there is."""
    there = study.tables.surrogate.method != "none"
    hint = "; emulate = true asks the surrogate instead" if there else ""
    for series in study.series:
        if series.use in uses and not (series.emulate or study.batched(series.experiments)):
            yield series, hint


def cost(study: Study, seconds: float, duration: Callable[[float], str]) -> Iterator[str]:
    """Say how many runs predictions ask for."""
    table, asked = study.chain, dict[str, str]()
    for series, hint in by_runs(study, "calibrate", "validate", "predict"):
        draws = series.draws or SLOW
        if table is not None:  # and the best point of each source
            draws = (table.draws + len(study.origins)) * table.replicates
            same = asked.setdefault(
                f"{series.where} {[e.conditions for e in series.experiments]}", series.name
            )
            if same != series.name:
                yield f"prediction of {series.name}: from the runs of {same}"
                continue
        n = draws * len(series.experiments)
        yield f"prediction of {series.name}: {n} runs, about {duration(n * seconds)} on one core{hint}"


def series_panels(
    study: Study,
    series: Series,
    posterior: Posterior | None,
    prior: Sequence[Array],
    terms: Sequence[tuple[Experiment, Forward]],
    rng: Generator,
    given: Likelihood | None = None,
) -> list[Panel]:
    """Predict one series and return a panel for each of its observations.

    ``prior`` holds the design's observables, ``terms`` the model that answers for each experiment, ``given`` the data
    that tell of errors of the surrogate.
    """
    draws = series_draws(study, series, posterior, rng)
    share, worth = 1.0, math.nan
    if posterior is not None:
        share, worth = _inside(series, posterior)[1], series_worth(study, series, posterior, len(draws))
    source = study.space if posterior is None else posterior
    predictive = predict_series(source, terms, n=len(draws), rng=rng, draws=draws, given=given)
    return [
        make_panel(
            predictive.part(block.columns.tolist(), block.x),
            share=share,
            worth=worth,
            **_words(series, j, block, prior),
        )
        for j, block in enumerate(layout([series], study.simulator))
    ]


def series_draws(study: Study, series: Series, posterior: Posterior | None, rng: Generator) -> Array:
    """Return the points (n, d) that a series is predicted at: draws of the posterior, or of the prior without data.

    All there are of draws from the posteriors of other studies.
    """
    quick = series.emulate or study.batched(series.experiments)
    n = series.draws or (QUICK if quick else SLOW)
    if posterior is None:
        return study.space.sample(n, rng)
    rows = _inside(series, posterior)[0]
    if study.chain is not None:
        return posterior.flat[rows]
    return np.asarray(posterior.flat[rng.choice(rows, size=min(n, len(rows)), replace=False)])


def series_worth(study: Study, series: Series, posterior: Posterior, n: int) -> float:
    """Return how many independent draws the n that a series is predicted at are worth."""
    rows, _, whole = _inside(series, posterior)
    return whole if study.chain is not None else worth_of(n, len(rows), whole)


def _inside(series: Series, posterior: Posterior) -> tuple[NDArray[np.intp], float, float]:
    """Return the draws there are for a prediction, their share of all, and how many independent ones they are worth."""
    inside = posterior.where(series.where or {})
    share = float(inside.mean())
    if not inside.any():
        raise TamisError(f"{series.name}: no posterior draw lies in {condition(series)}; widen `where`")
    return np.flatnonzero(inside), share, share * float(np.min(effective(posterior)))


def _words(series: Series, j: int, block: Block, prior: Sequence[Array]) -> dict[str, Any]:
    """Return what a panel shows besides the prediction: titles, measurements, what the prior allowed, the limit."""
    x = block.x
    order = np.argsort(series.values, kind="stable") if series.along else np.arange(len(x))
    observation = series.experiments[0].observations[j]
    same = [e.observations[j] for e in series.experiments]
    y = np.hstack([np.atleast_2d(o.y) for o in same])[:, order]
    y = y if np.isfinite(y).any() else np.empty((0, len(x)))
    before = np.hstack(prior)[:, block.columns] if prior else None
    return {
        "series": series.name,
        "label": block.label,
        "use": series.use,
        "synthetic": series.synthetic,
        "emulated": series.emulate,
        "xlabel": block.axis or block.xlabel,
        "ylabel": block.ylabel,
        "condition": condition(series),
        "y": y,
        "y_sd": _known_sd(same, len(x))[order] if len(y) else np.empty(0),
        "overlay": series.overlay[j] if series.overlay else np.empty((0, 3)),
        "prior": _prior_band(before, len(x)),
        "white": observation.noise.white,
        "signal": observation.coord is not None and len(same) == 1,
        "tests": tuple(e.name for e in series.experiments) if block.axis else (),
        "coord": np.asarray(observation.coord, dtype=float) if block.axis else np.empty(0),
        "names": tuple(getattr(observation.observable, "names", ())) if block.axis else (),
        "limit": series.limits[j] if series.limits else math.nan,
        "how": getattr(observation.observable, "how", ""),
    }


def chain_panels(
    context: Context,
    series: Series,
    posterior: Posterior,
    terms: Sequence[tuple[Experiment, Forward]],
    rng: Generator,
) -> list[Panel]:
    """Predict one series from draws of other studies' posteriors.

    All draws, each with as many seeds as asked for; beside them the best points of the posteriors, and where the
    variance comes from.
    """
    study, table = context.study, context.study.chain
    assert table is not None
    rows, share, worth = _inside(series, posterior)
    more = range(1, table.replicates)
    again = [[f for _, f in context.terms(series, None, vary=True, replicate=r)] for r in more]
    predictive = predict_series(posterior, terms, n=0, rng=rng, draws=posterior.flat[rows], again=again)
    names, best = _best(study, series, posterior, [[forward for _, forward in terms], *again])
    kept = rows[predictive.kept]
    source, each = (posterior.diagnostics[key] for key in ("source", "worth"))
    left = np.bincount(source[kept], minlength=len(each)) / np.maximum(
        np.bincount(source, minlength=len(each)), 1
    )
    panels = []
    for j, block in enumerate(layout([series], study.simulator)):
        mine = predictive.part(block.columns.tolist(), block.x)
        found = variance_split(
            mine.model.reshape(table.replicates, len(kept), -1),
            source[kept].astype(np.int64),
            stochastic=study.stochastic(series.experiments),
            rng=rng,
            worth=left * each,
        )
        beside: dict[str, Any] = {
            "best": best[:, block.columns],
            "best_of": names,
            "split": found.variance,
            "split_error": found.error,
            "share_error": found.share_error,
            "replicates": table.replicates,
        }
        panels.append(make_panel(mine, share=share, worth=worth, **_words(series, j, block, ()), **beside))
    return panels


def _best(
    study: Study, series: Series, posterior: Posterior, replicates: Sequence[Sequence[Forward]]
) -> tuple[tuple[str, ...], Array]:
    """Return the answers at the best points of the posteriors, averaged over seeds; none for a part of them."""
    names, points = best_points(study, load_records(study.folder / "sources.npz", Source))
    if series.where:
        names, points = (), points[:0]
    m = sum(size(e.observations) for e in series.experiments)
    if not names:
        return (), np.empty((0, m))
    every = answers(posterior.space, [forward for each in replicates for forward in each], points)
    k = len(series.experiments)
    runs = [np.hstack([found.mean for found in every[i * k : (i + 1) * k]]) for i in range(len(replicates))]
    return names, np.mean(runs, axis=0)


def make_panel(
    predictive: Predictive,
    *,
    y: Array,
    white: bool,
    signal: bool,
    prior: Array,
    limit: float,
    how: str = "",
    worth: float = math.nan,
    **words: Any,
) -> Panel:
    """Fill a panel from a prediction and the measurements on its abscissa."""
    coord = predictive.coord
    assert coord is not None
    residual = np.empty(0)
    correlation, white_limit = np.empty(0), math.nan
    with np.errstate(invalid="ignore", divide="ignore"):
        if len(y):
            measured = np.isfinite(y)
            average = np.where(measured, y, 0.0).sum(axis=0) / measured.sum(
                axis=0
            )  # NaN where all are missing
            residual = (average - predictive.mean) / predictive.sd_total
    there = np.isfinite(residual)
    if signal and there.sum() >= _ENOUGH:
        correlation = autocorrelation(residual[there])
        # where parameters leave more open than errors do, residuals tell of them and not of the errors
        told = white and np.median(predictive.sd_model**2) < np.median(predictive.error_var.mean(axis=0))
        white_limit = (
            2.576 / math.sqrt(there.sum()) if told else math.nan
        )  # 99 % of white sequences stay inside
    beyond, error = _exceedance(predictive, limit, how == "min", worth)
    return Panel(
        x=coord,
        y=y,
        prior=prior,
        failed=predictive.failed,
        coverage=predictive.coverage(y) if len(y) else math.nan,
        white_limit=white_limit,
        model=predictive.model,
        draws=predictive.draws,
        error_var=predictive.error_var,
        mean=predictive.mean,
        sd_model=predictive.sd_model,
        sd_total=predictive.sd_total,
        model_band=predictive.quantile((0.05, 0.95), total=False),
        total_band=predictive.quantile((0.05, 0.95)),
        residual=residual,
        autocorrelation=correlation,
        limit=limit,
        exceedance=beyond,
        exceedance_error=error,
        bias=np.atleast_2d(predictive.bias),
        how=how,
        effective=worth,
        **words,
    )


def _exceedance(predictive: Predictive, limit: float, below: bool, worth: float) -> tuple[Array, Array]:
    """Return the probabilities of passing a limit, (2, m), of the model and in total, and their standard errors."""
    if not math.isfinite(limit):
        return np.empty((0, predictive.model.shape[1])), np.empty((0, predictive.model.shape[1]))
    above = np.array([predictive.exceedance(limit, total=total) for total in (False, True)])
    error = np.array([predictive.exceedance_error(limit, total=total) for total in (False, True)])
    n = len(predictive.model)
    worth = n if math.isnan(worth) else min(max(worth, 1.0), n)
    return 1 - above if below else above, error * math.sqrt(n / worth)


def autocorrelation(residual: Array) -> Array:
    """Autocorrelation of a sequence, up to a quarter of its length, starting with 1 at lag 0."""
    centred = residual - residual.mean()
    lags = min(len(residual) // 4, 40)
    full = np.correlate(centred, centred, mode="full")[len(centred) - 1 :]
    return np.asarray(full[: lags + 1] / full[0]) if full[0] > 0 else np.ones(1)


def condition(series: Series) -> str:
    """Say in words which part of the posterior a prediction is made from."""
    return " and ".join(
        f"{name} between {low:g} and {high:g}" for name, (low, high) in (series.where or {}).items()
    )


def _known_sd(observations: Sequence[Observation], m: int) -> Array:
    """Return the measurements' own standard deviations where the file gives them."""
    found = []
    for observation in observations:
        parts = observation.noise.parts if isinstance(observation.noise, Sum) else (observation.noise,)
        known = next((part for part in parts if isinstance(part, Known)), None)
        found.append(
            np.broadcast_to(
                np.nan if known is None else np.asarray(known.sd, dtype=float), (observation.size,)
            )
        )
    return np.concatenate(found)


def _prior_band(before: Array | None, m: int) -> Array:
    if before is None:
        return np.empty((0, m))
    good = before[np.isfinite(before).all(axis=1)]
    return np.quantile(good, (0.05, 0.5, 0.95), axis=0) if len(good) else np.empty((0, m))
