"""Inputs of programs and servers, as a study file declares them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from tamis.errors import StudyError, nearest
from tamis.simulation import Port

_KEYS = ("default", "unit", "bounds", "choices", "kind", "doc")


def port_of(name: str, table: Mapping[str, Any], base: Path) -> Port:
    """Make an input from its table; the file of a default is looked for from ``base``."""
    for key in table:
        if key not in _KEYS:
            raise StudyError(f'inputs.{name}: unknown key "{key}"{nearest(key, _KEYS)}')
    choices = tuple(table.get("choices") or ())
    kind: Literal["number", "choice", "file"] = "choice" if choices else table.get("kind", "number")
    default = table.get("default")
    if kind == "choice" and not choices:
        raise StudyError(f'inputs.{name}: a choice needs its words: choices = ["a", "b"]')
    if kind == "number" and isinstance(default, str):
        raise StudyError(
            f'inputs.{name}: default "{default}" is not a number; say choices = [...] or kind = "file"'
        )
    if kind == "file" and default is not None:
        default = str((base / str(default)).resolve())
    bounds = table.get("bounds")
    return Port(
        name,
        unit=table.get("unit", ""),
        default=default,
        bounds=(float(bounds[0]), float(bounds[1])) if bounds else None,
        kind=kind,
        choices=choices,
        doc=table.get("doc", ""),
    )
