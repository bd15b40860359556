"""The report of one study: its screens, in the order a reviewer asks.

Every number comes from a record; this file chooses what is said, in which order and under which title. A
screen that has nothing to show is left out. A stage with a screen of its own has it in the module of its name here,
as ``SCREEN``; these stand behind the prediction, in the order of the stages.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tamis._version import __version__
from tamis.quantities import duration
from tamis.report import parameters
from tamis.report.blocks import (
    Block,
    Code,
    Concerns,
    Facts,
    Grid,
    Heading,
    Picture,
    Screen,
    Text,
    grid,
    write_page,
)
from tamis.report.errors import error_blocks
from tamis.report.parts import part_blocks
from tamis.report.posterior import sampler_blocks
from tamis.report.prediction import (
    PER_FIGURE,
    autocorrelation_numbers,
    band_numbers,
    bands_figure,
    exceedance_blocks,
    is_scalar,
    scalars_figure,
)
from tamis.report.propagation import propagation_blocks
from tamis.report.references import beside, reference_grid
from tamis.report.runs import run_blocks
from tamis.report.sensitivity import influence_blocks
from tamis.report.sources import robust_blocks, source_blocks
from tamis.report.stretches import stretches_blocks
from tamis.report.surrogate import surrogate_blocks
from tamis.report.tables import (
    Cell,
    count,
    number,
    percent,
    sentence,
    with_error,
    with_interval,
)
from tamis.types import Table

if TYPE_CHECKING:
    from tamis.inference.posterior import Posterior
    from tamis.results.records import Panel, Results
    from tamis.results.study import StudyRecord


def write_report(results: Results, path: Path) -> None:
    """Write a study's report to one HTML file, with ``figures/`` and ``tables/`` beside it."""
    study = results.study
    screens = (*FIRST, *stage_screens(study.hashes), *LAST)
    write_page(path, screens, results, title=study.title, subtitle=f"{study.file} · {study.simulator.name}")


def stage_screens(stages: Iterable[str]) -> list[Screen[Results]]:
    """Return the screens of the stages that have one of their own."""
    modules = [f"tamis.report.{stage}" for stage in stages]
    there = [import_module(module) for module in modules if find_spec(module)]
    return [module.SCREEN for module in there if hasattr(module, "SCREEN")]


def verdict(results: Results) -> list[Block]:
    """One sentence, what is predicted, what to worry about, the figures of the study, three numbers a parameter."""
    first, *predicted = results.verdict.split("\n")
    blocks: list[Block] = [Text(first, lead=True), *(Text(sentence(line)) for line in predicted)]
    blocks.append(Concerns(tuple((sentence(worry.text), worry.serious) for worry in results.worries)))
    facts = _facts(results)
    if facts:
        blocks.append(Facts(tuple(facts)))
    if results.posterior is not None:
        blocks.append(_summary_grid(results.posterior))
    return blocks


def _facts(results: Results) -> list[tuple[str, str]]:
    facts = []
    if results.posterior is not None:
        facts.append(("posterior draws", count(len(results.posterior.flat)).text))
        if results.posterior.log_evidence is not None:
            facts.append(("log evidence", with_error(*results.posterior.log_evidence)))
    for use, name in (("calibrate", "measurements"), ("validate", "held out")):
        total = sum(int(np.isfinite(p.y).sum()) for p in results.panels or () if p.use == use)
        if total:
            facts.append((name, count(total).text))
    if results.design is not None:
        runs = {run.key: run for row in results.design.runs for run in row}.values()  # tests may share runs
        bad = sum(run.status != "done" for run in runs)
        facts.append(("design runs", count(len(runs)).text + (f", {bad} failed" if bad else "")))
    return facts


def _summary_grid(posterior: Posterior) -> Grid:
    summary = posterior.summary()
    rows = []
    for i, parameter in enumerate(posterior.space.parameters):
        row = dict(zip(summary.columns, summary.rows[i], strict=True))
        median, interval = with_interval(row["median"], row["q05"], row["q95"])
        gain = row["narrowing"]
        said = percent(gain) if gain >= 0 else f"wider by {percent(-gain)}"
        picture = parameters.sparkline(posterior.flat[:, i], parameter)
        name = f"{parameter.label} ({parameter.name})" if parameter.label else parameter.name
        rows.append(
            (
                name,
                Cell(median, row["median"]),
                Cell(interval, row["q05"]),
                parameter.unit.replace(" ", "\u00a0"),
                Cell(said, gain),
                picture,
            )
        )
    return grid(
        ("parameter", "median", "90 % interval", "unit", "narrower than prior", "posterior in prior"),
        rows,
        name="summary",
        numbers=summary,
        markup=(5,),
        caption="Narrower than prior: by how much the 90 % interval shrank. "
        "Pictures: prior in grey, posterior in blue, heights not to scale.",
    )


def data_and_model(results: Results) -> list[Block]:
    """Draw the measurements used for calibration against the model, before and after."""
    panels = [p for p in results.panels or () if p.use == "calibrate"]
    if not panels:
        return []
    caption = (
        "Measurements and model. Bands hold 90 %: grey before the data, dark blue what the parameters "
        "leave open, light blue with errors added."
    )
    if any(p.residual.size for p in panels):
        caption += " Below, residuals in units of the total standard deviation; the shaded strip is ±2."
    blocks = panel_pictures("data", panels, caption)
    return [*blocks, _coverage_grid("data-coverage", panels), *error_blocks(results.study.errors)]


def panel_pictures(name: str, panels: Sequence[Panel], caption: str) -> list[Block]:
    """Draw panels, a few to a figure, and single numbers together."""
    blocks: list[Block] = []
    blocks += [block for p in panels if p.tests for block in stretches_blocks(name, p)]
    drawn = [p for p in panels if not is_scalar(p) and not p.tests]
    for k, start in enumerate(range(0, len(drawn), PER_FIGURE), start=1):
        some = drawn[start : start + PER_FIGURE]
        key = f"{name}-{k}"
        files = {key: band_numbers(some)}
        text = caption
        if any(p.autocorrelation.size for p in some):
            files[f"{key}-autocorrelation"] = autocorrelation_numbers(some)
            text += (
                " Autocorrelation of the residuals: white errors stay in the shaded strip, if one is drawn."
            )
        blocks.append(Picture(key, bands_figure(some), text, files))
    scalars = [p for p in panels if is_scalar(p)]
    if scalars:
        key = f"{name}-numbers"
        blocks.append(Picture(key, scalars_figure(scalars), caption, {key: band_numbers(scalars)}))
    return blocks


def _coverage_grid(name: str, panels: Sequence[Panel]) -> Grid:
    rows = [(p.series, p.label, int(np.isfinite(p.y).sum()), p.coverage, p.failed) for p in panels]
    shown = [
        (series, label, count(n), number(share, percent(share)), count(bad))
        for series, label, n, share, bad in rows
    ]
    columns = ("test", "observed", "measurements", "inside the 90 % band", "failed draws")
    return grid(columns, shown, name=name, numbers=Table(columns, tuple(rows)))


def parameter_screen(results: Results) -> list[Block]:
    """Draw densities over priors, all pairs, correlations, Sobol indices, and published figures beside ours."""
    sources = influence_blocks(results.influences or (), results.study.model_space)
    posterior = results.posterior
    if posterior is None:
        return sources
    references = results.study.references
    caption = "Posterior densities over their priors."
    if any(r.mean for r in references):
        caption += " Open marks: published means and standard deviations."
    marginals = Picture(
        "marginals",
        parameters.marginals_figure(posterior, references),
        caption,
        {"marginals": parameters.marginal_numbers(posterior)},
    )
    blocks: list[Block] = [marginals, _point_grid(posterior)]
    if posterior.space.dim > 1:
        blocks += [_pairs(posterior), _correlation_grid(posterior)]
    blocks += sources
    rows = beside(results.study.stem, posterior, references)
    if rows:
        blocks += [Heading("Beside published figures"), reference_grid(rows)]
    return blocks


def _point_grid(posterior: Posterior) -> Grid:
    """Return mean, median and point of highest density, for whoever needs one value."""
    summary = posterior.summary()
    columns = ("parameter", "mean", "median", "highest density", "standard deviation", "unit")
    wanted = [summary.column(name) for name in ("parameter", "mean", "median", "best", "sd", "unit")]
    rows = list(zip(*wanted, strict=True))
    shown = []
    for name, mean, median, best, sd, unit in rows:
        texts = [with_interval(value, value - sd, value + sd)[0] for value in (mean, median, best)]
        cells = [Cell(text, value) for text, value in zip(texts, (mean, median, best), strict=True)]
        shown.append((name, *cells, number(sd), unit))
    polished = "polished by an optimiser" if "mode" in posterior.diagnostics else "the best draw"
    caption = (
        f"The point of highest density is {polished}; the joint point, not that of each parameter alone."
    )
    return grid(columns, shown, name="point-estimates", numbers=Table(columns, tuple(rows)), caption=caption)


def _pairs(posterior: Posterior) -> Picture:
    caption = (
        "Pairs of parameters. Above the diagonal: draws coloured by log-likelihood. Below: smoothed "
        "densities. Diagonal: densities, prior in grey; the bar spans 95 %, its tick is the mean."
    )
    shown, dim = len(parameters.pair_columns(posterior)), posterior.space.dim
    if shown < dim:
        caption += f" Of {dim} parameters, the {shown} most narrowed by the data."
    return Picture(
        "pairs", parameters.pairs_figure(posterior), caption, {"draws": parameters.draw_numbers(posterior)}
    )


def _correlation_grid(posterior: Posterior) -> Grid:
    names = posterior.space.names
    matrix = posterior.correlation()
    rows = [
        (
            names[i],
            *(
                number(float(r), f"{r:.2f}".replace("-", "−"), _tint(float(r)) if i != j else "")
                for j, r in enumerate(row)
            ),
        )
        for i, row in enumerate(matrix)
    ]
    numbers = Table(
        ("parameter", *names), tuple((n, *map(float, row)) for n, row in zip(names, matrix, strict=True))
    )
    caption = "Correlation of the posterior draws; the deeper the tint, the stronger."
    return grid(("", *names), rows, name="correlation", numbers=numbers, caption=caption)


def _tint(r: float) -> str:
    strength = round(0.55 * min(1.0, abs(r)), 3)
    return f"rgba(11, 83, 148, {strength})" if r > 0 else f"rgba(120, 100, 40, {strength})"


def surrogate(results: Results) -> list[Block]:
    """Show how well the surrogate predicts runs that it did not see."""
    study = results.study
    return surrogate_blocks(
        results.emulations or (),
        study.model_space,
        results.influences or (),
        study.surrogate.min_q2,
        study.surrogate.goal,
    )


def parts(results: Results) -> list[Block]:
    """Show what each part of a split study says, and how well it predicts the others."""
    return part_blocks(results.parts)


def sampler(results: Results) -> list[Block]:
    """Show how the posterior was sampled and how far to trust it."""
    return sampler_blocks(results.posterior) if results.posterior is not None else []


def prediction(results: Results) -> list[Block]:
    """Draw held-out tests, new conditions with parameter and total uncertainty apart, and propagated numbers."""
    blocks: list[Block] = []
    held = [p for p in results.panels or () if p.use == "validate"]
    new = [p for p in results.panels or () if p.use == "predict"]
    caption = "Bands hold 90 %: dark blue what the parameters leave open, light blue with errors added."
    if results.sources:
        caption = (
            "Bands hold 90 %: dark blue the model's answers over all draws, whose spread is that of parameters, models "
            "and random numbers together, light blue with errors added. Dashed, and as open marks: runs at the best "
            "points of the posteriors."
        )
    if held:
        blocks.append(Heading("Held-out tests"))
        blocks += panel_pictures("held-out", held, f"Tests the calibration did not see. {caption}")
        blocks.append(_coverage_grid("held-out-coverage", held))
    if new:
        blocks.append(Heading("New conditions"))
        blocks += panel_pictures("prediction", new, caption)
    blocks += exceedance_blocks(results.panels or ())
    blocks += robust_blocks(results.panels or ())
    return blocks + propagation_blocks(results.propagations or (), results.study.model_space)


def sources(results: Results) -> list[Block]:
    """Show from which posteriors the parameters were drawn."""
    return source_blocks(results.sources or (), results.study.space.names)


def runs(results: Results) -> list[Block]:
    """Count the runs, time them, list what failed and show where."""
    return run_blocks(results.design, results.study.space, results.sampled, results.posterior)


def provenance(results: Results) -> list[Block]:
    """Show the study file, versions, seed, hashes, machine, what to cite, and where the numbers are."""
    study = results.study
    facts = [
        ("seed", str(study.seed)),
        ("simulator", study.simulator.name),
        ("its version", study.simulator.version),
    ]
    blocks: list[Block] = [Facts((*facts, ("tamis", __version__)))]
    stages = {name: s for name, s in results.manifest.get("stages", {}).items() if name != "report"}
    flat = _flatten({key: value for key, value in results.manifest.items() if key not in _SAID})
    if flat:
        blocks.append(grid(("recorded", "value"), flat))
    if stages:
        rows = [(name, number(s["seconds"], duration(s["seconds"])), s["hash"]) for name, s in stages.items()]
        caption = "Stages; the hash names the settings, data and code that the stage's results came from."
        blocks.append(grid(("stage", "time", "hash"), rows, caption=caption))
    blocks.append(Heading("How to cite"))
    blocks += [Text(text) for text in citations(study)]
    blocks.append(Heading("The study"))
    blocks.append(Code(study.file, study.text))
    blocks += [Code(name, text) for name, text in study.parents]
    return blocks


_SAID = ("stages", "result", "warnings")  # parts of the manifest that are shown elsewhere


def citations(study: StudyRecord) -> list[str]:
    """Return what to cite: tamis itself, and the papers behind the simulator."""
    own = f"The tamis developers, tamis {__version__}: calibration of mechanical simulators."
    return [own, *study.simulator.references]


def _flatten(mapping: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    rows = []
    for key, value in mapping.items():
        if isinstance(value, Mapping):
            rows += _flatten(value, f"{prefix}{key} · ")
        elif isinstance(value, list | tuple):
            rows += [(f"{prefix}{key}", str(item)) for item in value]
        else:
            rows.append((f"{prefix}{key}", str(value)))
    return rows


FIRST: tuple[Screen[Results], ...] = (
    Screen("verdict", "Verdict", verdict),
    Screen("data", "Data and model", data_and_model),
    Screen("parts", "Parts of the data", parts),
    Screen("parameters", "Parameters", parameter_screen),
    Screen("surrogate", "Surrogate", surrogate),
    Screen("sampler", "Sampler", sampler),
    Screen("sources", "Sources", sources),
    Screen("prediction", "Prediction", prediction),
)
LAST: tuple[Screen[Results], ...] = (
    Screen("runs", "Runs", runs),
    Screen("provenance", "Provenance", provenance),
)
