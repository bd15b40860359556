"""What is known after the data: draws, their log-likelihoods, and the evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tamis.errors import StudyError
from tamis.files import load_arrays, save_arrays
from tamis.space import Space
from tamis.types import Array, Generator, Mask, Table


@dataclass(frozen=True)
class Posterior:
    """Equally weighted draws of a posterior."""

    space: Space
    x: Array  # (chains, draws, d)
    log_likelihood: Array  # (chains, draws)
    log_prior: Array
    log_evidence: tuple[float, float] | None = None  # value, standard error
    diagnostics: Mapping[str, Array] = field(default_factory=dict)

    @property
    def flat(self) -> Array:
        """All draws of all chains, (n, d)."""
        return self.x.reshape(-1, self.space.dim)

    def draws(self, n: int, rng: Generator) -> Array:
        """Pick n draws, without repetition where there are enough."""
        total = len(self.flat)
        return self.flat[rng.choice(total, size=n, replace=n > total)]

    def best(self) -> Array:
        """Return the point of highest posterior density: the polished mode, or the best draw where there is none."""
        if "mode" in self.diagnostics:
            return self.diagnostics["mode"]
        best: Array = self.flat[int(np.argmax((self.log_likelihood + self.log_prior).ravel()))]
        return best

    def where(self, inside: Mapping[str, tuple[float, float]]) -> Mask:
        """Mark the draws whose named parameters lie between the given bounds, (n,)."""
        mask = np.ones(len(self.flat), dtype=bool)
        for name, (low, high) in inside.items():
            column = self.flat[:, self.space.index(name)]
            mask &= (column >= low) & (column <= high)
        return mask

    def summary(self) -> Table:
        """Three numbers a parameter and a few more: what the data taught about each."""
        columns = (
            "parameter",
            "unit",
            "mean",
            "sd",
            "cov",
            "median",
            "q05",
            "q95",
            "best",
            "narrowing",
            "ess",
        )
        ess = self.diagnostics.get("ess", np.full(self.space.dim, np.nan))
        best = self.best()
        rows = []
        for i, parameter in enumerate(self.space.parameters):
            x = self.flat[:, i]
            mean, sd = float(x.mean()), float(x.std(ddof=1))
            q05, q50, q95 = (float(q) for q in np.quantile(x, (0.05, 0.5, 0.95)))
            prior = np.asarray(parameter.prior.ppf(np.array([0.05, 0.95])), dtype=float)
            own, ends = np.array([q05, q95]), prior
            if parameter.in_decades:
                own, ends = np.log(own), np.log(prior)
            narrowing = 1.0 - float(np.ptp(own) / np.ptp(ends))
            cov = sd / abs(mean) if mean else np.nan
            row = (parameter.name, parameter.unit, mean, sd, cov, q50, q05, q95, float(best[i]), narrowing)
            rows.append((*row, float(ess[i])))
        return Table(columns, tuple(rows))

    def correlation(self) -> Array:
        """Correlation matrix of the draws."""
        return np.atleast_2d(np.corrcoef(self.flat, rowvar=False))

    def save(self, path: Path) -> None:
        """Write to an ``.npz`` file that holds no times, so equal posteriors give equal bytes."""
        evidence = (np.nan, np.nan) if self.log_evidence is None else self.log_evidence
        save_arrays(
            path,
            {
                "names": np.array(self.space.names),
                "x": self.x,
                "log_likelihood": self.log_likelihood,
                "log_prior": self.log_prior,
                "log_evidence": np.array(evidence, dtype=float),
                **{f"diagnostics.{name}": value for name, value in self.diagnostics.items()},
            },
        )

    @classmethod
    def load(cls, path: Path, space: Space) -> Posterior:
        """Read what `save` wrote; the space must have the same parameters."""
        arrays = load_arrays(path)
        if tuple(arrays["names"]) != space.names:
            found = ", ".join(arrays["names"])
            raise StudyError(
                f"{path} holds parameters {found}, expected {', '.join(space.names)}; run the study again"
            )
        value, error = (float(v) for v in arrays["log_evidence"])
        prefix = "diagnostics."
        return cls(
            space,
            arrays["x"],
            arrays["log_likelihood"],
            arrays["log_prior"],
            None if np.isnan(value) else (value, error),
            {key.removeprefix(prefix): a for key, a in arrays.items() if key.startswith(prefix)},
        )
