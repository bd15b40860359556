"""What runs and comparisons say before they begin and when they end, in words or as one JSON event."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tamis.cli.terminal import say, table

if TYPE_CHECKING:
    from tamis.results.records import Results
    from tamis.simulation import Simulator
    from tamis.types import Outputs

_SHOWN = 6  # numbers of an output that are printed in full


def print_results(results: Results, *, as_json: bool) -> None:
    """Print the parameters, how good the surrogate is, the verdict and what to worry about."""
    if as_json:
        from tamis.results.gather import outcome

        report = str(results.folder / "report.html")
        say(json.dumps({"task": "result", **outcome(results), "report": report}))
        return
    if results.emulations:
        from tamis.results.verdict import rank

        worst = min(results.emulations, key=rank)
        n, poorest = len(results.emulations), f"{worst.series}, {worst.label}"
        said = f"Q2 {worst.q2:.5g}" if worst.judged else "cannot be judged"
        said += f" at worst ({poorest})" if n > 1 else ""
        if worst.measure != "Q2":
            said += f" over the prior; {worst.measure} {worst.growth[-1, 1]:.4f}"
        say(f"surrogate: {worst.method}, {said}")
    if results.posterior is not None:
        summary = results.posterior.summary()
        wanted = ("parameter", "unit", "median", "q05", "q95", "narrowing")
        rows = list(zip(*(summary.column(name) for name in wanted), strict=True))
        rows = [(*row[:-1], f"{row[-1]:.0%}") for row in rows]
        table(("parameter", "unit", "median", "5 %", "95 %", "narrower than prior by"), rows)
    _print_parts(results.parts)
    for p in results.propagations or ():
        at = f" at {p.at}" if p.at else ""
        say(
            f"{p.series}: {p.ylabel}{at}: mean {p.moments[0]:.4g} ± {p.errors[-1]:.2g}, sd {p.moments[1]:.3g}"
        )
    _print_fragility(results)
    ended = results.panels is not None or any(part.panels is not None for part in results.parts)
    if ended:
        say(results.verdict)
    _worries([vars(worry) for worry in results.worries])
    if (results.folder / "report.html").is_file() and ended:
        say(f"report: {shown(results.folder / 'report.html')}")


def _print_fragility(results: Results) -> None:
    """Print the median and the dispersion of a fragility, or what can be said instead."""
    from tamis.analysis.fragility import FragilityRecord

    for part in (results, *results.parts):
        for f in part.records("fragility", FragilityRecord) or ():
            name = f"{f.series} ({part.study.part})" if part.study.part else f.series
            said = f.statement or "a surface"
            if not f.statement and len(f.intensity) == 1:
                (low, high), (least, most) = f.median_interval, f.dispersion_interval
                said = f"median {f.median:.4g} ({low:.3g} to {high:.3g}) {f.intensity[0]}, "
                said += f"dispersion {f.dispersion:.3g} ({least:.2g} to {most:.2g})"
            say(f"fragility of {name}, {f.demand} {f.limit}: {said}")


def _print_parts(parts: Sequence[Results]) -> None:
    """Print the median and the 90 % interval of every parameter, a row for each part of the data."""
    tables = {part.study.part: part.posterior.summary() for part in parts if part.posterior is not None}
    if not tables:
        return
    names = list(dict.fromkeys(name for found in tables.values() for name in found.column("parameter")))
    rows = []
    for part, found in tables.items():
        known = {row[0]: dict(zip(found.columns, row, strict=True)) for row in found.rows}
        cells = [
            f"{known[n]['median']:.3g} ({known[n]['q05']:.3g} to {known[n]['q95']:.3g})" if n in known else ""
            for n in names
        ]
        rows.append((part, *cells))
    table(("calibrated on", *names), rows)


def print_candidates(results: Results, top: int, *, as_json: bool) -> None:
    """Print possible experiments, the most instructive first, and what each would narrow most."""
    found = [  # gains over the posteriors of different parts do not compare
        (part, c)
        for part in (results, *results.parts)
        for c in sorted(part.candidates or (), key=lambda c: -c.gain)[:top]
    ]
    left_out = sum(len(part.candidates or ()) for part in (results, *results.parts)) - len(found)
    if as_json:
        for part, c in found:
            names = part.study.space.names
            narrowing = dict(zip(names, map(float, c.narrowing), strict=True))
            told = {
                "name": c.name,
                "conditions": c.label,
                "gain": c.gain,
                "error": c.error,
                "at_least": c.at_least,
            }
            said = {"part": part.study.part} if part.study.part else {}
            say(json.dumps({"task": "candidate", **said, **told, "narrowing": narrowing, "failed": c.failed}))
        say(json.dumps({"task": "result", "worries": [vars(worry) for worry in results.worries]}))
        return
    rows = []
    for part, c in found:
        order = sorted(range(len(c.narrowing)), key=lambda i: -c.narrowing[i])[:2]
        most = ", ".join(f"{part.study.space.names[i]} by {c.narrowing[i]:.0%}" for i in order)
        name = f"{c.name} ({part.study.part})" if part.study.part else c.name
        gain = f"at least {c.gain:.2f}" if c.at_least else f"{c.gain:.3f} ± {c.error:.3f}"
        rows.append((name, c.label, gain, most))
    table(("experiment", "conditions", "expected gain [nats]", "narrows most"), rows)
    if left_out:
        say(
            f"and {left_out} more; --top {len(found) + left_out} shows all, `tamis run` puts them into the report"
        )
    _worries([vars(worry) for worry in results.worries])


def print_unchanged(name: str, result: Mapping[str, Any] | None, report: Path, *, as_json: bool) -> None:
    """Print what the last run ended with, where nothing has changed since."""
    if as_json:
        say(json.dumps({"task": "up to date", **({**result, "report": str(report)} if result else {})}))
        return
    say(f"{name} is up to date.")
    if result:
        say(result["verdict"])
        _worries(result["worries"])
        say(f"report: {shown(report)}")


def _worries(found: Sequence[Mapping[str, Any]]) -> None:
    for worry in found:
        say(f"{'!!' if worry['serious'] else ' -'} {worry['text']}")


def print_comparison(record: Mapping[str, Any], folder: Path, *, as_json: bool) -> None:
    """Print evidences and probabilities, the checks of nested models, and what to worry about."""
    if as_json:
        say(json.dumps({"task": "comparison", **record}))
        return
    table(record["columns"], record["rows"])
    for check in record["nested"]:
        held = f"{check['inner']} is {check['outer']} with {check['parameter']} = {check['value']:g}"
        factor, error = check["by_evidence"]
        if check["agrees"] is None:
            told = "too far in the tail for the draws to check"
            say(f"{held}: log Bayes factor {factor:+.2f} ± {error:.2f}; {told}")
            continue
        density, its_error = check["by_density"]
        verdict = "agree" if check["agrees"] else "DISAGREE"
        against = (
            f"{factor:+.2f} ± {error:.2f} against {density:+.2f} ± {its_error:.2f} from the posterior density"
        )
        say(f"{held}: log Bayes factor {against} ({verdict})")
    _worries(record["worries"])
    say(f"report: {shown(folder / 'report.html')}")


def shown(path: Path) -> str:
    """Write a path as seen from here."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def print_simulator(simulator: Simulator) -> None:
    """Print what a simulator is, takes and gives."""
    from tamis.interfaces import documentation

    say(f"{simulator.name} (version {simulator.version})\n{documentation(simulator)}\n")
    ports = simulator.inputs.values()
    spans = [
        ", ".join(p.choices) if p.bounds is None else f"{p.bounds[0]:g} to {p.bounds[1]:g}" for p in ports
    ]
    rows = [(p.name, p.default, span, p.unit, p.doc) for p, span in zip(ports, spans, strict=True)]
    table(("input", "default", "may be", "unit", "meaning"), rows)
    say()
    table(("output", "unit", "meaning"), [(p.name, p.unit, p.doc) for p in simulator.outputs.values()])


def print_outputs(simulator: Simulator, outputs: Outputs) -> None:
    """Print what one run gave, short arrays in full."""
    rows = []
    for name, array in outputs.items():
        if array.ndim == 0:
            shown = f"{float(array):.6g}"
        elif array.ndim == 1 and array.size <= _SHOWN:
            shown = ", ".join(f"{value:.6g}" for value in array) or "none"
        elif array.size == 0:
            shown = "none"
        else:
            shown = f"{array.shape} from {array.min():.4g} to {array.max():.4g}"
        rows.append((name, shown, simulator.outputs[name].unit))
    table(("output", "value", "unit"), rows)


def tell_of_compiling(simulator: Simulator) -> None:
    """Say on the error stream why the first run with a family of kernels takes its time."""
    from tamis.families import folder_of
    from tamis.interfaces import whole_of

    if folder_of(whole_of(simulator).address) is not None:
        from tamis.jit import watch

        watch(lambda what: print(what, file=sys.stderr, flush=True))
