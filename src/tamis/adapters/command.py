"""An external program as a simulator: fill its files, run it in a scratch folder, read its answer.

The program is a black box that may do anything, so everything around it is strict. A mark that no input fills, an
input that no mark reads, a destination outside the scratch folder: each is refused when the study is loaded, not
after a night of runs. What an earlier attempt left in the folder is never taken for this run's answer.

Values reach the program as text. Numbers are written with all their digits unless a mark gives a format. Without a
shell an argument is an argument, whatever it holds. With one, values are quoted; since quoting only protects in
plain context, a value that needs it is refused where the line has quotes or the like of its own.

The program stays in the process group of whoever runs it: the worker pool kills that group when time is up. What
it prints goes to the files ``stdout`` and ``stderr`` of the scratch folder, where outputs may be read from, and is
repeated into the run's log when the run fails.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias

from tamis.adapters.ports import port_of
from tamis.adapters.reading import Read, confined, read_all, reading
from tamis.errors import SimulationError, StudyError, Unavailable, nearest
from tamis.simulation import Port, complete, described, find
from tamis.types import Inputs, Outputs, Value

PRINTED = ("stdout", "stderr")
_MARK = re.compile(r"@@|@([A-Za-z_]\w*)(?::([^@\n]*))?@|@")
_FORMAT = re.compile(r"%[-+ 0#]*\d{0,3}(?:\.\d{1,3})?([dieEfFgGs])")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_CONTEXT = re.compile(r"""['"\\`]|<<|\(\(""")  # where quoting a value is not enough in a shell
_TAIL = 65536  # bytes of a print-out that are repeated or searched for the last line


@dataclass(frozen=True)
class Mark:
    """A place to be filled: the input's name and a format, empty for all digits."""

    name: str
    format: str


Text: TypeAlias = tuple[str | Mark, ...]


@dataclass(frozen=True, eq=False)
class Command:
    """A program seen as a simulator; made by `command` or by ``[model.command]`` of a study."""

    name: str
    version: str
    address: str
    inputs: Mapping[str, Port]
    outputs: Mapping[str, Port]
    doc: str
    base: Path
    line: tuple[Text, ...]  # one string where a shell reads it
    shell: bool
    files: Mapping[str, Text]  # by destination
    copies: Mapping[str, Path]  # by destination
    reads: Mapping[str, Read]
    exit_codes: tuple[int, ...]
    keep: bool
    stamps: Mapping[Path, tuple[int, int]] = field(repr=False)  # of files read when a run begins
    references: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the address alone."""
        return find, (self.address,)

    def missing(self) -> str:
        """Say that the program is not installed, and where it was looked for; empty if all is well."""
        first = self.line[0]
        if self.shell or any(isinstance(part, Mark) for part in first):
            return ""
        program = _filled(first, {})
        return "" if _located(program, self.base) else _absent(program, self.base)

    def run(self, inputs: Inputs, workdir: Path) -> Outputs:
        """Run one point in ``workdir``; `SimulationError` if the program fails or its answer cannot be read."""
        values = _words(self, complete(self, inputs))
        for path, stamp in self.stamps.items():
            if _stamp(path) != stamp:
                raise Unavailable(f'"{path}" has changed since the study was loaded; start again')
        arguments = self._arguments(values)
        workdir = workdir.resolve()
        for read in self.reads.values():
            _cleared(workdir, read.file)
        for name, text in self.files.items():
            _path_to_write(workdir, name).write_bytes(
                _filled(text, values).encode("utf-8", "surrogateescape")
            )
        for name, source in self.copies.items():
            shutil.copy(source, _path_to_write(workdir, name))
        with _printing_output(workdir):
            self._judge(_executed(arguments, workdir), workdir)
            outputs = read_all(self.reads, workdir)
        if self.keep and workdir.parent.name == ".work":  # of a run store, which removes the folder itself
            kept = workdir.with_name(f"{workdir.name}.kept")
            shutil.rmtree(kept, ignore_errors=True)
            workdir.rename(kept)
        return outputs

    def _arguments(self, values: Mapping[str, str]) -> list[str]:
        if self.shell:
            plain = not any(isinstance(part, str) and _CONTEXT.search(part) for part in self.line[0])
            return ["/bin/sh", "-c", _filled(self.line[0], values, shlex.quote if plain else _unquoted)]
        program, *rest = (_filled(text, values) for text in self.line)
        found = _located(program, self.base)
        if found is None:
            raise Unavailable(_absent(program, self.base))
        return [found, *rest]

    def _judge(self, code: int, workdir: Path) -> None:
        if code in self.exit_codes:
            return
        number = -code if code < 0 else code - 128 if self.shell and code > 128 else 0
        if number in {s.value for s in signal.Signals}:
            raise ChildProcessError(
                f"{self.name} was ended by {signal.Signals(number).name}{_last_words(workdir)}"
            )
        if self.shell and code in (126, 127):
            raise Unavailable(f"the shell cannot start what the study asks for{_last_words(workdir)}")
        wanted = " or ".join(map(str, self.exit_codes))
        raise SimulationError(f"{self.name} ended with exit code {code}, not {wanted}{_last_words(workdir)}")


def command(
    run: Sequence[str] | str,
    inputs: Mapping[str, Mapping[str, Any]],
    outputs: Mapping[str, Mapping[str, Any]],
    *,
    templates: Mapping[str, str] | None = None,
    copy: Sequence[str] = (),
    base: Path | str = ".",
    name: str = "",
    version: str = "",
    shell: bool = False,
    exit_codes: Sequence[int] = (0,),
    keep: bool = False,
) -> Command:
    """Turn an external program into a simulator; the same keys as ``[model.command]`` of a study file.

    Parameters
    ----------
    run
        The program and its arguments, where ``@name@`` is replaced; one string if ``shell``.
    inputs
        By name: ``default``, ``unit``, ``bounds``, ``choices``, ``kind``, ``doc``, all optional.
    outputs
        By name: ``file`` and ``column`` (or ``key``), ``format``, ``after``, ``unit``, ``doc``.
    templates
        File to fill -> name in the scratch folder; ``@name@`` or ``@name:%.6e@`` is replaced, ``@@`` is an @.
    copy
        Files put into the scratch folder as they are.
    base
        Folder that relative names start from.
    name, version
        Parts of every run's key; a hash of the table and of the files' contents is added to the version.
    exit_codes
        Those that mean success.
    keep
        Keep the scratch folders of successful runs too, as ``runs/.work/<key>.kept``.
    """
    table: dict[str, Any] = {
        "run": run if isinstance(run, str) else list(run),
        "inputs": {key: dict(port) for key, port in inputs.items()},
        "outputs": {key: dict(read) for key, read in outputs.items()},
        "templates": dict(templates or {}),
        "copy": list(copy),
        "name": name,
        "version": version,
        "shell": shell,
        "exit_codes": list(exit_codes),
        "keep": keep,
    }
    return from_table(str(base), table)


def from_table(base: str, table: Mapping[str, Any]) -> Command:
    """Build a command from the table of a study file and the folder of that file."""
    folder = Path(base).resolve()
    shell = bool(table.get("shell", False))
    line = table["run"]
    if shell != isinstance(line, str) or not line:
        raise StudyError(f"run: {_wanted(line, shell)}")
    words = [line] if isinstance(line, str) else list(line)
    inputs = {name: port_of(name, port, folder) for name, port in table["inputs"].items()}
    reads = {name: reading(f"outputs.{name}", read) for name, read in table["outputs"].items()}
    parsed = tuple(_parsed(word, "run" if shell else f"run[{i}]", inputs) for i, word in enumerate(words))
    for before, word, text in zip(words, words[1:], parsed[1:], strict=False):
        if before == "-c" and any(isinstance(m, Mark) and inputs[m.name].kind == "file" for m in text):
            raise StudyError(f"run: {word!r} follows -c and is read as code, where a file's name is not safe")
    files: dict[str, Text] = {}
    taken = set(PRINTED)
    for source, target in table.get("templates", {}).items():
        name = _free(target, f'templates."{source}"', taken)
        files[name] = _parsed(_read_text(folder / source), source, inputs)
    copies = {}
    for source in table.get("copy", []):
        path = folder / source
        if not path.is_file():
            raise StudyError(f'copy: no file "{path}"')
        copies[_free(path.name, f'copy "{source}"', taken)] = path
    _all_read(inputs, [*parsed, *files.values()])
    program = None if shell else _located(words[0], folder)
    own = [Path(program)] if program and Path(program).is_relative_to(folder) else []
    content = {
        "run": line,
        "shell": shell,
        "exit_codes": list(table.get("exit_codes", [0])),
        "outputs": {n: [r.file, r.format, r.column, r.key, r.after] for n, r in reads.items()},
        "templates": {name: _hash(repr(text).encode()) for name, text in files.items()},
        "copies": {name: _content(path) for name, path in copies.items()},
        "program": [_content(path) for path in own],
    }
    version = [str(table.get("version", "")), _hash(json.dumps(content, sort_keys=True).encode())[:16]]
    name = str(table.get("name", "")) or Path(words[0].split()[0]).name
    return Command(
        name=name,
        version="+".join(part for part in version if part),
        address=described("command", dict(table), folder),
        inputs=inputs,
        outputs={key: Port(key, unit=read.unit, doc=read.doc) for key, read in reads.items()},
        doc=f"External program: {line if shell else shlex.join(words)}",
        base=folder,
        line=parsed,
        shell=shell,
        files=files,
        copies=copies,
        reads=reads,
        exit_codes=tuple(table.get("exit_codes", [0])),
        keep=bool(table.get("keep", False)),
        stamps={path: _stamp(path) for path in [*copies.values(), *own]},
    )


def _wanted(line: str | Sequence[str], shell: bool) -> str:
    if shell:
        return f'with shell = true, expected one string, as in "solver in.dat > out.txt", found {line!r}'
    if isinstance(line, str) and line.split():
        words = json.dumps(line.split(), ensure_ascii=False)
        return (
            f"expected a list, run = {words}, or shell = true for a line that a shell reads; found {line!r}"
        )
    return f'expected a list, as in ["ccx", "beam"], found {line!r}'


def _parsed(text: str, where: str, inputs: Mapping[str, Port]) -> Text:
    """Split a text at its marks, each of which must be a known input with a format that suits it."""
    parts: list[str | Mark] = []
    end = 0
    for found in _MARK.finditer(text):
        parts.append(text[end : found.start()])
        end = found.end()
        name, form = found[1], found[2]
        place = f"{where}, line {text.count(chr(10), 0, found.start()) + 1}"
        if found[0] == "@@":
            parts.append("@")
        elif name is None:
            raise StudyError(f"{place}: an @ that is no mark @name@; write @@ for the character itself")
        elif name not in inputs:
            raise StudyError(f'{place}: the mark {found[0]} names no input "{name}"{nearest(name, inputs)}')
        else:
            _check_format(inputs[name], form, f"{place}: {found[0]}")
            parts.append(Mark(name, form or ""))
    parts.append(text[end:])
    return tuple(part for part in parts if part != "")


def _check_format(port: Port, form: str | None, where: str) -> None:
    if form is None:
        return
    found = _FORMAT.fullmatch(form)
    whole = isinstance(port.default, int)
    suits = "s" if port.kind != "number" else "dieEfFgG" if whole else "eEfFgG"
    if not found or found[1] not in suits:
        hint = "; %d needs an input whose default is a whole number" if found and found[1] in "di" else ""
        raise StudyError(f"{where}: expected one format as in %.6e, ending in one of {suits}{hint}")


def _filled(text: Text, values: Mapping[str, str], quote: Callable[[str], str] = str) -> str:
    return "".join(part if isinstance(part, str) else quote(_written(part, values)) for part in text)


def _written(mark: Mark, values: Mapping[str, Any]) -> str:
    value = values[mark.name]
    return mark.format % value if mark.format else value if isinstance(value, str) else repr(value)


def _words(simulator: Command, full: Mapping[str, Value]) -> dict[str, Any]:
    """Make files absolute, and refuse words that would break a line."""
    values: dict[str, Any] = dict(full)
    for name, value in full.items():
        if isinstance(value, str):
            if simulator.inputs[name].kind == "file":
                values[name] = os.path.abspath(value)
            if _CONTROL.search(values[name]):
                raise StudyError(
                    f'input "{name}": {values[name]!r} holds a line break or the like; rename it'
                )
    return values


def _unquoted(value: str) -> str:
    if shlex.quote(value) != value:
        raise StudyError(
            f"run: {value!r} would need quotes, which do not protect in a shell line that has quotes, backslashes, "
            "<< or (( of its own; use shell = false, or pass it in a template"
        )
    return value


def _all_read(inputs: Mapping[str, Port], texts: Sequence[Text]) -> None:
    read = {part.name for text in texts for part in text if isinstance(part, Mark)}
    for name in inputs:
        if name not in read:
            raise StudyError(f"inputs.{name}: read by nobody; write @{name}@ in a template or in run")


def _free(name: str, where: str, taken: set[str]) -> str:
    name = os.path.normpath(confined(name, where))
    if name in taken:
        raise StudyError(f'{where}: two files would be called "{name}" in the scratch folder')
    taken.add(name)
    return name


def _read_text(path: Path) -> str:
    try:
        return path.read_bytes().decode(
            "utf-8", "surrogateescape"
        )  # whatever the encoding, bytes come out as they went in
    except OSError as error:
        raise StudyError(f'templates: cannot read "{path}": {error.strerror}') from error


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _content(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _stamp(path: Path) -> tuple[int, int]:
    try:
        state = path.stat()
    except OSError as error:
        raise StudyError(f'"{path}" is gone: {error.strerror}; put it back') from error
    return state.st_mtime_ns, state.st_size


def _located(program: str, base: Path) -> str | None:
    """Return the absolute path of a program: beside the study if the name has a slash, else on PATH."""
    return shutil.which(str(base / program) if "/" in program else program)


def _absent(program: str, base: Path) -> str:
    path = base / program
    if "/" in program:
        if path.is_file():
            return f'run: the program "{path}" is not executable; chmod +x makes it so'
        beside = (
            [other.name for other in path.parent.iterdir() if other.is_file()] if path.parent.is_dir() else []
        )
        return f'run: there is no program "{path}"{nearest(path.name, beside)}'
    if path.is_file():
        return (
            f'run: the program "{program}" is not on PATH; for the file beside the study write "./{program}"'
        )
    return f'run: the program "{program}" is not on PATH; install it, or extend PATH'


def _cleared(workdir: Path, name: str) -> Path:
    """Return a path of the scratch folder where nothing is left from before, not even a link."""
    path = workdir / name
    if not path.parent.resolve().is_relative_to(workdir):
        raise SimulationError(f'"{name}" lies behind a link that leads out of the scratch folder')
    path.unlink(missing_ok=True)
    return path


def _path_to_write(workdir: Path, name: str) -> Path:
    path = _cleared(workdir, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _executed(arguments: list[str], workdir: Path) -> int:
    out, err = (_cleared(workdir, name) for name in PRINTED)
    process: subprocess.Popen[bytes] | None = None
    with out.open("wb") as stdout, err.open("wb") as stderr:
        try:
            with _interrupt_later():
                process = subprocess.Popen(
                    arguments, cwd=workdir, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr
                )
            return process.wait()
        except OSError as error:
            raise Unavailable(f'cannot start "{arguments[0]}": {error.strerror}') from error
        finally:
            if process is not None and process.returncode is None:  # interrupted: it must not go on alone
                process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(3)
                process.kill()
                process.wait()


@contextmanager
def _interrupt_later() -> Iterator[None]:
    """Hold back Ctrl-C while a program is being started, when nobody could end it yet."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard: list[tuple[int, FrameType | None]] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if heard and callable(before):
        before(*heard[0])


@contextmanager
def _printing_output(workdir: Path) -> Iterator[None]:
    """Repeat what the program printed when the run fails: here it reaches the run's log."""
    try:
        yield
    except Exception:
        for name in PRINTED:
            if text := _tail(workdir / name):
                sys.stderr.write(f"--- {name}\n{text.rstrip()}\n")
        sys.stderr.flush()
        raise


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(path.stat().st_size - _TAIL, 0))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def _last_words(workdir: Path) -> str:
    for name in reversed(PRINTED):
        lines = [line.strip() for line in _tail(workdir / name).splitlines() if line.strip()]
        if lines:
            return f"; its last line on {name}: {_CONTROL.sub(' ', lines[-1])[:200]}"
    return "; it printed nothing"
