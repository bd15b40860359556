"""The example of gabions: its studies name what there is, its scripts run on a gabion of 27 grains, for a moment."""

import subprocess
import sys
import tomllib

import numpy as np
import pytest

from tamis import Study
from tamis.sheets import read_csv
from tamis.simulation import find
from tests.test_examples import EXAMPLES, copied

FOLDER = EXAMPLES / "31_gabion"
TINY = {
    "across": 1, "high": 1, "packings": 1, "grains": 27, "side": 0.27, "ball_mass": 20.0, "ball_diameter": 0.2,
    "settling": 2e-3, "duration": 0.01, "rebound": 0.1,
}  # fmt: skip


@pytest.mark.parametrize("name", ["study", "layer", "posterior"])
def test_its_studies_name_inputs_and_outputs_that_there_are(name):
    assert Study.load(FOLDER / f"{name}.toml").title
    said = tomllib.loads((FOLDER / f"{name}.toml").read_text())
    simulator = find(said["model"]["simulator"])
    asked = [*said.get("experiment", []), *said.get("predict", [])]
    named = {*said["model"]["inputs"], *(key for test in asked for key in test.get("conditions", {}))}
    if "from" not in said["parameters"]:
        named |= set(said["parameters"])
    assert named <= set(simulator.inputs)
    seen = [one for test in asked for one in test["observe"]]
    assert seen and {one["output"] for one in seen} <= set(simulator.outputs)
    observe = (FOLDER / "observe.py").read_text()
    for one in seen:
        file, _, function = one.get("how", "").partition(":")
        assert not function or (file == "observe.py" and f"def {function}(outputs)" in observe)
        if "data" in one:
            sheet = read_csv(FOLDER / one["data"])
            assert len(sheet.numbers(one["x"])) == len(sheet.numbers(one["y"])) == 2


def test_the_drops_differ_in_their_constants_only():
    layer, posterior = (
        tomllib.loads((FOLDER / f"{name}.toml").read_text()) for name in ("layer", "posterior")
    )
    mass = find("tamis:acd2.layer").inputs["ball_mass"].default
    assert posterior["model"]["inputs"] == layer["model"]["inputs"] | {"ball_mass": mass}
    for one, other in zip(layer["predict"], posterior["predict"], strict=True):
        assert one == other | {"draws": posterior["parameters"]["draws"]}


def run(folder, *call):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *call], cwd=folder, capture_output=True, text=True, check=True
    )
    return [line.split("|")[1:-1] for line in done.stdout.splitlines() if line.startswith("|")]


def test_the_numerical_experiment_is_made_beside_other_packings(tmp_path):
    folder = copied("31_gabion", tmp_path)
    (folder / "study.toml").write_text(
        "[model]\ninputs = { "
        + ", ".join(
            f"{name} = {value}" for name, value in (TINY | {"energy_1": 20.0, "energy_2": 40.0}).items()
        )
        + ", energy_3 = 0.0 }\n"
    )
    script = folder / "make_data.py"
    text = script.read_text()
    assert "OTHERS = 20_130_900, 10" in text
    script.write_text(text.replace("OTHERS = 20_130_900, 10", "OTHERS = 3, 2"))
    rows = run(folder, script)
    assert len(rows) == 2 + 3 + 4 * 3 and all(len(row) == 3 for row in rows)
    sheet = read_csv(folder / "data" / "measured.csv")
    force = sheet.numbers("force")
    # printed in kN to three digits, kept in N to a tenth
    assert [float(cell.split(";")[0]) for cell in rows[2][1:]] == pytest.approx(
        force / 1e3, rel=0.01, abs=1e-3
    )
    assert len(force) == 2 and (sheet.numbers("duration") <= 0.01).all()


@pytest.mark.filterwarnings("ignore:the jump was not solved", "ignore:the grains are not at rest")
def test_four_impacts_are_drawn_from_the_signals_that_are_kept(tmp_path):
    folder = copied("31_gabion", tmp_path)
    energies = {f"energy_{i}": 10.0 * i for i in (1, 2, 3, 4)}
    found = find("tamis:acd2.gabion_wall")(**TINY | energies)
    np.savez(folder / "wall.npz", **found)
    rows = run(folder, folder / "figures.py")
    assert len(rows) == 2 + 10 + 4 and all(len(row) == 5 for row in rows)
    way = next(row for row in rows if row[0].strip().startswith("largest way of the central back"))
    assert [float(cell) for cell in way[1:]] == pytest.approx(100 * found["back_peak"], abs=0.06)
    for name in ("forces", "accelerations", "displacements"):
        assert (folder / f"{name}.png").stat().st_size > 10_000
