"""The command line: one verb a function, each importing what it needs when it runs."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from tamis._version import __version__
from tamis.cli import COMPUTATION_SAYS_NO, DONE, INTERRUPTED, WRONG_REQUEST
from tamis.errors import StudyError, TamisError, visible

if TYPE_CHECKING:
    from tamis.runs.pool import Executors
    from tamis.study.reader import Raw

_EPILOG = """\
a first walk:
  tamis new ball && cd ball     four files to start from
  tamis check study.toml        is it right, and what will it cost?
  tamis run study.toml          calibrate, predict, report; Ctrl-C and the same command goes on
  tamis compare a.toml b.toml   weigh models of the same measurements against each other
  tamis next study.toml         which experiment would teach most?

exit codes: 0 done, 1 the computation says no, 2 the request was wrong, 130 interrupted and resumable
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code.

    Linear algebra uses one thread, like the runs: its matrices are small, threads that wait for a busy machine make
    it tens of times slower, and results would depend on their number.
    """
    for library in ("OMP", "OPENBLAS", "MKL"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    try:
        with suppress(ValueError):  # not in the main thread; batch systems end a job by SIGTERM
            signal.signal(signal.SIGTERM, signal.default_int_handler)
        arguments = _parser().parse_args(argv)
        verb: Callable[[argparse.Namespace], int] = arguments.verb
        return verb(arguments)
    except KeyboardInterrupt:
        print("interrupted; nothing finished is lost, the same command goes on", file=sys.stderr)
        return INTERRUPTED
    except StudyError as error:
        print(f"error: {visible(str(error))}", file=sys.stderr)
        return WRONG_REQUEST
    except TamisError as error:
        print(f"error: {visible(str(error))}", file=sys.stderr)
        return COMPUTATION_SAYS_NO
    except BrokenPipeError:
        return DONE
    except OSError as error:
        what = f"{error.filename or ''}: {error.strerror or error}"
        print(f"error: {what}; nothing finished is lost", file=sys.stderr)
        return WRONG_REQUEST


def _parser() -> argparse.ArgumentParser:
    from tamis.study.stages.table import STAGES

    parser = argparse.ArgumentParser(
        prog="tamis",
        description="Calibrate a simulator against measurements, say how sure one may be, predict with what is left.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"tamis {__version__}")
    verbs = parser.add_subparsers(metavar="VERB", required=True)

    def add(name: str, verb: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        sub = verbs.add_parser(name, help=text[0].lower() + text[1:].rstrip("."), description=text)
        sub.set_defaults(verb=verb)
        return sub

    sub = add("new", new, "Copy a working study to start from.")
    sub.add_argument("folder", type=Path, metavar="DIR")
    sub.add_argument(
        "--like", default="ball", help="the study to copy: ball (default), or borehole, a slow simulator"
    )

    sub = add(
        "check",
        _handed("plan.print_plan", "study"),
        "Validate a study, run one point, time it, and print the plan and its cost.",
    )
    sub.add_argument("study", type=Path, metavar="STUDY")

    sub = add("run", run, "Bring every stage of a study up to date; interrupted, the same command goes on.")
    sub.add_argument(
        "study", type=Path, metavar="STUDY", help="a study file, or a folder with study.toml in it"
    )
    sub.add_argument(
        "--to",
        choices=list(STAGES),
        default="report",
        metavar="STAGE",
        help=f"last stage: {', '.join(STAGES)}",
    )
    sub.add_argument("--retry-failed", action="store_true", help="run again the points whose run failed")
    sub.add_argument("--force", action="store_true", help="go on with a surrogate below its threshold")
    _common(sub)

    sub = add(
        "status",
        _handed("plan.print_status", "study"),
        "Show stages, runs done, failed and left, the time left, and why runs failed.",
    )
    sub.add_argument(
        "study", type=Path, metavar="STUDY", nargs="?", help="default: every study below this folder"
    )

    sub = add("report", report, "Rebuild the HTML report alone, from the results there are.")
    sub.add_argument(
        "study",
        type=Path,
        metavar="STUDY|RESULTS",
        help="a study file, or a folder of results without its study",
    )

    sub = add(
        "compare",
        compare,
        "Weigh studies of the same measurements: evidence, probabilities, mixed prediction.",
    )
    sub.add_argument("studies", type=Path, metavar="STUDY", nargs="+")
    _common(sub)

    sub = add(
        "next",
        next_,
        "Rank the experiments of [[next]] tables by what each is expected to teach.",
    )
    sub.epilog = (
        "a [[next]] table has a name, conditions or a sweep, and observe with the error a measurement would have; "
        "the gain is the information, in nats, that the experiment is expected to add to the posterior"
    )
    sub.add_argument("study", type=Path, metavar="STUDY")
    sub.add_argument("--top", type=int, default=10, metavar="N", help="rows to print (default: 10)")
    sub.add_argument("--force", action="store_true", help="go on with a surrogate below its threshold")
    _common(sub)

    sub = add("sim", sim, "List the simulators, describe one, or run it once.")
    sub.add_argument("name", nargs="?", metavar="NAME", help="nscd.wall, dem.impact, or model.py:ball")
    sub.add_argument(
        "inputs",
        nargs="*",
        metavar="key=value",
        help="run it once with these inputs, the others at their defaults",
    )
    sub.add_argument(
        "--run", action="store_true", help="run it once, also with no input given: all at defaults"
    )
    sub.add_argument(
        "--storyboard",
        type=Path,
        metavar="FILE",
        help="instead of numbers, draw six frames of its replay (.png, .svg, .pdf)",
    )
    sub.add_argument(
        "--record",
        type=Path,
        metavar="FILE",
        help="instead of numbers, write the whole run (.npz): poses of all bodies, contact forces, every step",
    )
    sub.add_argument(
        "--through",
        metavar="GROUP,...",
        default="",
        help="groups that the storyboard draws like glass, so that one sees what they hide",
    )
    sub.add_argument("--field", metavar="NAME", help="colour the storyboard by this field of the replay")

    _store_verbs(add)
    _motions_verb(add)

    sub = add("serve", serve, "Offer a simulator over HTTP, to any client of the UM-Bridge protocol.")
    sub.add_argument("name", metavar="NAME", help="dem.impact, model.py:ball, or a study file")
    sub.add_argument("values", nargs="*", metavar="key=value", help="inputs to hold fixed")
    sub.add_argument("--inputs", metavar="A,B,...", help="the input vector (default: all numbers not fixed)")
    sub.add_argument("--host", default="127.0.0.1", help="address to listen at (default: this machine only)")
    sub.add_argument("--port", type=int, default=4242, help="default: 4242; 0 takes a free one")
    sub.add_argument(
        "-j", "--jobs", type=int, metavar="N", help="evaluations at a time (default: one a core)"
    )
    sub.add_argument("--timeout", type=float, metavar="S", help="seconds after which a run is killed")
    return parser


def _motions_verb(add: Callable[..., argparse.ArgumentParser]) -> None:
    sub = add(
        "motions",
        motions,
        "Read recorded accelerograms: intensity measures, and parameters of the stochastic model behind them.",
    )
    sub.add_argument(
        "files", type=Path, metavar="FILE", nargs="+", help="AT2 files, or CSV files with a header"
    )
    sub.add_argument("--step", type=float, metavar="S", help="resample to this step first, without aliasing")
    sub.add_argument("--column", metavar="NAME", help="of a CSV file: the column of accelerations")
    sub.add_argument(
        "--time", metavar="NAME", help="of a CSV file: the column of times, if it is not t or time"
    )
    sub.add_argument("--dt", type=float, metavar="S", help="of a CSV file without times: its step")
    sub.add_argument("--unit", metavar="UNIT", help="of a CSV file without one: m/s2, cm/s2, gal or g")
    sub.add_argument("--csv", type=Path, metavar="FILE", help="write the parameters to a table")
    sub.add_argument(
        "--figure",
        type=Path,
        metavar="FILE",
        help="draw one record beside its model, or the parameters of a set against each other (.png, .svg, .pdf)",
    )


def _store_verbs(add: Callable[..., argparse.ArgumentParser]) -> None:
    text = "a study file, or a folder of runs"
    sub = add(
        "import",
        _handed("stores.print_import", "study", "source", "map", "replace"),
        "Bring existing runs of a study's simulator into its run store.",
    )
    sub.epilog = "example: tamis import study.toml old.csv --map young=E pmax=peak run_id="
    sub.add_argument("study", type=Path, metavar="STUDY")
    sub.add_argument(
        "source",
        type=Path,
        metavar="FILE.csv|FOLDER",
        help="one row a run, columns called like the inputs and all outputs; or a folder with runs.csv, whose "
        "column `file` names each run's arrays",
    )
    sub.add_argument(
        "--map",
        nargs="+",
        action="extend",
        default=[],
        metavar="column=name",
        help="columns called otherwise than their input or output (input:x or output:x if x is both); "
        "`column=` leaves one out",
    )
    sub.add_argument("--replace", action="store_true", help="prefer the table where the store differs")

    sub = add(
        "export",
        _handed("stores.print_export", "store", "folder", "status", "simulator"),
        "Write runs as plain files: a table, and one file a run for its arrays.",
    )
    sub.add_argument("store", type=Path, metavar="STUDY|RUNS", help=text)
    sub.add_argument("folder", type=Path, metavar="DEST", help="a new folder")
    sub.add_argument(
        "--status", choices=("done", "failed", "crashed", "timeout", "memory"), help="only runs that ended so"
    )
    sub.add_argument("--simulator", metavar="NAME", help="only runs of this simulator")

    sub = add(
        "merge",
        _handed("stores.print_merge", "into", "sources"),
        "Copy the runs that one store lacks from others, which are only read.",
    )
    sub.epilog = "example: tamis merge study.toml /mnt/cluster/ball/runs; exit code 1 if outputs contradict"
    sub.add_argument("into", type=Path, metavar="INTO", help=text)
    sub.add_argument("sources", type=Path, metavar="FROM", nargs="+", help=text)

    sub = add(
        "gc",
        _handed("stores.print_gc", "store", "yes", "failed_folders", "orphans"),
        "List what a run store can do without, and with --yes remove it.",
    )
    sub.add_argument("store", type=Path, metavar="STUDY|RUNS", help=text)
    sub.add_argument("--yes", action="store_true", help="remove it")
    sub.add_argument(
        "--failed-folders", action="store_true", help="also working folders of failed and unfinished runs"
    )
    sub.add_argument(
        "--orphans", action="store_true", help="also runs of simulator versions that no study here uses"
    )


def _handed(where: str, *names: str) -> Callable[[argparse.Namespace], int]:
    """Return a verb that hands its arguments to a function of this package, imported when it runs."""

    def verb(arguments: argparse.Namespace) -> int:
        module, _, function = where.partition(".")
        found = getattr(import_module(f"tamis.cli.{module}"), function)
        return int(found(*(getattr(arguments, name) for name in names)))

    return verb


def _common(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "-j", "--jobs", type=int, default=None, metavar="N", help="worker processes (default: one a core)"
    )
    sub.add_argument(
        "--cluster",
        metavar="URL",
        help="run on the workers of a Dask scheduler, tcp://host:port (default: [cluster] of the study)",
    )
    sub.add_argument("--json", action="store_true", help="one event a line instead of bars")


def _executor(arguments: argparse.Namespace, raw: Raw) -> AbstractContextManager[Executors]:
    """Return who does the runs: a cluster if one is named, else processes of this machine."""
    address = arguments.cluster or raw.table("cluster").get("address")
    if address and arguments.jobs is None:
        from tamis.runs.cluster import Cluster

        return Cluster(address)
    if arguments.cluster:
        raise StudyError("--cluster and -j exclude each other: a cluster has workers of its own")
    return nullcontext(_jobs(arguments))


def _jobs(arguments: argparse.Namespace) -> int:
    if arguments.jobs is not None and arguments.jobs < 0:
        raise StudyError(f"-j {arguments.jobs}: expected 0 (in this process) or more workers")
    return arguments.jobs if arguments.jobs is not None else os.cpu_count() or 1


def new(arguments: argparse.Namespace) -> int:
    """Copy a working study."""
    import shutil

    from tamis.errors import nearest
    from tamis.study.scaffold import scaffolds

    known = scaffolds()
    if arguments.like not in known:
        raise StudyError(f'no study "{arguments.like}" to copy{nearest(arguments.like, known)}')
    folder: Path = arguments.folder
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise StudyError(f"{folder} exists and is not empty; choose another name")
    leave = shutil.ignore_patterns("runs", "results", "__pycache__", "expected.toml")
    shutil.copytree(known[arguments.like], folder, ignore=leave, dirs_exist_ok=True)
    print(f"{folder}: {', '.join(sorted(p.name for p in folder.iterdir()))}")
    print(f"next: cd {folder} && tamis run study.toml")
    return DONE


def run(arguments: argparse.Namespace) -> int:
    """Bring a study up to date."""
    from tamis.cli.summary import print_results, print_unchanged, tell_of_compiling
    from tamis.cli.terminal import reporting
    from tamis.results.manifest import read_manifest
    from tamis.study.reader import read
    from tamis.study.stages.table import up_to_date

    raw = read(arguments.study)
    upto: str = arguments.to
    if all(up_to_date(raw, upto).values()) and not arguments.retry_failed:
        result = read_manifest(raw.results).get("result") if upto == "report" else None
        print_unchanged(raw.path.name, result, raw.results / "report.html", as_json=arguments.json)
        return COMPUTATION_SAYS_NO if result and any(w["unsound"] for w in result["worries"]) else DONE
    from tamis.study.build import build
    from tamis.study.run import run as run_stages

    study = build(raw)
    tell_of_compiling(study.simulator)
    with _executor(arguments, raw) as executor, reporting(arguments.json) as progress:
        results = run_stages(
            study,
            upto,
            executor=executor,
            progress=progress,
            retry_failed=arguments.retry_failed,
            force=arguments.force,
        )
    print_results(results, as_json=arguments.json)
    poor = not arguments.force and any(emulation.poor for emulation in results.emulations or ())
    unsound = any(worry.unsound for worry in results.worries)
    return COMPUTATION_SAYS_NO if unsound or (poor and upto in ("surrogate", "sensitivity")) else DONE


def report(arguments: argparse.Namespace) -> int:
    """Rebuild the report alone; results are files, so that the model is needed only where the study file changed."""
    from tamis.cli.summary import shown
    from tamis.results.gather import load_results
    from tamis.study.stages.report import write_report

    if (arguments.study / "study.json").is_file():
        found = load_results(arguments.study)
    else:
        from tamis.results.study import load_study
        from tamis.study.reader import model_file, read
        from tamis.study.stages.table import up_to_date

        raw = read(arguments.study)
        file = model_file(raw)
        stale = [stage for stage, current in up_to_date(raw).items() if not current and stage != "report"]
        if stale and (file is None or file.is_file()):
            raise _stale(raw.path.name, stale[0])
        record = load_study(raw.results)
        if (record.text, record.parents) == (raw.text, raw.parents):
            found = load_results(raw.results)
        else:  # other labels or titles, of which the model knows the units
            from tamis.study.build import build
            from tamis.study.run import results

            found = results(build(raw))
    fresh = {"report"}.union(*(each.fresh for each in (found, *found.parts)))
    missing = [stage for stage in found.study.hashes if stage not in fresh]
    if missing:
        raise _stale(found.study.file, missing[0])
    write_report(found)
    print(f"report: {shown(found.folder / 'report.html')}")
    return DONE


def _stale(file: str, stage: str) -> StudyError:
    return StudyError(f"{file}: {stage} is not up to date, or not as it was written; `tamis run` first")


def compare(arguments: argparse.Namespace) -> int:
    """Weigh studies against each other."""
    from tamis.cli.summary import print_comparison
    from tamis.cli.terminal import reporting
    from tamis.study.reader import read
    from tamis.study.stages.table import comparison_folder, read_comparison

    raws = [read(path) for path in arguments.studies]
    record = read_comparison(raws)
    if record is None:
        from tamis.study.compare import compare_studies

        with _executor(arguments, raws[0]) as executor, reporting(arguments.json) as progress:
            compare_studies(raws, executor=executor, progress=progress)
        record = read_comparison(raws)
        if record is None:
            raise TamisError("a file changed during the comparison; run the same command again")
    print_comparison(record, comparison_folder(raws), as_json=arguments.json)
    return COMPUTATION_SAYS_NO if any(worry["unsound"] for worry in record["worries"]) else DONE


def next_(arguments: argparse.Namespace) -> int:
    """Rank possible experiments."""
    from tamis.cli.summary import print_candidates
    from tamis.cli.terminal import reporting
    from tamis.study.build import build
    from tamis.study.reader import read
    from tamis.study.run import run as run_stages

    raw = read(arguments.study)
    if not raw.tables_of("next"):
        raise StudyError(
            f'{raw.path.name} has no [[next]] table; add one for each possible experiment: name = "...", '
            "conditions = {...} or sweep = {...}, observe = [...] with the noise a measurement would have"
        )
    if arguments.top < 1:
        raise StudyError(f"--top {arguments.top}: expected 1 or more rows")
    study = build(raw)
    with _executor(arguments, raw) as executor, reporting(arguments.json) as progress:
        results = run_stages(study, "next", executor=executor, progress=progress, force=arguments.force)
    print_candidates(results, arguments.top, as_json=arguments.json)
    return COMPUTATION_SAYS_NO if any(worry.unsound for worry in results.worries) else DONE


def sim(arguments: argparse.Namespace) -> int:
    """List, describe or run simulators."""
    from tamis.cli.simulators import describe

    return describe(arguments)


def motions(arguments: argparse.Namespace) -> int:
    """Describe recorded ground motions."""
    from tamis.cli.motions import describe

    return describe(arguments)


def serve(arguments: argparse.Namespace) -> int:
    """Offer a simulator over HTTP."""
    from tamis.cli.simulators import offer

    return offer(arguments, _jobs(arguments))
