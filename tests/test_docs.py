"""What README and docs show, runs: their Python, their study files, their commands.

Every page is read, a new one without being listed here. Python that goes on from something the reader has (a study,
a store) finds it in `KNOWN`; the blocks of the contact page run beside the tests of its engine.
"""

from __future__ import annotations

import argparse
import re
import shlex
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tamis
from tamis.cli.main import _parser
from tamis.study.api import Study
from tamis.study.events import noted
from tamis.study.reader import read
from tamis.study.schema import validate
from tamis.types import silent
from tests.pages import PAGES, ROOT, Block, ball, blocks, run_python

ELSEWHERE = {"docs/how-to/contact.md"}  # tests/sim/nscd/test_contact_page.py
UNBUILT = {"docs/design.md": {"view", "verify"}}  # verbs that the design foresees
WHOLE = {"model", "parameters", "experiment"}


def _a_campaign(folder: Path) -> dict[str, Any]:
    study = Study.load(ball(folder) / "study.toml")
    return {
        "tamis": tamis,
        "simulator": study.simulator,
        "space": study.model_space,
        "test": study.experiments[0],
        "store": tamis.RunStore(folder / "runs"),
        "rng": np.random.default_rng(1),
        "u_new": np.full((3, study.model_space.dim), 0.5),
    }


def _a_store(folder: Path) -> dict[str, Any]:
    known = _a_campaign(folder)
    with known["store"] as store:
        tamis.evaluate(known["simulator"], [{"e": 0.7}, {"e": 0.8}], store, executor=0)
    return {}


def _events(folder: Path) -> dict[str, Any]:
    with noted(folder / "results" / "study", silent):
        return {}


def _typing(folder: Path) -> dict[str, Any]:
    """The words of a page of signatures, which only have to be Python."""
    import collections.abc
    import dataclasses
    import typing

    ball(folder)
    names = {**vars(typing), **vars(collections.abc), **vars(tamis.types)}
    return {
        **{k: v for k, v in names.items() if not k.startswith("_")},
        "dataclass": dataclasses.dataclass,
        "np": np,
    }


KNOWN: Mapping[str, Callable[[Path], dict[str, Any]]] = {
    "docs/design.md": _typing,
    "docs/how-to/surrogates.md": _a_campaign,
    "docs/how-to/run-store.md": _a_store,
    "docs/reference/study-file.md": _events,
}


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python") and p not in ELSEWHERE])
def test_python_of_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_python(page, tmp_path, KNOWN.get(page, lambda _: {})(tmp_path))


@pytest.mark.parametrize("page", PAGES)
def test_what_cannot_run_is_python_all_the_same(page: str) -> None:
    for block in blocks(page, "python"):
        compile("\n" * (block.line - 1) + block.text, block.page, "exec")


@pytest.mark.parametrize("block", [b for p in PAGES for b in blocks(p, "toml")], ids=lambda b: b.place)
def test_a_piece_of_a_study_file_is_valid(block: Block, tmp_path: Path) -> None:
    """A whole study is loaded beside the files of the ball; a piece replaces tables of the ball's."""
    assert not block.why_not
    tables = tomllib.loads(block.text)
    study = ball(tmp_path) / "study.toml"
    raw = read(study)
    if tables.keys() >= WHOLE:
        study.write_text("tamis = 1\n" * ("tamis" not in tables) + block.text, encoding="utf-8")
        assert Study.load(study).experiments
    elif "extends" in tables:
        study.rename(tmp_path / tables["extends"])
        study.write_text(block.text, encoding="utf-8")
        validate(read(study))
    else:
        validate(replace(raw, tables={**raw.tables, **tables}))


COMMAND = re.compile(r"tamis [a-z].*")


def _commands(page: str) -> list[tuple[int, list[str]]]:
    """Return what a page has the reader type: line of the page, and words after ``tamis``."""
    shown = [b for b in blocks(page) if b.language in ("", "sh", "console") and not b.why_not]
    lines = [(i, line) for b in shown for i, line in enumerate(b.text.splitlines(), b.line)]
    typed = [(i, part.strip().removeprefix("$ ")) for i, line in lines for part in line.split("&&")]
    return [(i, shlex.split(part, comments=True)[1:]) for i, part in typed if COMMAND.fullmatch(part)]


@pytest.mark.parametrize("page", PAGES)
def test_commands_are_understood(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    for line, words in _commands(page):
        try:
            _parser().parse_args(words)
        except SystemExit:
            pytest.fail(f"{page}:{line}: tamis {' '.join(words)}: {capsys.readouterr().err}")


def _verbs() -> dict[str, argparse.ArgumentParser]:
    (action,) = (a for a in _parser()._actions if isinstance(a, argparse._SubParsersAction))
    return dict(action.choices)


@pytest.mark.parametrize("page", PAGES)
def test_verbs_and_options_named_in_the_text_exist(page: str) -> None:
    """`tamis run STUDY [--to STAGE]` within a sentence or a table: the verb, and each option of it."""
    verbs = _verbs()
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    for said in re.findall(r"`tamis ([a-z]+\b[^`]*)`", text):
        verb = said.split()[0]
        if verb in UNBUILT.get(page, ()):
            continue
        assert verb in verbs, f"{page}: `tamis {said}`"
        known = verbs[verb]._option_string_actions
        unknown = [o for o in re.findall(r"(?<![\w-])--?[a-z][\w-]*", said) if o not in known]
        assert not unknown, f"{page}: `tamis {said}` has no {unknown[0]}"


def test_the_pages_are_not_empty_by_mistake() -> None:
    """What the tests above are closed over: should the fences be written otherwise one day, this fails."""
    every = [b for p in PAGES for b in blocks(p)]
    assert sum(b.language == "python" for b in every) >= 15 and sum(b.language == "toml" for b in every) >= 10
    assert sum(len(_commands(p)) for p in PAGES) >= 10
    assert all(blocks(p, "python") for p in (*KNOWN, *ELSEWHERE))
