"""Families: what is read of them without importing, and which change of which file is a change of code."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import pytest

from tamis import families
from tamis.contract import check_simulator
from tamis.errors import StudyError
from tamis.simulation import find
from tamis.study.reader import input_names, read

PACKAGE = Path(families.__file__).parent
ASK = """
import sys
from pathlib import Path
from tamis import families
package = Path(families.__file__).parent
assert package.is_relative_to(sys.argv[1])
for name in ("sim/dem/simulators.py", "sim/nscd/simulators.py", "sim/dem/impact/kernels.py", "sim/nscd/kernels.py",
             "sim/common/rounds.py", "surrogates/kernels.py"):
    print(families.code_hash(package / name))
"""
DEM, NSCD, ROUNDS, CHAOS = {0, 2}, {1, 3}, {4}, {5}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("copy")
    shutil.copytree(PACKAGE, folder / "tamis", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def asked(copy: Path, code: str = ASK) -> list[str]:
    environment = os.environ | {"PYTHONPATH": str(copy), "TAMIS_CACHE": str(copy / "cache")}
    command = [sys.executable, "-c", code, str(copy)]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    ).stdout.splitlines()


unchanged = lru_cache(asked)  # every test leaves the copy as it found it


def changed(copy: Path, file: str, edit: str, code: str = ASK) -> set[int]:
    before, path = unchanged(copy, code), copy / "tamis" / file
    kept = path.read_text()
    path.write_text(kept + edit if edit[:1] != "^" else edit[1:] + kept)
    after = asked(copy, code)
    path.write_text(kept)
    return {i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b}


@pytest.mark.parametrize(
    ("file", "edit", "expected"),
    [
        ("sim/contact/cone.py", "^# a comment\n\n", set()),
        ("sim/contact/cone.py", "\n\ndef unused():\n    return 1\n", NSCD),
        ("sim/common/rings.py", "^# a comment\n", set()),
        ("sim/common/rings.py", "\nX = 1\n", NSCD),
        ("sim/common/planes.py", "\nX = 1\n", NSCD),
        ("sim/common/threads.py", "\nX = 1\n", {0}),  # no kernel
        ("sim/dem/impact/scene.py", "\nX = 1\n", {0}),
        ("sim/dem/impact/kernels.py", "\nX = 1\n", DEM),
        ("sim/contact/assembled/mixing.py", "\nX = 1\n", set()),  # which no simulator loads
        ("surrogates/kernels.py", "\nX = 1\n", CHAOS),
        ("__init__.py", "\nX = 1\n", set()),
        ("sim/nscd/__init__.py", "\nX = 1\n", set()),  # names for users, from where each stands
        ("sim/nscd/scene.py", "\nX = 1\n", {1}),
        ("jit.py", "\nX = 1\n", set()),  # which tamis.jit adds itself
    ],
)
def test_code_changes_where_a_changed_file_is_imported(copy, file, edit, expected):
    assert changed(copy, file, edit) == expected


COMPILE = """
from tamis.sim.dem.impact.kernels import rebound
from tamis.simulation import find
find("tamis:dem.impact").run({}, None)
print(sum(rebound.stats.cache_hits.values()), sum(rebound.stats.cache_misses.values()))
"""


def test_a_comment_recompiles_nothing_and_a_changed_line_does(copy):
    assert asked(copy, COMPILE) == ["0 1"]
    path = copy / "tamis/sim/dem/impact/kernels.py"
    text = path.read_text()
    path.write_text(
        "# every line is another one\n" + text.replace('"""Return ``x^alpha', '"""Say what ``x^alpha')
    )
    assert asked(copy, COMPILE) == ["1 0"]
    path.write_text(text + "\nX = 1\n")
    assert asked(copy, COMPILE) == ["0 1"]
    path.write_text(text)
    assert asked(copy, COMPILE) == ["1 0"]


EDITED = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
part = Path(sys.argv[1]) / "part.py"
import part as loaded
if len(sys.argv) > 2:
    part.write_text(part.read_text().replace("x + 1.0", "x + 2.0"))
from whole import answer
print(answer(0.0), len(answer.stats.cache_misses))
"""


def test_code_edited_in_a_running_session_is_not_kept_as_what_it_was_edited_to(tmp_path):
    head = "from tamis.jit import inner, kernel\n"
    (tmp_path / "part.py").write_text(f"{head}\n@inner\ndef add(x):\n    return x + 1.0\n")
    (tmp_path / "whole.py").write_text(
        f"{head}from part import add\n\n@kernel\ndef answer(x):\n    return add(x)\n"
    )

    def said(*more: str) -> list[str]:
        environment = os.environ | {"TAMIS_CACHE": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-c", EDITED, str(tmp_path), *more]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True
        ).stdout.split()

    assert said("edit") == ["1.0", "1"]  # what was loaded
    assert said() == ["2.0", "1"]  # compiled from what is there now
    assert said() == ["2.0", "0"]  # and kept


def test_the_same_code_in_another_folder_is_not_compiled_again(copy, tmp_path):
    asked(copy, COMPILE)
    shutil.copytree(copy / "tamis", tmp_path / "tamis")
    (tmp_path / "cache").symlink_to(copy / "cache")
    assert asked(tmp_path, COMPILE) == ["1 0"]


def test_files_of_one_name_are_told_apart(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").touch()
        (tmp_path / folder / "law.py").write_text(f"X = '{folder}'\n")
    (tmp_path / "model.py").write_text("from a import law\nfrom b import law as other\n")
    assert len(families.code_files(tmp_path / "model.py")) == 5


def test_a_hash_is_the_same_with_and_without_the_memory_of_trees(copy):
    first = asked(copy)
    (next((copy / "cache").glob("trees-*.json"))).write_text("{")
    assert asked(copy) == first
    shutil.rmtree(copy / "cache")
    (copy / "cache").touch()  # nothing can be kept there
    assert asked(copy) == first and asked(copy, COMPILE) == ["0 1"]
    (copy / "cache").unlink()


def test_inputs_are_read_as_they_are_declared():
    assert families.input_names("tamis:nscd.nothing") is None
    assert families.input_names("tamis:nothing.nothing") is None
    for name in families.builtins():
        assert families.input_names(f"tamis:{name}") == set(find(f"tamis:{name}").inputs)


def test_a_study_of_a_users_case_does_not_take_its_argument_for_an_input(tmp_path):
    text = "import tamis\nfrom tamis.interfaces import Case, port\nfrom dataclasses import dataclass\n\n"
    text += "@dataclass(frozen=True)\nclass Drop(Case):\n    height: float = port(1.0, bounds=(0.0, 9.0))\n\n"
    text += "@tamis.simulator(inputs=Drop, outputs={'t': 's'})\n"
    text += "def drop(case):\n    return {'t': (2 * case.height / 9.81) ** 0.5}\n"
    (tmp_path / "model.py").write_text(text)
    (tmp_path / "study.toml").write_text('[model]\nsimulator = "model.py:drop"\n')
    assert input_names(read(tmp_path / "study.toml")) is None
    drop = find("model.py:drop", tmp_path)
    assert list(drop.inputs) == ["height"] and drop.inputs["height"].bounds == (0.0, 9.0)
    check_simulator(drop, {"height": 2.0}, {"height": 3.0})
    with pytest.raises(StudyError, match="drop: height must be from 0 to 9, found 10"):
        drop(height=10.0)
