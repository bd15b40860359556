"""What to worry about: the few sentences a reader needs before any figure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tamis.errors import without_figures
from tamis.inference import scores
from tamis.inference.posterior import Posterior
from tamis.results.records import DesignRuns, Emulation, Panel, Propagation, Source, Worry
from tamis.results.shapes import listed, modes, several, together
from tamis.results.verdict import points, shortfall, uncounted
from tamis.runs.provenance import OTHER_CODE, code_warning
from tamis.runs.store import Run, failure_groups, reason
from tamis.types import Array

_EDGE = 0.02  # the outermost part of the prior at each end ...
_LEANING = 0.08  # ... and the share of the posterior there that counts as leaning against the bound
_UNMIXED = 0.3  # correlation with the beginning of the last stage beyond which a population has not mixed
_OF_SURROGATE = (
    0.1,
    0.5,
)  # shares of a variance from which a surrogate of the log-likelihood is told of, in red
_DRIFTING = 3.0  # standard errors that a mean may move in the last stage
_RUNS_A_PARAMETER = 10  # below which a score is too often better than the surrogate
_RHAT = (
    1.05,
    1.1,
)  # chains worth 10 and 5 draws each, as rhat is about the root of 1 + 1 / that; few are told by ess
_MOST_GROUPS = 0.95  # of the trajectories of a surrogate have to mix
_ABSURD = 1e-6  # of the largest measurement, below which no error is credible
_MOVED = 0.2  # distance from the prior below which a posterior that is as wide has not moved either
_KINDS_SHOWN = 3  # of warnings of runs
_FEW_DRAWS = 400  # effective draws below which the tails of an interval are poorly known


def worries(
    design: DesignRuns | None,
    sampled: Sequence[Run],
    others: Sequence[Run],
    emulations: Sequence[Emulation] | None,
    posterior: Posterior | None,
    panels: Sequence[Panel] | None,
    propagations: Sequence[Propagation] | None,
    warned: Sequence[str],
    inputs: Sequence[str],
    remedy: str = "",
    sources: Sequence[Source] | None = None,
) -> list[Worry]:
    """Collect everything a reader of the results should worry about, the serious first.

    ``others`` are runs that neither the design nor the sampler asked for, such as those of predictions; ``inputs``
    are the parameters that feed the simulator, ``remedy`` says what will help a poor surrogate.
    """
    ours = ("did not mix", scores.NAN)  # told below, in our words
    found = [Worry(text) for text in warned if not any(words in text for words in ours)]
    runs = {run.key: run for row in (design.runs if design else ()) for run in row}  # tests may share runs
    if design is not None:
        found += _failed_runs("design runs", list(runs.values()))
        found += _failed_runs("runs of the sampler", sampled, list(runs.values()))
    every = list((runs | {run.key: run for run in (*sampled, *others)}).values())
    found += _warned_runs(every)
    if not any(OTHER_CODE in text for text in warned) and (said := code_warning(every)):
        found.append(Worry(f"{said}."))
    found += _surrogate(emulations or (), remedy, posterior)
    if posterior is not None:
        found += _beyond(design, emulations, posterior)
        found += _sampler(posterior)
        found += _leaning(posterior, inputs)
        found += _uninformed(posterior)
        found += [Worry(text) for text in (*together(posterior), *several(posterior))]
    found += _absurd(panels or ())
    for panel in panels or ():
        found += _misfit(panel)
        found += _other_side(panel)
        found += _parted(panel)
    found += _unsettled(propagations or ())
    found += _of_sources(sources or ())
    return sorted(found, key=lambda worry: not worry.serious)


def _of_sources(sources: Sequence[Source]) -> list[Worry]:
    """Tell what is to be objected to posteriors of other studies, and to how they were drawn from."""
    found = [Worry(f"{s.name}: {text}", *flags) for s in sources for text, *flags in s.worries]
    squared = [s for s in sources if s.reweighted]
    if squared:
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = min(float(np.nanmin(s.drawn_moments[1] / s.moments[1])) for s in squared)
        text = (
            'The draws are weighted by their posterior density once more (reweight = "posterior"): they are those of '
            f"the posterior squared, not of the posterior. Standard deviations of parameters fall to {ratio:.2f} of "
            "the posterior's at worst; bands of predictions are too narrow accordingly."
        )
        found.append(Worry(text, serious=True))
    left_out = [s for s in sources if not len(s.x)]
    if left_out:
        names = ", ".join(f"{s.name} ({s.weight:.1g})" for s in left_out)
        found.append(Worry(f"Too little weight for two draws, hence none: {names}."))
    return found


def _failed_runs(what: str, runs: Sequence[Run], before: Sequence[Run] | None = None) -> list[Worry]:
    """Tell of failures; those that the runs before gave no reason to expect may have bent the posterior."""
    groups = failure_groups(runs)
    if not groups:
        return []
    bad = sum(map(len, groups))
    share = bad / len(runs)
    most, example = len(groups[0]), shortened(groups[0][0].error)
    text = f"{bad} of {len(runs)} {what} failed ({share:.0%}); most often ({most}): {example}."
    known = {reason(run) for run in before or ()}
    new = before is not None and any(reason(group[0]) not in known for group in groups)
    if new:
        text += " No run of the design failed so; a point that fails has likelihood zero."
    return [Worry(text, serious=new or share > 0.2)]


def _warned_runs(runs: Sequence[Run]) -> list[Worry]:
    """Tell what the simulator warned of, the most frequent kinds, each with one of its messages."""
    kinds: dict[str, list[str]] = {}
    for run in runs:
        for kind, text in {without_figures(text): text for text in run.warnings}.items():
            kinds.setdefault(kind, []).append(text)
    told = sorted(kinds.values(), key=len, reverse=True)
    found = [f"{len(texts)} of {len(runs)} runs warned: {texts[0]}" for texts in told[:_KINDS_SHOWN]]
    if more := len(told) - len(found):
        found.append(
            f"And {more} more kind{'s' if more > 1 else ''} of warnings, told in the logs of the runs."
        )
    return [Worry(text) for text in found]


def shortened(text: str, most: int = 120) -> str:
    """Cut a sentence between two words."""
    return text if len(text) <= most else text[:most].rpartition(" ")[0] + " ..."


def _surrogate(emulations: Sequence[Emulation], remedy: str, posterior: Posterior | None) -> list[Worry]:
    """Tell of observations that the surrogate gives poorly, and of runs it could not learn from."""
    found = []
    fault = shortfall(emulations)
    if fault:
        found.append(Worry(f"{fault[0].upper()}{fault[1:]}. {remedy}".rstrip(), serious=True))
    runs, d = min(((points(e), e.points.shape[1]) for e in emulations), default=(0, 0))
    if runs < _RUNS_A_PARAMETER * d and all(e.judged for e in emulations):
        text = f"The surrogate stands on {runs} points for {d} parameters; with fewer than "
        text += f"{_RUNS_A_PARAMETER} a parameter its score is not to be relied on: new runs may be predicted worse."
        found.append(Worry(text, serious=runs < _RUNS_A_PARAMETER // 2 * d))
    levelled = [e for e in emulations if e.levels]
    if levelled and not any(e.used for e in levelled):
        text = (
            f"The cheaper runs ({', '.join(levelled[0].levels)}) bought nothing: the surrogate stands on the expensive "
            "ones alone."
        )
        found.append(Worry(text))
    blind = max((e.failed for e in emulations), default=0)
    if blind:
        most = max(emulations, key=lambda e: e.failed)
        there = posterior is not None and "success_map" in posterior.diagnostics
        weighed = ", and counts by the probability that a run succeeds" if there else ""
        text = (
            f"The surrogate of {most.series} was fitted without {blind} runs that failed; it is blind there"
        )
        text += f"{weighed}."
        found.append(Worry(text, serious=blind > 0.2 * (blind + len(most.points))))
    return found


def _beyond(
    design: DesignRuns | None, emulations: Sequence[Emulation] | None, posterior: Posterior
) -> list[Worry]:
    """Tell how much of the posterior lies where the simulator fails and only the surrogate answers.

    A draw counts as such where the design run nearest to it, in units of the prior, failed.
    """
    if design is None or not emulations:
        return []
    tests = [row for row in design.runs if any(run.status != "done" for run in row)]
    if not tests:
        return []
    space = posterior.space.subset(design.names)
    columns = [posterior.space.index(name) for name in design.names]
    draws = space.to_unit(posterior.flat[:: max(1, len(posterior.flat) // 2000)][:, columns])
    points = space.to_unit(design.x)
    failed = np.any([[run.status != "done" for run in row] for row in tests], axis=0)
    square = (draws**2).sum(axis=1)[:, None] - 2 * draws @ points.T + (points**2).sum(axis=1)
    share = float(np.take(failed, np.argmin(square, axis=1)).mean())
    if share < 0.01:
        return []
    text = (
        f"{share:.0%} of the posterior lies nearer to a run that failed than to one that ended well. The surrogate "
        "answers there where the simulator would not; narrow the priors to where it works, or repair it."
    )
    return [Worry(text, serious=share > 0.1)]


def _unsettled(propagations: Sequence[Propagation]) -> list[Worry]:
    """Tell of means that the draws do not settle."""
    loose = [p for p in propagations if not p.converged]
    if not loose:
        return []
    first = loose[0]
    others = f" (and {len(loose) - 1} other numbers)" if len(loose) > 1 else ""
    return [
        Worry(
            f"{first.series}, {first.label}{others}: after {first.steps[-1]:.0f} draws the mean is known to "
            f"±{first.errors[-1]:.3g}, not to the share of {first.tolerance:g} asked for; raise "
            "[propagate] most, or [inference] n."
        )
    ]


def _sampler(posterior: Posterior) -> list[Worry]:
    found = []
    names, groups = posterior.space.names, posterior.diagnostics.get("group_rhat")
    alone = f" within {1 - _MOST_GROUPS:.0%} of the trajectories" if groups is not None else ""
    more = "raise [inference] draws" if "rhat" in posterior.diagnostics else "raise [inference] n"
    ess = posterior.diagnostics.get("ess")
    if ess is not None and groups is None and np.min(ess) < _FEW_DRAWS:
        few = bool(np.min(ess) < 100)
        text = f"Only {np.min(ess):.0f} effective draws of {names[int(np.argmin(ess))]}; {more}."
        found.append(Worry(text, serious=few, unsound=few))
    rhat = posterior.diagnostics.get("rhat")
    if rhat is not None:
        each = np.nan_to_num(np.atleast_2d(rhat if groups is None else groups), nan=np.inf)
        told = np.sort(each, axis=0)[
            int(_MOST_GROUPS * (len(each) - 1))
        ]  # one bad trajectory of many is no harm
        found += _apart(told, names, alone, more)
    share = posterior.diagnostics.get("surrogate_share")
    if share is not None and np.max(share) > _OF_SURROGATE[0]:
        text = (
            f"{np.max(share):.0%} of the variance of {names[int(np.argmax(share))]} is due to the surrogate of the "
            "log-likelihood, not to the data; give it more runs ([surrogate] enrich), or narrow the priors."
        )
        found.append(Worry(text, serious=bool(np.max(share) > _OF_SURROGATE[1])))
    memory = posterior.diagnostics.get("memory")
    flat = bool(np.ptp(posterior.log_likelihood) == 0)  # nothing to mix over: the posterior is the prior
    if memory is not None and memory[-1] > _UNMIXED and not flat:
        text = f"The sampler did not mix: {memory[-1]:.2f} of the last stage's beginning is left; raise [inference] n."
        found.append(Worry(text, serious=True, unsound=True))
    drift = posterior.diagnostics.get("drift")
    if drift is not None and drift[-1] > _DRIFTING and not flat:
        text = (
            f"The sampler's last stage ended while a mean still moved, by {drift[-1]:.1f} standard errors: part of the "
            "posterior may be missed; raise [inference] sweeps."
        )
        found.append(Worry(text, serious=True, unsound=True))
    lost = int(np.sum(posterior.diagnostics.get("nan", 0)))
    if lost:
        text = f"The log-likelihood was not a number at {lost:,} point{'s' if lost > 1 else ''} asked for, "
        text += "each of which counted as impossible; find out why before trusting the posterior near them."
        found.append(Worry(text, serious=True))
    disagreement = posterior.diagnostics.get("disagreement")
    if disagreement is not None and disagreement > 4:
        text = (
            f"Two estimates of the log evidence differ by {float(disagreement):.1f} of their standard errors."
        )
        found.append(Worry(text, serious=True))
    if posterior.log_evidence is not None and posterior.log_evidence[1] > 0.5:
        found.append(
            Worry(
                f"The log evidence is known only to ±{posterior.log_evidence[1]:.2f}; "
                "raise [inference] n before comparing models."
            )
        )
    return found


def _apart(rhat: Array, names: Sequence[str], alone: str, more: str) -> list[Worry]:
    """Tell of chains that disagree, the sign that they have not mixed."""
    worst = float(rhat.max())
    if worst <= _RHAT[0]:
        return []
    said = f"rhat{alone} is {worst:.3f} for {names[int(rhat.argmax())]}"
    if worst <= _RHAT[1]:
        return [Worry(f"The chains have hardly mixed: {said}, more than {_RHAT[0]}; {more}.")]
    text = f"The chains did not mix: {said}, more than {_RHAT[1]}, so that the draws are not the posterior; {more}."
    return [Worry(text, serious=True, unsound=True)]


def _leaning(posterior: Posterior, inputs: Sequence[str]) -> list[Worry]:
    """Tell of posteriors cut off by a bound; an error's size may well be zero, which is no choice of the user's."""
    found = []
    for i, parameter in enumerate(posterior.space.parameters):
        low, high = (float(v) for v in parameter.prior.ppf(np.array([0.0, 1.0])))
        u = np.asarray(parameter.prior.cdf(posterior.flat[:, i]))
        for side, edge, share in (
            ("lower", low, (u < _EDGE).mean()),
            ("upper", high, (u > 1 - _EDGE).mean()),
        ):
            natural = parameter.name not in inputs and edge == 0
            if np.isfinite(edge) and share > _LEANING and not natural:
                where = f"{parameter.name} leans against the {side} bound of its prior ({edge:g}"
                unit = f" {parameter.unit}" if parameter.unit else ""
                found.append(
                    Worry(
                        f"{where}{unit}): {share:.0%} of the posterior lies in the outermost {_EDGE:.0%} of the prior; "
                        "widen it unless physics sets the bound."
                    )
                )
    return found


def _uninformed(posterior: Posterior) -> list[Worry]:
    table = posterior.summary()
    names = [
        parameter.name
        for i, (parameter, gain) in enumerate(
            zip(posterior.space.parameters, table.column("narrowing"), strict=True)
        )
        if gain < 0.1 and _moved(np.asarray(parameter.prior.cdf(posterior.flat[:, i]))) < _MOVED
    ]
    if not names:
        return []
    return [
        Worry(
            f"The data say next to nothing about {', '.join(names)}: the posterior is as wide as the prior."
        )
    ]


def _moved(u: Array) -> float:
    """Return the distance of Kolmogorov of places in the prior from evenness: how far the posterior has moved."""
    even = (np.arange(len(u)) + 0.5) / len(u)
    return float(np.max(np.abs(np.sort(u) - even)))


def _misfit(panel: Panel) -> list[Worry]:
    found = []
    name = f"{panel.series}, {panel.label}"
    measured = int(np.isfinite(panel.y).sum())
    if panel.use == "validate" and measured and panel.coverage < 0.7:
        text = f"{name}: {panel.coverage:.0%} of {measured} held-out measurements lie inside the 90 % band."
        found.append(Worry(text, serious=measured >= 5 and panel.coverage < 0.5))
    if panel.use == "calibrate" and measured >= 5 and panel.coverage < 0.7:
        found.append(
            Worry(
                f"{name}: only {panel.coverage:.0%} of {measured} measurements lie inside the 90 % band.",
                serious=True,
            )
        )
    if len(panel.autocorrelation) > 1 and abs(panel.autocorrelation[1]) > panel.white_limit:
        rho = panel.autocorrelation[1]
        text = (
            f"{name}: the residuals are coloured (autocorrelation {rho:.2f} at lag 1) but the error model is white; "
            'intervals are too narrow. Either the model misses something, or kind = "correlated" describes the errors.'
        )
        found.append(Worry(text, serious=True))
    if panel.failed:
        found.append(
            Worry(
                f"{name}: the simulator failed at {panel.failed} of {panel.failed + len(panel.draws)} posterior draws."
            )
        )
    return found


def _other_side(panel: Panel) -> list[Worry]:
    """Tell of a signed peak that meets a limit on its other side, where nobody counts it."""
    if panel.how != "peak" or not np.isfinite(panel.limit):
        return []
    name, limit = f"{panel.series}, {panel.label}", abs(panel.limit)
    if panel.limit < 0:
        text = (
            f"{name}: all peaks above {panel.limit:g} count as passing that limit, positive ones too. Observe "
            f'how = "min" for the probability of falling below it, or "peak_abs" with a limit of {limit:g}.'
        )
        return [Worry(text, serious=True)]
    share = uncounted(panel)
    if not share:
        return []
    seen = f"{100 * share:.0f} %" if share > 0.01 else "some"
    text = (
        f"{name}: in {seen} of the draws the peak is below {-limit:g}, which does not count as passing the limit of "
        f'{panel.limit:g}: a peak keeps its sign. Observe how = "peak_abs", or "max" if only that side matters.'
    )
    return [Worry(text, serious=True)]


def _parted(panel: Panel) -> list[Worry]:
    """Tell of a predicted number that has several modes."""
    if panel.use != "predict" or panel.model.shape[1] != 1:
        return []
    found = modes(panel.model[:, 0], panel.worth)
    if len(found) < 2:
        return []
    unit = panel.ylabel[panel.ylabel.rindex("[") + 1 : -1] if panel.ylabel.endswith("]") else ""
    text = f"{panel.series}, {panel.label} has {len(found)} modes: by the model alone it lies {listed(found, unit)}."
    return [Worry(text)]


def _absurd(panels: Sequence[Panel]) -> list[Worry]:
    """Tell of errors so small that the posterior is a point, whatever the data are worth."""
    found = []
    for panel in panels:
        if panel.use == "calibrate" and np.isfinite(panel.y).any():
            assumed = float(np.sqrt(panel.error_var.mean()))
            if assumed < _ABSURD * float(np.nanmax(np.abs(panel.y))):
                found.append((f"{panel.series}, {panel.label}", assumed))
    if not found:
        return []
    others = f" (and {len(found) - 1} other observations)" if len(found) > 1 else ""
    text = (
        f"{found[0][0]}{others}: an error of {found[0][1]:.1g} is assumed, less than a millionth of what was measured. "
        "The posterior shrinks to a point: where model or surrogate happen to allow most, not where the data are. Make "
        'the size an unknown: noise = { kind = "gaussian", sd = "sigma" }.'
    )
    return [Worry(text, serious=True, unsound=True)]
