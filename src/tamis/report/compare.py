"""The report of a comparison: which model the data prefer, by how much, and what all of them predict."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import numpy as np

from tamis.report import models
from tamis.report import prediction as bands
from tamis.report.blocks import Block, Concerns, Heading, Links, Picture, Screen, Text, grid, write_page
from tamis.report.page import citations
from tamis.report.references import beside, reference_grid
from tamis.report.tables import Cell, logarithm, number, percent, plain, sentence, with_error
from tamis.results.verdict import decisions
from tamis.space import Parameter
from tamis.types import Array, Table

if TYPE_CHECKING:
    from tamis.results.records import Comparison, Panel

_PER_FIGURE = 3  # predictions, a row each
_AGREES = {
    True: Cell("yes", "yes", "rgba(46, 125, 91, 0.18)"),
    False: Cell("no", "no", "rgba(198, 40, 40, 0.18)"),
    None: Cell("too far in the tail to tell", "unknown"),
}


@dataclass(frozen=True)
class _Placed:
    """A comparison and where its page goes, for relative links."""

    comparison: Comparison
    path: Path


def write_comparison(comparison: Comparison, path: Path) -> None:
    """Write the report of a comparison to one HTML file, its figures and numbers beside it."""
    title = f"{', '.join(comparison.names[:-1])} and {comparison.names[-1]} compared"
    subtitle = " · ".join(dict.fromkeys(results.study.simulator.name for results in comparison.results))
    write_page(path, SCREENS, _Placed(comparison, path), title=title, subtitle=subtitle)


def verdict(placed: _Placed) -> list[Block]:
    """Say which model is the most probable and how much more than the next, in figures and in a picture."""
    found = placed.comparison
    table = found.table
    shares = table.column("probability")
    best, second = sorted(range(len(shares)), key=lambda i: -shares[i])[:2]
    odds = math.exp(min(float(found.factors[best, second]), 700.0))  # beyond is beyond a float
    said = (
        f"{found.names[best]} is the most probable model: {percent(shares[best])}, "
        f"{plain(odds, 2)} times as probable as {found.names[second]}."
    )
    rows = [
        (
            name,
            results.study.title,
            number(value, with_error(value, error)),
            number(share, with_error(100 * share, 100 * spread) + " %"),
            logarithm(behind),
        )
        for (name, value, error, share, spread, behind), results in zip(
            table.rows, found.results, strict=True
        )
    ]
    columns = ("model", "study", "log evidence", "probability", "log factor to the best")
    caption = (
        "The evidence is the probability of the measurements under a model; models equally likely before."
    )
    return [
        Text(said, lead=True),
        *(Text(sentence(f"All models weighed: {decision.text}")) for decision in decisions(found.panels)),
        Concerns(tuple((sentence(worry.text), worry.serious) for worry in found.worries)),
        grid(columns, rows),
        Picture("evidence", models.evidence_figure(table), caption, {"evidence": table}),
        *_reports(placed),
    ]


def _reports(placed: _Placed) -> list[Links]:
    links = []
    for name, results in zip(placed.comparison.names, placed.comparison.results, strict=True):
        report = results.folder / "report.html"
        if report.is_file():
            address = Path(os.path.relpath(report, placed.path.parent)).as_posix()
            links.append((f"report of {name}", quote(address)))
    return [Links(tuple(links))] if links else []


def consistency(placed: _Placed) -> list[Block]:
    """Show all Bayes factors, and the check that nested models must pass."""
    found = placed.comparison
    rows = []
    for i, name in enumerate(found.names):
        factors = [float(f) for f in found.factors[i]]
        rows.append((name, *(_factor(f) if i != j else number(0.0, "·") for j, f in enumerate(factors))))
    numbers = Table(
        ("model", *found.names),
        tuple((n, *map(float, row)) for n, row in zip(found.names, found.factors, strict=True)),
    )
    caption = "Logarithms of the Bayes factors, row against column; positive where the row is preferred."
    blocks: list[Block] = [
        grid(("", *found.names), rows, name="bayes-factors", numbers=numbers, caption=caption)
    ]
    if found.nested:
        blocks += [Heading("Nested models"), *_nested(found)]
    return blocks


def _factor(value: float) -> Cell:
    strength = round(min(0.5, 0.1 * abs(value)), 3)
    return replace(logarithm(value), tint=f"rgba(11, 83, 148, {strength})" if value > 0 else "")


def _nested(found: Comparison) -> list[Block]:
    text = (
        "Where a model is another one with a parameter held fixed, the difference of their log evidences "
        "must equal the logarithm of that parameter's posterior over prior density at the fixed value; the "
        "two columns are computed in different ways and must agree."
    )
    rows, numbers = [], []
    for check in found.nested:
        verdict = _AGREES[check.agrees]
        held = f"{check.inner} is {check.outer} with {check.parameter} = {plain(check.value)}"
        ways = (
            number(check.by_evidence[0], with_error(*check.by_evidence)),
            Cell("–") if check.agrees is None else number(check.by_density[0], with_error(*check.by_density)),
        )
        rows.append((held, *ways, verdict))
        names = (check.inner, check.outer, check.parameter, check.value)
        numbers.append((*names, *check.by_evidence, *check.by_density, verdict.text))
    columns = (
        "inner",
        "outer",
        "parameter",
        "value",
        "by evidences",
        "its error",
        "by density",
        "its error",
        "agree",
    )
    shown = ("models", "by their evidences", "by the density", "agree")
    return [Text(text), grid(shown, rows, name="nested", numbers=Table(columns, tuple(numbers)))]


def published(placed: _Placed) -> list[Block]:
    """Set our figures beside others'."""
    rows = [
        row
        for name, results in zip(placed.comparison.names, placed.comparison.results, strict=True)
        if results.posterior is not None
        for row in beside(name, results.posterior, results.study.references)
    ]
    return [reference_grid(rows)] if rows else []


def shared_parameters(placed: _Placed) -> list[Block]:
    """Draw the parameters that several models have, one over the other."""
    found: dict[str, tuple[Parameter, list[tuple[int, Array]]]] = {}
    for i, results in enumerate(placed.comparison.results):
        if results.posterior is None:
            continue
        for j, parameter in enumerate(results.posterior.space.parameters):
            found.setdefault(parameter.name, (parameter, []))[1].append((i, results.posterior.flat[:, j]))
    shared = [(parameter, draws) for parameter, draws in found.values() if len(draws) > 1]
    if not shared:
        return []
    names = placed.comparison.names
    files = {"shared-parameters": models.shared_numbers(shared, names)}
    caption = "Parameters that several models share. Each density is drawn to the same height; prior in grey."
    return [Picture("shared-parameters", models.shared_figure(shared, names), caption, files)]


def prediction(placed: _Placed) -> list[Block]:
    """Draw each prediction by every model and by their mixture."""
    found = placed.comparison
    blocks: list[Block] = []
    columns = (*found.names, "mixed")
    shares = [f" ({percent(share)})" for share in found.table.column("probability")] + [""]
    titles = [name + share for name, share in zip(columns, shares, strict=True)]
    headings = {
        "predict": "New conditions",
        "validate": "Held-out tests",
        "calibrate": "The measurements calibrated with",
    }
    for use, title in headings.items():
        rows = [_row(found, mixed) for mixed in found.panels if mixed.use == use]
        drawn = [row for row in rows if not bands.is_scalar(row[0])]
        scalars = [row for row in rows if bands.is_scalar(row[0])]
        if rows:
            blocks.append(Heading(title))
        for k, start in enumerate(range(0, len(drawn), _PER_FIGURE), start=1):
            some = drawn[start : start + _PER_FIGURE]
            key = f"{use}-{k}"
            caption = "A column a model; the last mixes all by their probabilities."
            files = {
                key: bands.band_numbers(
                    [_named(p, n) for row in some for p, n in zip(row, columns, strict=True)]
                )
            }
            blocks.append(Picture(key, models.beside_figure(some, titles), caption, files))
        if scalars:
            named = [_named(p, n) for row in scalars for p, n in zip(row, columns, strict=True)]
            key = f"{use}-numbers"
            caption = "Single numbers by each model and by their mixture."
            blocks.append(
                Picture(key, bands.scalars_figure(named), caption, {key: bands.band_numbers(named)})
            )
    return blocks


def _row(found: Comparison, mixed: Panel) -> list[Panel]:
    """Return one prediction by each model, and mixed."""
    panels = []
    for results in found.results:
        mine = (
            p
            for p in results.panels or ()
            if (p.series, p.label, p.condition) == (mixed.series, mixed.label, mixed.condition)
        )
        panels.append(replace(next(mine), prior=np.empty((0, len(mixed.x)))))
    return [*panels, replace(mixed, prior=np.empty((0, len(mixed.x))))]


def _named(panel: Panel, model: str) -> Panel:
    """Return a panel whose series is led by the model's name."""
    return replace(panel, series=f"{model} · {panel.series}")


def modes(placed: _Placed) -> list[Block]:
    """Draw predictions made from parts of a posterior, around the density that tells the parts."""
    blocks: list[Block] = []
    for name, results in zip(placed.comparison.names, placed.comparison.results, strict=True):
        where: dict[str, Mapping[str, tuple[float, float]]] = {
            s.name: s.where for s in results.study.series if s.where
        }
        rows: dict[str, list[tuple[Panel, Mapping[str, tuple[float, float]]]]] = {}
        for panel in results.panels or ():
            if panel.series in where and not bands.is_scalar(panel):
                rows.setdefault(panel.label, []).append((panel, where[panel.series]))
        if not rows or results.posterior is None:
            continue
        key = f"modes-{len(blocks) + 1}"
        caption = f"{name}: what each part of the posterior predicts."
        panels: Sequence[Panel] = [panel for row in rows.values() for panel, _ in row]
        figure = models.modes_figure(list(rows.values()), results.posterior)
        blocks.append(Picture(key, figure, caption, {key: bands.band_numbers(panels)}))
    return blocks


def provenance(placed: _Placed) -> list[Block]:
    """List what to cite and where the models' own reports are."""
    found = placed.comparison
    rows = [
        (
            name,
            results.study.file,
            results.study.simulator.name,
            results.study.simulator.version,
            str(results.study.seed),
        )
        for name, results in zip(found.names, found.results, strict=True)
    ]
    cited = dict.fromkeys(text for results in found.results for text in citations(results.study))
    return [
        grid(("model", "study file", "simulator", "its version", "seed"), rows),
        *_reports(placed),
        Heading("How to cite"),
        *(Text(text) for text in cited),
    ]


SCREENS: tuple[Screen[_Placed], ...] = (
    Screen("verdict", "Verdict", verdict),
    Screen("consistency", "Bayes factors", consistency),
    Screen("published", "Published figures", published),
    Screen("parameters", "Shared parameters", shared_parameters),
    Screen("prediction", "Prediction", prediction),
    Screen("modes", "Prediction by mode", modes),
    Screen("provenance", "Provenance", provenance),
)
