"""A new stage is the module of its mathematics and four files: added here to a copy of the package, and run."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src" / "tamis"

MATHEMATICS = '''"""How many of n draws pass a level."""
from dataclasses import dataclass
import numpy as np
from tamis.types import Array

@dataclass(frozen=True)
class Tally:
    series: str
    level: float
    passed: Array

def tally(series: str, values: Array, level: float) -> Tally:
    return Tally(series, level, np.array(np.mean(values > level, axis=0)))
'''
STAGE = '''"""The draws of each prediction that pass a level."""
import warnings
from tamis.analysis.tally import tally
from tamis.errors import TamisWarning
from tamis.results.records import Panel, load_records, save_records

def run(context):
    study = context.study
    level = study.tables.tally.level
    panels = load_records(study.folder / "prediction.npz", Panel)
    warnings.warn(f"Levels are {level:g}.", TamisWarning)
    context.rng("tally")
    save_records(study.folder / "tally.npz", [tally(p.series, p.model, level) for p in panels])

def cost(study, seconds, duration):
    yield "tally: no runs"
'''
REPORT = '''"""The draws that pass a level, in a table."""
from tamis.analysis.tally import Tally
from tamis.report.blocks import Screen, grid

def blocks(results):
    found = results.records("tally", Tally) or ()
    return [grid(("series", "share"), [(t.series, f"{t.passed.max():.3f}") for t in found])] if found else []

SCREEN = Screen("tally", "Levels passed", blocks)
'''
ROW = """    Stage("tally", 99, lambda f: (f["prediction"], f.raw.table("tally")), lambda f: "tally" in f.raw.tables,
          per_part=True, for_next=False),
    Stage("next", 8,"""
TABLE = '''class TallyTable(Strict):
    """A level."""

    level: Number


class StudyFile(Strict):'''
STUDY = """tamis = 1
[model]
simulator = "model.py:line"
[parameters]
a = { prior = "uniform", low = 0.0, high = 1.0 }
[[predict]]
name = "ahead"
observe = [ { output = "y" } ]
[tally]
level = 0.25
"""
MODEL = """import tamis
@tamis.simulator(outputs={"y": ""})
def line(*, a: float = 0.5):
    return {"y": a}
"""


@pytest.fixture
def package(tmp_path):
    """A copy of the package with a stage more: two new files, and two that are edited."""
    here = tmp_path / "src" / "tamis"
    shutil.copytree(SRC, here, ignore=shutil.ignore_patterns("__pycache__"))
    new = {"analysis": MATHEMATICS, "study/stages": STAGE, "report": REPORT}
    for folder, text in new.items():
        (here / folder / "tally.py").write_text(text)
    for name, old, text in [
        ("study/stages/table.py", '    Stage("next", 8,', ROW),
        ("study/schema.py", "class StudyFile(Strict):", TABLE),
        ("study/schema.py", "    inference: Inf", "    tally: TallyTable | None = None\n    inference: Inf"),
    ]:
        source = (here / name).read_text()
        assert source.count(old) == 1
        (here / name).write_text(source.replace(old, text))
    return here.parent


def test_a_stage_is_added_with_four_files(package, tmp_path):
    def tamis(*arguments):
        environment = {**os.environ, "PYTHONPATH": str(package)}
        asked = [sys.executable, "-m", "tamis", *arguments]
        done = subprocess.run(asked, cwd=tmp_path, env=environment, capture_output=True, text=True)
        return done.stdout + done.stderr

    (tmp_path / "study.toml").write_text(STUDY)
    (tmp_path / "model.py").write_text(MODEL)
    assert "tally: no runs" in tamis("check", "study.toml")
    assert "Levels are 0.25" in tamis("run", "study.toml", "-j", "0")
    page = (tmp_path / "results" / "study" / "report.html").read_text()
    assert page.index("Levels passed") < page.index("Provenance") and "Levels are 0.25" in page
    (tmp_path / "study.toml").write_text(STUDY.replace("0.25", "0.5"))
    said = [line for line in tamis("status", "study.toml").splitlines() if "to do" in line]
    assert [line.split()[0] for line in said] == ["tally", "report"]
    (tmp_path / "study.toml").write_text(STUDY.replace("level", "lever"))
    assert "did you mean" in tamis("check", "study.toml")
