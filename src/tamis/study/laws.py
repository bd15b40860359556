"""Laws as a study file writes them: a name and its parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tamis.errors import StudyError, TamisError, nearest
from tamis.marginals import LAWS


def make_law(
    fail: Callable[[str, str], StudyError],
    where: str,
    key: str,
    name: str,
    given: Mapping[str, Any],
    beside: Sequence[str] = (),
) -> Any:
    """Return the law that the table ``where`` names by ``key``; ``beside`` are keys the table has besides."""
    if name not in LAWS:
        raise fail(f"{where}.{key}", f'no law "{name}"{nearest(name, LAWS)}')
    law = LAWS[name]
    wanted = inspect.signature(law).parameters
    for own, value in given.items():
        if own not in wanted:
            raise fail(where, f'law {name} has no "{own}"{nearest(own, [*wanted, *beside])}')
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise fail(f"{where}.{own}", f"expected a number, found {value!r}")
    missing = [own for own, p in wanted.items() if p.default is p.empty and own not in given]
    if missing:
        raise fail(where, f"law {name} needs {', '.join(missing)}")
    try:
        return law(**{own: float(value) for own, value in given.items()})
    except TamisError as error:
        raise fail(where, str(error)) from error
