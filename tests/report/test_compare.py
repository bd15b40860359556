"""The report of a comparison."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_hex

from tamis.report import compare as comparison
from tamis.report import models, write_comparison
from tamis.report.blocks import Text
from tamis.report.style import PARAMETERS
from tests.report import samples
from tests.report.test_page import Page


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compared")
    (folder / "m2").mkdir()
    (folder / "m2" / "report.html").write_text("there")
    path = folder / "compare-m1-m2-m3" / "report.html"
    write_comparison(samples.comparison(folder), path)
    return path


@pytest.fixture(scope="module")
def html(written: Path) -> str:
    return written.read_text(encoding="utf-8")


def test_self_contained_and_well_formed(html: str) -> None:
    assert "http" not in html and "<link" not in html
    page = Page(html)
    assert len(page.ids) == len(set(page.ids))


def test_screens(html: str) -> None:
    titles = [title for _, title in re.findall(r"<h2><span>(\d)</span>([^<]+)</h2>", html)]
    assert titles == [
        "Verdict",
        "Bayes factors",
        "Published figures",
        "Shared parameters",
        "Prediction",
        "Prediction by mode",
        "Provenance",
    ]


def test_verdict_names_the_best_and_by_how_much(html: str) -> None:
    odds = np.exp(19.59 - 17.61)  # 7.24
    assert f"m2 is the most probable model: 82\u00a0%, {odds:.1f} times as probable as m3." in html


def test_links_only_to_reports_that_exist(html: str) -> None:
    outside = {address for tag, address in Page(html).addresses if tag == "a" and address.startswith("..")}
    assert outside == {"../m2/report.html"}


def test_linked_files_exist(written: Path, html: str) -> None:
    for tag, address in Page(html).addresses:
        if tag == "a" and not address.startswith("#"):
            assert (written.parent / address).is_file(), address


def test_nested_models_agree_or_not(html: str) -> None:
    rows = re.findall(r"<tr><td>(m\d is m3 with alpha = [\d.]+)</td>.*?>(yes|no)</td></tr>", html)
    assert rows == [("m1 is m3 with alpha = 0.250", "yes"), ("m2 is m3 with alpha = 0.500", "no")]


def test_deterministic(tmp_path: Path) -> None:
    found = replace(samples.comparison(tmp_path), panels=(samples.sweep_panel(series="ctr-by-angle"),))
    for name in ("one", "two"):
        write_comparison(found, tmp_path / name / "report.html")
    for file in (tmp_path / "one").rglob("*.*"):
        assert (tmp_path / "two" / file.relative_to(tmp_path / "one")).read_bytes() == file.read_bytes()


def test_without_nested_models_references_or_modes(tmp_path: Path) -> None:
    found = samples.comparison(tmp_path)
    plain = [replace(each, study=replace(each.study, series=(), references=())) for each in found.results]
    bare = replace(found, results=tuple(plain), nested=(), worries=(), panels=())
    write_comparison(bare, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    titles = [title for _, title in re.findall(r"<h2><span>(\d)</span>([^<]+)</h2>", text)]
    assert titles == ["Verdict", "Bayes factors", "Shared parameters", "Provenance"]
    assert "Nested models" not in text and "Nothing to worry about" in text


def test_evidence_figure() -> None:
    table = samples.comparison().table
    left, right = models.evidence_figure(table).axes
    bars = [patch.get_width() for patch in right.patches]
    assert bars == pytest.approx(table.column("probability")) and sum(bars) == pytest.approx(1.0)
    assert [label.get_text() for label in left.get_yticklabels()] == ["m1", "m2", "m3"]
    low, high = left.get_xlim()
    assert low < 17.08 - 0.086 and high > 19.59 + 0.086  # two standard errors of 0.043


def test_predictions_side_by_side_share_their_scale() -> None:
    row = [
        samples.sweep_panel(),
        samples.sweep_panel(total_band=np.stack([np.full(35, -3.0), np.full(35, 3.0)])),
    ]
    figure = models.beside_figure([row], ["m1", "mixed"])
    assert len(figure.axes) == 2
    assert figure.axes[0].get_ylim() == figure.axes[1].get_ylim()
    assert figure.axes[0].get_ylabel() == "ctr" and figure.axes[1].get_ylabel() == ""
    assert [ax.texts[0].get_text() for ax in figure.axes] == ["m1", "mixed"]


def test_modes_stand_around_the_density_that_shows_them() -> None:
    low, high = {"k_t": (1e7, samples.SPLIT)}, {"k_t": (samples.SPLIT, 2e8)}
    rows = [[(samples.sweep_panel(series="low"), low), (samples.sweep_panel(series="high"), high)]]
    figure = models.modes_figure(rows, samples.posterior())
    titles = sorted((ax.get_position().x0, ax.texts[0].get_text()) for ax in figure.axes)
    assert [title for _, title in titles] == ["low: ctr", "posterior of k_t", "high: ctr"]
    density = next(ax for ax in figure.axes if ax.get_xlabel() == "k_t [10⁸ N/m]")
    shades = [c for c in density.collections if to_hex(c.get_facecolor()[0]) == PARAMETERS]
    assert len(shades) == 2
    assert max(path.vertices[:, 0].max() for path in shades[0].get_paths()) <= samples.SPLIT


def test_shared_parameters_are_drawn_once_a_model() -> None:
    a, b = samples.posterior(seed=1), samples.posterior(seed=2)
    parameter = a.space.parameters[1]
    shared = [(parameter, [(0, a.flat[:, 1]), (2, b.flat[:, 1])])]
    figure = models.shared_figure(shared, ["m1", "m2", "m3"])
    colours = [line.get_color() for line in figure.axes[0].lines]
    assert colours == [models.model_colour(0), models.model_colour(2)]
    assert figure.axes[0].get_xlabel() == "k_t [10⁸ N/m]"
    table = models.shared_numbers(shared, ["m1", "m2", "m3"])
    assert set(table.column("model")) == {"m1", "m3"}


def test_decisions_of_all_models_weighed_stand_in_the_verdict(tmp_path: Path) -> None:
    found = samples.comparison(tmp_path)
    first, *rest = found.panels
    limited = replace(first, limit=0.6, exceedance=np.full((2, len(first.x)), 0.25))
    placed = comparison._Placed(replace(found, panels=(limited, *rest)), tmp_path / "report.html")
    said = [b.text.replace("\u00a0", " ") for b in comparison.verdict(placed) if isinstance(b, Text)]
    assert (
        len(said) == 2 and said[1].startswith("All models weighed: ") and "above its limit of 0.6" in said[1]
    )
    assert "with probability 25 % by the model alone, 25 % with errors" in said[1]
