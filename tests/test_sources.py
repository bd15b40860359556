"""What a run's code consists of: every file of its author, however it is imported, and what has changed in it."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import SimpleNamespace

import pytest

from tamis.cli.plan import print_plan, print_status
from tamis.errors import TamisWarning
from tamis.runs.campaign import evaluate
from tamis.runs.provenance import IMPORTED, changes, code_of, code_warning, outdated
from tamis.runs.store import RunStore
from tamis.simulation import find
from tamis.sources import source_hash, sources
from tamis.study.api import Study

FILES = {
    "model.py": "from pkg.a import f\nimport json, numpy\n",
    "pkg/__init__.py": "",
    "pkg/a.py": "from .b import g\nfrom . import d\nfrom .sub import c\n",
    "pkg/b.py": "g = 1\n",
    "pkg/d.py": "def late():\n    from pkg.e import x\n    import importlib\n    importlib.import_module('pkg.h')\n",
    "pkg/e.py": "x = 1\n",
    "pkg/h.py": "x = 1\n",
    "pkg/sub/__init__.py": "from ..i import x\n",
    "pkg/sub/c.py": "from .. import j\nimport pkg.fast\n",
    "pkg/i.py": "x = 1\n",
    "pkg/j.py": "x = 1\n",
}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / f"pkg/fast{EXTENSION_SUFFIXES[0]}").write_bytes(b"\x7fELF 1")
    return tmp_path / "model.py"


def test_every_file_behind_an_import_is_seen(model: Path) -> None:
    assert sorted(sources(model)) == sorted([*FILES, f"pkg/fast{EXTENSION_SUFFIXES[0]}"])
    before = source_hash(model)
    for name in (*FILES, f"pkg/fast{EXTENSION_SUFFIXES[0]}"):
        path = model.parent / name
        kept = path.read_bytes()
        path.write_bytes(kept + b"\ny = 2\n")
        assert source_hash(model) != before, name
        path.write_bytes(kept)
    (model.parent / "pkg/b.py").write_text("# a comment\ng  =  1\n")
    assert source_hash(model) == before


def test_folders_on_the_path_are_seen_and_installed_packages_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lib = tmp_path / "lib"
    lib.mkdir()
    (lib / "mine_alone.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(str(lib))
    model = tmp_path / "model.py"
    model.write_text("import mine_alone, numpy, json, tamis\n")
    assert set(sources(model)) == {"model.py", "lib/mine_alone.py"}


def test_a_scene_of_ones_own_depends_on_the_kernels_it_uses(tmp_path: Path) -> None:
    model = tmp_path / "model.py"
    model.write_text("import tamis\nfrom tamis.sim.dem.impact import drive\n")
    assert {Path(name).name for name in sources(model)} >= {"model.py", "drive.py", "kernels.py", "scene.py"}


def test_names_that_tamis_gathers_for_users_lead_to_the_code_behind_them(tmp_path: Path) -> None:
    model = tmp_path / "model.py"
    model.write_text("from tamis.sim.nscd import Body, Scene, run\n")
    behind = {Path(name).name for name in sources(model)}
    assert {"kernels.py", "scene.py", "drive.py", "solve.py", "collide.py"} <= behind


def test_edited_code_behind_a_relative_import_is_run_again(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg/__init__.py").touch()
    (tmp_path / "pkg/a.py").write_text("from .b import g\n")
    (tmp_path / "model.py").write_text(
        "import tamis\nfrom pkg.a import g\n\n"
        "@tamis.simulator(outputs={'z': ''})\ndef f(*, x: float = 1.0):\n    return {'z': g(x)}\n"
    )
    store = RunStore(tmp_path / "runs")
    found = []
    for text in ("def g(x):\n    return x\n", "def g(x):\n    return 100 * x\n"):
        (tmp_path / "pkg/b.py").write_text(text)
        for name in [n for n in sys.modules if n.startswith(("pkg", "_tamis_user_"))]:
            del sys.modules[name]
        simulator = find("model.py:f", tmp_path)
        found.append(float(store.outputs(evaluate(simulator, [{}], store)[0].key)["z"]))
        if len(found) == 1:
            continue
        assert changes(store.root, simulator) == ["pkg/b.py"]
    assert found == [1.0, 100.0]
    for name in [n for n in sys.modules if n.startswith("pkg")]:
        del sys.modules[name]


def test_runs_of_a_built_in_simulator_made_by_other_code_are_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    impact = find("tamis:dem.impact")
    store = RunStore(tmp_path)
    (run,) = evaluate(impact, [{}], store, executor=0)
    assert run.code == code_of(impact) != ""
    assert not outdated(impact, [run]) and not code_warning([run, replace(run, code=IMPORTED)])
    monkeypatch.setattr("tamis.runs.provenance._hashed", lambda *_: "another")
    assert outdated(impact, [run]) == [run]
    assert code_warning([run, replace(run, code="another")]) == (
        "1 of 2 runs of tamis:dem.impact, version 2, were made by other code than it has now; "
        "`tamis run` makes them again"
    )
    (again,) = evaluate(impact, [{}], store, executor=0)
    assert again.code == "another" and again.key == run.key


def test_an_author_who_gives_versions_is_told_of_changed_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model.py").write_text(
        "import tamis\n\n@tamis.simulator(outputs={'z': ''}, version='1')\n"
        "def f(*, x: float = 1.0):\n    return {'z': x}\n"
    )
    simulator, store = find("model.py:f", tmp_path), RunStore(tmp_path / "runs")
    (run,) = evaluate(simulator, [{}], store, executor=0)
    monkeypatch.setattr("tamis.runs.provenance._hashed", lambda *_: "another")
    with pytest.warns(
        TamisWarning, match='1 runs of model.py:f were made before its code changed, and its version "1"'
    ):
        (again,) = evaluate(simulator, [{}], store, executor=0)
    assert again == run
    assert code_warning([run]) == ""  # nothing to compare with, unless the simulator is at hand
    assert code_warning([run], simulator).startswith(
        "1 of 1 runs of model.py:f, version 1, were made by other code"
    )
    assert "2 of 2 runs of model.py:f, version 1, were made by 2 different codes" in code_warning(
        [run, replace(run, code="another")]
    )


def test_a_list_of_sources_that_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    for i, text in enumerate(("{", "[]", json.dumps({"simulator": "x"}))):
        (tmp_path / "code" / f"{i}.json").write_text(text)
    assert changes(tmp_path, find("tamis:dem.impact")) == []
    assert changes(tmp_path, SimpleNamespace(name="x", address="http:x")) == []


def test_the_hash_does_not_depend_on_where_folders_lie(tmp_path, monkeypatch):
    found = []
    for study, library in (("a", "b"), ("z", "y")):
        (tmp_path / study).mkdir()
        (tmp_path / library).mkdir()
        (tmp_path / study / "model.py").write_text("import aside\n")
        (tmp_path / library / "aside.py").write_text("G = 9.81\n")
        monkeypatch.syspath_prepend(str(tmp_path / library))
        found.append(source_hash(tmp_path / study / "model.py"))
        monkeypatch.undo()
    assert found[0] == found[1]


def test_the_hash_is_that_of_python_3_11_whatever_the_version(tmp_path):
    """Later versions write empty lists otherwise, or more of them: all runs would be made anew."""
    (tmp_path / "model.py").write_text("class A:\n    pass\n\n\ndef f(x, *, y=1.0):\n    return x + y\n")
    assert source_hash(tmp_path / "model.py")[:16] == "60fe527deeec7ab8"


def test_check_and_status_tell_of_runs_that_other_code_made(tmp_path, monkeypatch, capsys):
    (tmp_path / "study.toml").write_text(
        'tamis = 1\n[model]\nsimulator = "tamis:dem.impact"\n'
        '[parameters]\nmu = { prior = "uniform", low = 0.05, high = 0.2 }\n'
        '[[experiment]]\nname = "throw"\n'
        'observe = [ { output = "ctr", how = "value", data = "ctr.csv", y = "ctr", sd = 0.1 } ]\n'
        '[design]\nmethod = "lhs"\nn = 4\n'
    )
    (tmp_path / "ctr.csv").write_text("ctr\n0.8\n")
    study = Study.load(tmp_path / "study.toml")
    study.run(upto="runs")
    told = "4 of 4 runs of tamis:dem.impact, version 2, were made by other code than it has now; `tamis run`"
    for verb in (print_plan, print_status):
        capsys.readouterr()
        verb(tmp_path / "study.toml")
        assert told not in capsys.readouterr().out
    monkeypatch.setattr("tamis.runs.provenance._hashed", lambda *_: "another")
    for verb in (print_plan, print_status):
        verb(tmp_path / "study.toml")
        assert told in capsys.readouterr().out
