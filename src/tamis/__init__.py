"""Calibrate expensive mechanical simulators against measurements, and predict with what uncertainty is left."""

from __future__ import annotations

from typing import Any

from tamis._version import __version__

_WHERE = {
    "tamis.errors": (
        "TamisError",
        "StudyError",
        "SimulationError",
        "SurrogateError",
        "Unavailable",
        "TamisWarning",
    ),
    "tamis.types": ("Array", "Inputs", "Outputs", "Gauss", "Table", "Event"),
    "tamis.marginals": (
        "uniform",
        "loguniform",
        "normal",
        "lognormal",
        "gamma",
        "beta",
        "exponential",
        "triangular",
        "truncnormal",
        "check_marginal",
    ),
    "tamis.space": ("Parameter", "Space"),
    "tamis.design": ("sobol", "halton", "lhs", "maximin", "grid"),
    "tamis.contract": ("check_simulator",),
    "tamis.simulation": ("Port", "Simulator", "simulator", "find"),
    "tamis.replays": ("Replay", "Shape"),
    "tamis.observables": (
        "value",
        "final",
        "largest",
        "least",
        "peak",
        "peak_abs",
        "peak_time",
        "at",
        "spectrum",
        "envelope",
        "measure",
        "response_spectrum",
    ),
    "tamis.noise": (
        "Known",
        "Gaussian",
        "Relative",
        "Correlated",
        "Covariance",
        "LowRank",
        "Sum",
        "check_noise",
    ),
    "tamis.experiment": ("Observation", "Experiment"),
    "tamis.sheets": ("read_csv",),
    "tamis.sim.common.records": ("Record", "read_record"),
    "tamis.runs.keys": ("run_key",),
    "tamis.runs.store": ("Run", "RunStore"),
    "tamis.runs.campaign": ("evaluate", "points", "observe"),
    "tamis.runs.pool": ("Workers",),
    "tamis.runs.cluster": ("Cluster",),
    "tamis.adapters.command": ("command",),
    "tamis.adapters.http": ("http_model",),
    "tamis.surrogates.pce": ("PCE", "fit_pce"),
    "tamis.surrogates.kriging": ("Kriging", "fit_kriging"),
    "tamis.surrogates.multifidelity": ("MultiFidelity", "fit_multifidelity"),
    "tamis.surrogates.reduced": ("Reduced", "fit_reduced"),
    "tamis.surrogates.enrich": ("enrich",),
    "tamis.surrogates.joined": ("share_errors",),
    "tamis.surrogates.success": ("Success", "fit_success"),
    "tamis.surrogates.contract": ("check_surrogate",),
    "tamis.inference.likelihood": ("Emulated", "Likelihood"),
    "tamis.inference.posterior": ("Posterior",),
    "tamis.inference.tmcmc": ("tmcmc",),
    "tamis.inference.metropolis": ("metropolis",),
    "tamis.inference.emulated": ("EmulatedLikelihood", "fit_loglike", "mct"),
    "tamis.inference.mode": ("polish",),
    "tamis.inference.error_model": ("identify",),
    "tamis.inference.information": ("Gain", "expected_gain"),
    "tamis.inference.calibration": ("check_sampler",),
    "tamis.inference.compare": ("compare",),
    "tamis.analysis.prediction": ("Predictive", "predict", "mix"),
    "tamis.analysis.fragility": ("Fragility", "fragility", "fragility_of_counts"),
    "tamis.analysis.propagation": ("monte_carlo", "fosm", "response_surface", "fit_laws"),
    "tamis.study.api": ("Study",),
    "tamis.study.direct": ("Direct",),
    "tamis.study.events": ("follow",),
    "tamis.results.gather": ("load_results",),
}
_HOME = {name: module for module, names in _WHERE.items() for name in names}
__all__ = ["__version__", *_HOME]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'tamis' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
