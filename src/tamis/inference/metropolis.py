"""Adaptive Metropolis: many chains advanced together, one call of the likelihood for all of them at every step.

Why many chains: a surrogate answers a hundred points almost as fast as one, chains that started apart can be compared
with each other, and what they have seen together shapes the proposals of all. The chains move in the normal scores of
the prior (`tamis.inference.scores`), where no parameter has a wall.

Steps are of three kinds, in turn:

- A random walk with the pooled covariance of the chains' history (Haario, Saksman & Tamminen 2001, 10.2307/3318737)
  and one scale for all, steered to the acceptance that serves a walk best (Andrieu & Thoms 2008,
  10.1007/s11222-008-9110-y, algorithm 4). It works on any shape, and slowly: a tenth of a draw a step and less.
- A jump to a draw of a mixture fitted to the history, and a step within one component of it
  (`tamis.inference.mixture`). Where the mixture resembles the posterior they forget the present point at once; a chain
  that was left behind in a poor place is fetched at the first of them; and chains change from one mode to another
  in proportion to the modes' masses, which a walk never does.

Beside the walk alone, with 600 steps of 100 chains, a call of the likelihood gives 2 times the effective draws on a
Gaussian in 20 dimensions (a third of them owed to the steps within a component), 3 times on a funnel, 5 on a Gaussian
in 5 dimensions, 35 on the steel contact, 60 on a banana, 80 on two modes. Left out, because beside these they cost
calls and gained nothing on any: differences of two past draws as jumps (ter Braak & Vrugt 2008,
10.1007/s11222-008-9104-9) and walks of random scale.

Proposals are fitted to the later half of the history, anew for every block of steps, and only during the first half of
the run. That half is dropped; the second is an ordinary Markov chain with the posterior as its law, whatever happened
before. Cuts chosen by the effective size of what is left (Chodera 2016, 10.1021/acs.jctc.5b00784) were tried: a chain
that was fetched late leaves a few draws far off, which hardly lower an effective size but spoil a variance.
A step of the loop is a block, so that the growing trace is not copied at every step.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np

from tamis.blas import one_thread
from tamis.design import sobol
from tamis.errors import StudyError, TamisWarning
from tamis.inference import diagnostics, loop, mixture, scores
from tamis.inference.posterior import Posterior
from tamis.space import Space
from tamis.types import Array, Event, Generator, LogDensity, Progress, silent

_BLOCK = 50  # steps of one turn of the loop
_HISTORY = 4096  # points, at most, to which proposals are fitted
_STARTS = 4000  # points of the prior, at least, that are tried before the likelihood is called zero
_STEERING = 3.0, 0.6  # gain of the k-th correction of the scale: the first over k to the power of the second
_RHAT, _ESS = 1.05, 100.0  # beyond which the user is told
UNMIXED = "the sampler did not mix"  # how that begins

Propose = Callable[[mixture.Mixture, Array, Generator], Array]


@dataclass(frozen=True)
class State:
    """Where the chains are, where they have been, and how they walk."""

    z: Array  # (chains, d), normal scores of the prior
    log_likelihood: Array  # (chains,)
    trace: Array  # (steps, chains, d)
    trace_log_likelihood: Array  # (steps, chains)
    scale: float  # of the walk, in units of the history's covariance
    corrections: int  # of the scale so far
    calls: int  # of the likelihood, points counted one by one
    acceptance: Array  # (blocks,)
    scales: Array  # (blocks,)


@one_thread
def metropolis(
    space: Space,
    loglike: LogDensity,
    *,
    chains: int = 100,
    draws: int = 1000,
    rng: Generator,
    checkpoint: Path | None = None,
    progress: Progress | None = None,
    start: Array | None = None,
    groups: int = 1,
) -> Posterior:
    """Sample a posterior with many chains.

    Parameters
    ----------
    space
        The prior.
    loglike
        Log-likelihood of (chains, d) physical points at once; minus infinity where it is zero. Row i is always
        chain i.
    chains
        Number of chains.
    draws
        Steps of each chain, those that are dropped at the beginning included.
    rng
        Gives one integer; the result depends on nothing else of it.
    checkpoint
        File from which an interrupted run goes on; the caller removes it afterwards, and names another for another
        likelihood, which no file can tell.
    progress
        Told after every block of steps.
    start
        Physical points (chains, d) where the chains begin. Default: spread over the prior.
    groups
        The chains are so many equal consecutive blocks, each of which samples a posterior of its own. All shape the
        proposals together.

    Returns
    -------
    Posterior
        Chains of equally weighted draws, at least half of the steps. Its diagnostics hold ``rhat`` and ``ess``
        of every parameter (of the worst group), ``acceptance`` of all steps and ``scale`` of the walk, one value a
        block of steps, ``burn_in`` (steps dropped) and ``likelihood_calls``; with groups also ``group_rhat``
        (groups, d).
    """
    _check(space, chains, draws, groups, start)
    target = scores.target(space, loglike)
    corners = space.from_unit(np.array([[0.1], [0.5], [0.9]]) * np.ones(space.dim))
    tag = {
        "sampler": "metropolis",
        "names": space.names,
        "prior": corners,
        "correlation": np.empty(0) if space.correlation is None else space.correlation,
        "settings": (chains, draws, groups),
        "start": np.empty(0) if start is None else start,
    }
    first = None if start is None else scores.from_unit(space.to_unit(start))
    tell = progress or silent
    fitted = _Fitted(draws)
    state = loop.run(
        State,
        lambda generator: init(target, (chains, space.dim), groups, first, generator),
        lambda last, generator: step(last, target, draws, fitted, generator),
        lambda last: len(last.trace) == draws,
        rng=rng,
        tag=tag,
        report=lambda last: tell(_event(last, draws)),
        checkpoint=checkpoint,
    )
    return _posterior(space, state, groups)


def init(
    target: LogDensity, shape: tuple[int, int], groups: int, first: Array | None, rng: Generator
) -> State:
    """Give every chain a place where its likelihood is not zero.

    The first points tried are those given, then the prior's; a chain that finds none begins with another of its group.
    """
    chains, d = shape
    z = scores.from_unit(sobol(chains, d, rng)) if first is None else first
    log_likelihood = target(z)
    tried = 1
    while not np.isfinite(log_likelihood).all() and tried * chains // groups < _STARTS:
        new = scores.from_unit(sobol(chains, d, rng))
        found, lost = target(new), ~np.isfinite(log_likelihood)
        z, log_likelihood = np.where(lost[:, None], new, z), np.where(lost, found, log_likelihood)
        tried += 1
    for mine in np.split(np.arange(chains), groups):
        good = mine[np.isfinite(log_likelihood[mine])]
        if len(good) == 0:
            raise StudyError(
                f"the likelihood is zero at all {tried * len(mine)} points where chains were to start; "
                "check the model's failures, widen the noise or give start points"
            )
        lost = mine[~np.isfinite(log_likelihood[mine])]
        twin = rng.choice(good, size=len(lost))
        z[lost], log_likelihood[lost] = z[twin], log_likelihood[twin]
    none = np.empty(0)
    return State(
        z=z,
        log_likelihood=log_likelihood,
        trace=np.empty((0, chains, d)),
        trace_log_likelihood=np.empty((0, chains)),
        scale=_scale(d),
        corrections=0,
        calls=tried * chains,
        acceptance=none,
        scales=none,
    )


class _Fitted:
    """The mixture fitted to a history: a function of the trace alone, so that the last one may be kept."""

    def __init__(self, draws: int) -> None:
        self._last = adapting(draws)
        self._seen = 0

    def __call__(self, trace: Array) -> mixture.Mixture:
        seen = min(len(trace), self._last)
        if seen != self._seen:
            rng = np.random.default_rng(seen)
            points = trace[seen // 2 : seen].reshape(-1, trace.shape[2])
            some = rng.choice(len(points), size=min(_HISTORY, len(points)), replace=False)
            self._mixture, self._seen = mixture.fit(points[some], rng), seen
        return self._mixture


def step(
    state: State, target: LogDensity, draws: int, fitted: Callable[[Array], mixture.Mixture], rng: Generator
) -> State:
    """Advance all chains by a block of steps, with proposals fitted to what was seen before it."""
    made, (chains, d) = len(state.trace), state.z.shape
    z, log_likelihood, scale, corrections = state.z, state.log_likelihood, state.scale, state.corrections
    q = fitted(state.trace) if made else None
    if made == _BLOCK:
        scale = _scale(d)
    kinds: Sequence[Propose | None] = (None, mixture.independent, mixture.local) if q else (None,)
    places, values, accepted = [], [], 0
    for propose in islice(cycle(kinds), min(_BLOCK, draws - made)):
        if q is None or propose is None:  # a walk, in the prior's units at first
            noise = rng.standard_normal((chains, d))
            to = z + scale * (noise if q is None else np.einsum("ij,nj->ni", q.root, noise))
            ratio = np.zeros(chains)
        else:
            to = propose(q, z, rng)
            density = mixture.log_density(q, np.concatenate([z, to]))
            ratio = density[:chains] - density[chains:]
        found = target(to)
        gain = found - log_likelihood + scores.log_prior(to) - scores.log_prior(z) + ratio
        taken = -rng.standard_exponential(chains) < gain
        z, log_likelihood = np.where(taken[:, None], to, z), np.where(taken, found, log_likelihood)
        accepted += int(taken.sum())
        if propose is None and made < adapting(draws):
            corrections += 1
            rate = _STEERING[0] / corrections ** _STEERING[1]
            scale *= math.exp(rate * (float(taken.mean()) - _optimal(d)))
        places.append(z)
        values.append(log_likelihood)
    return State(
        z=z,
        log_likelihood=log_likelihood,
        trace=np.concatenate([state.trace, places]),
        trace_log_likelihood=np.concatenate([state.trace_log_likelihood, values]),
        scale=scale,
        corrections=corrections,
        calls=state.calls + chains * len(places),
        acceptance=np.append(state.acceptance, accepted / (chains * len(places))),
        scales=np.append(state.scales, scale),
    )


def adapting(draws: int) -> int:
    """Return the number of steps in which proposals are fitted, all dropped: half of them, in whole blocks."""
    return draws // (2 * _BLOCK) * _BLOCK or draws // 2


def _scale(d: int) -> float:
    """Return the best scale of a walk on a Gaussian of known covariance.

    Roberts, Gelman & Gilks (1997, 10.1214/aoap/1034625254).
    """
    return 2.38 / math.sqrt(d)


def _optimal(d: int) -> float:
    """Return the acceptance at which a walk in d dimensions forgets fastest, 0.44 to 0.234.

    Roberts & Rosenthal (2001, 10.1214/ss/1015346320): the two ends; the optimum is flat.
    """
    return 0.234 + 0.206 / d


def _event(state: State, draws: int) -> Event:
    info: dict[str, Any] = {"likelihood calls": state.calls}
    if len(state.acceptance):
        info["acceptance"] = float(state.acceptance[-1])
    return Event("posterior", len(state.trace), draws, info)


def _posterior(space: Space, state: State, groups: int) -> Posterior:
    z = state.trace.swapaxes(0, 1)
    burn_in = adapting(len(state.trace))
    kept = z[:, burn_in:]
    x = scores.physical(space, kept.reshape(-1, z.shape[2])).reshape(kept.shape)
    blocks = np.split(x, groups)
    rhat = np.array([diagnostics.rhat(block) for block in blocks])
    ess = np.min([diagnostics.ess(block) for block in blocks], axis=0)
    worst = rhat.max(axis=0)  # NaN if any group has one
    _warn(worst, ess, len(state.trace), groups)
    found = {
        "rhat": worst,
        "ess": ess,
        "acceptance": state.acceptance,
        "scale": state.scales,
        "burn_in": np.array(burn_in, dtype=float),
        "likelihood_calls": np.array(state.calls, dtype=float),
    }
    if groups > 1:
        found["group_rhat"] = rhat
    return Posterior(
        space,
        x,
        np.ascontiguousarray(state.trace_log_likelihood[burn_in:].T),
        space.logpdf(x.reshape(-1, space.dim)).reshape(x.shape[:2]),
        None,
        found,
    )


def _check(space: Space, chains: int, draws: int, groups: int, start: Array | None) -> None:
    if chains < 2:
        raise StudyError(f"metropolis needs at least 2 chains, to compare them; found chains = {chains}")
    if draws < 20:
        raise StudyError(f"metropolis needs at least 20 steps a chain; found draws = {draws}")
    if groups < 1 or chains % groups:
        raise StudyError(f"{chains} chains cannot be {groups} equal groups; choose a multiple of the groups")
    if start is None:
        return
    if start.shape != (chains, space.dim):
        raise StudyError(
            f"start must hold a point for each chain, shape ({chains}, {space.dim}); found {start.shape}"
        )
    outside = np.flatnonzero(~np.isfinite(space.logpdf(start)))
    if len(outside):
        raise StudyError(
            f"the start of chain {outside[0]} lies outside the prior: {start[outside[0]].tolist()}; start within it"
        )


def mixed(rhat: Array, ess: Array) -> bool:
    """Say whether chains agree and their draws are worth enough, from both figures of every parameter."""
    return bool(rhat.max() <= _RHAT and ess.min() >= _ESS)  # not where one is NaN: nothing has moved


def _warn(rhat: Array, ess: Array, draws: int, groups: int) -> None:
    """Tell the user of what makes the result doubtful."""
    if mixed(rhat, ess):
        return
    worries = []
    if not rhat.max() <= _RHAT:
        worries.append(f"the chains disagree (rhat {rhat.max():.3g}, should be below {_RHAT:g})")
    if not ess.min() >= _ESS:
        worries.append(f"the draws are worth {ess.min():.0f} independent ones only")
    where = " in the worst group" if groups > 1 else ""
    warnings.warn(
        f"{UNMIXED}: {' and '.join(worries)}{where}; raise draws (now {draws}), and if that does "
        "not help look at the noise: errors far below the model's own make a posterior that no chain can enter",
        TamisWarning,
        stacklevel=4,
    )
