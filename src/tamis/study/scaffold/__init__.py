"""The studies `tamis new` copies: examples that are tests, shipped in the wheel."""

from __future__ import annotations

from pathlib import Path


def scaffolds() -> dict[str, Path]:
    """Return the folders that can be copied, by name: beside this file when installed, the examples in a checkout."""
    here = Path(__file__).parent
    found = {p.name: p for p in here.iterdir() if (p / "study.toml").is_file()}
    examples = here.parents[3] / "examples"
    if not found and (examples / "01_ball").is_dir():
        found = {"ball": examples / "01_ball", "borehole": examples / "04_surrogate"}
    return found
