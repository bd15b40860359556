"""The exceptions and warnings of tamis.

A message says what was expected, what was found and where, and what to do about it. Where a name is wrong the
nearest valid one is offered.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_FIGURE = re.compile(r"(?<![\w.])[-+]?(\d+\.?\d*([eE][-+]?\d+)?|nan\b|inf\b)")
_HIDDEN = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n"}


class TamisError(Exception):
    """Anything tamis can explain to its user; programming errors are left to crash."""


class StudyError(TamisError):
    """The request is wrong: a study file, a data file, a name, a unit."""


class Unavailable(StudyError):
    """What every run needs is not there, such as a server: no point would fare better, so the campaign stops."""


class SetAside(StudyError):
    """Array files were found damaged when they were read, and were set aside; what is asked again makes them anew."""


class SimulationError(TamisError):
    """A simulator says that the physics failed (divergence, no convergence); a datum, not an accident."""


class SurrogateError(TamisError):
    """A surrogate predicts runs it has not seen too poorly to stand in for the simulator."""


class TamisWarning(UserWarning):
    """Something the user should worry about; collected during a study and printed in the report."""


def error_text(error: BaseException | str) -> str:
    """Return the text of an error, also of one that cannot say it."""
    try:
        return str(error)
    except BaseException as failure:  # it may raise what nobody catches
        return f"(its text cannot be had: {type(failure).__name__})"


def visible(text: str) -> str:
    """Spell out what a terminal would obey, or could not show: texts come from anywhere."""
    return text.translate(_HIDDEN).encode("utf-8", "backslashreplace").decode()


def without_figures(text: str) -> str:
    """Return what messages that differ in their numbers have in common."""
    return _FIGURE.sub("#", text)


def nearest(name: str, valid: Iterable[str]) -> str:
    """Return ``; did you mean "x"?`` or the list of valid names, as the tail of an error message."""
    import difflib

    names = sorted(valid)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if close:
        return f'; did you mean "{close[0]}"?'
    if not names:
        return "; none is defined here"
    shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
    return f"; valid names: {shown}"
