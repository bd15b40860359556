"""What runs of cheaper simulators bought, and that they bought nothing where they did not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tamis.report.blocks import Block, Grid, Heading, Text, grid
from tamis.report.tables import Cell, number, percent, record_title
from tamis.types import Table

if TYPE_CHECKING:
    from tamis.results.records import Emulation


def fidelity_blocks(emulations: Sequence[Emulation]) -> list[Block]:
    """Set the score with cheaper runs beside that of the expensive ones alone."""
    levelled = [e for e in emulations if e.levels]
    if not levelled:
        return []
    return [Heading("What cheaper runs bought"), Text(said(levelled)), fidelity_grid(levelled)]


def said(emulations: Sequence[Emulation]) -> str:
    """Say in words where they helped, and that they did not where they did not."""
    first = emulations[0]
    pairs = zip(first.level_runs, first.levels, strict=True)
    runs = " and ".join(f"{n} points of {name}" for n, name in pairs)
    helped = sum(e.used > 0 for e in emulations)
    text = f"Beside the expensive runs there are {runs}. "
    if not helped:
        return (
            f"{text}They bought nothing: no observation is predicted better with them by a fifth of its error, and the "
            "surrogate stands on the expensive runs alone. More of these, or another cheap simulator, would help."
        )
    of = f"{helped} of {len(emulations)} observations"
    text += f"They are used for {of}, where they take a fifth or more off the error"
    return (
        f"{text}." if helped == len(emulations) else f"{text}; the others stand on the expensive runs alone."
    )


def fidelity_grid(emulations: Sequence[Emulation]) -> Grid:
    """Return the table of scores with and without cheaper runs, and the ratio of errors."""
    columns = ("observation", "Q2, expensive runs alone", "Q2 with cheaper ones", "ratio of errors", "used")
    shown, rows = [], []
    for e in emulations:
        ratio = math.sqrt(max(1 - e.joint, 0.0) / (1 - e.alone)) if e.alone < 1 else math.nan
        used = "yes" if e.used == 1 else "no" if e.used == 0 else f"for {percent(e.used)} of its numbers"
        title = record_title(e)
        scores = [number(q2, f"{q2:.4f}".replace("-", "−")) for q2 in (e.alone, e.joint)]
        shown.append((title, *scores, number(ratio, f"{ratio:.2f}"), Cell(used, e.used)))
        rows.append((e.series, e.label, e.alone, e.joint, ratio, e.used))
    caption = (
        "Of expensive runs held out by tenths, at all levels, the surrogate fitted again without them. Cheaper runs "
        "are used where they take a fifth off the error by this score and by that of runs left out one by one."
    )
    names = ("series", "label", "Q2 alone", "Q2 with cheaper", "ratio of errors", "share used")
    return grid(columns, shown, name="fidelity", numbers=Table(names, tuple(rows)), caption=caption)
