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

How chains begin: by a tempered warm-up (`tamis.inference.warmup`), after which they lie wider than the posterior. An
eighth of the points that proposals are fitted to are of the stage before the last.

Proposals are fitted to the later half of the history, anew for every block of steps, and only during the first half of
the run, or until as many steps have been made at exponent 1 as before it. These steps are dropped; the rest is an
ordinary Markov chain with the posterior as its law, whatever happened before. Where the rest has not mixed the run goes
on as though twice the steps had been asked for: all those made are dropped, proposals are fitted to them once more, and
as many follow. So a run takes up to `extend` times the draws asked for, and says so if that was not enough. Cuts chosen
by the effective size of what is left (Chodera 2016, 10.1021/acs.jctc.5b00784) were tried: a chain that was fetched late
leaves a few draws far off, which hardly lower an effective size but spoil a variance.
A step of the loop is a block, so that the growing trace is not copied at every step.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np

from tamis.blas import one_thread
from tamis.design import sobol
from tamis.errors import StudyError, TamisWarning
from tamis.inference import diagnostics, loop, mixture, scores, warmup
from tamis.inference.posterior import Posterior
from tamis.space import Space
from tamis.types import Array, Event, Generator, LogDensity, Progress, silent

_BLOCK = 50  # steps of one turn of the loop
_FIRST = 10  # draws of the prior by every chain, with which the warm-up begins
_WIDE = 8  # one in so many points that proposals are fitted to is of the warm-up's last stage
_HISTORY = 4096  # points, at most, to which proposals are fitted
_STARTS = 4000  # points of the prior, at least, that are tried before the likelihood is called zero
_STEERING = 3.0, 0.6  # gain of the k-th correction of the scale: the first over k to the power of the second
_ODD = 0.05  # share of the groups that need not have mixed for a run to end
_RHAT, _ESS = 1.05, 100.0  # beyond which the user is warned
UNMIXED = "the sampler did not mix"  # how that begins

Propose = Callable[[mixture.Mixture, Array, Generator], Array]


@dataclass(frozen=True)
class State:
    """Where the chains are, where they have been, and how they walk."""

    z: Array  # (chains, d), normal scores of the prior
    log_likelihood: Array  # (chains,)
    trace: Array  # (steps, chains, d)
    trace_log_likelihood: Array  # (steps, chains)
    exponent: float  # of the likelihood, 1 when the warm-up is over
    begun: int  # step at which this exponent began
    adapted: int  # step after which proposals stay as they are
    until: int  # step at which the run ends, if the chains have mixed by then
    scale: float  # of the walk, in units of the history's covariance
    corrections: int  # of the scale so far
    calls: int  # of the likelihood, points counted one by one
    nan: int  # of these, points where it is not a number
    acceptance: Array  # (blocks,)
    scales: Array  # (blocks,)


@dataclass(frozen=True)
class Plan:
    """How long a run may be, and who says whether it has been long enough."""

    draws: int
    longest: int
    groups: int
    mixed: Callable[[Array], bool]  # of the steps kept, (steps, chains, d)

    @property
    def kept(self) -> int:
        """Steps kept, at least: half of those asked for, the first half being dropped in whole blocks."""
        return self.draws - (self.draws // (2 * _BLOCK) * _BLOCK or self.draws // 2)

    @property
    def latest(self) -> int:
        """Step at which the warm-up ends in any case."""
        return (self.longest - self.kept) // 2

    def edges(self, begun: int) -> tuple[int, int]:
        """Return the step after which proposals stay, and the last, if the warm-up took so many steps."""
        adapted = max(self.draws - self.kept, 2 * begun)
        return adapted, adapted + self.kept


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
    extend: int = 4,
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
        Called after every block of steps.
    start
        Physical points (chains, d) where the chains begin. Default: where a short tempered run from the prior leads.
    groups
        The chains are so many equal consecutive blocks, each of which samples a posterior of its own. All shape the
        proposals together.
    extend
        Chains that have not mixed go on, to at most so many times the draws asked for.

    Returns
    -------
    Posterior
        Chains of equally weighted draws, about half of the steps. Its diagnostics hold ``rhat`` and ``ess``
        of every parameter (of the worst group), ``acceptance`` of all steps and ``scale`` of the walk, one value a
        block of steps, ``burn_in`` (steps dropped), ``steps`` in all, ``likelihood_calls`` and ``nan`` (how many of
        them were not a number); with groups also ``group_rhat`` (groups, d).
    """
    _check(space, chains, draws, groups, start, extend)
    target = scores.Target(space, loglike)
    tag = {
        **loop.problem("metropolis", space),
        "settings": (chains, draws, groups, extend),
        "start": np.empty(0) if start is None else start,
    }
    first = None if start is None else scores.from_unit(space.to_unit(start))
    tell = progress or silent
    plan = Plan(draws, extend * draws, groups, lambda kept: _enough(*_judged(_chains(space, kept), groups)))
    state = loop.run(
        State,
        partial(init, target, (chains, space.dim), plan, first),
        partial(step, target=target, plan=plan, fitted=_Fitted()),
        lambda last: len(last.trace) == last.until,
        rng=rng,
        tag=tag,
        report=lambda last: tell(_event(last)),
        checkpoint=checkpoint,
    )
    return _posterior(space, state, groups, draws)


def init(
    target: scores.Target, shape: tuple[int, int], plan: Plan, first: Array | None, rng: Generator
) -> State:
    """Give every chain a place where its likelihood is not zero.

    The first points tried are those given, then the prior's; a chain that finds none begins with another of its group.
    Without given points some draws of the prior are the chains' first steps, from which the warm-up goes on.
    """
    chains, d = shape
    least = 1 if first is not None else min(_FIRST, plan.latest)
    places = [scores.from_unit(sobol(chains, d, rng)) if first is None else first]
    values = [target(places[0])]
    while len(places) < least or (
        not np.isfinite(values).any(axis=0).all() and len(places) * chains // plan.groups < _STARTS
    ):
        places.append(scores.from_unit(sobol(chains, d, rng)))
        values.append(target(places[-1]))
    order = np.argsort(~np.isfinite(values), axis=0, kind="stable")[:least]
    trace = np.take_along_axis(np.array(places), order[:, :, None], axis=0)
    heights = np.take_along_axis(np.array(values), order, axis=0)
    z, log_likelihood = trace[0].copy(), heights[0].copy()
    for mine in np.split(np.arange(chains), plan.groups):
        good = mine[np.isfinite(log_likelihood[mine])]
        if len(good) == 0:
            raise StudyError(
                f"the likelihood is zero at all {len(places) * len(mine)} points where chains were to start; "
                "check the model's failures, widen the noise or give start points"
            )
        lost = mine[~np.isfinite(log_likelihood[mine])]
        twin = rng.choice(good, size=len(lost))
        z[lost], log_likelihood[lost] = z[twin], log_likelihood[twin]
    kept = slice(0 if first is None else least, None)
    adapted, until = plan.edges(0)
    none = np.empty(0)
    return State(
        z=z,
        log_likelihood=log_likelihood,
        trace=trace[kept],
        trace_log_likelihood=heights[kept],
        exponent=0.0 if first is None else 1.0,
        begun=0,
        adapted=adapted,
        until=until,
        scale=_scale(d),
        corrections=0,
        calls=len(places) * chains,
        nan=target.nan,
        acceptance=none,
        scales=none,
    )


def temper(state: State, plan: Plan, rng: Generator) -> tuple[State, mixture.Mixture | None]:
    """Raise the exponent, weigh the points of the last stage, and begin the next with some of them.

    Also return a mixture fitted to them, where there are enough. Groups have weights of their own. The last stage takes
    points as they are.
    """
    made, (chains, d), groups = len(state.trace), state.z.shape, plan.groups
    history = state.trace[state.begun :], state.trace_log_likelihood[state.begun :]
    z, height = (warmup.by_group(a, groups) for a in history)
    if plan.latest - made >= warmup.stage(d):
        exponent = warmup.next_exponent(height, state.exponent)
    else:
        exponent = 1.0
    weight = warmup.weights(height, exponent - state.exponent if exponent < 1 else 0.0)
    chosen = warmup.chosen(weight, chains // groups, rng)
    adapted, until = plan.edges(made)
    state = replace(
        state,
        z=np.take_along_axis(z, chosen[:, :, None], axis=1).reshape(chains, d),
        log_likelihood=np.take_along_axis(height, chosen, axis=1).ravel(),
        exponent=exponent,
        begun=made,
        adapted=adapted,
        until=until,
        scale=_scale(d),
        corrections=0,
    )
    effective = int(np.sum(1 / (weight**2).sum(axis=1)))
    if effective < 2 * (d + 1):
        return state, None
    some = rng.choice(weight.size, size=min(_HISTORY, effective), p=weight.ravel() / groups)
    return state, mixture.fit(z.reshape(-1, d)[some], rng)


class _Fitted:
    """The mixture fitted to a history: a function of the state alone, so that the last one may be kept."""

    def __init__(self) -> None:
        self._seen = -1

    def __call__(self, state: State) -> mixture.Mixture:
        seen = min(len(state.trace), state.adapted)
        if seen != self._seen:
            rng, d = np.random.default_rng(seen), state.z.shape[1]
            late = state.trace[(state.begun + seen) // 2 : seen].reshape(-1, d)
            wide = state.trace[max(0, state.begun - warmup.stage(d)) : state.begun].reshape(-1, d)
            size = min(_HISTORY, len(late))
            few = min(size // _WIDE, len(wide))
            points = [
                a[rng.choice(len(a), size=k, replace=False)] for a, k in ((late, size - few), (wide, few))
            ]
            self._mixture, self._seen = mixture.fit(np.concatenate(points), rng), seen
        return self._mixture


def step(
    state: State,
    rng: Generator,
    *,
    target: scores.Target,
    plan: Plan,
    fitted: Callable[[State], mixture.Mixture],
) -> State:
    """Advance all chains by a block of steps, with proposals fitted to what was seen before it."""
    q = None
    if state.exponent < 1:
        state, q = temper(state, plan, rng)
    elif len(state.trace) > state.begun:
        q = fitted(state)
    made, (chains, d) = len(state.trace), state.z.shape
    adapting = made < state.adapted
    z, log_likelihood, scale, corrections = state.z, state.log_likelihood, state.scale, state.corrections
    if made == state.begun + _BLOCK:
        scale = _scale(d)
    room = (state.adapted if adapting else state.until) - made
    block = warmup.stage(d) if state.exponent < 1 else min(_BLOCK, room)
    kinds: Sequence[Propose | None] = (None, mixture.independent, mixture.local) if q else (None,)
    places, values, accepted, before = [], [], 0, target.nan
    for propose in islice(cycle(kinds), block):
        if q is None or propose is None:  # a walk, in the prior's units where nothing better is known
            noise = rng.standard_normal((chains, d))
            to = z + scale * (noise if q is None else np.einsum("ij,nj->ni", q.root, noise))
            ratio = np.zeros(chains)
        else:
            to = propose(q, z, rng)
            density = mixture.log_density(q, np.concatenate([z, to]))
            ratio = density[:chains] - density[chains:]
        found = target(to)
        rise = state.exponent * (found - log_likelihood)
        gain = rise + scores.log_prior(to) - scores.log_prior(z) + ratio
        taken = -rng.standard_exponential(chains) < gain
        z, log_likelihood = np.where(taken[:, None], to, z), np.where(taken, found, log_likelihood)
        accepted += int(taken.sum())
        if propose is None and adapting:
            corrections += 1
            rate = _STEERING[0] / corrections ** _STEERING[1]
            scale *= math.exp(rate * (float(taken.mean()) - _optimal(d)))
        places.append(z)
        values.append(log_likelihood)
    moved = replace(
        state,
        z=z,
        log_likelihood=log_likelihood,
        trace=np.concatenate([state.trace, places]),
        trace_log_likelihood=np.concatenate([state.trace_log_likelihood, values]),
        scale=scale,
        corrections=corrections,
        calls=state.calls + chains * len(places),
        nan=state.nan + target.nan - before,
        acceptance=np.append(state.acceptance, accepted / (chains * len(places))),
        scales=np.append(state.scales, scale),
    )
    return _extended(moved, plan)


def _extended(state: State, plan: Plan) -> State:
    """Go on where chains have not mixed and the plan leaves room: all steps so far are dropped, as many more follow."""
    made, until = len(state.trace), min(2 * state.until, plan.longest)
    if made < state.until or until - made < plan.kept or plan.mixed(state.trace[state.adapted :]):
        return state
    return replace(state, adapted=made, until=until)


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


def _event(state: State) -> Event:
    info: dict[str, Any] = {"likelihood calls": state.calls}
    if len(state.acceptance):
        info["acceptance"] = float(state.acceptance[-1])
    return Event("posterior", len(state.trace), state.until, info)


def _chains(space: Space, kept: Array) -> Array:
    """Return the physical points of steps (steps, chains, d) as chains (chains, steps, d)."""
    z = kept.swapaxes(0, 1)
    return scores.physical(space, z.reshape(-1, z.shape[2])).reshape(z.shape)


def _judged(x: Array, groups: int) -> tuple[Array, Array]:
    """Return rhat and effective draws of every group and parameter, (groups, d)."""
    blocks = np.split(x, groups)
    return np.array([diagnostics.rhat(b) for b in blocks]), np.array([diagnostics.ess(b) for b in blocks])


def _enough(rhat: Array, ess: Array) -> bool:
    """Return whether all groups have mixed but for the worst twentieth."""
    bad = np.sum([not mixed(r, e) for r, e in zip(rhat, ess, strict=True)])
    return bool(bad <= _ODD * len(rhat))


def _posterior(space: Space, state: State, groups: int, draws: int) -> Posterior:
    burn_in = state.adapted
    x = _chains(space, state.trace[burn_in:])
    rhat, each = _judged(x, groups)
    worst, ess = rhat.max(axis=0), each.min(axis=0)  # NaN if any group has one
    _warn(worst, ess, draws, len(state.trace), groups)
    scores.tell_nan(state.nan, state.calls)
    found = {
        "rhat": worst,
        "ess": ess,
        "acceptance": state.acceptance,
        "scale": state.scales,
        "burn_in": np.array(burn_in, dtype=float),
        "steps": np.array(len(state.trace), dtype=float),
        "likelihood_calls": np.array(state.calls, dtype=float),
        "nan": np.array(state.nan, dtype=float),
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


def _check(space: Space, chains: int, draws: int, groups: int, start: Array | None, extend: int) -> None:
    if chains < 2:
        raise StudyError(f"metropolis needs at least 2 chains, to compare them; found chains = {chains}")
    if draws < 20:
        raise StudyError(f"metropolis needs at least 20 steps a chain; found draws = {draws}")
    if groups < 1 or chains % groups:
        raise StudyError(f"{chains} chains cannot be {groups} equal groups; choose a multiple of the groups")
    if extend < 1:
        raise StudyError(
            f"the draws are extended to a multiple of themselves, 1 or more; found extend = {extend}"
        )
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
    """Return whether chains agree and their draws are worth enough, from both figures of every parameter."""
    return bool(rhat.max() <= _RHAT and ess.min() >= _ESS)  # not where one is NaN: nothing has moved


def _warn(rhat: Array, ess: Array, draws: int, steps: int, groups: int) -> None:
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
        f"{UNMIXED}: {' and '.join(worries)}{where} after {steps} steps; raise draws (now {draws}), and if that does "
        "not help look at the noise: errors far below the model's own make a posterior that no chain can enter",
        TamisWarning,
        stacklevel=4,
    )
