"""The verbs about single simulators: describe one, run it once, draw its replay, offer it over HTTP."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tamis.cli import COMPUTATION_SAYS_NO, DONE, INTERRUPTED
from tamis.cli.summary import print_outputs, print_simulator, tell_of_compiling
from tamis.cli.terminal import say, table, told_plainly, working
from tamis.errors import SimulationError, StudyError
from tamis.families import builtins
from tamis.files import save_arrays
from tamis.interfaces import Simulator, recorded, whole_of
from tamis.quantities import duration
from tamis.simulation import complete, explained, find


def describe(arguments: argparse.Namespace) -> int:
    """List, describe or run simulators."""
    if ((arguments.field or arguments.through) and not arguments.storyboard) or (
        (arguments.storyboard or arguments.record or arguments.run) and not arguments.name
    ):
        raise StudyError(
            "expected tamis sim NAME [key=value...] --storyboard FILE [--field FIELD] [--through GROUPS], "
            "--record FILE or --run"
        )
    if arguments.name is None:
        table(("simulator", "what it is"), list(builtins().items()))
        say('\nIn a study file: simulator = "tamis:NAME". `tamis sim NAME` describes one.')
        return DONE
    name = arguments.name if ":" in arguments.name else f"tamis:{arguments.name}"
    simulator = find(name, Path.cwd())
    if arguments.record:
        _write_record(simulator, _values(arguments.inputs), arguments.record)
        if not arguments.storyboard:
            return DONE
    if arguments.storyboard:
        from tamis.report.storyboard import write_storyboard

        path, inputs = arguments.storyboard, _values(arguments.inputs)
        tell_of_compiling(simulator)
        through = [name for name in arguments.through.split(",") if name]
        with told_plainly(), working(f"running {simulator.name}, then drawing it"):
            frames, span = write_storyboard(simulator, inputs, path, field=arguments.field, through=through)
        say(f"{path}: {frames} frames over {span:.4g} s")
        return DONE
    if not (arguments.inputs or arguments.run):
        print_simulator(simulator)
        say(f"\n`tamis sim {arguments.name} --run` runs it once like this; key=value gives inputs.")
        return DONE
    return _run_once(simulator, _values(arguments.inputs))


def _write_record(simulator: Simulator, inputs: dict[str, float | str], path: Path) -> None:
    """Run a simulator and write all that the run computed."""
    whole = recorded(simulator)
    if whole is None:
        raise StudyError(f"--record: simulator {simulator.name} returns its outputs only, and no whole run")
    if path.suffix != ".npz" or not path.parent.is_dir():
        raise StudyError(
            f'--record "{path}": expected a file in a folder that exists, its name ending in .npz'
        )
    tell_of_compiling(simulator)
    with explained(simulator), told_plainly(), working(f"running {simulator.name}"):
        arrays = whole.record(inputs)
    save_arrays(path, arrays)
    say(f"{path}: {', '.join(arrays)}")


def offer(arguments: argparse.Namespace, jobs: int) -> int:
    """Offer a simulator over HTTP."""
    from tamis.adapters import serve as server

    timeout = arguments.timeout
    fixed: dict[str, float | int | str] = {}
    if arguments.name.endswith(".toml") or Path(arguments.name).is_dir():
        from tamis.study.build import build
        from tamis.study.reader import read

        study = build(read(Path(arguments.name)))
        simulator, fixed = whole_of(study.simulator), dict(study.fixed)
        timeout = timeout if timeout is not None else study.settings.timeout
    else:
        name = arguments.name if ":" in arguments.name else f"tamis:{arguments.name}"
        simulator = find(name, Path.cwd())
    if jobs == 0 or (timeout is not None and not timeout > 0):
        raise StudyError(
            f"expected -j 1 or more and a positive --timeout, found -j {arguments.jobs}, {timeout}"
        )
    fixed |= _values(arguments.values)
    vector = None if arguments.inputs is None else [part.strip() for part in arguments.inputs.split(",")]
    offered = server.offer(simulator, fixed, vector)
    server.serve(offered, host=arguments.host, port=arguments.port, jobs=jobs, timeout=timeout)
    return DONE


def _values(pairs: Sequence[str]) -> dict[str, float | str]:
    values: dict[str, float | str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise StudyError(f'"{key}": expected key=value')
        if key in values:
            raise StudyError(f'"{key}" is given twice')
        try:
            values[key] = float(value)
        except ValueError:
            values[key] = value
    return values


def _run_once(simulator: Simulator, inputs: dict[str, float | str]) -> int:
    try:
        complete(simulator, inputs)
    except SimulationError as error:  # out of bounds: in a campaign a failure, here a wrong request
        raise StudyError(str(error)) from None
    tell_of_compiling(simulator)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        try:
            with explained(simulator), told_plainly(), working(f"running {simulator.name}"):
                outputs = simulator.run(inputs, Path(scratch))
        except SimulationError as error:
            say(f"the simulator says no: {error}")
            return COMPUTATION_SAYS_NO
        except KeyboardInterrupt:
            say("interrupted; a single run is not kept, runs of a study are")
            return INTERRUPTED
    print_outputs(simulator, outputs)
    say(f"in {duration(time.perf_counter() - start)}")
    return DONE
