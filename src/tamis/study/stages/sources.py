"""Draws from the posteriors of other studies, in proportion to their evidences or equally many of each.

Posterior samples have equal weights already. Hadjidoukas et al. (2014, 10.1016/j.cma.2014.07.017, 5.2 and 5.3) draw
them again in proportion to their posterior density, which targets the posterior squared: for a Gaussian, half of the
variance. ``reweight = "posterior"`` does that, for whoever wants their figures; moments before and after are kept for
the report, which objects.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tamis.analysis.prediction import shared_out
from tamis.errors import StudyError
from tamis.inference.compare import model_probabilities
from tamis.inference.posterior import Posterior
from tamis.results.gather import load_emulations
from tamis.results.records import Source, save_records
from tamis.results.shapes import effective, worth_of
from tamis.results.study import load_study
from tamis.results.worries import worries
from tamis.study.build import build
from tamis.study.context import Context
from tamis.study.definition import Origin, Study
from tamis.study.origins import FEWEST
from tamis.study.stages.table import applies, posterior_content
from tamis.study.weighing import same_measurements
from tamis.types import Array, Generator


def run(context: Context) -> None:
    """Leave one record for each study that is drawn from."""
    study = context.study
    table = study.chain
    assert table is not None
    posteriors = [
        Posterior.load(origin.study.folder / "posterior.npz", origin.study.space) for origin in study.origins
    ]
    weights = _weights(study, posteriors)
    counts = _counts(weights, table.draws)
    records = []
    for k, (origin, posterior) in enumerate(zip(study.origins, posteriors, strict=True)):
        rng = context.rng("sources", k)
        p = _density(posterior) if table.reweight == "posterior" else None
        n = len(posterior.flat)
        replaced = p is not None or counts[k] > n
        rows = _rows(rng, n, int(counts[k]), p)
        whole = min(float(np.min(effective(posterior))), float(n))
        if p is not None:
            whole /= n * float(p @ p)
        records.append(
            Source(
                name=origin.name,
                file=table.studies[k],
                weight=float(weights[k]),
                log_evidence=posterior.log_evidence or (math.nan, math.nan),
                reweighted=p is not None,
                names=posterior.space.names,
                units=tuple(parameter.unit for parameter in posterior.space.parameters),
                worries=_serious(origin, posterior),
                content=posterior_content(origin.study.raw),
                effective=whole,
                worth=worth_of(int(counts[k]), n, whole, replaced=replaced),
                x=posterior.flat[rows],
                log_likelihood=posterior.log_likelihood.ravel()[rows],
                log_prior=posterior.log_prior.ravel()[rows],
                best=posterior.best(),
                moments=_moments(posterior.flat, None),
                drawn_moments=_moments(posterior.flat, p),
            )
        )
    save_records(study.folder / "sources.npz", records)


def _rows(rng: Generator, n: int, count: int, p: Array | None) -> NDArray[np.intp]:
    """Choose draws, without replacement where there are enough; more draws begin with those of fewer.

    Their runs are then in the store already.
    """
    if p is None and count <= n:
        return rng.permutation(n)[:count]
    return rng.choice(n, size=count, p=p)


def _weights(study: Study, posteriors: Sequence[Posterior]) -> Array:
    """Return the share of each source."""
    table = study.chain
    assert table is not None
    k = len(posteriors)
    if table.weights == "equal" or k == 1:
        return np.full(k, 1 / k)
    evidence = []
    for origin, posterior in zip(study.origins, posteriors, strict=True):
        if posterior.log_evidence is None:
            method = origin.study.settings.sampler.method
            raise StudyError(
                f'{study.path.name}: parameters.weights: {origin.name} is sampled by "{method}", which gives no '
                'evidence; sample it by "tmcmc", or set weights = "equal"'
            )
        evidence.append(posterior.log_evidence[0])
    try:
        sampled = [build(origin.study.raw) for origin in study.origins]
        same_measurements(sampled, [origin.name for origin in study.origins])
    except StudyError as error:
        raise StudyError(
            f'{study.path.name}: parameters.weights: {error}; or set weights = "equal"'
        ) from error
    return model_probabilities(np.array(evidence))


def _counts(weights: Array, draws: int) -> NDArray[np.int64]:
    """Share out the draws; a source that would get fewer than two gets none, for one has no variance."""
    counts = shared_out(weights, draws)
    while ((counts > 0) & (counts < FEWEST)).any():
        weights = np.where(counts >= FEWEST, weights, 0.0)
        counts = shared_out(weights, draws)
    return counts


def _density(posterior: Posterior) -> Array:
    """Return the posterior density of every sample, over their sum."""
    logs = (posterior.log_likelihood + posterior.log_prior).ravel()
    p = np.exp(logs - logs.max())
    return np.asarray(p / p.sum())


def _moments(x: Array, p: Array | None) -> Array:
    mean = np.average(x, axis=0, weights=p)
    return np.stack([mean, np.sqrt(np.average((x - mean) ** 2, axis=0, weights=p))])


def _serious(origin: Origin, posterior: Posterior) -> tuple[tuple[str, bool, bool], ...]:
    """Return what is seriously to be objected to a posterior, and to the surrogate it stands on."""
    study = origin.study
    emulations = None
    if applies(study.raw, "surrogate"):
        emulations = load_emulations(study.results, load_study(study.results))
    found = worries(None, (), (), emulations, posterior, None, None, (), study.model_space.names)
    return tuple((worry.text, worry.serious, worry.unsound) for worry in found if worry.serious)
