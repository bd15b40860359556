"""The table and the figures across parts of a split study."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from tamis.report.blocks import Grid, Links, Picture
from tamis.report.parts import coverage, part_blocks, shared_parameters
from tamis.results.study import SeriesRecord
from tests.report import samples


def part(name: str, seed: int, own: str, shares: dict[str, float], drop: int | None = None):
    """A part calibrated on one series, with its coverage of all."""
    posterior = samples.posterior(n=400, seed=seed)
    if drop is not None:
        keep = [i for i in range(3) if i != drop]
        names = [posterior.space.names[i] for i in keep]
        posterior = replace(
            posterior,
            space=posterior.space.subset(names),
            x=posterior.x[:, :, keep],
            diagnostics={"ess": np.full(2, 300.0)},
        )
    first = samples.panels()[0]
    panels = tuple(
        replace(first, series=series, coverage=share, use="calibrate" if series == own else "validate")
        for series, share in shares.items()
    )
    whole = samples.study()
    series = tuple(SeriesRecord(key, "calibrate" if key == own else "validate", (key,), ()) for key in shares)
    mine = tuple(p for p in whole.parameters if p.name in posterior.space.names)
    study = replace(whole, part=name, parameters=mine, series=series)
    return samples.results(Path("results") / name, study=study, posterior=posterior, panels=panels)


def parts():
    return (
        part("520 kJ", 1, "a", {"a": 1.0, "b": 0.25}),
        part("1020 kJ", 2, "b", {"a": 0.5, "b": 0.75}, drop=2),
    )


def test_blocks():
    blocks = part_blocks(parts())
    table = next(b for b in blocks if isinstance(b, Grid))
    assert table.columns == ("median, calibrated on", "520 kJ", "1020 kJ")
    assert [row[0].text for row in table.rows] == ["restitution", "k_t [N/m]", "sigma [m]"]
    assert table.rows[2][2].text == ""  # an error's size that the second part cannot tell
    assert {"part", "mean", "best", "q05", "q95"} <= set(table.numbers.columns) and len(
        table.numbers.rows
    ) == 5
    forest, matrix = (b for b in blocks if isinstance(b, Picture))
    assert len(forest.figure.axes) == 3
    assert [t.get_text() for t in forest.figure.axes[0].get_yticklabels()] == ["520 kJ", "1020 kJ"]
    assert "N/m" in forest.figure.axes[1].get_xlabel()
    shown = [text.get_text() for text in matrix.figure.axes[0].texts]
    assert shown == ["100%", "25%", "50%", "75%"]
    assert len(matrix.figure.axes[0].patches) == 2  # frames around what each was calibrated on
    links = next(b for b in blocks if isinstance(b, Links))
    assert links.items == (("520 kJ", "520 kJ/report.html"), ("1020 kJ", "1020 kJ/report.html"))


def test_coverage_weighs_measurements():
    one = part("p", 1, "a", {"a": 1.0})
    first = one.panels[0]
    few = replace(first, coverage=0.0, y=first.y[:, :1], x=first.x[:1])
    n = int(np.isfinite(first.y).sum())
    matrix, seen = coverage([replace(one, panels=(first, few))])
    assert seen == ["a"]
    np.testing.assert_allclose(matrix, [[n / (n + int(np.isfinite(few.y).sum()))]])


def test_common_parameters_come_first():
    found = parts()
    assert [p.name for p in shared_parameters(found[::-1])] == ["e", "k_t", "sigma"]


def test_nothing_without_posteriors():
    assert part_blocks([replace(parts()[0], posterior=None)]) == []
