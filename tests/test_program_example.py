"""The example with CalculiX: its deck against the closed formula, and the calibration it is there for."""

import importlib.util
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from tamis import Study
from tamis.cli.main import main
from tamis.contract import check_simulator
from tests.test_examples import TAMIS, check, copied

EXAMPLE = Path(__file__).parent.parent / "examples" / "03_program"
needs_ccx = pytest.mark.skipif(
    shutil.which("ccx") is None or shutil.which("awk") is None,
    reason="the program ccx (Debian package calculix-ccx) and awk are not installed",
)


def make_data():
    spec = importlib.util.spec_from_file_location("make_data", EXAMPLE / "data" / "make_data.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_study_loads_where_the_program_is_missing():
    simulator = Study.load(EXAMPLE / "study.toml").simulator
    assert simulator.name == "ccx" and simulator.version.startswith("2.20+")
    assert list(simulator.inputs) == ["E", "zeta", "F"] and simulator.outputs["w"].unit == "m"


@pytest.mark.example
@needs_ccx
def test_the_deck_agrees_with_the_closed_formula(tmp_path):
    data = make_data()
    simulator = Study.load(EXAMPLE / "study.toml").simulator
    check_simulator(simulator)
    for e, zeta, force in ((data.E, data.ZETA, -10.0), (1.85e11, 0.004, -20.0)):
        out = simulator.run({"E": e, "zeta": zeta, "F": force}, tmp_path)
        np.testing.assert_allclose(out["t"], np.arange(1, 61) * 0.01, rtol=1e-7)  # printed with seven digits
        error = out["w"] - data.tip(out["t"], force, e, zeta)
        # 40 bricks make the first frequency 6e-5 too high; after five periods that is 2e-3 of the amplitude
        assert np.abs(error).max() < 2e-3 * np.abs(out["w"]).max()


@pytest.mark.example
@needs_ccx
def test_check_runs_the_program_once(tmp_path, capsys):
    folder = copied("03_program", tmp_path)
    assert main(["check", str(folder / "study.toml")]) == 0
    assert "one run takes" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.example
@needs_ccx
def test_the_calibration_recovers_the_truth(tmp_path):
    folder = copied("03_program", tmp_path)
    done = subprocess.run(
        [*TAMIS, "run", "study.toml", "-j", "2"], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    check(folder, tomllib.loads((folder / "expected.toml").read_text()))


@pytest.mark.example
def test_the_files_of_the_example_are_what_its_scripts_write(tmp_path):
    folder = copied("03_program", tmp_path)
    for script in ("make_mesh.py", "make_data.py"):
        subprocess.run([sys.executable, folder / "data" / script], check=True)
    for name in ("mesh.inp", "data/step10.csv", "data/step20.csv"):
        assert (folder / name).read_text() == (EXAMPLE / name).read_text()
