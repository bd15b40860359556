"""What a study leaves behind, as plain records.

The report and the command line read these and compute nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from tamis.analysis.variance import shares
from tamis.files import load_arrays, save_arrays
from tamis.inference.posterior import Posterior
from tamis.results.study import StudyRecord
from tamis.runs.store import Run
from tamis.types import Array, Table

Record = TypeVar("Record")


@dataclass(frozen=True)
class Panel:
    """One picture of data and model: bands over an abscissa, with the measurements if there are any."""

    series: str  # name of the experiment, table of tests or prediction it belongs to
    label: str  # what is observed
    use: Literal["calibrate", "validate", "predict"]
    synthetic: bool  # the "measurements" are a numerical experiment
    xlabel: str  # "" where the observation is one number without an abscissa
    ylabel: str
    share: float  # part of the posterior draws used (predictions restricted by `where`), usually 1
    condition: str  # that restriction in words, or ""
    failed: int  # draws at which the simulator gave no answer
    coverage: float  # share of measurements inside the 90 % total band; NaN without measurements
    white_limit: float  # an autocorrelation beyond +- this contradicts white errors; NaN where not computed
    x: Array  # (m,)
    y: Array  # (r, m) measurements on this abscissa, r may be 0, NaN is missing
    y_sd: Array  # (m,) known standard deviation of the measurements, or (0,)
    overlay: Array  # (k, 3) measurements at other abscissae: x, y, sd (NaN if unknown); k may be 0
    prior: Array  # (3, m) 5, 50, 95 % quantiles of the model over the prior design, or (0, m)
    model: Array  # (n, m) model answers at posterior draws
    draws: Array  # (n, m) the same with errors added
    error_var: Array  # (n, m)
    mean: Array  # (m,)
    sd_model: Array  # (m,) parameter uncertainty
    sd_total: Array  # (m,) parameter and model-error uncertainty
    model_band: Array  # (2, m) 5 and 95 % quantiles of the model answers
    total_band: Array  # (2, m) 5 and 95 % quantiles with errors
    residual: Array  # (m,) measurement (averaged) minus mean, in units of sd_total; (0,) without
    autocorrelation: (
        Array  # (lags + 1,) of the residuals along the abscissa, starting with 1; (0,) where not computed
    )
    emulated: bool = False  # answered by the surrogate, its error included, instead of the simulator
    limit: float = np.nan  # the level not to be passed; NaN if none
    exceedance: Array = field(default_factory=lambda: np.empty((0, 0)))  # (2, m): of the model, in total
    exceedance_error: Array = field(
        default_factory=lambda: np.empty((0, 0))
    )  # (2, m) standard errors of these
    bias: Array = field(default_factory=lambda: np.zeros((1, 1)))  # (n or 1, m or 1) mean of the error
    how: str = ""  # "peak", "max", "min", "peak_abs", where it is one of these
    effective: float = np.nan  # draws that the correlated ones are worth; NaN where as many as there are
    best: Array = field(
        default_factory=lambda: np.empty((0, 0))
    )  # (k, m) answers at points of highest density
    tests: tuple[
        str, ...
    ] = ()  # names of the tests whose signals stand one after the other, where there are several
    coord: Array = field(default_factory=lambda: np.empty(0))  # abscissae of one of these tests
    names: tuple[str, ...] = ()  # of the numbers of one test, "signal, band", where they have any
    best_of: tuple[str, ...] = ()  # the studies whose posteriors these are the best points of
    split: Array = field(
        default_factory=lambda: np.empty((0, 0))
    )  # (3, m) variance due to parameters, model, seed
    split_error: Array = field(default_factory=lambda: np.empty((0, 0)))  # (3, m) standard errors of these
    share_error: Array = field(default_factory=lambda: np.empty((0, 0)))  # (3, m) and of their shares
    replicates: int = 1  # runs at each draw, whose answers stand one replicate after the other

    @property
    def below(self) -> bool:
        """Whether the limit is passed from above: the least number of a signal has a floor and no ceiling."""
        return self.how == "min"

    @property
    def cov(self) -> Array:
        """Coefficients of variation of the total, (m,); NaN where the mean is zero."""
        return self.sd_total / np.abs(np.where(self.mean == 0, np.nan, self.mean))

    @property
    def shares(self) -> Array:
        """Shares of the variance of the answers, (3, m): parameters, choice of model, run-to-run noise."""
        return shares(self.split)

    @property
    def worth(self) -> float:
        """The number of independent draws."""
        return len(self.model) if np.isnan(self.effective) else min(self.effective, float(len(self.model)))


@dataclass(frozen=True)
class Emulation:
    """How well the surrogate gives one observation: every run against its prediction by the others."""

    series: str  # the test, or the prediction
    label: str  # what is observed
    xlabel: str  # "" where it is one number
    ylabel: str
    q2: float  # of the whole observation: squared errors over variances, both summed over its points
    failed: int  # runs left out because they gave no answer
    worst: int  # row of the run that is predicted worst
    method: str  # "pce", "kriging"; with the number of principal components, if any
    x: Array  # (m,) abscissa
    points: Array  # (n, d) parameters of the runs used
    simulated: Array  # (n, m)
    predicted: Array  # (n, m), by the other runs
    q2_points: Array  # (m,), NaN where the output is constant
    growth: Array  # (rounds, 2): runs used and measure, one row for each round of enrichment; one row without
    poor: bool = (
        False  # q2 below the study's threshold: judged on reading, since the threshold changes no fit
    )
    judged: bool = True  # there are points enough for q2 to mean anything; where not, it is not to be shown
    levels: tuple[str, ...] = ()  # cheaper simulators, cheapest first; none where there are none
    level_runs: tuple[int, ...] = ()  # and their runs
    joint: float = np.nan  # Q2 of expensive runs held out by tenths, with the cheaper ones
    alone: float = np.nan  # and without them
    used: float = 0.0  # share of its numbers for which the surrogate stands on cheaper runs
    shared: float = 0.0  # part of the error variance that it has in common with other observations
    statistic: str = ""  # what each point's number is of its runs, and of how many; "" where each run counts
    chance: float = np.nan  # share of the variance that is chance: squared errors of the statistic over it
    measure: str = "Q2"  # what growth is of: Q2, or the share of the posterior's variance that is due to data


@dataclass(frozen=True)
class Influence:
    """Which parameters the variance of one observation comes from."""

    series: str
    label: str
    xlabel: str
    ylabel: str
    source: str  # "polynomial chaos", "Kriging, by sampling", "simulator, by sampling"
    subsets: tuple[tuple[int, ...], ...]  # sets of parameters that act together, largest share first
    x: Array  # (m,)
    sd: Array  # (m,) standard deviation of the observation over the prior
    first: Array  # (d, m) Sobol indices; NaN where the output is constant, (0, m) where not asked for
    total: Array  # (d, m)
    first_band: Array  # (2, d, m) 90 % interval
    total_band: Array  # (2, d, m)
    shares: Array  # (len(subsets), m) of the variance, of exactly these parameters together
    sampled_first: Array  # (d, m) the same by sampling, as a cross-check; (0, m) if not made
    sampled_total: Array  # (d, m)
    src: Array  # (d, m) standardised regression coefficients over the design; (0, m) if not made
    src_r2: Array  # (m,) share of the variance that the regression explains
    fosm: Array  # (d, m) importance factors at the mean, signed; (0, m) if not made
    doubt: str = ""  # why Sobol indices are left out or rough, where they are; judged on reading


Labelled = TypeVar("Labelled", Emulation, Influence)


@dataclass(frozen=True)
class Propagation:
    """What the uncertain parameters make of one predicted number."""

    series: str
    label: str
    ylabel: str
    at: str  # where on the abscissa, in words; "" where it is one number
    source: str  # "prior" or "posterior"
    tolerance: float  # asked: half of the 95 % interval of the mean, over the mean or the sd, the larger
    converged: bool
    failed: int  # draws at which there was no answer
    emulated: bool  # by the surrogate instead of the simulator
    laws: tuple[str, ...]  # fitted, the best first
    law_parameters: tuple[str, ...]  # in words
    values: Array  # (n,) answers at the draws, in their order
    steps: Array  # (k,) number of draws after each batch
    means: Array  # (k,) running mean
    errors: Array  # (k,) half of the 95 % interval of the running mean
    moments: Array  # (4,) mean, standard deviation, skewness, excess kurtosis
    fosm: Array  # (2,) mean and standard deviation by FOSM; (0,) if not asked for
    fosm_importance: Array  # (d,), signed; (0,) if not
    surface: Array  # (2, 2): R2 and adjusted R2 (columns) without and with interactions (rows); (0, 2) if not
    law_scores: Array  # (laws, 2) log-likelihood and Kolmogorov-Smirnov distance
    law_quantiles: Array  # (laws, n) of each law at the plotting positions of the ordered values


@dataclass(frozen=True)
class Source:
    """What was drawn from the posterior of another study."""

    name: str  # of the study
    file: str  # as this study names it
    weight: float  # its share, by evidence or equal
    log_evidence: tuple[float, float]  # value, standard error; NaN where the sampler gave none
    reweighted: bool  # drawn in proportion to the posterior's own density: posterior squared
    names: tuple[str, ...]  # its parameters
    units: tuple[str, ...]
    worries: tuple[tuple[str, bool, bool], ...]  # serious ones of its own: text, serious, unsound
    content: str  # hash of the bytes of its posterior
    effective: float  # independent draws that its posterior is worth
    worth: float  # and those that were drawn from it
    x: Array  # (n, d) draws; none where its weight is too small for two
    log_likelihood: Array  # (n,)
    log_prior: Array  # (n,)
    best: Array  # (d,) point of highest density
    moments: Array  # (2, d) mean and standard deviation of its posterior as it is
    drawn_moments: Array  # (2, d) of what the draws are taken from: the same, unless reweighted


@dataclass(frozen=True)
class Candidate:
    """What an experiment that might be done next is expected to teach."""

    name: str  # of its table
    label: str  # its conditions in words
    xlabel: str  # of the condition that is swept, "" where none is
    x: float  # its value, NaN where none is
    gain: float  # expected information, in nats
    error: float  # standard error of that
    failed: int  # draws at which there was no answer
    narrowing: Array  # (d,) expected share by which each parameter's standard deviation falls
    at_least: bool = False  # the gain is a lower bound


@dataclass(frozen=True)
class Replayed:
    """One run of a test or prediction, to look at."""

    series: str
    source: str  # which point it is, in words
    given: tuple[tuple[str, str, str], ...]  # conditions and parameters: name, value, unit
    field: str  # to colour by, or ""
    failed: str  # why there is nothing to see, or ""
    seen: NDArray[np.uint8]  # the replay as a file
    through: tuple[str, ...] = ()  # groups that are drawn like glass


def save_records(path: Path, records: Sequence[Any]) -> None:
    """Write records to one ``.npz``: arrays by index, words and numbers as JSON."""
    arrays: dict[str, Any] = {}
    words = []
    for i, record in enumerate(records):
        values = {f.name: getattr(record, f.name) for f in fields(record)}
        arrays |= {f"{i}.{name}": v for name, v in values.items() if isinstance(v, np.ndarray)}
        words.append({name: v for name, v in values.items() if not isinstance(v, np.ndarray)})
    save_arrays(path, {"words": np.array(json.dumps(words)), **arrays})


def load_records(path: Path, kind: type[Record]) -> tuple[Record, ...]:
    """Read what `save_records` wrote."""
    arrays = load_arrays(path)
    words = json.loads(str(arrays.pop("words")))
    mine: list[dict[str, Any]] = [{k: _tuples(v) for k, v in w.items()} for w in words]
    for key, array in arrays.items():
        index, name = key.split(".", 1)
        mine[int(index)][name] = array
    return tuple(kind(**values) for values in mine)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


@dataclass(frozen=True)
class Worry:
    """One line of the "what to worry about" box.

    ``serious`` ones are red and make the verdict a reserved one; ``unsound`` ones say that the computation
    itself is not to be trusted, and make the command fail.
    """

    text: str
    serious: bool = False
    unsound: bool = False


@dataclass(frozen=True)
class DesignRuns:
    """The campaign: design points, and the run of each point at each experiment."""

    names: tuple[str, ...]  # the parameters that are simulator inputs, columns of x
    x: Array  # (n, d)
    experiments: tuple[str, ...]
    runs: tuple[tuple[Run, ...], ...]  # [experiment][point]
    cheaper: tuple[
        tuple[str, tuple[Run, ...]], ...
    ] = ()  # name and runs of each cheaper simulator, cheapest first


def _of(stage: str, kind: type[Any]) -> Any:
    """Declare the records of a stage, read from the artifact called like it."""
    return field(default=None, metadata={"stage": stage, "kind": kind})


@dataclass(frozen=True)
class Results:
    """Everything a study has computed so far; None where a stage has not run."""

    study: StudyRecord
    folder: Path
    worries: tuple[Worry, ...]
    verdict: str
    manifest: Mapping[str, Any]
    design: DesignRuns | None = None
    sampled: tuple[Run, ...] = ()  # what sampling asked the simulator for; none through a batch interface
    posterior: Posterior | None = None
    emulations: tuple[Emulation, ...] | None = None
    influences: tuple[Influence, ...] | None = _of("sensitivity", Influence)
    panels: tuple[Panel, ...] | None = _of("prediction", Panel)
    propagations: tuple[Propagation, ...] | None = _of("propagation", Propagation)
    candidates: tuple[Candidate, ...] | None = _of("next", Candidate)
    sources: tuple[Source, ...] | None = _of("sources", Source)
    parts: tuple[Results, ...] = ()  # of a split study, one for each part of its data
    fresh: frozenset[str] = frozenset()  # stages whose artifacts are up to date

    def records(self, stage: str, kind: type[Record]) -> tuple[Record, ...] | None:
        """Read the records that a stage saved; None where it has not run or is out of date."""
        return load_records(self.folder / f"{stage}.npz", kind) if stage in self.fresh else None


@dataclass(frozen=True)
class NestedCheck:
    """Two ways to the same number for a model that is another one with a parameter held.

    Evidences, and posterior density.
    """

    inner: str
    outer: str
    parameter: str
    value: float
    by_evidence: tuple[float, float]  # log Z(inner) - log Z(outer), standard error
    by_density: tuple[float, float]  # log posterior density over prior density, standard error
    agrees: bool | None  # within two standard errors of their difference; None where the draws cannot tell


@dataclass(frozen=True)
class Comparison:
    """Several studies of the same measurements, weighed."""

    names: tuple[str, ...]
    results: tuple[Results, ...]
    table: Table  # columns of `tamis.inference.compare.compare`
    factors: Array  # (k, k) log Bayes factors, row against column
    nested: tuple[NestedCheck, ...]
    panels: tuple[Panel, ...]  # predictions mixed by the models' probabilities
    worries: tuple[Worry, ...]
    folder: Path
