"""Results that are not what was written: told, and made anew; never believed."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tamis import Study
from tamis.errors import StudyError, TamisWarning
from tamis.files import load_arrays, save_arrays
from tamis.inference import loop
from tamis.results.manifest import read_manifest, write_manifest
from tamis.study.reader import read
from tamis.study.stages.table import up_to_date
from tamis.types import Array


@dataclass(frozen=True)
class State:
    """Of a sampler."""

    z: Array
    log_likelihood: Array
    scale: float
    calls: int


BALL = Path(__file__).parents[2] / "examples" / "01_ball"
SMALL = (
    '[design]\nmethod = "sobol"\nn = 8\n[surrogate]\nmethod = "none"\n[inference]\nmethod = "tmcmc"\nn = 64\n'
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small study of the ball that has run."""
    folder = tmp_path_factory.mktemp("ball")
    for name in ("model.py", "data"):
        whole = BALL / name
        (shutil.copytree if whole.is_dir() else shutil.copy)(whole, folder / name)
    text = (BALL / "study.toml").read_text()
    head, tail = text[: text.index("[design]")], text[text.index("[[predict]]") :]
    (folder / "study.toml").write_text(head + SMALL + tail)
    with quiet():
        Study.load(folder / "study.toml").run()
    return folder


@contextmanager
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TamisWarning)
        yield


@pytest.fixture
def study(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished, tmp_path / "ball")
    return tmp_path / "ball" / "study.toml"


def flip(path: Path, rng: np.random.Generator) -> None:
    content = bytearray(path.read_bytes())
    bit = int(rng.integers(8 * len(content)))
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(content)


def test_a_posterior_changed_by_hand_is_made_anew_and_told(study: Path) -> None:
    path = study.parent / "results/study/posterior.npz"
    whole = path.read_bytes()
    arrays = load_arrays(path)
    save_arrays(path, {**arrays, "x": 1.2 * arrays["x"]})
    assert [stage for stage, good in up_to_date(read(study)).items() if not good] == ["posterior"]
    with quiet():
        found = Study.load(study).run()
    assert path.read_bytes() == whole
    assert any("posterior.npz was damaged, or changed by hand" in worry.text for worry in found.worries)
    assert all(up_to_date(read(study)).values())


def flips(study: Path, names: list[str], n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    folder = study.parent / "results/study"
    for i in range(n):
        path = folder / names[i % len(names)]
        whole = path.read_bytes()
        flip(path, rng)
        # none is believed: the stage is no longer up to date, or the manifest as a whole is not
        assert not all(up_to_date(read(study)).values()), (path.name, i)
        path.write_bytes(whole)
        assert all(up_to_date(read(study)).values())


ARTIFACTS = ["design.npz", "runs.npz", "observables.npz", "posterior.npz", "prediction.npz", "manifest.json"]


def test_flipped_bits_of_artifacts_and_manifest_are_noticed(study: Path) -> None:
    flips(study, ARTIFACTS, 60, 0)


def test_a_bit_that_leaves_every_number_of_the_manifest_as_it_was_is_noticed(tmp_path: Path) -> None:
    write_manifest(tmp_path, {"stages": {"design": {"content": {}, "seconds": 1e-05}}})
    path = tmp_path / "manifest.json"
    assert read_manifest(tmp_path)
    path.write_text(path.read_text().replace("1e-05", "1E-05"))
    assert not read_manifest(tmp_path)


@pytest.mark.slow
def test_a_thousand_flipped_bits_are_noticed(study: Path) -> None:
    flips(study, ARTIFACTS, 1000, 1)


def test_flipped_artifacts_are_repaired_in_one_pass(study: Path) -> None:
    folder, rng = study.parent / "results/study", np.random.default_rng(2)
    whole = {name: (folder / name).read_bytes() for name in ARTIFACTS[:-1]}
    for name in whole:
        flip(folder / name, rng)
    with quiet():
        found = Study.load(study).run()
    assert {name: (folder / name).read_bytes() for name in whole} == whole
    assert sum("changed by hand" in worry.text for worry in found.worries) >= 1


def test_large_array_files_that_are_damaged_are_made_anew_in_one_pass(study: Path) -> None:
    """Of a large file only the size is looked at before it is read: the damage shows in the middle of a study."""
    model = study.parent / "model.py"
    text = model.read_text().replace("T = ", "T = np.linspace(0.0, 1.5, 9001)\nTENTH = ", 1)
    assert "TENTH" in text
    model.write_text(text)
    results, runs = study.parent / "results/study", study.parent / "runs"
    with quiet():
        Study.load(study).run("observables")
    own, wanted = sorted(runs.glob("??/*.npz")), (results / "observables.npz").read_bytes()
    assert len(own) >= 8 and all(path.stat().st_size > 2**16 for path in own)
    whole = {path: path.read_bytes() for path in own}
    rng = np.random.default_rng(5)
    for path in own[:3]:
        flip(path, rng)
    (results / "observables.npz").unlink()
    with quiet():
        found = Study.load(study).run("observables")
    assert (results / "observables.npz").read_bytes() == wanted
    assert {path: path.read_bytes() for path in own} == whole
    assert any(
        "3 array files of the run store are missing or damaged" in worry.text for worry in found.worries
    )


@pytest.mark.parametrize(
    "text", ['{"stages": [1]}', '{"stages": {"design": 3}}', "[]", "{", "[" * 100_000, ""]
)
def test_a_manifest_that_is_none_counts_as_missing(text: str, study: Path) -> None:
    (study.parent / "results/study/manifest.json").write_text(text)
    assert read_manifest(study.parent / "results/study") == {}
    assert not any(up_to_date(read(study)).values())


def test_a_former_manifest_without_checksums_is_believed(study: Path) -> None:
    folder = study.parent / "results/study"
    manifest = read_manifest(folder)
    for entry in manifest["stages"].values():
        del entry["content"]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert all(up_to_date(read(study)).values())
    write_manifest(folder, manifest)
    assert read_manifest(folder) == manifest


def test_a_damaged_file_is_a_clear_error_whatever_is_wrong(study: Path) -> None:
    path, rng = study.parent / "results/study/posterior.npz", np.random.default_rng(3)
    whole = path.read_bytes()
    for _ in range(200):
        flip(path, rng)
        with suppress(StudyError):  # and nothing else
            load_arrays(path)
        path.write_bytes(whole)


def test_a_damaged_checkpoint_begins_anew(tmp_path: Path) -> None:
    path, rng = tmp_path / "checkpoint.npz", np.random.default_rng(4)
    state = State(np.arange(6.0).reshape(3, 2), np.ones(20), 1.5, 2)
    tags = {"tag.root": np.asarray(1)}
    loop._save(state, 3, path, tags)
    whole = path.read_bytes()
    found = loop._load(State, path, tags)
    assert found is not None and found[0] == 3
    told = 0
    for _ in range(200):
        flip(path, rng)
        with quiet():
            again = loop._load(State, path, tags)
        if again is not None:  # a bit that means nothing, such as a date
            assert all(np.array_equal(value, vars(state)[name]) for name, value in vars(again[1]).items())
        told += again is None
        path.write_bytes(whole)
    assert told > 100
    path.write_bytes(whole[:-40])
    with pytest.warns(TamisWarning, match=r"checkpoint.npz cannot be read .* starting anew"):
        assert loop._load(State, path, tags) is None
