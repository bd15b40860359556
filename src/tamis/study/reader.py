"""Reading a study file as plain tables, and hashing what it names; standard library only."""

from __future__ import annotations

import ast
import hashlib
import json
import re
import tomllib
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from tamis import families
from tamis._version import __version__
from tamis.errors import StudyError, nearest
from tamis.sources import source_hash

_PACKAGE = Path(__file__).parent.parent
_NUMBER = re.compile(r"[-+0-9.eE]+")
_SHELL = ("report", "cli", "sim", "web", "vv", "replays.py")  # what no stage before the report depends on
_ASIDE = ("runs/archive.py", "runs/cluster.py")


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


def drawn_from(parameters: Any) -> Any:
    """Return what a table of parameters says they are drawn from, None where it gives priors."""
    given = parameters.get("from") if isinstance(parameters, dict) else None
    return None if isinstance(given, dict) else given  # a parameter may be called so


def sources(raw: Raw) -> tuple[Raw, ...]:
    """Read the studies from whose posteriors a study draws its parameters; none where it gives priors.

    Refused where one has no posterior: it draws from others itself (so that no cycle is possible), calibrates
    nothing, or calibrates each part of its data alone.
    """
    names = drawn_from(raw.table("parameters"))
    names = [names] if isinstance(names, str) else names or []
    found: list[Raw] = []
    for i, name in enumerate(names):
        where = f"{raw.path.name}: parameters.from[{i}]: {name}"
        try:
            source = read(raw.base / str(name))
        except StudyError as error:
            raise StudyError(f"{raw.path.name}: parameters.from[{i}]: {error}") from error
        if source.path.resolve() == raw.path.resolve():
            raise StudyError(f"{where} is this study itself; name the study whose posterior it draws from")
        if any(other.path.resolve() == source.path.resolve() for other in found):
            raise StudyError(f"{where} is named twice; name each study once")
        if inner := drawn_from(source.table("parameters")):
            back = raw.path.resolve() in _reached(source, {source.path.resolve()})
            fault = "draws from this study in turn" if back else f"itself draws from {inner}"
            raise StudyError(
                f"{where} {fault} and has no posterior of its own; name the studies that have one"
            )
        if not any(t.get("use", "calibrate") == "calibrate" for t in source.tables_of("experiment")):
            raise StudyError(f"{where} has no posterior: it has no [[experiment]] to calibrate with")
        if source.table("inference").get("split", "none") != "none":
            raise StudyError(
                f"{where} calibrates each part of its data alone ([inference] split) and has several posteriors; "
                "make a study of the part that is meant"
            )
        found.append(source)
    return tuple(found)


def _reached(raw: Raw, seen: set[Path]) -> set[Path]:
    """Return all files that a study draws from, directly or through others."""
    names = drawn_from(raw.table("parameters")) or []
    for path in [(raw.base / name).resolve() for name in names if isinstance(name, str)]:
        if path not in seen and path.is_file():
            seen = _reached(read(path), seen | {path})
    return seen


def open_tables(raw: Raw) -> dict[str, dict[str, Any]]:
    """Return the tests and predictions that need runs of their own first: numerical experiments, nominal errors.

    By their place in the file, under which their numbers are kept: where it changes, so does what they belong to.
    """
    tables = {
        f"{kind}[{i}]": table
        for kind in ("experiment", "predict", "next")
        for i, table in enumerate(raw.tables_of(kind))
    }
    return {place: t for place, t in tables.items() if "synthetic" in t or any(_nominal(t))}


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


def emulates(raw: Raw, table: Mapping[str, Any]) -> bool:
    """Return whether a prediction, or a held-out test, is to be made by a surrogate."""
    return bool(table.get("emulate")) and emulates_observables(raw)


def emulates_observables(raw: Raw) -> bool:
    """Return whether a surrogate stands in for the simulator."""
    return surrogate_method(raw) != "none" and not emulates_loglike(raw)


def emulates_loglike(raw: Raw) -> bool:
    """Return whether a surrogate stands in for the log-likelihood itself."""
    return raw.table("surrogate").get("target") == "loglike"


def surrogate_method(raw: Raw) -> str:
    """Return the kind of surrogate, "none" where the simulator itself is sampled."""
    return str(raw.table("surrogate").get("method", "none"))


def cheap_tables(raw: Raw) -> list[dict[str, Any]]:
    """Return the cheaper simulators of a study, cheapest first, each with the simulator it names or the study's own."""
    model = raw.table("model")
    own: dict[str, Any] = {key: model[key] for key in ("simulator", "command", "http") if key in model}
    given = model.get("cheap", [])
    tables = [t for t in given if isinstance(t, dict)] if isinstance(given, list) else []
    return [({} if "simulator" in table else own) | table for table in tables]


def model_file(raw: Raw) -> Path | None:
    """Return the Python file that the simulator is in; None where the study names none."""
    file = str(raw.table("model").get("simulator", "")).rpartition(":")[0]
    return raw.base / file if file.endswith(".py") else None


def simulator_fingerprint(raw: Raw, model: Mapping[str, Any] | None = None) -> str:
    """Hash what lies behind the simulator a study names.

    That is the code behind a built-in family, what a user's file and its local imports say, the files that a
    program's table names, or the version of an installed package.
    """
    model = raw.table("model") if model is None else model
    program = model.get("command", {})
    if program:
        return hash_of(named_files(raw, [program, list(program.get("templates", {}))]))
    name = str(model.get("simulator", ""))
    if name.startswith("tamis:"):
        return families.code_hash(file) if (file := families.file_of(name)) else ""
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
    name = str(raw.table("model").get("simulator", ""))
    if name.startswith("tamis:"):
        return families.input_names(name)
    file, _, function = name.rpartition(":")
    path = raw.base / file
    if not path.is_file():
        return None
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            return families.arguments(node)
    return None


def noise_parameters(raw: Raw, known: Container[str]) -> Iterator[str]:
    """Yield the names, among those of known parameters, that error models of the file read."""
    for test in (*raw.tables_of("experiment"), *raw.tables_of("predict"), *raw.tables_of("next")):
        for observe in test.get("observe", []):
            noise = observe.get("noise", []) if isinstance(observe, dict) else []
            for part in noise if isinstance(noise, list) else [noise]:
                if isinstance(part, dict):
                    named = (value for key, value in part.items() if key not in ("kind", "of"))
                    yield from (name for name in named if isinstance(name, str) and name in known)


def hash_of(*parts: Any) -> str:
    """Hash tables and numbers."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def named_files(raw: Raw, value: Any) -> dict[str, str]:
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
                    found[cell] = _content(raw.base / cell)
    return found


def _content(path: Path) -> str:
    """Hash a file, once for all stages that ask: a table may name hundreds."""
    state = path.stat()
    return _hashed(path, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)


@lru_cache(maxsize=8192)
def _hashed(path: Path, *state: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


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
def core_code() -> str:
    """Hash everything of tamis that computes.

    A new version of the code brings every stage up to date again.
    """
    total = hashlib.sha256(__version__.encode())
    for path in sorted(_PACKAGE.rglob("*.py")):
        inside = path.relative_to(_PACKAGE)
        if inside.parts[0] not in _SHELL and inside.as_posix() not in _ASIDE:
            total.update(path.read_bytes())
    return total.hexdigest()


@lru_cache
def report_code() -> str:
    """Hash everything that the report is written by."""
    total = hashlib.sha256()
    for path in sorted((_PACKAGE / "report").rglob("*")):
        if path.suffix in (".py", ".html", ".css", ".js"):
            total.update(path.read_bytes())
    return total.hexdigest()


def study_names(raws: Sequence[Raw]) -> list[str]:
    """Name studies by their files, or by their folders where files are called alike."""
    stems = [raw.path.stem for raw in raws]
    return stems if len(set(stems)) == len(stems) else [raw.path.resolve().parent.name for raw in raws]
