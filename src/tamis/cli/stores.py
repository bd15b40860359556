"""What the verbs about run stores do: import, export, merge, gc.

Joining believes array files, as the store does, and only reads the store it copies from; that one may be in
use. Cleaning lists first and removes on request. It takes nothing that a campaign would look for again:
finished runs, and folders of unfinished ones, where a long simulator may have left a checkpoint, go only if
asked for by name. Both hold the store's lock, so neither meets a campaign.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from tamis.cli.terminal import say, table
from tamis.errors import StudyError
from tamis.interfaces import whole_of
from tamis.quantities import size
from tamis.runs.archive import KEY, alike, counted, export, import_runs
from tamis.runs.index import FORMAT, INDEX, Newer, seconds_of
from tamis.runs.locks import alive
from tamis.runs.repair import read_member
from tamis.runs.segments import Member, opened, read_log, segment_path, sizes, walk
from tamis.runs.store import Damaged, Run, RunStore, Status, read_arrays, read_record, writing
from tamis.study.reader import Raw, read

_SHOWN = 10
_MANY = 1000  # runs looked at together


def batched(keys: Iterable[str], many: int) -> Iterator[list[str]]:
    """Yield keys in lists of so many."""
    rest = iter(keys)
    while some := list(islice(rest, many)):
        yield some


def store_folder(path: Path) -> Path:
    """Return the run store that an argument means: a study's, or the folder itself."""
    if path.is_dir() and ((path / INDEX).exists() or any(path.glob("??/*.npz")) or sizes(path)):
        return path
    if path.suffix == ".toml" or (path / "study.toml").is_file():
        raw = read(path)
        if "tamis" in raw.tables:
            return raw.path.resolve().parent / "runs"
    elif path.is_dir() and (path / "runs").is_dir():
        return path / "runs"
    what = "is neither a study nor a run store" if path.exists() else "does not exist"
    raise StudyError(f'"{path}" {what}; name a study file, its folder, or a folder of runs')


def _existing(path: Path) -> Path:
    root = store_folder(path)
    if not root.is_dir():
        raise StudyError(f'there are no runs yet in "{root}"')
    return root


def print_import(path: Path, source: Path, pairs: Iterable[str], over: bool) -> int:
    """Bring existing runs into a study's store; ``pairs`` are column=name."""
    from tamis.study.build import build
    from tamis.study.stages.design import design_inputs

    named: dict[str, str] = {}
    for pair in pairs:
        column, _, name = (part.strip() for part in pair.rpartition("="))
        if not column:
            raise StudyError(f'--map: expected column=name, found "{pair}"')
        if column in named:
            raise StudyError(f'--map: column "{column}" is named twice')
        named[column] = name
    study = build(read(path))
    simulator = whole_of(study.simulator)
    if _mentions(
        source, study.simulator.version
    ):  # an export of runs, which may keep the observed numbers only
        simulator = study.simulator
    with RunStore(study.runs) as store:
        done = import_runs(
            simulator,
            source,
            store,
            fixed=study.fixed,
            base=study.path.parent,
            named=named,
            replace=over,
            max_output=study.settings.max_output,
        )
    known = len(done.keys) - done.added - done.replaced
    say(
        f"{counted(len(done.keys), 'run')} of {study.simulator.name} ({done.failed} failed): "
        f"{done.added} added, {done.replaced} replaced, {known} already there"
    )
    if done.fixed:
        say(f"not in the table, taken from [model.inputs]: {', '.join(done.fixed)}")
    if done.defaults:
        say(f"not in the table, taken from the simulator's defaults: {', '.join(done.defaults)}")
    if study.experiments:
        from tamis.runs.keys import run_key

        asked = {run_key(simulator, point) for point in design_inputs(study)}
        say(
            f"the study's design asks for {counted(len(asked), 'run')}; the table has {len(asked & set(done.keys))}"
        )
    return 0


def _mentions(source: Path, version: str) -> bool:
    """Return whether a table of runs has runs of a version."""
    table = source / "runs.csv" if source.is_dir() else source
    return table.is_file() and version.encode() in table.read_bytes()


def print_export(path: Path, folder: Path, status: Status | None, simulator: str | None) -> int:
    """Write a store's runs as plain files."""
    with RunStore(_existing(path)) as store:
        n = export(store, folder, simulator=simulator, status=status)
    say(f"{counted(n, 'run')} in {folder / 'runs.csv'}")
    return 0


def print_merge(into: Path, sources: Sequence[Path]) -> int:
    """Join stores; 1 if runs of one key have different outputs."""
    roots = [_existing(path) for path in sources]
    new = not into.exists() and into.suffix != ".toml"
    conflicts = 0
    with RunStore(into if new or _empty(into) else store_folder(into)) as store, store.lock():
        for root in roots:
            done = merge(store, root)
            say(
                f"{root}: {counted(done.copied, 'run')} copied, "
                f"{counted(done.replaced, 'failed run')} replaced, {done.known} already there"
            )
            for text in done.damaged:
                say(f"  damaged, left out: {text}")
            for key in done.conflicts[:_SHOWN]:
                say(f"  conflict, ours kept: run {key} of {store.root} and of {root}")
            conflicts += len(done.conflicts)
    if conflicts:
        say(
            f"{counted(conflicts, 'run')} with the same inputs and different outputs: the simulator depends on "
            "something that is not an input (the machine, a library, the clock), or its version was not raised"
        )
    return 1 if conflicts else 0


def _empty(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


@dataclass(frozen=True)
class Merged:
    """What came from one store: runs copied, failures replaced, runs known; runs that differ; files left out."""

    copied: int
    replaced: int
    known: int
    conflicts: tuple[str, ...]
    damaged: tuple[str, ...]


def merge(into: RunStore, source: Path) -> Merged:
    """Copy the runs that a store lacks, or has only as failures, from another one, which is only read."""
    if source.resolve() == into.root.resolve():
        raise StudyError(f'"{source}" cannot be merged into itself')
    try:
        seconds = seconds_of(source / INDEX)
    except Newer as error:
        raise StudyError(
            f'run store "{source}" has format {error}, this tamis {FORMAT}; install a newer one'
        ) from None
    found, damaged = _array_files(source)
    copied, replaced, known = 0, 0, 0
    conflicts = []
    with into.lock():
        for keys in batched(found, _MANY):
            ours = into.recover(keys)
            for key in keys:
                try:
                    content = found[key].read()
                    if key in ours and content == into.content(key):
                        known += 1
                        continue
                    run = read_record(content, key)
                    if key not in ours or (run.status == "done" and ours[key].status != "done"):
                        _copy(into, run, content, found[key].log(), seconds)
                        copied += key not in ours
                        replaced += key in ours
                    elif run.status == "done" and not alike(into.outputs(key), read_arrays(content)):
                        conflicts.append(key)
                    else:
                        known += 1
                except FileNotFoundError:  # removed since it was listed
                    continue
                except Damaged as error:
                    damaged.append(f"{found[key].path}: {error}")
            into.flush()
    return Merged(copied, replaced, known, tuple(conflicts), tuple(damaged))


@dataclass(frozen=True)
class _Source:
    """An array file of a store that is only read, without its index: a file, or a member of a segment."""

    path: Path
    member: Member | None = None

    def read(self) -> bytes:
        if self.member is None:
            return self.path.read_bytes()
        with opened(self.path) as handle:
            return os.pread(handle, self.member.size, self.member.offset)

    def log(self) -> bytes:
        if self.member is None:
            said = self.path.with_suffix(".log")
            return said.read_bytes() if said.is_file() else b""
        with opened(self.path) as handle:
            return read_log(handle, self.member.offset, self.member.log)


def _array_files(root: Path) -> tuple[dict[str, _Source], list[str]]:
    """Return where the array files of a store are, of several with one key its own file, else the last one.

    And which have a damaged header and cannot say themselves whose they are.
    """
    found: dict[str, _Source] = {}
    damaged = []
    for number in sizes(root):
        path = segment_path(root, number)
        for member in walk(path)[0]:
            try:
                key = member.key or read_member(root, number, member)[0].key
                found[key] = _Source(path, member)
            except Damaged as error:
                damaged.append(f"{path}, byte {member.offset}: {error}")
    own = {p.stem: _Source(p) for p in sorted(root.glob("??/*.npz")) if KEY.fullmatch(p.stem)}
    return found | own, damaged


def _copy(into: RunStore, run: Run, content: bytes, log: bytes, seconds: Mapping[str, float]) -> None:
    run = replace(run, seconds=seconds.get(run.key, math.nan))
    into.record(run, into.put(run.key, content, log))


@dataclass
class Pile:
    """Things of one kind that may be removed, and the option that removes them; empty: always."""

    what: str
    option: str = ""
    files: list[Path] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    segments: dict[int, int] = field(default_factory=dict)  # and how many bytes of each are of no use
    bytes: int = 0

    def add(self, path: Path) -> None:
        """Add a file or a folder."""
        inside = [path, *path.rglob("*")] if path.is_dir() and not path.is_symlink() else [path]
        self.files.append(path)
        self.bytes += sum(p.lstat().st_size for p in inside if not p.is_dir())

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.files) or len(self.keys) or len(self.segments)


Needed: TypeAlias = Mapping[tuple[str, str], str]  # name and version of a simulator -> a study that uses it


def garbage(store: RunStore, needed: Needed | None) -> list[Pile]:
    """List what a store could do without; runs of simulators not ``needed``, if that is known."""
    root, work = store.root, store.root / ".work"
    for keys in batched((p.stem for p in root.glob("??/*.npz") if KEY.fullmatch(p.stem)), _MANY):
        store.recover(keys)
    half = Pile("half-written files")
    for path in (*work.glob("*.part"), *work.glob("*.log"), root / f"{INDEX}.new", *_left_over(root.parent)):
        if path.exists():
            half.add(path)
    done = Pile("working folders of finished runs")
    failed = Pile("working folders of failed or unfinished runs", "--failed-folders")
    kept = Pile("working folders kept on request (keep = true)", "--failed-folders")
    folders = list(work.glob("*/"))
    ended = store.get_many([folder.name for folder in folders])
    for folder in folders:
        over = folder.name in ended and ended[folder.name].status == "done"
        (kept if folder.suffix == ".kept" else done if over else failed).add(folder)
    bad = Pile("damaged array files set aside")
    logs = Pile("logs without a run")
    for path in root.glob("??/*.npz.bad"):
        bad.add(path)
    for path in root.glob("??/*.log"):
        if not path.with_suffix(".npz").exists():
            logs.add(path)
    rows = Pile("rows of the index without a file", keys=store.without_file())
    dead = Pile("array files in segments that were replaced since", segments=store.replaced())
    dead.bytes = sum(dead.segments.values())
    return [half, done, failed, kept, bad, logs, rows, dead, *_orphans(store, needed)]


def _left_over(folder: Path) -> Iterator[Path]:
    """Yield temporary files among the results of the studies in a folder whose writers are dead."""
    for path in folder.glob("results/**/.*.tmp"):
        pid = path.name.split(".")[-2]
        if pid.isdigit() and not alive(int(pid)):
            yield path


def _orphans(store: RunStore, needed: Needed | None) -> list[Pile]:
    piles: dict[tuple[str, str], Pile] = {}
    if needed is None or set(store.simulators()) <= set(needed):
        return []
    for run, taken in store.sized():
        of = run.simulator, run.version
        if of not in needed:
            pile = piles.setdefault(of, Pile(f"runs of {run.simulator}, version {run.version}", "--orphans"))
            pile.keys.append(run.key)
            pile.bytes += taken
    return list(piles.values())


def print_gc(path: Path, yes: bool, failed_folders: bool, orphans: bool) -> int:
    """List what can be removed from a store, and remove it on request."""
    root = _existing(path)
    asked = {"", *(["--failed-folders"] if failed_folders else []), *(["--orphans"] if orphans else [])}
    with RunStore(root) as store, store.lock():
        needed = _needed(root.parent) if orphans else None
        piles = [pile for pile in garbage(store, needed) if pile.count]
        going = [pile for pile in piles if pile.option in asked]
        freed = sum(pile.bytes for pile in going)
        rows = [
            (p.what, p.count, size(p.bytes), "" if p in going else f"kept unless {p.option}") for p in piles
        ]
        if rows:
            table(("what", "number", "size", ""), rows)
        for text in _emptied(store, needed or {}):
            say(f"warning: {text}")
        if not yes:
            say(
                f"{size(freed)} can be freed; nothing was removed, --yes does it"
                if going
                else "nothing to remove"
            )
            return 0
        with writing(root):
            for pile in going:
                for file in pile.files:
                    shutil.rmtree(file) if file.is_dir() and not file.is_symlink() else file.unlink()
        keys = [key for pile in going for key in pile.keys]
        store.forget(keys, {number for pile in going for number in pile.segments})
    say(f"{size(freed)} freed")
    return 0


def _emptied(store: RunStore, needed: Needed) -> Iterator[str]:
    """Say which studies have only runs of other versions, all of them orphans."""
    have = set(store.simulators())
    current = {study for of, study in needed.items() if of in have}
    for (name, version), study in needed.items():
        if study not in current and name in {simulator for simulator, _ in have}:
            current.add(study)
            yield (
                f"this leaves {study} without any run: its simulator {name} is now version {version}, "
                "edited since the runs were made"
            )


def _needed(folder: Path) -> Needed:
    """Return the simulators that the studies of a folder use."""
    from tamis.study.build import build

    files = [read(path) for path in sorted(folder.glob("*.toml"))]
    extended = {(raw.base / name).resolve() for raw in files for name, _ in raw.parents}
    found: list[Raw] = [raw for raw in files if "tamis" in raw.tables and raw.path.resolve() not in extended]
    if not found:
        raise StudyError(f'no study in "{folder}": every run would be an orphan')
    built = [(raw.path.name, build(raw).simulator) for raw in found]
    simulators = [*built, *((study, whole_of(s)) for study, s in built if whole_of(s) is not s)]
    return {(simulator.name, simulator.version): study for study, simulator in simulators}
