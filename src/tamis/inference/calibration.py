"""Whether a sampler draws from the posterior it was asked for: simulation-based calibration, and a battery of checks.

Why simulation: a posterior that can be computed exactly is Gaussian or has two dimensions, and a sampler that is right
there may still be wrong elsewhere. But any model gives a test of its own. Draw parameters from the prior, simulate
measurements with them, sample the posterior given those: the first parameters are then one more draw of that posterior,
so that their rank among L independent draws is uniform on 0 to L (Talts, Betancourt, Simpson, Vehtari & Gelman 2018,
arXiv 1804.06788). Ranks heaped in the middle mean posteriors too wide, at both ends too narrow, at one end shifted.

Parameters alone would not do: a sampler that ignores the measurements and returns the prior passes with them. The
log-likelihood of the measurements, one more quantity to rank, sees that (Modrak, Moon, Kim, Buerkner, Huurre,
Faltejskova, Gelman & Vehtari 2023, 10.1214/23-BA1404).

`check_sampler` is the battery that every sampler, ours or a user's, must pass: what the rest of tamis relies on.
"""

from __future__ import annotations

import math
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
from scipy.special import chdtrc

from tamis.errors import StudyError, TamisWarning
from tamis.inference import diagnostics, scores
from tamis.inference.posterior import Posterior
from tamis.marginals import Marginal, normal, uniform
from tamis.space import Parameter, Space
from tamis.types import Array, Generator, Indices, LogDensity

Simulate = Callable[[Array, Generator], Array]
DataLogDensity = Callable[[Array, Array], Array]

_LEAST = 100.0  # effective draws that the battery needs to see anything
_ERRORS = 5.0  # standard errors that it allows: one false alarm in two million


class Sampler(Protocol):
    """What `check_sampler` is given: a sampler with its sizes set, for instance by `functools.partial`."""

    def __call__(
        self, space: Space, loglike: LogDensity, *, rng: Generator, checkpoint: Path | None = None
    ) -> Posterior:
        """Sample the posterior."""


def ranks(
    space: Space,
    simulate: Simulate,
    loglike: DataLogDensity,
    sample: Callable[[Space, LogDensity, Generator], Posterior],
    *,
    rng: Generator,
    replications: int = 500,
    draws: int = 99,
    together: bool = False,
) -> Indices:
    """Rank true parameters among the draws of the posteriors that their own measurements give.

    Parameters
    ----------
    space
        The prior.
    simulate
        Measurements (n, m) made with n parameter points (n, d), errors included, and a generator.
    loglike
        Log-likelihood (n,) of points (n, d), each of its own row of measurements (n, m).
    sample
        The sampler: ``sample(space, loglike, rng)`` returns a `Posterior`.
    rng
        Draws the true parameters and the measurements, and gives each run of the sampler a generator.
    replications
        Number of true parameters, hence of posteriors.
    draws
        Posterior draws among which a truth is ranked: as many as are left of each posterior, evenly spaced along its
        chains. They must be independent, so the sampler has to run until its effective draws are as many.
    together
        Sample all posteriors in one call: the points that the sampler asks for and the chains that it returns are then
        ``replications`` equal consecutive blocks, one for each posterior, as with ``metropolis(..., groups=...)``.

    Returns
    -------
    Ranks
        (replications, d + 1), each from 0 to draws: the parameters, then the log-likelihood. To be given to
        `uniformity`.
    """
    truth = space.sample(replications, rng)
    data = np.asarray(simulate(truth, rng), dtype=np.float64)
    if data.ndim != 2 or len(data) != replications:
        raise StudyError(
            f"simulate must return a row of measurements for each of {replications} points, found shape {data.shape}"
        )
    if together:
        posterior = sample(space, lambda x: loglike(x, _repeated(data, len(x))), rng)
        each = [(x, diagnostics.ess(x)) for x in np.split(posterior.x, replications)]
    else:
        seeds = rng.spawn(replications)
        runs = (sample(space, partial(_given, loglike, y), seed) for y, seed in zip(data, seeds, strict=True))
        each = [(posterior.x, _effective(posterior)) for posterior in runs]
    _warn(np.array([ess.min() for _, ess in each]), draws)
    drawn = np.concatenate([_thinned(x, draws) for x, _ in each])
    level = loglike(drawn, np.repeat(data, draws, axis=0))
    quantity = np.column_stack([drawn, level]).reshape(replications, draws, -1)
    true = np.column_stack([truth, loglike(truth, data)])[:, None]
    below, equal = (quantity < true).sum(axis=1), (quantity == true).sum(axis=1)
    return np.asarray(
        below + rng.integers(0, equal + 1), dtype=np.int64
    )  # equal ones are put in random order


def uniformity(ranks: Indices, draws: int, bins: int = 20) -> Array:
    """Return the p-values of the chi-square test that ranks (replications, k), from 0 to draws, are uniform; (k,).

    With k quantities, and several samplers, compare them with the false-alarm rate that is allowed divided by their
    number.
    """
    if (draws + 1) % bins:
        raise StudyError(
            f"{bins} bins cannot share the {draws + 1} ranks from 0 to {draws} equally; choose a divisor of {draws + 1}"
        )
    expected = len(ranks) / bins
    if expected < 5:
        raise StudyError(
            f"{len(ranks)} ranks are too few for {bins} bins: the chi-square test needs 5 in each; "
            "take fewer bins or more replications"
        )
    square = ((histogram(ranks, draws, bins) - expected) ** 2).sum(axis=1) / expected
    return np.asarray(chdtrc(bins - 1, square), dtype=np.float64)


def histogram(ranks: Indices, draws: int, bins: int) -> Indices:
    """Count the ranks (replications, k), from 0 to draws, in equal bins; (k, bins)."""
    place = ranks * bins // (draws + 1)
    return np.array([np.bincount(column, minlength=bins) for column in place.T])


def _given(loglike: DataLogDensity, data: Array, x: Array) -> Array:
    return loglike(x, np.broadcast_to(data, (len(x), len(data))))


def _repeated(data: Array, n: int) -> Array:
    if n % len(data):
        raise StudyError(
            f"the sampler asked for {n} points, which are not equal blocks of {len(data)} posteriors"
        )
    return np.repeat(data, n // len(data), axis=0)


def _thinned(x: Array, draws: int) -> Array:
    """Return so many of the draws (chains, draws, d), evenly spaced along the chains; (draws, d)."""
    flat = x.reshape(-1, x.shape[2])
    if len(flat) < draws:
        raise StudyError(
            f"a posterior has {len(flat)} draws, fewer than the {draws} asked for; sample longer"
        )
    place = (np.arange(draws) + 0.5) * (len(flat) / draws)
    thinned: Array = flat[place.astype(int)]
    return thinned


def _effective(posterior: Posterior) -> Array:
    """Return the effective draws of every parameter as the sampler counts them, or by the autocorrelations."""
    found = posterior.diagnostics.get("ess")
    return diagnostics.ess(posterior.x) if found is None else np.asarray(found)


def _warn(ess: Array, draws: int) -> None:
    few = int((ess < draws / 2).sum())  # estimated from so many draws, the number scatters below them
    if few:
        warnings.warn(
            f"{few} of {len(ess)} posteriors have far fewer than {draws} effective draws, the least {ess.min():.0f}: "
            "their ranks heap at the ends even if the sampler is right; sample longer or rank among fewer draws",
            TamisWarning,
            stacklevel=3,
        )


def check_sampler(sample: Sampler) -> None:
    """Assert the contract of a sampler, given with its sizes set so that it yields some hundred effective draws.

    For instance ``check_sampler(partial(tamis.tmcmc, n=1024))``. The moments of a Gaussian posterior, its evidence if
    the sampler gives one, two modes apart, a prior that ends where the posterior is highest, a likelihood
    that is zero in places; and: the same seed gives the same bytes, an interrupted run goes on from
    its checkpoint and ends with those bytes, the likelihood is called with many points at a time, and one that
    is wrong is refused.
    """
    _check_gaussian(sample)
    _check_modes(sample)
    _check_bounds(sample)
    _check_zeros(sample)
    _check_bytes(sample)
    _check_refusals(sample)


def _gaussian() -> tuple[Space, LogDensity, Array, Array, float]:
    """A standard normal prior and two correlated measurements: space, log-likelihood, mean, covariance, evidence."""
    y, noise = np.array([1.0, -0.5]), np.array([[0.25, 0.15], [0.15, 0.16]])
    precision = np.linalg.inv(noise)
    constant = float(np.linalg.slogdet(2 * math.pi * noise)[1])

    def loglike(x: Array) -> Array:
        off = x - y
        return np.asarray(-0.5 * (np.einsum("ni,ij,nj->n", off, precision, off) + constant))

    total = noise + np.eye(2)
    covariance = np.asarray(np.linalg.inv(precision + np.eye(2)), dtype=np.float64)
    log_evidence = -0.5 * float(y @ np.linalg.solve(total, y) + np.linalg.slogdet(2 * math.pi * total)[1])
    return _space(normal(0.0, 1.0)), loglike, covariance @ precision @ y, covariance, log_evidence


def _space(law: Marginal) -> Space:
    return Space((Parameter("a", law), Parameter("b", law)))


def _run(sample: Sampler, space: Space, loglike: LogDensity, seed: int = 0) -> tuple[Posterior, Array]:
    """Return a posterior, whose parts agree with each other, and its effective draws, (d,)."""
    found = sample(space, loglike, rng=np.random.default_rng(seed))
    assert found.x.ndim == 3 and found.x.shape[2] == space.dim, (
        f"expected draws of shape (chains, draws, {space.dim}), found {found.x.shape}"
    )
    shape = found.x.shape[:2]
    assert found.log_likelihood.shape == shape and found.log_prior.shape == shape, (
        f"expected a log-likelihood and a log prior for each of {shape} draws, "
        f"found {found.log_likelihood.shape} and {found.log_prior.shape}"
    )
    assert np.allclose(found.log_likelihood.ravel(), loglike(found.flat)), (
        "log_likelihood is not that of the draws"
    )
    assert np.allclose(found.log_prior.ravel(), space.logpdf(found.flat)), (
        "log_prior is not that of the draws"
    )
    ess = _effective(found)
    assert ess.shape == (space.dim,) and (ess >= _LEAST).all(), (
        f"expected at least {_LEAST:g} effective draws of each parameter, found {ess}; check a longer run"
    )
    return found, ess


def _check_gaussian(sample: Sampler) -> None:
    space, loglike, mean, covariance, log_evidence = _gaussian()
    found, ess = _run(sample, space, loglike)
    score = (found.flat - mean) / np.sqrt(np.diag(covariance))
    off = np.abs(score.mean(axis=0)) * np.sqrt(ess)
    assert (off < _ERRORS).all(), f"the means of a Gaussian posterior are off by {off} standard errors"
    second = np.cov(score, rowvar=False)
    exact = covariance / np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    off = np.abs(second - exact) / np.sqrt((1 + exact**2) / ess.min())  # of products of normal variables
    assert (off < _ERRORS).all(), f"the covariances of a Gaussian posterior are off by {off} standard errors"
    if found.log_evidence is not None:
        value, error = found.log_evidence
        assert abs(value - log_evidence) < _ERRORS * error < 1, (
            f"expected a log evidence of {log_evidence:.4f}, found {value:.4f} with a standard error of {error:.4f}"
        )


def _check_modes(sample: Sampler) -> None:
    """Two peaks of weights 0.3 and 0.7, twelve times as far apart as they are wide."""
    weight, centre, width = np.array([0.3, 0.7]), np.array([-3.0, 3.0]), 0.5

    def loglike(x: Array) -> Array:
        off = ((x[:, None] - centre[:, None]) ** 2).sum(axis=2) / width**2
        return np.asarray(np.logaddexp(*(np.log(weight) - 0.5 * off).T))

    found, ess = _run(sample, _space(uniform(-6.0, 6.0)), loglike)
    share = float(np.mean(found.flat[:, 0] < 0))
    allowed = _ERRORS * math.sqrt(0.3 * 0.7 / ess.min())
    assert abs(share - 0.3) < allowed, (
        f"of two modes the smaller has 0.3 of the mass, found {share:.3f}; {allowed:.3f} off would be allowed"
    )


def _check_bounds(sample: Sampler) -> None:
    """A density growing as exp(5 x) up to the end of a uniform prior."""
    found, ess = _run(sample, _space(uniform(0.0, 1.0)), lambda x: 5.0 * x.sum(axis=1))
    assert (found.flat >= 0).all() and (found.flat <= 1).all(), "draws lie outside the prior"
    mean = 1 / -math.expm1(-5.0) - 1 / 5
    sd = math.sqrt(1 / 25 - math.exp(-5.0) / math.expm1(-5.0) ** 2)
    off = np.abs(found.flat.mean(axis=0) - mean) / sd * np.sqrt(ess)
    assert (off < _ERRORS).all(), f"the means beside a bound are off by {off} standard errors"


def _check_zeros(sample: Sampler) -> None:
    for zero in (-np.inf, np.nan):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=scores.NAN, category=TamisWarning)
            found, _ = _run(sample, _space(uniform(0.0, 1.0)), partial(_half, zero))
        assert (found.flat[:, 0] >= 0.5).all(), f"draws lie where the log-likelihood is {zero}"


def _half(zero: float, x: Array) -> Array:
    return np.where(x[:, 0] < 0.5, zero, 1.0)


def _check_refusals(sample: Sampler) -> None:
    wrong: dict[str, LogDensity] = {
        "of shape (n, 1)": lambda x: np.zeros((len(x), 1)),
        "of one number": lambda x: np.zeros(1),
        "infinite somewhere": lambda x: np.where(x[:, 0] > 0, np.inf, 0.0),
        "zero everywhere": lambda x: np.full(len(x), -np.inf),
    }
    for what, loglike in wrong.items():
        try:
            sample(_space(normal(0.0, 1.0)), loglike, rng=np.random.default_rng(0))
        except StudyError:
            continue
        raise AssertionError(f"a likelihood {what} must be refused with a StudyError")


def _check_bytes(sample: Sampler) -> None:
    space, loglike, *_ = _gaussian()
    sizes: list[int] = []

    def counted(x: Array) -> Array:
        sizes.append(len(x))
        return loglike(x)

    def interrupted(x: Array) -> Array:
        if len(sizes) == calls // 2:
            raise KeyboardInterrupt
        return counted(x)

    straight, _ = _run(sample, space, counted)
    calls, points = len(sizes) - 1, sum(sizes[:-1])  # the last is ours
    assert points >= 8 * calls, (
        f"the likelihood was called with {points / calls:.1f} points at a time, expected 8 or more"
    )
    assert _bytes(straight) == _bytes(_run(sample, space, loglike)[0]), "the same seed gives other draws"
    assert _bytes(straight) != _bytes(_run(sample, space, loglike, 1)[0]), "another seed gives the same draws"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint.npz"
        sizes.clear()
        try:
            sample(space, interrupted, rng=np.random.default_rng(0), checkpoint=path)
        except KeyboardInterrupt:
            assert path.exists(), "an interrupted run leaves no checkpoint"
        else:
            raise AssertionError("an interrupt in the likelihood must reach the caller")
        sizes.clear()
        resumed = sample(space, counted, rng=np.random.default_rng(0), checkpoint=path)
    assert _bytes(straight) == _bytes(resumed), "a resumed run ends with other draws"
    assert len(sizes) < calls, f"a resumed run calls the likelihood {len(sizes)} times, as a whole one does"


def _bytes(posterior: Posterior) -> tuple[bytes, bytes, tuple[float, float] | None]:
    return posterior.x.tobytes(), posterior.log_likelihood.tobytes(), posterior.log_evidence
