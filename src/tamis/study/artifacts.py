"""What a study leaves behind, as plain records.

The report and the command line read these and compute nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tamis.files import load_arrays, save_arrays
from tamis.inference.posterior import Posterior
from tamis.store import Run
from tamis.types import Array, Table

if TYPE_CHECKING:
    from tamis.study.build import Study


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


def save_panels(path: Path, panels: Sequence[Panel]) -> None:
    """Write panels to one ``.npz``: arrays by index, words and numbers as JSON."""
    arrays: dict[str, Any] = {}
    words = []
    for i, panel in enumerate(panels):
        values = {f.name: getattr(panel, f.name) for f in fields(panel)}
        arrays |= {f"{i}.{name}": v for name, v in values.items() if isinstance(v, np.ndarray)}
        words.append({name: v for name, v in values.items() if not isinstance(v, np.ndarray)})
    save_arrays(path, {"words": np.array(json.dumps(words)), **arrays})


def load_panels(path: Path) -> list[Panel]:
    """Read what `save_panels` wrote."""
    arrays = load_arrays(path)
    words = json.loads(str(arrays.pop("words")))
    mine: list[dict[str, Any]] = [dict(w) for w in words]
    for key, array in arrays.items():
        index, name = key.split(".", 1)
        mine[int(index)][name] = array
    return [Panel(**values) for values in mine]


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
class Reference:
    """Published or exact figures to be shown beside ours."""

    source: str
    log_evidence: float | None = None
    mean: Mapping[str, float] = field(default_factory=dict)
    cov: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class DesignRuns:
    """The campaign: design points, and the run of each point at each experiment."""

    names: tuple[str, ...]  # the parameters that are simulator inputs, columns of x
    x: Array  # (n, d)
    experiments: tuple[str, ...]
    runs: tuple[tuple[Run, ...], ...]  # [experiment][point]


@dataclass(frozen=True)
class Results:
    """Everything a study has computed so far; None where a stage has not run."""

    study: Study
    folder: Path
    design: DesignRuns | None
    sampled: tuple[Run, ...]  # what sampling asked the simulator for; none through a batch door
    posterior: Posterior | None
    panels: tuple[Panel, ...] | None
    worries: tuple[Worry, ...]
    verdict: str
    manifest: Mapping[str, Any]


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
    table: Table  # columns of `tamis.inference.selection.compare`
    factors: Array  # (k, k) log Bayes factors, row against column
    nested: tuple[NestedCheck, ...]
    panels: tuple[Panel, ...]  # predictions mixed by the models' probabilities
    worries: tuple[Worry, ...]
    folder: Path
