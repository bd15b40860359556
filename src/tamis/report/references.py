"""Our figures beside those that others published or computed exactly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from tamis.report.blocks import Grid, grid
from tamis.report.style import scaled_title
from tamis.report.tables import Cell, logarithm, number, plain, row_power, scaled, variation
from tamis.types import Table

if TYPE_CHECKING:
    from tamis.inference.posterior import Posterior
    from tamis.results.study import Reference


@dataclass(frozen=True)
class Beside:
    """One of our numbers and those of others, by source."""

    model: str
    quantity: str
    kind: Literal["evidence", "mean", "cov"]
    unit: str
    ours: float
    theirs: dict[str, float]

    def against(self, source: str) -> float:
        """Return the ratio of ours to theirs, of log evidences the difference."""
        theirs = self.theirs.get(source, math.nan)
        if self.kind == "evidence":
            return self.ours - theirs
        return self.ours / theirs if theirs else math.nan


def beside(model: str, posterior: Posterior, references: Sequence[Reference]) -> list[Beside]:
    """Return our log evidence, means and coefficients of variation with what others give of them."""
    summary = posterior.summary()
    rows: list[Beside] = []
    if posterior.log_evidence is not None:
        given = {r.source: r.log_evidence for r in references if r.log_evidence is not None}
        rows.append(Beside(model, "log evidence", "evidence", "", posterior.log_evidence[0], given))
    for i, p in enumerate(posterior.space.parameters):
        means = {r.source: r.mean[p.name] for r in references if p.name in r.mean}
        covs = {r.source: r.cov[p.name] for r in references if p.name in r.cov}
        rows.append(Beside(model, f"{p.name}: mean", "mean", p.unit, summary.column("mean")[i], means))
        rows.append(Beside(model, f"{p.name}: COV", "cov", "", summary.column("cov")[i], covs))
    return [row for row in rows if row.theirs]


def reference_grid(rows: Sequence[Beside]) -> Grid:
    """Set our figures beside those of others: a column a source, and the ratio (of logs the difference)."""
    sources = list(dict.fromkeys(source for row in rows for source in row.theirs))
    several = len({row.model for row in rows}) > 1
    shown, numbers = [], []
    for row in rows:
        cells = [Cell(row.model)] if several else []
        cells += [Cell(_quantity(row)), _cell(row, row.ours)]
        machine: list[Any] = [row.model, row.quantity, row.unit, row.ours]
        for source in sources:
            cells += [_cell(row, row.theirs.get(source)), _against(row, source)]
            machine += [row.theirs.get(source), row.against(source)]
        shown.append(cells)
        numbers.append(tuple(machine))
    names = ("model", "quantity", "unit", "ours", *(n for s in sources for n in (s, f"ours against {s}")))
    heads = [*(["model"] if several else []), "quantity", "ours"]
    heads += [head for source in sources for head in (source, "ours / it")]
    caption = "COV: coefficient of variation. Ours / it: the ratio, or for log evidence the difference."
    return grid(heads, shown, name="references", numbers=Table(names, tuple(numbers)), caption=caption)


def _quantity(row: Beside) -> str:
    if row.kind != "mean":
        return row.quantity
    return scaled_title(f"{row.quantity} [{row.unit}]" if row.unit else row.quantity, row_power(row.ours))


def _cell(row: Beside, value: float | None) -> Cell:
    if value is None:
        return Cell("–", math.nan)
    if row.kind == "evidence":
        return logarithm(value)
    return variation(value) if row.kind == "cov" else number(value, scaled(value, row.ours))


def _against(row: Beside, source: str) -> Cell:
    value = row.against(source)
    return logarithm(value, sign=True) if row.kind == "evidence" else number(value, plain(value))
