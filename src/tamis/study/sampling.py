"""The posterior of a study, sampled by the method it names, of the likelihood it has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tamis.errors import StudyError
from tamis.files import save_arrays
from tamis.inference.emulated import EmulatedLikelihood, mct
from tamis.inference.likelihood import Likelihood
from tamis.inference.metropolis import metropolis
from tamis.inference.mode import polish
from tamis.inference.posterior import Posterior
from tamis.inference.tmcmc import tmcmc
from tamis.runs.keys import read_keys
from tamis.simulation import batched
from tamis.study.context import Context
from tamis.study.definition import Study
from tamis.study.emulation import calibrated, load_surrogate, terms
from tamis.study.loglike import load_loglike
from tamis.study.reader import applies, emulates_loglike

MOST_STORED = 100_000  # runs that sampling a simulator without a batch door may leave in the store


def stored_runs(study: Study) -> int | None:
    """Return about how many runs sampling will store; None where a surrogate or a batch door answers instead."""
    if applies(study.raw, "surrogate"):
        return None
    tests = [e for s in study.series if s.use == "calibrate" for e in s.experiments]
    needs = {name for e in tests for name in study.forward(e).needs}
    return None if batched(study.simulator, needs) else study.settings.sampler.calls * len(tests)


def check_affordable(study: Study) -> None:
    """Refuse to fill a disk by sampling a simulator without a batch door."""
    runs = stored_runs(study)
    if runs is not None and runs > MOST_STORED:
        keys = "n" if study.settings.sampler.method == "tmcmc" else "chains or draws"
        raise StudyError(
            f"sampling {study.simulator.name} directly would store about {runs:,} runs, more than {MOST_STORED:,}; "
            f"use a surrogate ([surrogate] method), give it a batch door (@simulator.batch) or lower [inference] {keys}"
        )


def run_posterior(context: Context) -> None:
    """Sample the posterior; interrupted, it goes on from its checkpoint."""
    study = context.study
    check_affordable(study)
    study.folder.mkdir(parents=True, exist_ok=True)
    asked = _passing(study, "sampled", context.hashes["posterior"], ".txt")
    checkpoint = _passing(study, "checkpoint", context.hashes["posterior"], ".npz")
    likelihood = _likelihood(context, asked)
    posterior = _sample(context, likelihood, checkpoint)
    if stored_runs(study) is None:
        posterior = _with_mode(posterior, likelihood)
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


def _likelihood(context: Context, asked: Path) -> Likelihood | EmulatedLikelihood:
    study = context.study
    if emulates_loglike(study.raw):
        return load_loglike(study)
    whole = load_surrogate(study)
    model = None if whole is None else whole.only(calibrated(study))
    tests = [series for series in study.series if series.use == "calibrate"]
    found = [term for series in tests for term in terms(context, series, model, record=asked)]
    return Likelihood(study.space, tuple(found))


def _sample(context: Context, likelihood: Likelihood | EmulatedLikelihood, checkpoint: Path) -> Posterior:
    study, sampler = context.study, context.study.settings.sampler
    common: Any = {"rng": context.rng("posterior"), "checkpoint": checkpoint, "progress": context.progress}
    if sampler.method == "tmcmc":
        return tmcmc(study.space, likelihood, n=sampler.n, sweeps=sampler.sweeps, **common)
    if sampler.method == "metropolis":
        if stored_runs(study) is not None:  # where every point is a run, no more are made than were asked for
            common["extend"] = 1
        return metropolis(study.space, likelihood, chains=sampler.chains, draws=sampler.draws, **common)
    assert isinstance(likelihood, EmulatedLikelihood)
    sizes: Any = {"trajectories": sampler.trajectories, "draws": sampler.draws}
    return mct(study.space, likelihood, **sizes, **common)


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
