"""Words of records; numbers as people read them, with the digits that the uncertainty allows, and for machines."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tamis.report.style import superscript
from tamis.types import Table

if TYPE_CHECKING:
    from tamis.results.records import Emulation, Influence, Panel, Propagation


@dataclass(frozen=True)
class Cell:
    """One cell of a shown table: its text, what it sorts by, and a tint."""

    text: str
    key: float | str | None = None
    tint: str = ""  # CSS colour of the background

    @property
    def number(self) -> bool:
        """Numbers are aligned to the right."""
        return isinstance(self.key, float)


def record_title(record: Panel | Emulation | Influence | Propagation) -> str:
    """Name a record by its test or prediction and what is observed, unless the first says it already."""
    words = record.label.split()
    said = all(re.search(rf"\b{re.escape(word)}\b", record.series) for word in words)
    return record.series if said else f"{record.series}: {record.label}"


def position(xlabel: str, x: float) -> str:
    """Say where on an abscissa: ``t [s]`` and 0.25 become ``t = 0.25 s``."""
    name, _, unit = xlabel.partition(" [")
    digits, times, ten = plain(x, 4).partition(" × ")
    value = (digits.rstrip("0").rstrip(".") if "." in digits else digits) + times + ten
    return f"{name or 'index'} = {value} {unit.rstrip(']')}".rstrip()


def unit_of(ylabel: str) -> str:
    """Return the unit of an axis title, in its brackets, or nothing."""
    return ylabel[ylabel.rindex("[") :] if ylabel.endswith("]") else ""


def decimals(spread: float) -> int:
    """Return the decimals at which a spread shows two significant digits; negative for tens and hundreds."""
    return 1 - math.floor(math.log10(spread) + 1e-12)


def plain(value: float, significant: int = 3) -> str:
    """Write a number alone, with that many significant digits."""
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    exponent = _exponent(value, significant)
    if -3 <= exponent <= 4:
        return _fixed(value, significant - 1 - exponent)
    return f"{_fixed(value / 10.0**exponent, significant - 1)} × 10{superscript(exponent)}"


def row_power(value: float) -> int:
    """Return the power of ten to take out of a row of numbers like this one; 0 where plain digits read well."""
    exponent = _exponent(value, 3)
    return 0 if -2 <= exponent <= 3 else exponent


def scaled(value: float, like: float) -> str:
    """Write a number with the power taken out of its row and the decimals that three digits of ``like`` need."""
    exponent = row_power(like)
    return _fixed(value / 10.0**exponent, 2 - _exponent(like, 3) + exponent)


def with_error(value: float, error: float) -> str:
    """Write ``17.080 ± 0.053``: the error with two digits, the value with as many decimals."""
    if not math.isfinite(value) or not math.isfinite(error) or error <= 0:
        return plain(value, 4)
    places = decimals(error)
    return f"{_fixed(value, places)} ± {_fixed(error, places)}"


def with_interval(value: float, low: float, high: float) -> tuple[str, str]:
    """Write a value and its interval with one power of ten and the digits that the half width allows."""
    half = 0.5 * (high - low)
    if not math.isfinite(half) or half <= 0 or half > 100 * abs(value) > 0:
        return plain(value), f"{plain(low)} to {plain(high)}"
    places = decimals(half)
    if value and decimals(abs(value)) > places:  # one more digit where the value is small beside its interval
        places += 1
    if high > 20 * low > 0 and abs(round(low, places) - low) > 0.1 * low:  # over more than a decade
        return plain(value), f"{plain(low)} to {plain(high)}"
    exponent = _exponent(round(value, places) or max(abs(low), abs(high)), 3)
    if -2 <= exponent <= (5 if places >= 0 else 3):
        return _fixed(value, places), f"{_fixed(low, places)} to {_fixed(high, places)}"
    a, b, c = (_fixed(v / 10.0**exponent, places + exponent) for v in (value, low, high))
    ten = f"× 10{superscript(exponent)}"
    return f"{a} {ten}", f"({b} to {c}) {ten}"


def percent(share: float) -> str:
    """Write a share in per cent, with one decimal where it is within one per cent of none or all."""
    if math.isnan(share):
        return "–"
    close = min(abs(share), abs(1 - share))
    extra = 1 if 0 < close < 0.00995 else 0
    return f"{_fixed(100 * share, extra)}\u00a0%"


def sentence(text: str) -> str:
    """Make a sentence of the verdict readable: powers of ten, and no line break within a number and its error."""
    return readable(text).replace(" ± ", "\u00a0±\u00a0").replace(" %", "\u00a0%")


def readable(text: str) -> str:
    """Turn the exponents of a text into raised powers of ten."""
    return re.sub(
        r"(?<![\w.])(\d(?:\.\d+)?)e([+-]?\d+)\b",
        lambda found: f"{found[1]} × 10{superscript(int(found[2]))}",
        text,
    )


def number(value: float, text: str | None = None, tint: str = "") -> Cell:
    """Return a cell that shows a number and sorts by it."""
    whole = float(value).is_integer() and abs(value) < 1e6
    return Cell((_fixed(value, 0) if whole else plain(value)) if text is None else text, float(value), tint)


def logarithm(value: float, sign: bool = False) -> Cell:
    """Return a cell for a logarithm or a difference of two: two decimals say all there is to say."""
    if math.isnan(value):
        return Cell("–", value)
    return number(value, ("+" if sign and value > 0 else "") + _fixed(value, 2))


def variation(value: float) -> Cell:
    """Return a cell for a coefficient of variation, in per cent."""
    return number(value, f"{_fixed(100 * value, 1)} %")


def count(value: int) -> Cell:
    """Return a cell that shows a whole number."""
    return Cell(f"{value:,}".replace(",", "\u202f"), float(value))


def cells(row: Iterable[Any]) -> tuple[Cell, ...]:
    """Make cells of what is not one yet."""
    return tuple(item if isinstance(item, Cell) else Cell(str(item)) for item in row)


def to_csv(table: Table) -> bytes:
    """Write a table for machines: full precision, empty cells for what is missing."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows([_machine(value) for value in row] for row in table.rows)
    return buffer.getvalue().encode()


def columns_table(columns: Sequence[str], arrays: Sequence[Any]) -> Table:
    """Gather columns of equal length into a table."""
    return Table(
        tuple(columns), tuple(zip(*(getattr(a, "tolist", lambda a=a: a)() for a in arrays), strict=True))
    )


def _machine(value: Any) -> Any:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    return f"{value:.10g}" if isinstance(value, float) else value


def _exponent(value: float, significant: int) -> int:
    """Return the power of ten of a number as it will be after rounding."""
    if value == 0.0 or not math.isfinite(value):
        return 0
    return int(f"{value:.{significant - 1}e}".rpartition("e")[2])


def _fixed(value: float, places: int) -> str:
    """Write with a fixed number of decimals and a true minus sign; negative ``places`` round to tens."""
    text = f"{round(value, places) + 0.0:.{max(places, 0)}f}"
    return text.replace("-", "−")
