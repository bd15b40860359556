"""What a reader of results must know of the study behind them, saved beside them as ``study.json``.

Labels, thresholds and the file's text are here, since they change without making a stage stale; priors are kept by name
and numbers, so that the space of unknowns is made again to the bit.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

from tamis.errors import TamisError
from tamis.files import replacing
from tamis.marginals import LAWS
from tamis.space import Parameter, Space

FILE = "study.json"
Use = Literal["calibrate", "validate", "predict", "next"]


@dataclass(frozen=True)
class SimulatorRecord:
    """The simulator that was run."""

    name: str
    version: str
    doc: str = ""
    references: tuple[str, ...] = ()  # papers behind it
    batched: bool = False  # answers for whole batches what the design observes, without stored runs


@dataclass(frozen=True)
class ParameterRecord:
    """One unknown and its prior law."""

    name: str
    law: str
    numbers: Mapping[str, float]
    unit: str = ""
    label: str = ""
    is_input: bool = True  # of the simulator; else an error model reads it


@dataclass(frozen=True)
class ObservationRecord:
    """What is observed in a series, under the names of the file."""

    label: str
    xlabel: str  # "" where it is one number
    ylabel: str


@dataclass(frozen=True)
class SeriesRecord:
    """Experiments that are drawn together: one test, a table of tests, a sweep over a condition."""

    name: str
    use: Use
    experiments: tuple[str, ...]  # their names
    observations: tuple[ObservationRecord, ...]
    designed: bool = False  # run at the points of the design
    where: Mapping[str, tuple[float, float]] | None = None  # the part of the posterior it is predicted from
    part: str = ""  # of the data, where a study is split


@dataclass(frozen=True)
class SurrogateRecord:
    """What stood in for the simulator, and how good it had to be."""

    method: str = "none"
    target: str = "observables"
    min_q2: float = 0.95
    goal: float | None = None  # score at which enrichment ends; None without enrichment


@dataclass(frozen=True)
class Reference:
    """Published or exact figures to be shown beside ours."""

    source: str
    log_evidence: float | None = None
    mean: Mapping[str, float] = field(default_factory=dict)
    cov: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class IdentifiedError:
    """An error found from reference tests, each size a root mean square over the measurements of one test."""

    series: str
    label: str
    unit: str
    mean: float  # of the mean error
    modes: tuple[float, ...]  # standard deviation due to each mode, the largest first
    residual: float  # standard deviation outside the modes; zero where that counts for nothing
    alpha: float | None = None  # share of the empirical covariance in the basis, the rest being stationary
    xlabel: str = ""
    x: tuple[float, ...] = ()  # abscissae of one test's measurements
    mean_curve: tuple[float, ...] = ()
    mode_curves: tuple[tuple[float, ...], ...] = ()  # the largest ones
    residual_curve: tuple[float, ...] = ()  # standard deviations
    names: tuple[str, ...] = ()  # of the measurements, "signal, band", where they have any


@dataclass(frozen=True)
class PartRecord:
    """One part of the data of a split study, calibrated alone."""

    name: str
    folder: str  # of its results, below those of the study
    parameters: tuple[str, ...]  # its unknowns


@dataclass(frozen=True)
class StudyRecord:
    """One model, its unknowns, the tests it is held against, as far as readers of results need it."""

    file: str  # name of the study file
    title: str
    seed: int
    simulator: SimulatorRecord
    parameters: tuple[ParameterRecord, ...]
    series: tuple[SeriesRecord, ...]
    correlation: tuple[tuple[float, ...], ...] | None = None  # of normal scores, in the parameters' order
    surrogate: SurrogateRecord = SurrogateRecord()
    sampler: str = ""  # in words
    replicates: int = 1
    references: tuple[Reference, ...] = ()
    errors: tuple[IdentifiedError, ...] = ()
    text: str = ""
    parents: tuple[tuple[str, str], ...] = ()  # names and texts of the files it extends
    parts: tuple[PartRecord, ...] = ()
    part: str = ""  # the part of the data that this is the record of
    hashes: Mapping[str, str] = field(default_factory=dict)  # of what each stage of the study depends on

    @property
    def stem(self) -> str:
        """The file's name without its ending."""
        return Path(self.file).stem

    @cached_property
    def space(self) -> Space:
        """The unknowns with their priors."""
        laws = [LAWS[p.law](**p.numbers) for p in self.parameters]
        unknowns = zip(self.parameters, laws, strict=True)
        correlation = None if self.correlation is None else np.array(self.correlation)
        return Space(tuple(Parameter(p.name, law, p.unit, p.label) for p, law in unknowns), correlation)

    @cached_property
    def model_space(self) -> Space:
        """The unknowns that are inputs of the simulator."""
        return self.space.subset([p.name for p in self.parameters if p.is_input])

    @property
    def designed(self) -> tuple[SeriesRecord, ...]:
        """The series that were run at the design."""
        return tuple(one for one in self.series if one.designed)

    def alone(self, part: PartRecord) -> StudyRecord:
        """Return the record of one part, for which the data of all others are held out."""
        held = [one.part not in ("", part.name) for one in self.series]
        series = zip(self.series, held, strict=True)
        places = [i for i, p in enumerate(self.parameters) if p.name in part.parameters]
        correlation = self.correlation and tuple(
            tuple(self.correlation[i][j] for j in places) for i in places
        )
        return replace(
            self,
            title=f"{self.title}: {part.name}",
            series=tuple(replace(one, part="", use="validate" if out else one.use) for one, out in series),
            parameters=tuple(self.parameters[i] for i in places),
            correlation=correlation,
            references=(),
            parts=(),
            part=part.name,
        )


def save_study(folder: Path, record: StudyRecord) -> None:
    """Write the record where it differs from what is there."""
    path = folder / FILE
    content = json.dumps(_plain(asdict(record)), indent=1, ensure_ascii=False).encode()
    if not (path.is_file() and path.read_bytes() == content):
        with replacing(path) as stream:
            stream.write(content)


def load_study(folder: Path) -> StudyRecord:
    """Read the record that the last run left."""
    try:
        found = json.loads((folder / FILE).read_text(encoding="utf-8"))
        record: StudyRecord = _typed(StudyRecord, found)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TamisError(f"{folder / FILE} cannot be read ({error}); `tamis run` writes it") from error
    return record


def _typed(kind: Any, value: Any) -> Any:
    """Return a value of a JSON file as what a field is declared to be."""
    inside = get_args(kind)
    if value is None or kind is Any:
        return value
    if type(None) in inside:
        return _typed(inside[0], value)
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{name: _typed(hints[name], each) for name, each in value.items()})  # type: ignore[operator]
    if get_origin(kind) is tuple:
        kinds = inside[:1] * len(value) if inside[-1] is Ellipsis else inside
        return tuple(_typed(one, each) for one, each in zip(kinds, value, strict=True))
    if get_origin(kind) is Mapping:
        return {name: _typed(inside[1], each) for name, each in value.items()}
    return float(value) if kind is float else value


def _plain(value: Any) -> Any:
    """Return numbers that JSON has no sign for as words."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
