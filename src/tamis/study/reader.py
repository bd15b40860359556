"""Reading a study file as plain tables, and hashing what each stage depends on; standard library only.

Whether a stage is up to date is decided here, on the parsed file and on file contents, before anything heavy
is imported: that is why a second `tamis run` of an unchanged study takes a fraction of a second.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from tamis._version import __version__
from tamis.errors import StudyError, nearest
from tamis.results.manifest import current, read_manifest
from tamis.sources import source_hash
from tamis.study.table import ARTIFACTS, STAGES, Stage

_PACKAGE = Path(__file__).parent.parent
_NUMBER = re.compile(r"[-+0-9.eE]+")
_SHELL = ("report", "cli", "sim", "web", "vv", "replays.py")  # what no stage before the report depends on
_ASIDE = ("runs/archive.py", "runs/cluster.py")


_HOW_TOLD = ("use", "emulate", "draws", "where")  # of a test or prediction: what its runs do not depend on


@dataclass(frozen=True)
class Raw:
    """A study file parsed but not yet understood.

    Its tables, with those of the file it extends underneath.
    """

    path: Path
    tables: dict[str, Any]
    text: str
    parents: tuple[tuple[str, str], ...] = ()

    @property
    def base(self) -> Path:
        """Return the folder that relative names start from."""
        return self.path.parent

    @property
    def results(self) -> Path:
        """Return the folder of this study's results."""
        return self.base / "results" / self.path.stem

    def table(self, name: str) -> dict[str, Any]:
        """Return a table, empty if absent."""
        value = self.tables.get(name, {})
        return value if isinstance(value, dict) else {}

    def tables_of(self, name: str) -> list[dict[str, Any]]:
        """Return an array of tables, empty if absent."""
        value = self.tables.get(name, [])
        return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []


def read(path: Path) -> Raw:
    """Parse a study file and the one it extends."""
    path = Path(path)
    if path.is_dir():
        path = path / "study.toml"
    tables, text = _parse(path)
    parent = tables.pop("extends", None)
    if parent is None:
        return Raw(path, tables, text)
    if not isinstance(parent, str):
        raise StudyError(f"{path.name}: extends: expected the name of one file, found {parent!r}")
    below, parent_text = _parse(path.parent / parent)
    if "extends" in below:
        raise StudyError(f"{parent}: extends: a file that is extended may not extend another; merge the two")
    return Raw(path, _merge(below, tables), text, ((parent, parent_text),))


def _parse(path: Path) -> tuple[dict[str, Any], str]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        beside = [p.name for p in path.parent.glob("*.toml")] if path.parent.is_dir() else []
        raise StudyError(f'no study file "{path}"{nearest(path.name, beside)}') from None
    except (OSError, UnicodeDecodeError) as error:
        raise StudyError(f"{path} cannot be read as text: {error}") from error
    try:
        return tomllib.loads(text), text
    except tomllib.TOMLDecodeError as error:
        raise StudyError(f"{path.name} is not valid TOML: {error}") from error


def _merge(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Merge tables key by key; anything else above replaces what is below."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = _merge(old, value) if isinstance(value, dict) and isinstance(old, dict) else value
    return merged


def stage_hashes(raw: Raw) -> dict[Stage, str]:
    """Hash the settings and inputs of every stage; an equal hash means that the stage need not run again."""
    inputs_held = raw.table("model").get("inputs", {})
    model = _digest(raw.table("model"), simulator_fingerprint(raw), _named_files(raw, inputs_held))
    inputs = input_names(raw)
    noisy = set(noise_parameters(raw))
    laws = list(raw.table("parameters").items())  # as a list: their order is that of the arrays' columns
    feeds = [(n, law) for n, law in laws if (n in inputs if inputs is not None else n not in noisy)]
    aside = ("label", "limit", "group")
    tests = [_without(table, *aside) for table in raw.tables_of("experiment")]
    ahead = raw.tables_of("predict")
    possible = raw.tables_of("next")
    designed = [*tests, *(table for table in (*ahead, *possible) if emulates(raw, table))]
    imposed = [
        {k: v for k, v in t.items() if k in ("name", "table", "conditions", "sweep", "synthetic")}
        for t in designed
    ]
    seen = [
        {k: v for k, v in _without(table, *aside, "noise", "sd").items() if k not in _HOW_TOLD}
        for table in designed
    ]
    calibrated = [
        {k: v for k, v in t.items() if k not in ("emulate", "draws")}
        for t in tests
        if t.get("use", "calibrate") == "calibrate"
    ]
    common = (raw.tables.get("seed", 1), _core_code())
    hashes: dict[Stage, str] = {}
    correlation = raw.tables.get("correlation", [])
    unknowns = (laws, correlation)
    files = _named_files(raw, calibrated)
    likely = (*common, model, *unknowns, calibrated, files)
    sampled = (*likely, raw.table("inference"), taken_apart(raw))
    waiting = [_without(table, *aside) for table in open_tables(raw)]
    hashes["synthetic"] = _digest(_core_code(), model, waiting, _named_files(raw, waiting))
    hashes["design"] = _digest(*common, feeds, correlation, raw.table("design"))
    hashes["runs"] = _digest(hashes["design"], model, imposed, taken_apart(raw), _named_files(raw, imposed))
    hashes["observables"] = _digest(hashes["runs"], seen, _named_files(raw, seen))
    table = raw.table("surrogate")
    led = likely if table.get("enrich", {}).get("where") == "posterior" or emulates_loglike(raw) else ()
    fitted = {k: v for k, v in table.items() if k != "min_q2"}  # which only judges the fit
    hashes["surrogate"] = _digest(hashes["observables"], fitted, *led)
    hashes["sensitivity"] = _digest(hashes["surrogate"], raw.table("sensitivity"))
    calls = [hashes["surrogate"]] if applies(raw, "surrogate") else []
    hashes["posterior"] = _digest(*sampled, *calls)
    printed = [table.get("observe") for table in raw.tables_of("experiment")]  # with the labels
    before = (hashes["posterior"], hashes["surrogate"], tests, printed)
    hashes["prediction"] = _digest(*before, ahead, _named_files(raw, [tests, ahead]))
    hashes["propagation"] = _digest(hashes["prediction"], raw.table("propagate"))
    hashes["next"] = _digest(hashes["posterior"], hashes["surrogate"], possible, _named_files(raw, possible))
    last = (hashes["sensitivity"], hashes["propagation"], hashes["next"])
    hashes["report"] = _digest(*last, raw.text, raw.parents, _report_code())
    return hashes


def open_tables(raw: Raw) -> list[dict[str, Any]]:
    """Return the tests and predictions that need runs of their own first: numerical experiments, nominal errors."""
    tables = (*raw.tables_of("experiment"), *raw.tables_of("predict"), *raw.tables_of("next"))
    return [table for table in tables if "synthetic" in table or any(_nominal(table))]


def _nominal(table: Mapping[str, Any]) -> Iterator[bool]:
    for observe in table["observe"] if isinstance(table.get("observe"), list) else []:
        noise = observe.get("noise", []) if isinstance(observe, dict) else []
        for part in noise if isinstance(noise, list) else [noise]:
            yield isinstance(part, dict) and part.get("nominal") is not None


def taken_apart(raw: Raw) -> list[Any]:
    """Return which test each observation belongs to and what its part is called, where a study is split by group."""
    if raw.table("inference").get("split") != "group":
        return []
    return [
        (
            t.get("use", "calibrate"),
            [o.get("group") or o.get("label") or o.get("output") for o in t["observe"]],
        )
        for t in raw.tables_of("experiment")
        if isinstance(t.get("observe"), list) and all(isinstance(o, dict) for o in t["observe"])
    ]


def _without(table: dict[str, Any], *keys: str) -> dict[str, Any]:
    """Leave out of a test what a stage does not look at."""
    observe = [
        {k: v for k, v in o.items() if k not in keys} for o in table.get("observe", []) if isinstance(o, dict)
    ]
    return {**table, "observe": observe}


def emulates(raw: Raw, table: Mapping[str, Any]) -> bool:
    """Say whether a prediction, or a held-out test, is to be made by a surrogate."""
    return bool(table.get("emulate")) and emulates_observables(raw)


def emulates_observables(raw: Raw) -> bool:
    """Say whether a surrogate stands in for the simulator."""
    return surrogate_method(raw) != "none" and not emulates_loglike(raw)


def emulates_loglike(raw: Raw) -> bool:
    """Say whether a surrogate stands in for the log-likelihood itself."""
    return raw.table("surrogate").get("target") == "loglike"


def surrogate_method(raw: Raw) -> str:
    """Return the kind of surrogate, "none" where the simulator itself is sampled."""
    return str(raw.table("surrogate").get("method", "none"))


def simulator_fingerprint(raw: Raw) -> str:
    """Hash what lies behind the simulator a study names.

    That is all files of a built-in family, what a user's file and its local imports say, the files that a
    program's table names, or the version of an installed package.
    """
    program = raw.table("model").get("command", {})
    if program:
        return _digest(_named_files(raw, [program, list(program.get("templates", {}))]))
    name = str(raw.table("model").get("simulator", ""))
    if name.startswith("tamis:"):
        family = name.removeprefix("tamis:").partition(".")[0]
        return _sources(family) if (_PACKAGE / "sim" / family).is_dir() else ""
    path = raw.base / name.rpartition(":")[0]
    if path.is_file():
        return source_hash(path)
    from importlib.metadata import entry_points

    plugs = [point for point in entry_points(group="tamis.simulators") if point.name == name]
    return f"{name} {plugs[0].dist.version if plugs and plugs[0].dist else ''}"


def input_names(raw: Raw) -> set[str] | None:
    """Read the names of the simulator's inputs from its source, without importing it.

    None if that cannot be done.
    """
    for kind in ("command", "http"):
        if isinstance(ports := raw.table("model").get(kind, {}).get("inputs"), dict):
            return set(ports)
    file, _, function = str(raw.table("model").get("simulator", "")).rpartition(":")
    path = raw.base / file
    if file == "tamis":
        family, _, function = function.partition(".")
        path = _PACKAGE / "sim" / family / "simulators.py"
    if not path.is_file():
        return None
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            return {argument.arg for argument in (*node.args.args, *node.args.kwonlyargs)}
    return None


def noise_parameters(raw: Raw) -> Iterator[str]:
    """Yield the names that error models of the file read."""
    for test in (*raw.tables_of("experiment"), *raw.tables_of("predict"), *raw.tables_of("next")):
        for observe in test.get("observe", []):
            noise = observe.get("noise", []) if isinstance(observe, dict) else []
            for part in noise if isinstance(noise, list) else [noise]:
                if isinstance(part, dict):
                    for key in ("sd", "variance", "length", "scale"):
                        if isinstance(part.get(key), str):
                            yield part[key]


def _digest(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def _named_files(raw: Raw, value: Any) -> dict[str, str]:
    """Hash the content of every file named anywhere in a table, or in a cell of a data file it names."""
    found: dict[str, str] = {}
    for text in _strings(value):
        path = raw.base / (text.rpartition(":")[0] if ".py:" in text else text)
        if not _is_file(path):
            continue
        content = path.read_bytes()
        found[text] = hashlib.sha256(content).hexdigest()
        if path.suffix != ".py":
            cells = {cell.strip() for cell in re.split(r"[,;\t\n]", content.decode(errors="replace"))}
            for cell in cells:
                if cell and not _NUMBER.fullmatch(cell) and _is_file(raw.base / cell):
                    found[cell] = hashlib.sha256((raw.base / cell).read_bytes()).hexdigest()
    return found


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


@lru_cache
def _core_code() -> str:
    """Hash everything of tamis that computes.

    A new version of the code brings every stage up to date again.
    """
    digest = hashlib.sha256(__version__.encode())
    for path in sorted(_PACKAGE.rglob("*.py")):
        inside = path.relative_to(_PACKAGE)
        if inside.parts[0] not in _SHELL and inside.as_posix() not in _ASIDE:
            digest.update(path.read_bytes())
    return digest.hexdigest()


@lru_cache
def _report_code() -> str:
    digest = hashlib.sha256()
    for path in sorted((_PACKAGE / "report").rglob("*")):
        if path.suffix in (".py", ".html", ".css", ".js"):
            digest.update(path.read_bytes())
    return digest.hexdigest()


@lru_cache
def _sources(family: str) -> str:
    digest = hashlib.sha256()
    for folder in (family, "common"):
        for path in sorted((_PACKAGE / "sim" / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def up_to_date(raw: Raw, upto: Stage = "report") -> dict[Stage, bool]:
    """Say for each stage up to ``upto`` whether its hash and its files are those of the last run."""
    done = read_manifest(raw.results).get("stages", {})
    hashes = stage_hashes(raw)
    asked = [stage for stage in STAGES[: STAGES.index(upto) + 1] if applies(raw, stage)]
    return {
        stage: current(raw.results, done.get(stage, {}), hashes[stage], ARTIFACTS[stage]) for stage in asked
    }


def applies(raw: Raw, stage: Stage) -> bool:
    """Say whether a study has this stage.

    No design without data or an emulated prediction, no surrogate where the simulator is sampled.
    """
    calibrated = any(t.get("use", "calibrate") == "calibrate" for t in raw.tables_of("experiment"))
    tables = (*raw.tables_of("experiment"), *raw.tables_of("predict"), *raw.tables_of("next"))
    designed = calibrated or any(emulates(raw, table) for table in tables)
    emulated = designed and surrogate_method(raw) != "none"
    return {
        "synthetic": bool(open_tables(raw)),
        "surrogate": emulated,
        "sensitivity": (emulated and not emulates_loglike(raw)) or (designed and "sensitivity" in raw.tables),
        "posterior": calibrated,
        "prediction": True,
        "propagation": "propagate" in raw.tables,
        "next": calibrated and bool(raw.tables_of("next")),
        "report": True,
    }.get(stage, designed)


def study_names(raws: Sequence[Raw]) -> list[str]:
    """Name studies by their files, or by their folders where files are called alike."""
    stems = [raw.path.stem for raw in raws]
    return stems if len(set(stems)) == len(stems) else [raw.path.resolve().parent.name for raw in raws]


def comparison_folder(raws: Sequence[Raw]) -> Path:
    """Return the folder of a comparison's results."""
    return raws[0].base / "results" / ("compare-" + "-".join(study_names(raws)))


def comparison_hash(raws: Sequence[Raw]) -> str:
    """Hash what a comparison depends on: everything its studies' reports do."""
    return _digest([stage_hashes(raw)["report"] for raw in raws])


def read_comparison(raws: Sequence[Raw]) -> dict[str, Any] | None:
    """Read the record of the last comparison of these studies, None if it is not up to date."""
    folder = comparison_folder(raws)
    try:
        found = json.loads((folder / "comparison.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    current = all(all(up_to_date(raw).values()) for raw in raws) and (folder / "report.html").is_file()
    return found if current and found.get("hash") == comparison_hash(raws) else None
