"""The verdict: what came out in a sentence, then what was predicted and how likely each limit is to be passed.

A probability stands with the standard error of its draws, in both readings: of the model alone, whose answers spread
because the parameters are uncertain, and in total, with the errors. Nearer to none or all than 3 over the number of
draws it is a bound, at 95 %: with no case among n draws, a probability of 3 / n would have gone unseen once in twenty
times. Chains repeat themselves, so the draws count as many as they are worth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tamis.inference.posterior import Posterior
from tamis.results.records import Emulation, Panel, Results, Source, Worry
from tamis.results.shapes import digits, span
from tamis.types import Array

_LIMITS = 5  # listed one by one
_FEWEST = 6.0  # independent draws by which a share can be known at all
_NUMBERS = 3  # predicted, without a limit


@dataclass(frozen=True)
class Probability:
    """A share of draws, with its standard error."""

    value: float
    error: float
    worth: float  # independent draws
    none: int = 0  # draws of which not one passed; 0 where one did, or where they do not say so

    @property
    def text(self) -> str:
        """In per cent, with one digit of its error; near none and all a bound."""
        if self.worth < _FEWEST:
            return "unknown (too few independent draws to tell)"
        least = 3.0 / self.worth
        if self.value < min(least, 0.5):
            seen = f" (none of {self.none} draws)" if self.none else ""
            return f"below {100 * least:.2g} %{seen}"
        if 1 - self.value < least:
            return f"above {100 * (1 - least):.4g} %"
        if not self.error > 0:
            return f"{100 * self.value:.2g} %"
        places = max(0, -math.floor(math.log10(100 * self.error)))
        return f"{100 * self.value:.{places}f} ± {100 * self.error:.{places}f} %"

    def record(self) -> list[float | None]:
        """Return value and error; near none and all the error is what the draws cannot tell from them."""
        if self.worth < _FEWEST:
            return [None, None]
        least = 3.0 / self.worth
        near = self.value < least or 1 - self.value < least
        return [self.value, _known(max(self.error, least) if near else self.error)]


@dataclass(frozen=True)
class Decision:
    """How likely a predicted number is to pass its limit, where on its abscissa that is likeliest."""

    panel: Panel
    at: int
    model: Probability
    total: Probability

    @property
    def text(self) -> str:
        """The number, if it is one, and the probability of passing its limit."""
        p = self.panel
        side, unit = "below" if p.below else "above", _unit(p)
        odds = f"{side} its limit of {p.limit:g}{unit} with probability {self.model.text}"
        if has_error(p):
            odds += f" by the model alone, {self.total.text} with errors"
        elif len(p.x) > 1:
            odds += " by the model alone"
        if uncounted(p):
            odds += " (its other sign not counted)"
        if len(p.x) == 1:
            return f"{predicted(p)}; {odds}."
        name, _, of_x = p.xlabel.partition(" [")
        where = f"{name or 'index'} = {p.x[self.at]:.4g} {of_x.rstrip(']')}".rstrip()
        return f"{_title(p)}: {odds}, at {where}, where it is likeliest."

    def record(self) -> dict[str, Any]:
        """Return it as plain words and numbers."""
        p = self.panel
        return {
            "series": p.series,
            "label": p.label,
            "limit": p.limit,
            "side": "below" if p.below else "above",
            "x": float(p.x[self.at]) if len(p.x) > 1 else None,
            "model": self.model.record(),
            "total": self.total.record() if has_error(p) else None,
            "draws": self.total.worth,
            "text": self.text,
        }


def decisions(panels: Sequence[Panel]) -> list[Decision]:
    """Return the probability of passing each limit, the likeliest first."""
    found = []
    for p in panels:
        if math.isfinite(p.limit) and p.exceedance.size:
            at = int(np.argmax(p.exceedance[1]))
            error = passing_errors(p)
            passed = bool(p.exceedance[0, at] > 0)
            model, total = (
                Probability(float(p.exceedance[k, at]), float(error[k, at]), p.worth, none)
                for k, none in ((0, 0 if passed else len(p.model)), (1, 0))
            )
            found.append(Decision(p, at, model, total))
    return sorted(found, key=lambda d: (-d.total.value, -d.model.value))


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def passing_errors(panel: Panel) -> Array:
    """Return the standard errors of the probabilities of passing a limit, (2, m); NaN in files from before."""
    found = panel.exceedance_error
    return found if found.size else np.full(panel.exceedance.shape, np.nan)


def uncounted(panel: Panel) -> float:
    """Return the share of draws whose signed peak lies beyond a positive limit on the other side, where it is largest.

    Nothing where such peaks are rare beside those that count.
    """
    if panel.how != "peak" or not panel.limit > 0:
        return 0.0
    other, same = (float(np.max((sign * panel.model > panel.limit).mean(axis=0))) for sign in (-1, 1))
    return other if other > 0.1 * same else 0.0


def has_error(panel: Panel) -> bool:
    """Return whether the total differs from the model alone."""
    return bool(panel.error_var.any() or np.any(panel.bias))


def predicted(panel: Panel) -> str:
    """Name one predicted number with its intervals."""
    low, high = (float(v) for v in panel.model_band[:, 0])
    middle = float(np.median(panel.model[:, 0]))
    said = f"{_title(panel)}: {digits(middle, high - low)}{_unit(panel)}, 90 % within {span(low, high)}"
    said += " by the model alone"
    if has_error(panel):
        said += f", {span(*map(float, panel.total_band[:, 0]))} with errors"
    return said


def _title(panel: Panel) -> str:
    return panel.series if panel.label in panel.series else f"{panel.series}, {panel.label}"


def _unit(panel: Panel) -> str:
    return f" {panel.ylabel[panel.ylabel.rindex('[') + 1 : -1]}" if panel.ylabel.endswith("]") else ""


def _decided(panels: Sequence[Panel]) -> list[str]:
    """Say what is predicted: every limit, the likeliest to be passed first, then single numbers without one."""
    limits = decisions(panels)
    said = [d.text for d in limits[:_LIMITS]]
    if rest := limits[_LIMITS:]:
        said.append(
            f"{len(rest)} more limits are no likelier to be passed than these; the report lists them."
        )
    numbers = [p for p in panels if p.use == "predict" and len(p.x) == 1 and not math.isfinite(p.limit)]
    said += [f"{predicted(p)}." for p in numbers[:_NUMBERS]]
    if len(numbers) > _NUMBERS:
        said.append(f"{len(numbers) - _NUMBERS} more predicted numbers are in the report.")
    return said


def _reserved(text: str, found: Sequence[Worry]) -> str:
    serious = sum(worry.serious for worry in found)
    return (
        f"{text}; {serious} serious reservation{'s' if serious > 1 else ''} below." if serious else f"{text}."
    )


def split_verdict(parts: Sequence[Results], found: Sequence[Worry]) -> str:
    """Say in one sentence how far calibrations of each part of the data alone agree, then what each predicts."""
    tables = [part.posterior.summary() for part in parts if part.posterior is not None]
    intervals: dict[str, list[tuple[float, float]]] = {}
    for table in tables:
        for name, low, high in zip(*(table.column(key) for key in ("parameter", "q05", "q95")), strict=True):
            intervals.setdefault(name, []).append((low, high))
    shared = {name: each for name, each in intervals.items() if len(each) == len(parts)}
    agree = sum(max(low for low, _ in each) <= min(high for _, high in each) for each in shared.values())
    text = f"{len(parts)} parts of the data were calibrated alone; their 90 % intervals of {agree} of {len(shared)} "
    text += "parameters overlap"
    unseen = [
        p for part in parts for p in part.panels or () if p.use == "validate" and np.isfinite(p.coverage)
    ]
    total = sum(int(np.isfinite(p.y).sum()) for p in unseen)
    if total:
        inside = sum(round(p.coverage * np.isfinite(p.y).sum()) for p in unseen)
        text += f", and each covers on average {inside / total:.0%} of the measurements it did not see"
    limits = [(d, part.study.part) for part in parts for d in decisions(part.panels or ())]
    limits.sort(key=lambda found: -found[0].total.value)
    said = [f"{name}: {d.text}" for d, name in limits[:_LIMITS]]
    if len(limits) > _LIMITS:
        said.append(f"{len(limits) - _LIMITS} more limits are no likelier to be passed than these.")
    return "\n".join([_reserved(text, found), *said])


def verdict(
    emulations: Sequence[Emulation] | None,
    posterior: Posterior | None,
    panels: Sequence[Panel] | None,
    found: Sequence[Worry],
    sources: Sequence[Source] | None = None,
) -> str:
    """Say in one sentence what came out, then, a line each, what is predicted."""
    if posterior is None and panels is None and emulations:
        fault = shortfall(emulations)
        if fault:
            return f"{fault[0].upper()}{fault[1:]}; nothing is built on it."
        worst = min(emulations, key=rank)
        said = f"The surrogate predicts runs it has not seen with Q2 of {worst.q2:.3f} or more"
        return f"{said}; nothing is built on it yet."
    if posterior is None:
        if panels is None:
            return "Nothing is predicted yet."
        n = len(panels)
        through = f"propagated through {n} prediction{'s' if n > 1 else ''}"
        text = f"The prior was {through}; there are no data"
        if sources:
            drawn = sum(len(source.x) for source in sources)
            shares = ", ".join(f"{100 * len(s.x) / drawn:.0f} % {s.name}" for s in sources)
            of = f"the posterior of {sources[0].name}" if len(sources) == 1 else f"posteriors ({shares})"
            text = f"{drawn} draws of {of} were {through}"
        return "\n".join([_reserved(text, found), *_decided(panels)])
    gains = posterior.summary().column("narrowing")
    informed = sum(gain > 0.5 for gain in gains)
    parts = [f"The data narrow {informed} of {len(gains)} parameters by more than half"]
    for use, words in (
        ("calibrate", "the calibrated model covers {} of {} measurements"),
        ("validate", "and {} of {} held-out ones"),
    ):
        mine = [p for p in panels or () if p.use == use and np.isfinite(p.coverage)]
        total = sum(int(np.isfinite(p.y).sum()) for p in mine)
        if total:
            inside = sum(round(p.coverage * np.isfinite(p.y).sum()) for p in mine)
            parts.append(words.format(inside, total))
    text = (
        "; ".join(parts[:2])
        + (" " + parts[2] if len(parts) > 2 else "")
        + (" with its 90 % band" if len(parts) > 1 else "")
    )
    fault = shortfall(emulations or ())
    if fault:
        text = f"All this stands on a surrogate that may not be relied on ({fault}): t{text[1:]}"
    return "\n".join([_reserved(text, found), *_decided(panels or ())])


def shortfall(emulations: Sequence[Emulation]) -> str:
    """Say in a clause what is wrong with a surrogate that is not good enough; nothing where it is."""
    poor = sorted((e for e in emulations if e.poor), key=rank)
    if not poor:
        return ""
    worst = poor[0]
    of = f"{worst.series}, {worst.label}"
    if not worst.judged:
        n, d = points(worst), worst.points.shape[1]
        return f"the surrogate of {of} cannot be judged by {n} points for {d} parameters"
    more = f" and {len(poor) - 1} more observation{'s' if len(poor) > 2 else ''}" if len(poor) > 1 else ""
    if worst.q2 <= 0:
        return f"the surrogate of {of}{more} is no better than the mean of the runs (Q2 {worst.q2:.2f})"
    return f"the surrogate is too poor: it explains {worst.q2:.0%} of the variance of {of}".replace(
        "%", " %"
    ) + (f", and too little of {len(poor) - 1} more" if len(poor) > 1 else "")


def rank(emulation: Emulation) -> tuple[bool, float]:
    """Return what to sort by, the worst first: what cannot be judged, then the lowest score."""
    return emulation.judged, emulation.q2 if emulation.judged else 0.0


def points(emulation: Emulation) -> int:
    """Return the number of distinct points that a surrogate was fitted to."""
    return len(np.unique(emulation.points, axis=0))
