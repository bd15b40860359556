"""The steel-contact calibration as a problem with a known answer, for tests and benchmarks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from tamis import Study
from tamis.inference.likelihood import Likelihood, Simulated
from tamis.inference.posterior import Posterior
from tamis.inference.tmcmc import tmcmc

ROOT = Path(__file__).parent.parent
MODELS = ("M1", "M2", "M3")
EXACT = {
    name: json.loads((ROOT / "tests/data/steel_quadrature.json").read_text())[name]["fine"] for name in MODELS
}


def calibrate(model: str, n: int, seed: int) -> Posterior:
    """Sample one model's posterior as its study does, with another seed and another number of samples."""
    study = Study.load(ROOT / "examples/10_steel_contact" / f"{model.lower()}.toml")
    terms = tuple((e, Simulated(study.query(e))) for e in study.experiments)
    return tmcmc(study.space, Likelihood(study.space, terms), n=n, rng=np.random.default_rng(seed))


def figures(model: str, posterior: Posterior) -> dict[str, float]:
    """Return errors against the exact posterior: absolute for the log evidence, relative for the rest."""
    exact = EXACT[model]
    assert posterior.log_evidence is not None
    summary = posterior.summary()
    found = {
        "log_evidence": posterior.log_evidence[0],
        "evidence_error": posterior.log_evidence[0] - exact["log_evidence"],
        "evidence_sd": posterior.log_evidence[1],
        "calls": float(posterior.diagnostics["likelihood_calls"]),
    }
    for name in ("mu", "gamma", "k_t"):
        row = summary.column("parameter").index(name)
        found[f"{name}_mean"] = summary.column("mean")[row] / exact["mean"][name] - 1
        found[f"{name}_cov"] = summary.column("cov")[row] / exact["cov"][name] - 1
    lower = posterior.flat[:, posterior.space.index("k_t")] < exact["k_t_antimode"]
    found["lower_mode"] = float(lower.mean()) / exact["k_t_lower_mass"] - 1
    return found
