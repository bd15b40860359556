"""Transitional Markov chain Monte Carlo: a population carried from the prior to the posterior, with evidence.

The idea is that of Ching & Chen (2007, 10.1061/(ASCE)0733-9399(2007)133:7(816)): the likelihood is raised to
an exponent that grows from 0 to 1 in stages; at each, the points are weighted, resampled and moved. Their moves
(one random-walk step a point, scaled to the whole cloud) do not mix on bent or many-moded posteriors, and the
evidence then comes out low by more than a model comparison can bear. What differs here:

- Moves come from a mixture fitted to the population (`tamis.inference.mixture`), in the normal scores of the
  prior, where it is a standard Gaussian without walls whatever its marginals.
- The population is in two halves. Each moves by a mixture fitted to the other, so no point ever
  helps to shape the proposal that moves it; given the other half, every move is an exact Metropolis-Hastings
  step, and independent points of the tempered posterior remain just that. Systematic resampling keeps siblings
  side by side, so the halves hardly ever share an ancestor.
- A stage lasts until the population has forgotten where the stage began: until no parameter, nor the
  log-likelihood, is correlated any more with what it was after resampling. Nor may it have moved meanwhile:
  resampled points have the law of the stage already, so a mean that drifts says that part of the posterior
  was missed, such as the neck of a funnel. The stage then begins again from where the points are now, and
  takes three times as long as before.
- What the first stage has evaluated is searched for modes too narrow to have mass there, and these join the
  mixtures of all later stages (`tamis.inference.scouting`): seven calls of the likelihood for every point.
- The last sweeps give the evidence by bridge sampling (`tamis.inference.evidence`); the product of mean weights
  of the textbook is kept as a check, and used instead where no mixture resembles the posterior. Where the two
  contradict each other, or a mean still moved at the end, the reported error is as large as that says.

A step of the loop moves one half for a few sweeps: the state between two steps is the population, what is known of
each stage, and the log ratios of the last sweeps. The likelihood is called with a half at a time.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from tamis.blas import held
from tamis.design import sobol
from tamis.errors import StudyError, TamisWarning
from tamis.inference import evidence, loop, mixture, scores, scouting
from tamis.inference.posterior import Posterior
from tamis.space import Space
from tamis.types import Array, Event, Generator, Indices, LogDensity, Progress, silent

_SWEEPS_PER_PASS = 3
_CLOSING_SWEEPS = 8
_FORGOTTEN = 0.1  # largest correlation with the beginning of the stage, when the stage may end
_WORRYING = 0.3  # the same, when the user is warned
_DRIFTING = 3.0  # shift of a mean during the stage, in standard errors, when the stage begins again
_TOO_FAR = 0.7  # first exponent that modes found ask for, over that taken, when the stages begin again
_DISAGREEMENT = 5.0  # of the two evidences, in standard errors, when the user is warned


@dataclass(frozen=True)
class State:
    """A population at one exponent, and what is known of the stages so far."""

    exponent: float
    z: Array  # (n, d), normal scores of the prior
    log_likelihood: Array  # (n,)
    family: Indices  # (n,), first ancestor of each point
    start: Array  # (n, d + 1), z and log-likelihood when the stage began, or began again
    mixed: bool  # the stage is over
    calls: int  # of the likelihood, points counted one by one
    nan: int  # of these, points where it is not a number
    exponents: Array  # (stages,), and so on: one value a stage
    increments: Array
    proposed: Array
    accepted: Array
    memory: Array
    families: Array
    drift: Array
    passes: int  # halves moved in this stage
    since: int  # and before it began again
    opening: Array  # (n, d + 1), z and log-likelihood of the first population
    best: Array  # (m, d + 1), z and log-likelihood, the best of all points evaluated until the first stage is over
    searched: int  # batches of the search for modes
    mode: Array  # (K, d), centres of what it found
    width: Array  # (K, d, d), and scale matrices
    rare: Array  # (m, 2), log-likelihood of draws from them, and log of the prior's mass that each stands for
    closed: int  # halves that have made their last sweeps
    visited: Array  # (closing sweeps, n), log(prior x likelihood / q) at the points
    drawn: Array  # (closing sweeps, n), and at the draws of q


def tmcmc(
    space: Space,
    loglike: LogDensity,
    *,
    n: int,
    rng: Generator,
    checkpoint: Path | None = None,
    progress: Progress | None = None,
    fraction: float = 0.5,
    sweeps: int = 40,
) -> Posterior:
    """Sample a posterior with n points and estimate its evidence.

    Parameters
    ----------
    space
        The prior.
    loglike
        Log-likelihood of (n, d) physical points at once; minus infinity where it is zero.
    n
        Size of the population.
    rng
        Gives one integer; the result depends on nothing else of it.
    checkpoint
        File from which an interrupted run goes on; the caller removes it afterwards, and names another for another
        likelihood, which no file can tell.
    progress
        Called after every few sweeps.
    fraction
        Effective share of the points after the weights of one stage: higher makes stages shorter.
    sweeps
        Most sweeps a stage may take; each moves every point twice.

    Returns
    -------
    Posterior
        One chain of n equally weighted draws. Its diagnostics hold, one value a stage, ``exponents`` (the
        first is 0), ``acceptance``, ``log_evidence_increments``, ``memory`` (largest correlation left between the
        population and itself at the stage's beginning), ``drift`` (largest shift of a mean since then, in
        standard errors) and ``families`` (effective number of first ancestors);
        ``ess``, effective draws of every parameter, counted by families; ``log_evidence_bridge`` and
        ``log_evidence_stepping``, each value and standard error, and their ``disagreement`` in standard
        errors; ``likelihood_calls``, and ``nan``, how many of these were not a number.
    """
    if n < 16:
        raise StudyError(f"tmcmc needs at least 16 points, found n = {n}")
    with held():
        target = scores.Target(space, loglike)
        tag = {**loop.problem("tmcmc", space), "settings": (n, fraction, sweeps)}
        tell = progress or silent
        state = loop.run(
            State,
            lambda generator: replace(init(target, n, space.dim, generator), nan=target.nan),
            partial(step, target=target, fraction=fraction, sweeps=sweeps),
            lambda last: last.closed == 2,
            rng=rng,
            tag=tag,
            report=lambda last: tell(_event(last)),
            checkpoint=checkpoint,
        )
        return _posterior(space, state, fraction)


def init(target: LogDensity, n: int, d: int, rng: Generator) -> State:
    """Spread the first population evenly over the prior."""
    z = scores.from_unit(sobol(n, d, rng))
    log_likelihood = target(z)
    if not np.isfinite(log_likelihood).any():
        raise StudyError(
            f"the likelihood is zero at all {n} points of the first population, drawn from the prior; "
            "check the model's failures, widen the noise or raise n"
        )
    return _opened(np.column_stack([z, log_likelihood]))


def _opened(opening: Array) -> State:
    """Return the state of a population of the prior, (n, d + 1), before any stage."""
    n, d = len(opening), opening.shape[1] - 1
    z, log_likelihood, none = opening[:, :-1], opening[:, -1], np.empty(0)
    return State(
        exponent=0.0,
        z=z,
        log_likelihood=log_likelihood,
        family=np.arange(n),
        start=none,
        mixed=True,
        calls=n,
        nan=0,
        exponents=none,
        increments=none,
        proposed=none,
        accepted=none,
        memory=none,
        families=none,
        drift=none,
        passes=0,
        since=0,
        opening=opening,
        best=scouting.remember(np.empty((0, d + 1)), z, log_likelihood, n),
        searched=0,
        mode=np.empty((0, d)),
        width=np.empty((0, d, d)),
        rare=np.empty((0, 2)),
        closed=0,
        visited=np.zeros((_CLOSING_SWEEPS, n)),
        drawn=np.zeros((_CLOSING_SWEEPS, n)),
    )


def step(state: State, rng: Generator, *, target: scores.Target, fraction: float, sweeps: int) -> State:
    """Begin the next stage if the last is over, then move one half by a mixture fitted to the other."""
    nan = state.nan - target.nan
    n = len(state.z)
    halves = slice(0, n // 2), slice(n // 2, n)
    searching = state.mixed and len(state.exponents) == 1 and state.searched < scouting.BATCHES
    if state.mixed and state.exponent < 1 and not searching:
        state = temper(state, fraction, rng)
    if searching:
        state = search(state, target, fraction, rng)
    elif state.mixed:
        mine, other = halves[state.closed], halves[1 - state.closed]
        state, visited, drawn = move(state, mine, other, target, _CLOSING_SWEEPS, rng)
        all_visited, all_drawn = state.visited.copy(), state.drawn.copy()
        all_visited[:, mine], all_drawn[:, mine] = visited, drawn
        state = replace(state, visited=all_visited, drawn=all_drawn, closed=state.closed + 1)
    else:
        side = state.passes % 2
        state, _, _ = move(state, halves[side], halves[1 - side], target, _SWEEPS_PER_PASS, rng)
        state = replace(state, passes=state.passes + 1)
        state = state if side == 0 else _judged(state, fraction, sweeps)
    return replace(state, nan=nan + target.nan)


def _judged(state: State, fraction: float, sweeps: int) -> State:
    """Return whether the population has mixed, or begin to count anew where a mean still drifts."""
    memory, drift = _memory(state), _drift(state, fraction)
    state = replace(state, memory=_with_last(state.memory, memory), drift=_with_last(state.drift, drift))
    if state.passes * _SWEEPS_PER_PASS >= 2 * sweeps:
        return replace(state, mixed=True)
    if memory > _allowed(_FORGOTTEN, len(state.z)) or state.passes < 3 * state.since:
        return state
    if drift > _DRIFTING:
        return replace(state, start=_features(state), since=state.passes)
    return replace(state, mixed=True)


def search(state: State, target: LogDensity, fraction: float, rng: Generator) -> State:
    """Make one batch of the search for modes that the first stage passed by.

    If those found ask for a shorter first step, the stages begin again from the first population.
    """
    n, d = state.z.shape
    state = replace(state, searched=state.searched + 1)
    if n // 2 < scouting.least(d):
        return replace(state, searched=scouting.BATCHES)
    if state.searched <= scouting.LOOKS:
        z = scores.from_unit(sobol(n, d, rng))
        best = scouting.remember(state.best, z, target(z), n)
        return replace(state, best=best, calls=state.calls + n)
    mode, width, climbs = state.mode, state.width, state.searched - scouting.LOOKS
    if climbs == 1:
        mode, width = scouting.starts(state.best, state.calls, n // 2)
    batch = scouting.draw(mode, width, n // 2, rng)
    mode, width, rare = scouting.advance(mode, width, batch, target(batch.z), climbs <= scouting.CLIMBS)
    state = replace(state, mode=mode, width=width, calls=state.calls + n // 2)
    if state.searched < scouting.BATCHES:
        return state
    mode, width, rare = scouting.distinct(mode, width, rare, state.z)
    first = next_exponent(state.opening[:, -1], 0.0, fraction, rare + np.array([0.0, math.log(n)]))
    if first < _TOO_FAR * state.exponent:
        state = replace(_opened(state.opening), searched=state.searched, calls=state.calls)
    return replace(state, mode=mode, width=width, rare=rare)


def temper(state: State, fraction: float, rng: Generator) -> State:
    """Raise the exponent, weigh the points and resample them.

    The exponent follows the effective size of the weights (Jasra, Stephens, Doucet & Tsagaris 2011,
    10.1111/j.1467-9469.2010.00723.x); resampling is systematic and keeps the order, hence siblings together.
    """
    n = len(state.z)
    points = math.log(n) - state.increments.sum()  # n stand for the evidence so far
    rare = state.rare + np.array([0.0, points])
    exponent = next_exponent(state.log_likelihood, state.exponent, fraction, rare)
    log_weight = (exponent - state.exponent) * state.log_likelihood
    top = float(log_weight.max())
    weight = np.exp(log_weight - top)
    chosen = np.searchsorted(np.cumsum(weight), (np.arange(n) + rng.random()) / n * weight.sum())
    chosen = np.minimum(chosen, np.flatnonzero(weight)[-1])
    z, log_likelihood, family = state.z[chosen], state.log_likelihood[chosen], state.family[chosen]
    return replace(
        state,
        exponent=exponent,
        z=z,
        log_likelihood=log_likelihood,
        family=family,
        start=np.column_stack([z, log_likelihood]),
        mixed=False,
        passes=0,
        since=0,
        exponents=np.append(state.exponents, exponent),
        increments=np.append(state.increments, top + math.log(weight.mean())),
        proposed=np.append(state.proposed, 0.0),
        accepted=np.append(state.accepted, 0.0),
        memory=np.append(state.memory, 1.0),
        families=np.append(state.families, evidence.family_count(family)),
        drift=np.append(state.drift, 0.0),
    )


def next_exponent(
    log_likelihood: Array, exponent: float, fraction: float, rare: Array | None = None
) -> float:
    """Return the exponent at which the weights leave this fraction of the points' effective size.

    Draws from modes that may have no point yet count too, (m, 2): log-likelihood, and log of the number of points that
    would stand for the prior there. So the exponent rises slowly enough for a mode to fill while it gains its mass.
    Where there are points already, such a draw counts as one more at most (the balance of Veach & Guibas 1995,
    10.1145/218380.218498).
    """
    known = np.isfinite(log_likelihood)
    value, number = log_likelihood[known], np.ones(known.sum())
    if rare is not None:
        value = np.append(value, rare[:, 0])
        number = np.append(number, expit(exponent * rare[:, 0] + rare[:, 1]))
    value = value - value.max()

    def excess(log_increase: float) -> float:
        weight = np.exp(math.exp(log_increase) * value)
        size = (number * weight).sum() ** 2 / (number * weight**2).sum()
        return float(size / number.sum()) - fraction

    whole = math.log(1 - exponent)
    if excess(whole) >= 0:
        return 1.0
    return exponent + math.exp(brentq(excess, -690.0, whole, rtol=1e-10))


def move(
    state: State, mine: slice, other: slice, target: LogDensity, sweeps: int, rng: Generator
) -> tuple[State, Array, Array]:
    """Move one half by a mixture q fitted to the other; also return log(prior x likelihood / q).

    The two arrays hold it at the half's points after each sweep and at the draws of q, (sweeps, half).
    """
    q = mixture.fit(state.z[other], rng)
    if state.searched == scouting.BATCHES:
        q = mixture.joined(q, state.mode, state.width, scouting.SHARE)
    scouts = len(state.exponents) == 1 and state.searched == 0
    best = state.best
    z, log_likelihood = state.z[mine], state.log_likelihood[mine]
    log_ratio = scores.log_prior(z) - mixture.log_density(q, z)
    visited, drawn, accepted = [], [], 0
    for _ in range(sweeps):
        for propose in (mixture.independent, mixture.local):
            to = propose(q, z, rng)
            to_likelihood, to_ratio = target(to), scores.log_prior(to) - mixture.log_density(q, to)
            gain = state.exponent * (to_likelihood - log_likelihood) + to_ratio - log_ratio
            taken = -rng.standard_exponential(len(z)) < gain
            if propose is mixture.independent:
                drawn.append(to_likelihood + to_ratio)
            z = np.where(taken[:, None], to, z)
            log_likelihood = np.where(taken, to_likelihood, log_likelihood)
            log_ratio = np.where(taken, to_ratio, log_ratio)
            accepted += int(taken.sum())
            if scouts:
                best = scouting.remember(best, to, to_likelihood, len(state.z))
        visited.append(log_likelihood + log_ratio)
    all_z, all_likelihood = state.z.copy(), state.log_likelihood.copy()
    all_z[mine], all_likelihood[mine] = z, log_likelihood
    proposed = 2 * sweeps * len(z)
    moved = replace(
        state,
        z=all_z,
        log_likelihood=all_likelihood,
        best=best,
        calls=state.calls + proposed,
        proposed=_with_last(state.proposed, state.proposed[-1] + proposed),
        accepted=_with_last(state.accepted, state.accepted[-1] + accepted),
    )
    return moved, np.array(visited), np.array(drawn)


def _memory(state: State) -> float:
    """Return the largest correlation of the population with itself when the stage began."""
    now = _features(state)
    a, b = now - now.mean(axis=0), state.start - state.start.mean(axis=0)
    scale = np.sqrt((a**2).sum(axis=0) * (b**2).sum(axis=0))
    return float(np.max(np.abs((a * b).sum(axis=0)) / np.where(scale > 0, scale, 1.0)))


def _drift(state: State, fraction: float) -> float:
    """Return the largest shift of a mean since the stage began, in standard errors of points just resampled."""
    now = _features(state)
    shift, sd = np.abs(now.mean(axis=0) - state.start.mean(axis=0)), now.std(axis=0)
    return float(np.max(shift / np.where(sd > 0, sd, 1.0))) / _error_of_shift(fraction, len(now))


def _unfinished(state: State, fraction: float) -> float:
    """Return how far a mean had still to go when the last stage ended, in standard deviations; 0 if it was there.

    Of a relaxation that has come down to a correlation m there is m / (1 - m) of what it has done still to do.
    """
    n, memory, drift = len(state.z), float(state.memory[-1]), float(state.drift[-1])
    left = 1.0 if drift > _DRIFTING else 0.0
    if memory > _allowed(_WORRYING, n):
        left += min(memory, 0.95) / (1 - min(memory, 0.95))
    return left * drift * _error_of_shift(fraction, n)


def _error_of_shift(fraction: float, n: int) -> float:
    """Return the standard error of the shift of a mean, that of one point being 1: resampled, then moved."""
    return math.sqrt((1 + 1 / fraction) / n)


def _features(state: State) -> Array:
    return np.column_stack([state.z, state.log_likelihood])


def _allowed(correlation: float, n: int) -> float:
    """Return a correlation that n points can tell from none, three standard errors."""
    return max(correlation, 3 / math.sqrt(n))


def _with_last(values: Array, last: float) -> Array:
    return np.append(values[:-1], last)


def _event(state: State) -> Event:
    """Say how far the exponent has come, on the logarithmic scale on which stages are about equal."""
    info: dict[str, Any] = {"exponent": state.exponent, "likelihood calls": state.calls}
    done = 0.0
    if state.exponent > 0:
        info["acceptance"] = float(state.accepted[-1] / max(1.0, state.proposed[-1]))
    if state.exponent > 0 and state.searched == scouting.BATCHES:  # before, the stages may begin again
        first = math.log(state.exponents[0])
        done = 80.0 if first == 0 else 80.0 * (1 - math.log(state.exponent) / first)
    return Event("posterior", int(done) + 10 * state.closed, 100, info)


def _posterior(space: Space, state: State, fraction: float) -> Posterior:
    x = scores.physical(space, state.z)
    bridge = evidence.bridge(state.visited, state.drawn, len(state.z) // 2, state.family)
    stepping = evidence.stepping(state.increments, state.family)
    log_evidence, disagreement = evidence.reported(bridge, stepping, _unfinished(state, fraction))
    _warn(state, disagreement, log_evidence[1])
    scores.tell_nan(state.nan, state.calls)
    diagnostics: Mapping[str, Any] = {
        "exponents": np.append(0.0, state.exponents),
        "acceptance": state.accepted / state.proposed,
        "log_evidence_increments": state.increments,
        "memory": state.memory,
        "drift": state.drift,
        "families": state.families,
        "ess": np.array([evidence.effective_size(column, state.family) for column in state.z.T]),
        "log_evidence_bridge": np.array(bridge),
        "log_evidence_stepping": np.array(stepping),
        "disagreement": np.array(disagreement),
        "likelihood_calls": np.array(state.calls, dtype=float),
        "nan": np.array(state.nan, dtype=float),
    }
    return Posterior(
        space,
        x[None],
        state.log_likelihood[None],
        space.logpdf(x)[None],
        log_evidence,
        diagnostics,
    )


def _warn(state: State, disagreement: float, error: float) -> None:
    """Tell the user of what makes the result doubtful."""
    n, memory, drift = len(state.z), state.memory[-1], state.drift[-1]
    worries = []
    if memory > _allowed(_WORRYING, n):
        worries.append(f"its last stage ended with correlation {memory:.2f} to its beginning")
    if drift > _DRIFTING:
        worries.append(f"its last stage ended while a mean still moved, by {drift:.1f} standard errors")
    if disagreement > _DISAGREEMENT:
        worries.append(f"its two estimates of the evidence are {disagreement:.1f} standard errors apart")
    if worries:
        warnings.warn(
            f"the sampler did not mix: {' and '.join(worries)}; the error of the log evidence, {error:.2g}, bears "
            f"it, the draws do not: raise n (now {n}) or the number of sweeps",
            TamisWarning,
            stacklevel=4,
        )
