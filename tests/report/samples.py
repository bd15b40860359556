"""Plausible records to draw: a ball with two modes of friction, failures, held-out data and predictions."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtri

from tamis.inference.compare import compare
from tamis.inference.posterior import Posterior
from tamis.marginals import lognormal, uniform
from tamis.results.records import (
    Comparison,
    DesignRuns,
    Emulation,
    Influence,
    NestedCheck,
    Panel,
    Propagation,
    Results,
    Worry,
)
from tamis.results.study import (
    ObservationRecord,
    ParameterRecord,
    Reference,
    SeriesRecord,
    SimulatorRecord,
    StudyRecord,
)
from tamis.runs.store import Run
from tamis.space import Parameter, Space
from tamis.types import Array

TEXT = """tamis = 1
title = "Dropped <ball> & plate"

[parameters]
k_t = { prior = "uniform", low = 1e7, high = 2e8 }
"""
SPLIT = 0.8e8


def space() -> Space:
    return Space(
        (
            Parameter("e", uniform(0.6, 0.95), label="restitution"),
            Parameter("k_t", uniform(1e7, 2e8), unit="N/m"),
            Parameter("sigma", lognormal(median=0.01, cov=1.0), unit="m"),
        )
    )


def posterior(n: int = 2048, seed: int = 1, evidence: float = 19.6) -> Posterior:
    """A bimodal posterior: a quarter of k_t around 4.2e7, the rest around 1.32e8, correlated with e."""
    rng = np.random.default_rng(seed)
    low = rng.random(n) < 0.25
    k_t = np.where(low, rng.normal(4.2e7, 0.5e7, n), rng.normal(1.32e8, 1.2e7, n))
    e = 0.8 + 0.02 * rng.standard_normal(n) + 2e-10 * (k_t - 1e8)
    sigma = 0.004 * np.exp(0.25 * rng.standard_normal(n))
    x = np.column_stack([e, k_t, sigma])
    z = np.column_stack([(e - 0.8) / 0.02, np.log(sigma / 0.004) / 0.25])
    log_likelihood = 25.0 - 0.5 * (z**2).sum(axis=1) + 0.1 * rng.standard_normal(n)
    prior = space()
    diagnostics = {
        "exponents": np.array([0.0, 1e-3, 0.006, 0.03, 0.11, 0.35, 0.8, 1.0]),
        "acceptance": np.array([0.42, 0.4, 0.36, 0.33, 0.31, 0.3, 0.29]),
        "log_evidence_increments": np.array([4.2, 5.1, 3.9, 2.7, 2.0, 1.1, 0.6]),
        "ess": np.array([1510.0, 820.0, 1725.0]),
        "likelihood_calls": np.array(131072.0),
        "bridge_rounds": np.array(4.0),
    }
    return Posterior(
        prior, x[None], log_likelihood[None], prior.logpdf(x)[None], (evidence, 0.043), diagnostics
    )


def panel(x: Array, mean: Array, **changes: Any) -> Panel:
    """A panel around a mean curve: bands, draws and, unless told otherwise, measurements with residuals."""
    rng = np.random.default_rng(len(x))
    m = len(x)
    sd_model, sd_total = 0.02 + 0.02 * np.abs(mean), 0.05 + 0.03 * np.abs(mean)
    model = mean + sd_model * rng.standard_normal((40, 1))
    draws = model + np.sqrt(sd_total**2 - sd_model**2) * rng.standard_normal((40, m))
    y = (mean + sd_total * rng.standard_normal(m))[None]
    residual = (y[0] - mean) / sd_total
    values: dict[str, Any] = {
        "series": "drop-1.0",
        "label": "z",
        "use": "calibrate",
        "synthetic": False,
        "xlabel": "t [s]",
        "ylabel": "z [m]",
        "share": 1.0,
        "condition": "",
        "failed": 0,
        "coverage": float((np.abs(residual) < 1.645).mean()),
        "white_limit": math.nan,
        "x": x,
        "y": y,
        "y_sd": np.full(m, 0.02),
        "overlay": np.empty((0, 3)),
        "prior": np.stack([mean - 4 * sd_total, mean + 0.02, mean + 4 * sd_total]),
        "model": model,
        "draws": draws,
        "error_var": np.full((40, m), 1e-3),
        "mean": mean,
        "sd_model": sd_model,
        "sd_total": sd_total,
        "model_band": np.stack([mean - 1.645 * sd_model, mean + 1.645 * sd_model]),
        "total_band": np.stack([mean - 1.645 * sd_total, mean + 1.645 * sd_total]),
        "residual": residual,
        "autocorrelation": np.empty(0),
    }
    return Panel(**{**values, **changes})


def signal_panel(**changes: Any) -> Panel:
    """A long signal with the autocorrelation of its residuals."""
    t = np.linspace(0.0, 1.5, 240)
    more = {
        "autocorrelation": 0.8 ** np.arange(41),
        "white_limit": 2.576 / math.sqrt(240),
        "y_sd": np.empty(0),
    }
    return panel(t, np.abs(np.cos(6 * t)) * np.exp(-t), **{**more, **changes})


def table_panel(**changes: Any) -> Panel:
    """Six tests over an angle."""
    angle = np.array([10.0, 20.0, 30.0, 40.0, 50.0, 60.0])
    words = {"series": "tests", "label": "ctr", "xlabel": "angle [deg]", "ylabel": "ctr"}
    return panel(angle, 1 - 0.22 / np.tan(np.radians(angle)).clip(0.3), **{**words, **changes})


def sweep_panel(**changes: Any) -> Panel:
    """A prediction nobody measured, with the tests laid over it."""
    angle = np.linspace(2.0, 70.0, 35)
    tests = table_panel()
    nothing = {
        "y": np.empty((0, 35)),
        "y_sd": np.empty(0),
        "residual": np.empty(0),
        "coverage": math.nan,
        "prior": np.empty((0, 35)),
    }
    words = {
        "series": "ctr-by-angle",
        "label": "ctr",
        "use": "predict",
        "xlabel": "angle [deg]",
        "ylabel": "ctr",
    }
    overlay = np.column_stack([tests.x, tests.y[0], tests.y_sd])
    return panel(
        angle,
        1 - 0.22 / np.tan(np.radians(angle)).clip(0.3),
        **{**nothing, **words, "overlay": overlay, **changes},
    )


def scalar_panel(value: float, label: str, ylabel: str, **changes: Any) -> Panel:
    """One number without an abscissa."""
    words = {"series": "plate", "label": label, "xlabel": "", "ylabel": ylabel}
    return panel(np.zeros(1), np.array([value]), **{**words, **changes})


def panels() -> tuple[Panel, ...]:
    """Every kind of panel a study may have."""
    half = {"use": "predict", "condition": "k_t between 1e+07 and 8e+07", "share": 0.25, "series": "ctr-low"}
    other = {
        "use": "predict",
        "condition": "k_t between 8e+07 and 2e+08",
        "share": 0.75,
        "series": "ctr-high",
    }
    return (
        signal_panel(),
        table_panel(),
        table_panel(label="cnr", ylabel="cnr"),
        scalar_panel(0.42, "peak force", "force [kN]"),
        scalar_panel(0.46, "second peak", "force [kN]"),
        scalar_panel(3.1, "rest time", "time [s]", y=np.array([[3.0], [3.3]])),
        signal_panel(series="drop-2.0", use="validate", synthetic=True, failed=2),
        scalar_panel(0.5, "peak force, 2 m", "force [kN]", use="validate"),
        sweep_panel(),
        sweep_panel(**half),
        sweep_panel(**other),
    )


def design(failures: bool = True) -> DesignRuns:
    """Two experiments at 64 points; runs fail where k_t is high and e low."""
    rng = np.random.default_rng(3)
    x = np.column_stack([rng.uniform(0.6, 0.95, 64), rng.uniform(1e7, 2e8, 64)])
    runs = []
    for experiment in range(2):
        row = []
        for i, (e, k_t) in enumerate(x):
            bad = failures and e < 0.7 and k_t > 1.2e8
            slow = failures and i == 5 and experiment == 1
            status = "failed" if bad else "timeout" if slow else "done"
            error = "no convergence after 200 iterations" if bad else "stopped after 30 s" if slow else ""
            seconds = 30.0 if slow else float(0.2 * np.exp(0.4 * rng.standard_normal()))
            row.append(
                Run(
                    f"{experiment}{i:031d}",
                    "model.py:ball",
                    "ab12",
                    {"e": float(e), "k_t": float(k_t)},
                    status,
                    seconds,
                    error,
                )
            )
        runs.append(tuple(row))
    return DesignRuns(("e", "k_t"), x, ("drop-1.0", "drop-2.0"), tuple(runs))


def emulation(x: Array, d: int = 2, n: int = 60, **changes: Any) -> Emulation:
    """Left-out predictions over the unit cube, poorer where the first parameter is large and late on the abscissa."""
    rng = np.random.default_rng(len(x) + d)
    points = rng.random((n, d))
    late = np.linspace(0.0, 1.0, len(x))
    simulated = points[:, :1] * np.sin(3 * late) + points[:, -1:] ** 2 * (0.2 + late) + (len(x) == 1)
    predicted = simulated + 0.1 * (0.1 + late) * points[:, :1] ** 4 * rng.standard_normal((n, 1))
    error = predicted - simulated
    variance = simulated.var(axis=0)
    values: dict[str, Any] = {
        "series": "drop-1.0",
        "label": "z" if len(x) > 1 else "peak force",
        "xlabel": "t [s]" if len(x) > 1 else "",
        "ylabel": "z [m]" if len(x) > 1 else "force [kN]",
        "q2": float(1 - (error**2).mean(axis=0).sum() / variance.sum()),
        "failed": 3,
        "worst": int(np.argmax((error**2).sum(axis=1))),
        "poor": False,
        "method": "pce" if len(x) == 1 else "pce of 4 principal components",
        "x": x,
        "points": points,
        "simulated": simulated,
        "predicted": predicted,
        "q2_points": 1 - (error**2).mean(axis=0) / np.where(variance > 0, variance, np.nan),
        "growth": np.array([[n, 0.9]]),
    }
    return Emulation(**{**values, **changes})


def emulations() -> tuple[Emulation, ...]:
    """A number, a poor one that was enriched, a signal and a table of tests, over the ball's two parameters."""
    growth = np.array([[30, 0.62], [40, 0.71], [50, 0.88], [60, 0.93]])
    scale = np.array([0.35, 1.9e8])
    shift = np.array([0.6, 1e7])
    made = (
        emulation(np.zeros(1)),
        emulation(np.zeros(1), label="rest time", ylabel="time [s]", q2=0.93, poor=True, growth=growth),
        emulation(np.linspace(0.0, 1.5, 120), growth=growth[1:] + np.array([0.0, 0.06])),
        emulation(
            np.arange(10.0, 90.0, 10.0), series="tests", label="ctr", xlabel="angle [deg]", ylabel="ctr"
        ),
    )
    return tuple(replace(e, points=shift + scale * e.points) for e in made)


def influence(x: Array, d: int = 2, **changes: Any) -> Influence:
    """Two parameters whose shares trade places along the abscissa, one interaction, the rest without effect."""
    m = len(x)
    late = np.linspace(0.0, 1.0, m)
    shares = np.stack([0.7 - 0.5 * late, 0.2 + 0.4 * late, np.full(m, 0.1) + 0.1 * late])
    first = np.zeros((d, m))
    first[0], first[-1] = shares[0], shares[1]
    total = first.copy()
    total[[0, -1]] += shares[2]
    values: dict[str, Any] = {
        "series": "drop-1.0",
        "label": "z" if m > 1 else "peak force",
        "xlabel": "t [s]" if m > 1 else "",
        "ylabel": "z [m]" if m > 1 else "force [kN]",
        "source": "polynomial chaos",
        "subsets": ((0,), (d - 1,), (0, d - 1)),
        "x": x,
        "sd": 0.02 + 0.1 * late,
        "first": first,
        "total": total,
        "first_band": np.stack([first - 0.03, first + 0.03]),
        "total_band": np.stack([total - 0.04, total + 0.04]),
        "shares": shares,
        "sampled_first": first + 0.01,
        "sampled_total": total - 0.01,
        "src": np.sqrt(first) * np.where(np.arange(d) % 2, -1, 1)[:, None],
        "src_r2": np.full(m, 0.9),
        "fosm": np.sqrt(total / total.sum(axis=0)),
    }
    return Influence(**{**values, **changes})


def influences() -> tuple[Influence, ...]:
    """What goes with `emulations`."""
    return (
        influence(np.zeros(1)),
        influence(np.zeros(1), label="rest time", ylabel="time [s]"),
        influence(np.linspace(0.0, 1.5, 120)),
        influence(
            np.arange(10.0, 90.0, 10.0), series="tests", label="ctr", xlabel="angle [deg]", ylabel="ctr"
        ),
    )


def propagation(n: int = 900, **changes: Any) -> Propagation:
    """A lognormal number, drawn in batches of a hundred."""
    z = np.random.default_rng(n).standard_normal(n)
    values = 3.0 * np.exp(0.3 * z)
    steps = np.arange(100.0, n + 1, 100.0)
    means = np.array([values[: int(k)].mean() for k in steps])
    scores = ndtri((np.arange(1, n + 1) - 0.5) / n)
    laws = {"lognormal": 3.0 * np.exp(0.3 * scores), "normal": values.mean() + values.std() * scores}
    fields: dict[str, Any] = {
        "series": "drop-5.0",
        "label": "peak force",
        "ylabel": "force [kN]",
        "at": "",
        "source": "posterior",
        "tolerance": 0.05,
        "converged": True,
        "failed": 0,
        "emulated": False,
        "laws": tuple(laws),
        "law_parameters": ("median = 3, cov = 0.307", "mean = 3.14, sd = 0.96"),
        "values": values,
        "steps": steps,
        "means": means,
        "errors": np.array([1.96 * values[: int(k)].std() / math.sqrt(k) for k in steps]),
        "moments": np.array([values.mean(), values.std(), 0.95, 1.64]),
        "fosm": np.array([3.0, 0.9]),
        "fosm_importance": np.array([0.8, -0.6]),
        "surface": np.array([[0.981, 0.980], [0.992, 0.991]]),
        "law_scores": np.array([[-1020.3, 0.018], [-1071.9, 0.071]]),
        "law_quantiles": np.stack(list(laws.values())),
    }
    return Propagation(**{**fields, **changes})


def propagations() -> tuple[Propagation, ...]:
    """A number over the posterior, and one of a signal over the prior that did not converge."""
    return (
        propagation(),
        propagation(
            400,
            label="z",
            ylabel="z [m]",
            at="t = 0.5 s",
            source="prior",
            tolerance=0.02,
            converged=False,
            failed=7,
            emulated=True,
        ),
    )


def study(stem: str = "study") -> StudyRecord:
    simulator = SimulatorRecord(
        "model.py:ball",
        "ab12cd34",
        "A ball.",
        ("Kuwabara G., Kono K. 1987, Jpn. J. Appl. Phys. 26, 1230, 10.1143/JJAP.26.1230",),
    )
    parameters = (
        ParameterRecord("e", "uniform", {"low": 0.6, "high": 0.95}, label="restitution"),
        ParameterRecord("k_t", "uniform", {"low": 1e7, "high": 2e8}, unit="N/m"),
        ParameterRecord("sigma", "lognormal", {"median": 0.01, "cov": 1.0}, unit="m", is_input=False),
    )
    seen = (ObservationRecord("ctr", "angle [deg]", "ctr"),)
    series = (
        SeriesRecord("ctr-low", "predict", ("ctr-low",), seen, where={"k_t": (1e7, SPLIT)}),
        SeriesRecord("ctr-high", "predict", ("ctr-high",), seen, where={"k_t": (SPLIT, 2e8)}),
        SeriesRecord("tests", "calibrate", ("tests",), seen, designed=True),
    )
    references = (
        Reference("Table 4 of the paper", 16.39, {"e": 0.81, "k_t": 1.01e8}, {"e": 0.05, "k_t": 0.338}),
        Reference("quadrature", 19.59, {"e": 0.803, "k_t": 1.1e8}, {}),
    )
    return StudyRecord(
        file=f"{stem}.toml",
        title="Dropped <ball> & plate",
        seed=7,
        simulator=simulator,
        parameters=parameters,
        series=series,
        references=references,
        text=TEXT,
        parents=(("common.toml", "seed = 7\n"),),
    )


def results(folder: Path = Path("results"), **changes: Any) -> Results:
    worries = (
        Worry("drop-1.0, z: the residuals are coloured (autocorrelation 0.80 at lag 1).", serious=True),
        Worry("9 of 128 design runs failed (7%); most often: no convergence after 200 iterations (8 times)."),
    )
    manifest = {
        "tamis": "0.1.0",
        "seed": 7,
        "machine": "Linux x86_64",
        "libraries": {"numpy": "2.0", "scipy": "1.14"},
        "stages": {
            "design": {"hash": "ab" * 16, "seconds": 0.1},
            "posterior": {"hash": "cd" * 16, "seconds": 4.2},
            "report": {"hash": "ef" * 16, "seconds": 2.0},
        },
    }
    values: dict[str, Any] = {
        "study": study(),
        "folder": folder,
        "design": design(),
        "sampled": (),
        "emulations": None,
        "influences": None,
        "posterior": posterior(),
        "panels": panels(),
        "propagations": None,
        "candidates": None,
        "worries": worries,
        "verdict": "The data narrow 2 of 3 parameters by more than half.",
        "manifest": manifest,
    }
    return Results(**{**values, **changes})


def comparison(folder: Path = Path("results")) -> Comparison:
    names = ("m1", "m2", "m3")
    evidences = (17.08, 19.59, 17.61)
    made = tuple(
        results(folder / name, study=study(name), posterior=posterior(seed=i + 1, evidence=evidence))
        for i, (name, evidence) in enumerate(zip(names, evidences, strict=True))
    )
    table = compare({name: r.posterior for name, r in zip(names, made, strict=True)})  # type: ignore[misc]
    z = np.array(evidences)
    nested = (
        NestedCheck("m1", "m3", "alpha", 0.25, (-0.53, 0.06), (-0.48, 0.08), True),
        NestedCheck("m2", "m3", "alpha", 0.5, (1.98, 0.06), (1.40, 0.05), False),
    )
    mixed = tuple(p for p in panels() if not p.condition)
    worries = (Worry("m2 is m3 with alpha = 0.5, but the evidences differ by 1.98 ± 0.06.", serious=True),)
    return Comparison(
        names, made, table, z[:, None] - z[None, :], nested, mixed, worries, folder / "compare-m1-m2-m3"
    )
