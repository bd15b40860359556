"""The studies of examples/34_fire: they are read, and the failure time depends on what it should."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tamis import Study
from tamis.results.records import Influence, load_records

EXAMPLE = Path(__file__).parents[3] / "examples" / "34_fire"


@pytest.mark.parametrize("name", ["study", "fire_load", "after_earthquake"])
def test_the_studies_are_read(name: str) -> None:
    study = Study.load(EXAMPLE / f"{name}.toml")
    assert study.simulator.name.startswith("tamis:fire.")


@pytest.mark.example
@pytest.mark.slow
def test_what_the_failure_time_depends_on(tmp_path: Path) -> None:
    """Load first, then strength: the beam is bare and fails by its own bending."""
    folder = Path(
        shutil.copytree(EXAMPLE, tmp_path / "fire", ignore=shutil.ignore_patterns("runs", "results"))
    )
    subprocess.run([sys.executable, "-m", "tamis", "run", "study.toml", "-j", "1"], cwd=folder, check=True)
    (found,) = load_records(folder / "results" / "study" / "sensitivity.npz", Influence)
    total = dict(
        zip(
            ("strength", "load", "section_factor", "emissivity", "protection"), found.total[:, 0], strict=True
        )
    )
    assert max(total, key=lambda name: total[name]) == "load"
    assert found.first.sum() == pytest.approx(1.0, abs=0.1)  # they hardly act together
