"""Simulators: functions from named inputs to named arrays, whoever wrote them.

A decorated Python function becomes a `Simulator`; `find` turns a name from a study file into one. Nothing
here knows mechanics or statistics. A simulator travels to a worker process by its *address*, a string that
`find` resolves there, so no code is ever pickled.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import json
import math
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np

from tamis.errors import SimulationError, StudyError, TamisError, nearest
from tamis.families import builtins
from tamis.interfaces import Batched as Batched
from tamis.interfaces import Case as Case
from tamis.interfaces import Port as Port
from tamis.interfaces import Simulator as Simulator
from tamis.interfaces import batched as batched
from tamis.interfaces import ports_of
from tamis.replays import Replay, replayed, without_replay
from tamis.sources import source_hash
from tamis.types import BatchInputs, Inputs, Outputs, Value

F = TypeVar("F", bound=Callable[..., Any])


def complete(simulator: Simulator, inputs: Inputs) -> dict[str, Value]:
    """Return all inputs in port order.

    Defaults filled, numbers as floats (or ints where the default is one), names and bounds checked.
    """
    for name in inputs:
        if name not in simulator.inputs:
            raise StudyError(
                f'simulator {simulator.name} has no input "{name}"{nearest(name, simulator.inputs)}'
            )
    return {
        name: _checked(simulator, port, inputs.get(name, port.default))
        for name, port in simulator.inputs.items()
    }


def _checked(simulator: Simulator, port: Port, value: Value | None) -> Value:
    where = f'simulator {simulator.name}: input "{port.name}"'
    if value is None:
        raise StudyError(f"{where} has no default and was not given")
    if port.kind == "choice":
        if value not in port.choices:
            raise StudyError(f'{where} cannot be "{value}"{nearest(str(value), port.choices)}')
        return str(value)
    if port.kind == "file":
        if value == port.default == "":  # a file that need not be given
            return ""
        if not Path(str(value)).is_file():
            raise StudyError(f'{where}: no file "{value}"')
        return str(value)
    if isinstance(value, (str, bool)):
        raise StudyError(f"{where} must be a number, found {value!r}")
    if isinstance(port.default, int) and math.isfinite(value) and value != int(value):
        raise StudyError(_not_whole(where, value, port))
    number = int(value) if isinstance(port.default, int) and math.isfinite(value) else float(value)
    if not math.isfinite(number) or (port.bounds and not port.bounds[0] <= number <= port.bounds[1]):
        raise SimulationError(f"{where} = {number:g} is outside {list(port.bounds or (-math.inf, math.inf))}")
    return number


def _not_whole(where: str, value: float, port: Port) -> str:
    return f"{where} is a whole number, as its default {port.default} is; found {value:g}"


class FunctionSimulator:
    """A Python function seen as a simulator; made by the `simulator` decorator."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str,
        version: str,
        address: str,
        inputs: Mapping[str, Port],
        outputs: Mapping[str, Port],
        references: Sequence[str],
        case: type[Case] | None = None,
    ) -> None:
        self.function = function
        self.case = case
        self.name = name
        self.version = version
        self.address = address
        self.inputs = inputs
        self.outputs = outputs
        self.references = tuple(references)
        self.doc = inspect.getdoc(function) or ""
        self.batch_outputs: tuple[str, ...] = ()
        self._batch: Callable[..., Any] | None = None
        self._replay = _method(case, "replay")
        self._record = _method(case, "record")
        self._estimate = _method(case, "estimate")
        self.offers_record = self._record is not None
        self._wants_workdir = "workdir" in inspect.signature(function).parameters
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__

    @property
    def offers_replay(self) -> bool:
        """Whether one has been declared."""
        return self._replay is not None

    def __call__(self, *args: Any, **inputs: Any) -> Any:
        """Call the function itself, unchecked."""
        return self.function(*args, **inputs) if args else self._given(self.function, inputs)

    def _given(self, function: Callable[..., Any], inputs: Mapping[str, Any], **more: Any) -> Any:
        """Call a function with inputs, or with the case that they make."""
        return function(**inputs, **more) if self.case is None else function(self.case(**inputs), **more)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the address alone."""
        return find, (self.address,)

    def __repr__(self) -> str:
        return f"<simulator {self.name}, version {self.version}>"

    def run(self, inputs: Inputs, workdir: Path) -> Outputs:
        """Run one point.

        Every declared output comes back as a finite float array or `SimulationError` is raised.
        """
        full = complete(self, inputs)
        extra = {"workdir": workdir} if self._wants_workdir else {}
        answer = self._named(self._given(self.function, full, **extra), self.outputs)
        for name, array in answer.items():
            if bad := int(np.count_nonzero(~np.isfinite(array))):
                raise SimulationError(f"output {name}: {bad} of {array.size} values are not finite")
        return answer

    @overload
    def batch(self, what: BatchInputs, /) -> Outputs: ...
    @overload
    def batch(self, what: F, /) -> F: ...
    @overload
    def batch(self, /, *, outputs: Sequence[str]) -> Callable[[F], F]: ...
    def batch(self, what: Any = None, /, *, outputs: Sequence[str] | None = None) -> Any:
        """Declare the function that runs batches, or run one with arrays of inputs.

        ``@ball.batch`` offers every output, ``@ball.batch(outputs=...)`` only some.
        """
        if what is None:
            return lambda function: self._offer(function, outputs)
        if not isinstance(what, Mapping):
            return self._offer(what, outputs)
        inputs: BatchInputs = what
        if self._batch is None:
            raise StudyError(f"simulator {self.name} has no batch; declare one with @{self.__name__}.batch")
        for name in inputs:
            if name not in self.inputs:
                raise StudyError(f'simulator {self.name} has no input "{name}"{nearest(name, self.inputs)}')
        n = next((len(v) for v in inputs.values() if not isinstance(v, str)), 1)
        full: dict[str, Any] = {}
        bad = np.zeros(n, dtype=bool)
        for name, port in self.inputs.items():
            value = inputs.get(name, port.default)
            if isinstance(value, str) or value is None:
                full[name] = _checked(self, port, value)
                continue
            array = np.broadcast_to(np.asarray(value, dtype=np.float64), (n,)).copy()
            low, high = port.bounds or (-math.inf, math.inf)
            outside = ~(np.isfinite(array) & (array >= low) & (array <= high))
            if outside.any():  # a valid stand-in keeps the function safe; the row becomes NaN below
                bad |= outside
                array[outside] = array[~outside][0] if not outside.all() else np.clip(0.0, low, high)
            if isinstance(port.default, int):
                if (array != np.floor(array)).any():
                    odd = float(array[array != np.floor(array)][0])
                    raise StudyError(_not_whole(f'simulator {self.name}: input "{name}"', odd, port))
                array = array.astype(np.int64)
            full[name] = array
        answer = self._named(self._batch(**full), self.batch_outputs)
        for name, array in answer.items():
            if array.shape[:1] != (n,):
                raise StudyError(
                    f"simulator {self.name}: batch returned {name} of shape {array.shape} for {n} points; "
                    "the first axis must be the points"
                )
            bad |= ~np.isfinite(array.reshape(n, -1)).all(axis=1)
        if bad.any():
            answer = {
                name: np.where(bad.reshape((n,) + (1,) * (a.ndim - 1)), np.nan, a)
                for name, a in answer.items()
            }
        return answer

    @overload
    def replay(self, what: Inputs, /, fps: float) -> Replay: ...
    @overload
    def replay(self, what: F, /) -> F: ...
    def replay(self, what: Any, /, fps: float = 0.0) -> Any:
        """Declare the replay with ``@ball.replay``, or ask for that of one point's inputs."""
        if not isinstance(what, Mapping):
            self._replay = what
            return what
        if self._replay is None:
            raise without_replay(self.name)
        show = partial(self._given, self._replay, complete(self, what))
        return replayed(self.name, show, fps)

    def record(self, inputs: Inputs) -> Outputs:
        """Run one point again and return all that its case computes, as named arrays."""
        if self._record is None:
            raise StudyError(f"simulator {self.name} returns its outputs only, and no whole run")
        return dict(self._given(self._record, complete(self, inputs)))

    def estimate(self, inputs: Inputs) -> float | None:
        """Return the seconds that a run at these inputs will take, by what its case knows; None if it does not."""
        if self._estimate is None:
            return None
        return float(self._given(self._estimate, complete(self, inputs)))

    def _offer(self, function: F, outputs: Sequence[str] | None) -> F:
        for name in outputs or ():
            if name not in self.outputs:
                raise StudyError(
                    f'{self.name}: batch offers "{name}", not an output{nearest(name, self.outputs)}'
                )
        self._batch = function
        self.batch_outputs = tuple(outputs or self.outputs)
        return function

    def _named(self, answer: Any, expected: Iterable[str]) -> dict[str, np.ndarray[Any, Any]]:
        if not isinstance(answer, Mapping):
            raise StudyError(
                f"simulator {self.name} must return a dict of outputs, found {type(answer).__name__}"
            )
        for name in answer:
            if name not in self.outputs:
                raise StudyError(
                    f'simulator {self.name} returned "{name}", which is not declared{nearest(str(name), self.outputs)}'
                )
        missing = [name for name in expected if name not in answer]
        if missing:
            raise StudyError(f"simulator {self.name} did not return its declared output {', '.join(missing)}")
        return {name: numbers(name, answer[name]).astype(np.float64, copy=False) for name in expected}


def _method(case: type[Case] | None, name: str) -> Callable[..., Any] | None:
    """Return what a case offers under a name, unless that is one of its inputs."""
    method = getattr(case, name, None)
    return method if callable(method) else None


_KINDS = {
    "c": "complex numbers: return two outputs",
    "O": "Python objects",
    "V": "records: return an output each",
}
_KINDS |= {"U": "text", "S": "text", "M": "dates: return seconds", "m": "durations: return seconds"}


def numbers(name: str, value: Any) -> np.ndarray[Any, Any]:
    """Return an output as an array of real numbers; refuse what would lose its meaning on the way."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.getmaskarray(value).any():
        raise StudyError(
            f"output {name} has masked values, whose numbers mean nothing; leave them out or fill them"
        )
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise StudyError(f"output {name} is no array: {error}") from error
    if array.dtype.kind in _KINDS:
        raise StudyError(f"output {name} must be an array of numbers, found {_KINDS[array.dtype.kind]}")
    return array


def simulator(
    *,
    outputs: Mapping[str, str | Port],
    units: Mapping[str, str] | None = None,
    inputs: Mapping[str, Port] | type[Case] | None = None,
    version: str | None = None,
    name: str | None = None,
    references: Sequence[str] = (),
) -> Callable[[Callable[..., Any]], FunctionSimulator]:
    """Turn a function of keyword arguments into a simulator.

    Parameters
    ----------
    outputs
        Name to unit (or to a `Port`) of every array returned.
    units
        Unit of each input that has one.
    inputs
        `Port` of each input that needs more than a unit: bounds, choices, a sentence of documentation. Or a `Case`
        that declares all of them; the function then takes one, and what it offers as ``replay(fps)`` is the replay.
    version
        Part of the run key; by default a hash of the file's syntax tree, so that comments do not count.
    name
        By default ``file.py:function``.
    references
        Papers to cite, printed by the report.
    """

    def decorate(function: Callable[..., Any]) -> FunctionSimulator:
        path = Path(function.__code__.co_filename)
        full_name = name or f"{path.name}:{function.__name__}"
        if isinstance(inputs, type):
            case, ports = inputs, ports_of(inputs)
        else:
            case, ports = None, _ports(function, full_name, units or {}, inputs or {})
        return FunctionSimulator(
            function,
            name=full_name,
            version=version or source_version(path),
            inputs=ports,
            references=references,
            case=case,
            address=full_name if full_name.startswith("tamis:") else f"{path.resolve()}:{function.__name__}",
            outputs={
                key: port if isinstance(port, Port) else Port(key, unit=port) for key, port in outputs.items()
            },
        )

    return decorate


def _ports(
    function: Callable[..., Any], name: str, units: Mapping[str, str], declared: Mapping[str, Port]
) -> dict[str, Port]:
    """Return the inputs of a function: its arguments, with what is declared of them."""
    ports: dict[str, Port] = {}
    for argument in inspect.signature(function).parameters.values():
        if argument.kind in (argument.VAR_KEYWORD, argument.VAR_POSITIONAL):
            raise StudyError(
                f"simulator {name}: *args and **kwargs hide the inputs; name them as keyword arguments"
            )
        if argument.name == "workdir":
            continue
        default = None if argument.default is argument.empty else argument.default
        port = declared.get(argument.name, Port(argument.name))
        kind = "choice" if port.choices else port.kind
        ports[argument.name] = replace(
            port, default=default, kind=kind, unit=units.get(argument.name, port.unit)
        )
    for given in (*units, *declared):
        if given not in ports:
            raise StudyError(
                f'simulator {name} documents an input "{given}" it does not have{nearest(given, ports)}'
            )
    return ports


def source_version(path: Path) -> str:
    """Hash what a file says, and what it imports from beside it; how it is laid out or commented does not count."""
    try:
        return source_hash(path)[:16]
    except OSError as error:
        raise StudyError(
            f'a simulator defined in "{path}" has no source file to take a version from; give version="1"'
        ) from error


def described(kind: str, what: Any, base: Path) -> str:
    """Return the address of a simulator as a study's ``[model]`` gives it: a name, or a table of an adapter."""
    return what if kind == "simulator" else f"{kind}:{json.dumps([str(base.resolve()), what])}"


def find(name: str, base: Path | str | None = None) -> Any:
    """Return a simulator by name.

    ``tamis:family.name`` is built in, ``file.py:function`` is taken from a file relative to ``base``,
    ``command:``, ``http:`` and ``observed:`` begin addresses of adapters, any other name is looked up among the
    entry points of installed packages.
    """
    if name.startswith("tamis:"):
        return _find_builtin(name)
    kind, _, table = name.partition(":")
    if kind in ("command", "http", "observed"):
        adapter = importlib.import_module(f"tamis.adapters.{kind}")
        try:
            where, what = json.loads(table)
        except ValueError:
            raise StudyError(f"describe this simulator by a table [model.{kind}], not by {name!r}") from None
        return adapter.from_table(where, what)
    file, colon, attribute = name.rpartition(":")
    if colon and file.endswith(".py"):
        return _find_in_file(Path(base or ".") / file, attribute)
    from importlib.metadata import entry_points

    plugs = {point.name: point for point in entry_points(group="tamis.simulators")}
    if name in plugs:
        return plugs[name].load()
    valid = [*plugs, *(f"tamis:{builtin}" for builtin in builtins())]
    raise StudyError(
        f'no simulator "{name}": expected "file.py:function" or the name of an installed one{nearest(name, valid)}'
    )


def _find_builtin(name: str) -> Any:
    family, _, attribute = name.removeprefix("tamis:").partition(".")
    if f"{family}.{attribute}" not in builtins():
        raise StudyError(f'no built-in simulator "{name}"{nearest(name, [f"tamis:{b}" for b in builtins()])}')
    return getattr(importlib.import_module(f"tamis.sim.{family}.simulators"), attribute)


def _find_in_file(path: Path, attribute: str) -> Any:
    path = path.resolve()
    if not path.is_file():
        raise StudyError(f'no file "{path}" to take simulator "{attribute}" from')
    module_name = f"_tamis_user_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    module = sys.modules.get(module_name)
    if module is None:
        spec = importlib.util.spec_from_file_location(module_name, path)
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        sys.modules[module_name] = module
        if str(path.parent) not in sys.path:
            sys.path.insert(0, str(path.parent))
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            del sys.modules[module_name]
            if isinstance(error, StudyError):
                raise
            raise StudyError(f"{path.name} cannot be imported: {type(error).__name__}: {error}") from error
    names = [key for key, value in vars(module).items() if isinstance(value, FunctionSimulator)]
    found = getattr(module, attribute, None)
    if not isinstance(found, FunctionSimulator) and not (hasattr(found, "run") and hasattr(found, "inputs")):
        what = "is not decorated with @tamis.simulator" if callable(found) else "does not exist"
        raise StudyError(f'{path.name}: "{attribute}" {what}{nearest(attribute, names)}')
    return found


@contextmanager
def explained(simulator: Simulator) -> Iterator[None]:
    """Turn an accident inside a simulator into one sentence that names the line."""
    try:
        yield
    except TamisError:
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        inside = [f for f in frames if not f.filename.startswith(str(Path(__file__).parent))] or frames
        where = f"{Path(inside[-1].filename).name}, line {inside[-1].lineno}"
        raise StudyError(f"{simulator.name} raised {type(error).__name__}: {error} ({where})") from error
