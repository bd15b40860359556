"""What the command line shows.

Bars and tables on a terminal, plain lines elsewhere, one JSON event a line on request.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tamis.errors import visible

if TYPE_CHECKING:
    from tamis.types import Event, Progress


def say(text: str = "") -> None:
    """Print a line of news."""
    print(visible(text), flush=True)


@contextmanager
def told_plainly() -> Iterator[None]:
    """Print what tamis warns of as one line each, without the place in its source; said again, it is not repeated."""
    import warnings

    from tamis.errors import TamisWarning

    caught: list[warnings.WarningMessage] = []
    told: set[str] = set()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", TamisWarning)
            yield
    finally:
        for warning in caught:
            if issubclass(warning.category, TamisWarning):
                text = visible(str(warning.message))
                if text not in told:
                    print(f"warning: {text}", file=sys.stderr, flush=True)
                told.add(text)
            else:
                warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show on a terminal that something is being computed, and for how long: a single run knows no share of itself."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        shown.add_task(what, total=None)
        yield


@contextmanager
def reporting(as_json: bool) -> Iterator[Progress]:
    """Give a progress callback that suits where the output goes."""
    if as_json:
        yield _json_lines
    elif sys.stderr.isatty():
        yield from _bars()
    else:
        yield _Lines()


def _json_lines(event: Event) -> None:
    from tamis.study.events import fields

    print(json.dumps(fields(event)), flush=True)


class _Lines:
    """For logs: a line when a task ends, and one every ten seconds while it lasts."""

    def __init__(self) -> None:
        self.last = time.monotonic()
        self.ended: set[tuple[str, int]] = set()

    def __call__(self, event: Event) -> None:
        end = event.total is not None and event.done >= event.total
        now = time.monotonic()
        if not end and now - self.last < 10:
            return
        if end and (event.task, event.total or 0) in self.ended:
            return
        if end:
            self.ended.add((event.task, event.total or 0))
        self.last = now
        print(f"  {event.task}: {event.done}/{event.total}{_details(event)}", file=sys.stderr, flush=True)


def _bars() -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Column

    columns = (
        TextColumn("{task.description}", table_column=Column(min_width=11, no_wrap=True)),
        BarColumn(bar_width=16, table_column=Column(min_width=16)),
        MofNCompleteColumn(table_column=Column(min_width=7, no_wrap=True)),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True, table_column=Column(min_width=5)),
        TextColumn("{task.fields[details]}", table_column=Column(no_wrap=True, overflow="ellipsis")),
    )
    with Progress(*columns, console=Console(stderr=True)) as bars:
        tasks: dict[str, Any] = {}

        def show(event: Event) -> None:
            if event.task not in tasks or (event.done == 0 and bars.tasks[tasks[event.task]].finished):
                tasks[event.task] = bars.add_task(event.task, total=event.total, details="")
            bars.update(
                tasks[event.task], completed=event.done, total=event.total, details=_details(event).strip()
            )

        yield show


def _details(event: Event) -> str:
    hidden = ("seconds_left", "likelihood calls")
    shown = {key: v for key, v in event.info.items() if key not in hidden and (key != "stored" or v)}
    return "".join(f"  {key} {_short(value)}" for key, value in shown.items())


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table: drawn on a terminal, aligned text elsewhere."""
    cells = [[_cell(value) for value in row] for row in rows]
    numeric = [all(_is_number(row[i]) for row in cells) for i in range(len(columns))]
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        drawn = Table()
        for name, right in zip(columns, numeric, strict=True):
            drawn.add_column(name, justify="right" if right else "left")
        for row in cells:
            drawn.add_row(*row)
        Console().print(drawn)
        return
    widths = [max(len(str(c)) for c in column) for column in zip(columns, *cells, strict=True)]
    for row in (list(columns), *cells):
        aligned = (c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, numeric, strict=True))
        print("  ".join(aligned).rstrip())


def _is_number(cell: str) -> bool:
    try:
        float(cell.rstrip("% "))
    except ValueError:
        return cell == "–"
    return True


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and value != value):
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else visible(str(value))
