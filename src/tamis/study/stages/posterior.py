"""The posterior of a study, sampled by the method it names, of the likelihood it has."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from tamis.design import sobol
from tamis.errors import StudyError
from tamis.files import save_arrays
from tamis.inference.emulated import EmulatedLikelihood, mct
from tamis.inference.likelihood import Likelihood, Simulated
from tamis.inference.metropolis import metropolis
from tamis.inference.mode import polish
from tamis.inference.posterior import Posterior
from tamis.inference.tmcmc import tmcmc
from tamis.runs.keys import read_keys
from tamis.study.context import Context, load_surrogate
from tamis.study.definition import Study
from tamis.study.parts import parts
from tamis.study.reader import emulates_loglike, emulates_observables
from tamis.study.stages.enrichment import load_runs
from tamis.study.stages.loglike import load_loglike
from tamis.study.stages.surrogate import calibrated, log_success, success
from tamis.study.stages.table import applies
from tamis.surrogates.success import Success
from tamis.types import Array

FIRST_TIMED, MOST_TIMED = 4, 1024  # points of the first batch timed and of the last
_TIMED = 0.2  # seconds of a batch from which its time is that of its points
_MAPPED, _SIDE, _AVERAGED = 4, 21, 16  # inputs of a map of success, points a side, points averaged over
MOST_STORED = 100_000  # runs that sampling a simulator without a batch interface may leave in the store


def stored_runs(study: Study) -> int | None:
    """Return about how many runs sampling will store; None where a surrogate or the batch interface answers instead."""
    if applies(study.raw, "surrogate"):
        return None
    tests = study.calibrated
    return None if study.batched(tests) else study.settings.sampler.calls * len(tests)


def check_affordable(study: Study) -> None:
    """Refuse to fill a disk by sampling a simulator without a batch interface."""
    runs = stored_runs(study)
    if runs is not None and runs > MOST_STORED:
        keys = "n" if study.settings.sampler.method == "tmcmc" else "chains or draws"
        raise StudyError(
            f"sampling {study.simulator.name} directly would store about {runs:,} runs, more than {MOST_STORED:,}; "
            f"use a surrogate ([surrogate] method), give it a batch (@simulator.batch) or lower [inference] {keys}"
        )


def likelihood_seconds(study: Study) -> float:
    """Time the likelihood of a point by the simulator's batch interface, in batches that grow until they last."""
    likelihood = Likelihood(study.space, tuple((e, Simulated(study.query(e))) for e in study.calibrated))
    x = study.space.sample(MOST_TIMED, np.random.default_rng(0))
    rows = FIRST_TIMED
    likelihood(x[:rows])
    while True:
        start = time.perf_counter()
        likelihood(x[:rows])
        spent = time.perf_counter() - start
        if spent > _TIMED or rows >= len(x):
            return spent / rows
        rows *= 4


def cost(study: Study, seconds: float, duration: Callable[[float], str]) -> Iterator[str]:
    """Say how many runs or likelihoods sampling takes, and how long."""
    sampler, each_part = study.settings.sampler, parts(study)
    split = len(each_part) > 1
    for_each = f", for each of {len(each_part)} parts of the data" if split else ""
    stores = [stored_runs(part) for part in each_part]
    if applies(study.raw, "surrogate"):
        table = study.tables.surrogate
        what = f"a surrogate ({table.method})" + (
            " of the log-likelihood" if table.target == "loglike" else ""
        )
        yield f"posterior: {sampler.described} of {what}, which needs no runs{for_each}"
    elif None not in stores:
        for part in each_part:
            check_affordable(part)
        most = sum(n for n in stores if n is not None)
        in_all = f", for all {len(each_part)} parts of the data together" if split else ""
        yield (
            f"posterior: about {most // 2:,} to {most:,} runs, every one stored: "
            f"{duration(most // 2 * seconds)} to {duration(most * seconds)} on one core{in_all}"
        )
    else:
        calls, each = sampler.calls, likelihood_seconds(study)
        yield (
            f"posterior: {sampler.described}, about {calls:,} likelihoods of {duration(each)}: "
            f"{duration(calls * each)}{for_each}"
        )


def run(context: Context) -> None:
    """Sample the posterior; interrupted, it goes on from its checkpoint."""
    study = context.study
    check_affordable(study)
    study.folder.mkdir(parents=True, exist_ok=True)
    asked = _passing(study, "sampled", context.hashes["posterior"], ".txt")
    checkpoint = _passing(study, "checkpoint", context.hashes["posterior"], ".npz")
    weighed = _success(study)
    likelihood = _likelihood(context, asked, weighed)
    sample, rng = _sampler(study), context.rng("posterior")
    posterior = sample(study.space, likelihood, rng=rng, checkpoint=checkpoint, progress=context.progress)
    if stored_runs(study) is None:
        posterior = _with_mode(posterior, likelihood)
    if weighed is not None:
        posterior = replace(posterior, diagnostics={**posterior.diagnostics, **_failure_maps(study, weighed)})
    (study.folder / "sampled.npz").unlink(missing_ok=True)
    if asked.exists():
        save_arrays(study.folder / "sampled.npz", {"keys": np.array(read_keys(asked))})
    posterior.save(study.folder / "posterior.npz")
    asked.unlink(missing_ok=True)
    checkpoint.unlink(missing_ok=True)


def _passing(study: Study, name: str, key: str, suffix: str) -> Path:
    """Return a file that lasts while sampling does, named by what is sampled; remove those of other problems."""
    mine = study.folder / f"{name}-{key[:12]}{suffix}"
    for stale in set(study.folder.glob(f"{name}-*{suffix}")) - {mine}:
        stale.unlink()
    return mine


def _success(study: Study) -> Success | None:
    """Return how probable it is that runs succeed, where a surrogate answers for them and some failed."""
    there = applies(study.raw, "surrogate") and emulates_observables(study.raw)
    return success(study, load_runs(study)) if there else None


def _failure_maps(study: Study, weighed: Success) -> dict[str, Array]:
    """Return the probability of success over pairs of the first inputs, averaged over the others, for the report.

    ``success_map`` is (pairs, g, g), ``success_at`` (inputs, g) the values along the sides; a single input is
    paired with itself.
    """
    space, side = study.model_space, (np.arange(_SIDE) + 0.5) / _SIDE
    pairs = list(combinations(range(min(space.dim, _MAPPED)), 2)) or [(0, 0)]
    at = np.array([np.asarray(p.prior.ppf(side)) for p in space.parameters[:_MAPPED]])
    others = space.from_unit(sobol(_AVERAGED, space.dim, np.random.default_rng(0)))
    maps = []
    for i, j in pairs:
        x = np.tile(others, (_SIDE * _SIDE, 1))
        x[:, i], x[:, j] = (np.repeat(v, _AVERAGED) for v in (np.repeat(at[i], _SIDE), np.tile(at[j], _SIDE)))
        maps.append(weighed.predict(space.to_unit(x)).reshape(_SIDE, _SIDE, _AVERAGED).mean(axis=2))
    return {"success_map": np.array(maps), "success_at": at}


def _likelihood(context: Context, asked: Path, weighed: Success | None) -> Likelihood | EmulatedLikelihood:
    study = context.study
    if emulates_loglike(study.raw):
        return load_loglike(study)
    whole = load_surrogate(study)
    model = None if whole is None else whole.subset(calibrated(study))
    tests = [series for series in study.series if series.use == "calibrate"]
    found = [term for series in tests for term in context.terms(series, model, record=asked)]
    return Likelihood(study.space, tuple(found), None if weighed is None else log_success(study, weighed))


def _sampler(study: Study) -> Callable[..., Posterior]:
    """Return the sampler that the study names, with its numbers."""
    sampler = study.settings.sampler
    if sampler.method == "tmcmc":
        return partial(tmcmc, n=sampler.n, sweeps=sampler.sweeps)
    if sampler.method == "metropolis":
        # where every point is a run, no more are made than were asked for
        extend: Any = {} if stored_runs(study) is None else {"extend": 1}
        return partial(metropolis, chains=sampler.chains, draws=sampler.draws, **extend)
    return partial(mct, trajectories=sampler.trajectories, draws=sampler.draws)


def _with_mode(posterior: Posterior, likelihood: Likelihood | EmulatedLikelihood) -> Posterior:
    """Climb from the best draw to the top of the posterior.

    A draw of a trajectory carries that trajectory's height, which says nothing of the predictor that is climbed.
    """
    start = posterior.best()
    if isinstance(likelihood, EmulatedLikelihood):
        start = posterior.flat[int(np.argmax(likelihood(posterior.flat) + posterior.log_prior.ravel()))]
    mode, height = polish(posterior.space, likelihood, start)
    found = {**posterior.diagnostics, "mode": mode, "mode_log_density": np.array(height)}
    return replace(posterior, diagnostics=found)
