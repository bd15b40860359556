"""What the table [fragility] of a study asks for: which prediction, which of its numbers, over which intensities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tamis.errors import StudyError, nearest
from tamis.marginals import Marginal
from tamis.simulation import Simulator
from tamis.space import Space
from tamis.study.laws import make_law
from tamis.study.layout import titled
from tamis.study.schema import FragilityTable, LawTable
from tamis.study.series import Series
from tamis.types import Array

Fault = Callable[[str, str], StudyError]


@dataclass(frozen=True)
class Intensity:
    """How strong an event was: the swept input of the prediction, a parameter, or a number observed of the run."""

    title: str  # with unit
    parameter: str = ""
    observation: int | None = None  # its place among those of the prediction

    @property
    def swept(self) -> bool:
        """Whether it is the swept input."""
        return not self.parameter and self.observation is None


@dataclass(frozen=True)
class Asked:
    """A fragility that a study asks for."""

    series: Series
    number: int  # of the series in the study
    demand: int  # place of its observation
    title: str  # of the demand, with unit
    intensities: tuple[Intensity, ...]
    limit: float | Marginal
    words: str  # the limit

    def intensity(self, x: Array, names: tuple[str, ...], answers: Array) -> Array:
        """Return the intensities of runs, (levels, n, q), from parameters x (n, d) and answers (levels, n, k)."""
        levels, n = answers.shape[:2]
        columns = []
        for one in self.intensities:
            if one.observation is not None:
                columns.append(answers[:, :, one.observation])
            elif one.parameter:
                columns.append(np.broadcast_to(x[:, names.index(one.parameter)], (levels, n)))
            else:
                columns.append(np.broadcast_to(np.array(self.series.values)[:, None], (levels, n)))
        return np.stack(columns, axis=2)


def asked_fragility(
    fail: Fault,
    table: FragilityTable,
    simulator: Simulator,
    space: Space,
    series: tuple[Series, ...],
    *,
    drawn: bool = False,
) -> Asked:
    """Resolve the names of the table; ``drawn`` where the parameters are draws of other studies' posteriors."""
    number, one = _prediction(fail, table, series)
    observed = one.experiments[0].observations
    labels = [o.label for o in observed]
    for o in observed:
        if o.size > 1:
            raise fail(
                "fragility.predict",
                f'"{one.name}" observes the signal {o.label}; a fragility is of single numbers, such as its peak',
            )
    demand = _demand(fail, table, labels)
    wanted = [table.intensity] if isinstance(table.intensity, str) else table.intensity
    if len(wanted) not in (1, 2) or len(set(wanted)) != len(wanted):
        raise fail("fragility.intensity", f"expected one or two different ones, found {wanted}")
    intensities = []
    for name in wanted:
        if name == one.along:
            intensities.append(Intensity(titled(name, simulator.inputs[name].unit)))
        elif name in space.names:
            unit = simulator.inputs[name].unit if name in simulator.inputs else ""
            intensities.append(
                Intensity(titled(name, unit or space.parameters[space.index(name)].unit), name)
            )
        elif name in labels and labels.index(name) != demand:
            at = labels.index(name)
            intensities.append(Intensity(titled(name, observed[at].observable.unit), "", at))
        else:
            known = [
                *([one.along] if one.along else []),
                *space.names,
                *(x for x in labels if x != labels[demand]),
            ]
            what = f'"{name}" is neither the swept input of "{one.name}", nor a parameter, nor observed there'
            raise fail("fragility.intensity", what + nearest(name, known))
    for name in table.random:
        if name not in space.names:
            raise fail("fragility.random", f'no parameter "{name}"{nearest(name, space.names)}')
        if not (drawn or any(s.use == "calibrate" for s in series)):
            raise fail("fragility.random", "there are no data: all parameters are random already; remove it")
    limit, words = _limit(fail, table, one, demand)
    unit = observed[demand].observable.unit
    return Asked(
        one,
        number,
        demand,
        titled(labels[demand], unit),
        tuple(intensities),
        limit,
        f"{words} {unit}".rstrip(),
    )


def _prediction(fail: Fault, table: FragilityTable, series: tuple[Series, ...]) -> tuple[int, Series]:
    ahead = {s.name: (k, s) for k, s in enumerate(series) if s.use == "predict"}
    if not ahead:
        raise fail("fragility", "needs a [[predict]] that observes the demand")
    if table.predict is None:
        if len(ahead) > 1:
            raise fail("fragility.predict", f"missing; name one of the predictions: {', '.join(ahead)}")
        return next(iter(ahead.values()))
    if table.predict not in ahead:
        raise fail("fragility.predict", f'no prediction "{table.predict}"{nearest(table.predict, ahead)}')
    return ahead[table.predict]


def _demand(fail: Fault, table: FragilityTable, labels: list[str]) -> int:
    if table.demand is None:
        if len(labels) > 1:
            raise fail("fragility.demand", f"missing; name one of what is observed: {', '.join(labels)}")
        return 0
    if table.demand not in labels:
        raise fail(
            "fragility.demand", f'nothing observed is called "{table.demand}"{nearest(table.demand, labels)}'
        )
    return labels.index(table.demand)


def _limit(fail: Fault, table: FragilityTable, one: Series, demand: int) -> tuple[float | Marginal, str]:
    if isinstance(table.limit, LawTable):
        given: dict[str, Any] = table.limit.model_extra or {}
        law = make_law(fail, "fragility.limit", "law", table.limit.law, given)
        return law, f"{table.limit.law} ({', '.join(f'{k} {v:g}' for k, v in given.items())})"
    limit = one.limits[demand] if table.limit is None and one.limits else table.limit
    if limit is None or not np.isfinite(limit):
        raise fail("fragility.limit", "missing; a number, or a law of the capacity such as { law = ... }")
    return float(limit), f"{limit:g}"
