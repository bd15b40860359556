"""What to do about a surrogate that is too poor: what will work, from what was timed and how its score grew.

A simulator with a batch interface may be cheap enough to be sampled itself, and then no surrogate is needed: a few
batches are timed. One without may be too, by the seconds that the runs of the design took. Else more runs help where
the rounds of an enrichment show that they do; a surrogate that is no better than the mean after all its runs is asked
for something that no surrogate of so many runs can follow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tamis.errors import SurrogateError, TamisError
from tamis.files import load_arrays
from tamis.quantities import duration
from tamis.results.records import Emulation
from tamis.results.verdict import points, rank
from tamis.runs.store import RunStore
from tamis.study.definition import CALLS_A_POINT, Sampler, Study
from tamis.study.stages.posterior import FIRST_TIMED, MOST_STORED, likelihood_seconds
from tamis.study.stages.prediction import QUICK, SLOW
from tamis.surrogates.base import POINTS_PER_INPUT

_AFFORDABLE = 4 * 3600.0  # seconds of one core for sampling the simulator itself
_FEWEST_DRAWS = 400  # of a sample that is worth having
_BESIDE = 4e-3  # seconds that a run costs beside itself: handed to a worker, recorded, weighed
_PATIENCE = 10.0  # seconds that a first small batch may take before it is not timed at all
_FOLD = 20  # times the runs of now, beyond which a growth is not to be relied on
_HALF = 0.5  # of the variance explained, below which another method helps as little as more runs


def check_good_enough(study: Study, records: Sequence[Emulation], help: str) -> None:
    """Stop where the surrogate may not stand in for the simulator, saying what will help."""
    poor = sorted((record for record in records if record.poor), key=rank)
    if not poor:
        return
    worst, table = poor[0], study.tables.surrogate
    more = f" and {len(poor) - 5} more" if len(poor) > 5 else ""
    if not worst.judged:
        listed = ", ".join(f"{r.series} {r.label}" for r in poor[:5])
        fault = f"the surrogate of {listed}{more} cannot be judged"
    else:
        listed = ", ".join(f"{r.series} {r.label} {r.q2:.3f}" for r in poor[:5])
        at = ", ".join(
            f"{name} = {value:.4g}"
            for name, value in zip(study.model_space.names, worst.points[worst.worst], strict=True)
        )
        head = (
            "the surrogate is no better than the mean of the runs"
            if worst.q2 <= 0
            else "the surrogate is too poor"
        )
        fault = f"{head}: Q2 of {listed}{more}, below min_q2 = {table.min_q2:g}; worst at {at}"
    text = f"{fault}. {help} Go on all the same with --force; the report shows where it errs"
    raise SurrogateError(text)


def remedy(study: Study, records: Sequence[Emulation]) -> str:
    """Say what will help, in a sentence or two; nothing where no surrogate is poor."""
    poor = sorted((record for record in records if record.poor), key=rank)
    if not poor:
        return ""
    worst, table = poor[0], study.tables.surrogate
    n, d = points(worst), study.model_space.dim
    said = []
    if not worst.judged:
        said.append(f"{d} parameters need at least {POINTS_PER_INPUT * d} runs ([design] n); there are {n}.")
    direct = _direct(study)
    if direct:
        return " ".join([*said, direct])
    if not worst.judged:
        return said[0]
    where = "enrich.budget" if table.enrich else "[design] n"
    needed = _needed(worst, float(table.min_q2))
    if needed is not None:
        return f"Its score grew with the runs: about {needed} of them ({where}) would reach {table.min_q2:g}."
    if worst.q2 >= _HALF:
        other = "pce" if table.method == "kriging" else "kriging"
        other = 'target = "observables"' if table.target == "loglike" else f'method = "{other}"'
        return f"Give it twice the {n} runs of now ({where}), or try {other}."
    smoother = "observe something smoother (a peak, an envelope, a spectrum), " if len(worst.x) > 1 else ""
    text = f"More runs alone will hardly help: {smoother}narrow the priors, or hold parameters that matter little"
    return f"{text} ([model] inputs)."


def _needed(record: Emulation, wanted: float) -> int | None:
    """Return how many runs the growth of the score asks for: what is missing to 1 falls as a power of them."""
    if record.measure != "Q2":
        return None
    n, q2 = record.growth[np.isfinite(record.growth[:, 1]) & (record.growth[:, 1] > 0)].T
    if len(n) < 2 or q2[-1] >= 1:
        return None
    rate = float(np.polyfit(np.log(n), np.log1p(-q2), 1)[0])
    if rate >= 0:
        return None
    needed = n[-1] * math.exp(math.log((1 - wanted) / (1 - q2[-1])) / rate)
    return int(round(needed, 1 - int(math.log10(needed)))) if needed < _FOLD * n[-1] else None


def _direct(study: Study) -> str:
    """Say what it takes to ask the simulator itself, where that can be afforded."""
    tests = study.calibrated
    if not tests:
        return _direct_predictions(study)
    sampler = study.settings.sampler
    calls = Sampler("tmcmc").calls if sampler.method == "mct" else sampler.calls
    each = _run_seconds(study)
    if study.batched(tests):
        if each * len(tests) * FIRST_TIMED > _PATIENCE:
            return ""
        try:
            seconds = calls * likelihood_seconds(study)
        except TamisError:
            return ""
        how = f"by its batch interface takes about {duration(seconds)}"
    else:
        runs, fewer = calls * len(tests), ""
        most = min(MOST_STORED, _AFFORDABLE / each)
        if runs > most and sampler.method != "metropolis":
            n = int(most // (CALLS_A_POINT * len(tests))) // 100 * 100
            if n < _FEWEST_DRAWS:
                return ""
            runs, fewer = CALLS_A_POINT * n * len(tests), f", with [inference] n = {n}"
        seconds = runs * each
        if runs > MOST_STORED:
            return ""
        how = f"takes about {duration(seconds)} on one core ({runs:,} runs{fewer})"
    return f"Leave [surrogate] out: sampling the simulator itself {how}." if seconds <= _AFFORDABLE else ""


def _direct_predictions(study: Study) -> str:
    """Say the same where the surrogate answers predictions only."""
    asked = [s for s in study.series if s.emulate]
    quick = study.batched(e for s in asked for e in s.experiments)
    runs = sum((s.draws or (QUICK if quick else SLOW)) * len(s.experiments) for s in asked)
    seconds = runs * _run_seconds(study)
    if not asked or not seconds <= _AFFORDABLE:
        return ""
    text = f"Leave [surrogate] and emulate out: predicting by the simulator itself takes about {duration(seconds)}"
    return f"{text}{' at most' if quick else ' on one core'} ({runs:,} runs)."


def _run_seconds(study: Study) -> float:
    """Return the median time of the runs of the design, with what each costs beside; infinite where none is known."""
    path = study.results / "runs.npz"
    if not path.is_file():
        return math.inf
    keys = [str(key) for key in load_arrays(path)["keys"].ravel()[:200]]
    with RunStore(study.runs) as store:
        known = [run.seconds for run in store.get_many(keys).values() if math.isfinite(run.seconds)]
    return float(np.median(known)) + _BESIDE if known else math.inf
