"""The posterior of the steel contact by deterministic quadrature, without a sampler.

Restitution of a steel sphere thrown at a steel wall, measured by Dong and Moys and tabulated by Hadjidoukas et al.
(2014, 10.1016/j.cma.2014.07.017, Table 2), calibrates friction ``mu``, damping ``gamma`` (and its exponent ``alpha`` in
model M3; M1 fixes 1/4, M2 1/2), tangential stiffness ``k_t``, and the relative variances of the model error,
``s_ctr`` for tangential and ``s_cnr`` for normal restitution. Priors are uniform.

Why quadrature is feasible in six dimensions: ``cnr`` depends on ``gamma`` and ``alpha`` alone, and each variance enters
one group of data alone, so that at fixed (gamma, alpha) ::

    L = [integral of L_cnr over s_cnr] x [integral of L_ctr over s_ctr, mu, k_t]

The first factor has a sharp, curved ridge, cut off where gamma leaves its prior, but costs next to nothing. The second
is a sum over a (mu, k_t) grid, but a smooth function of alpha and of the logarithm of the damping number
``g = gamma L^(1+alpha)/(m v)``. So the second is tabulated at few nodes (alpha, log g), and the first is integrated
against the interpolation polynomials of those nodes on a dense grid that follows the bounds of gamma (product
integration). M1 and M2 have one node in alpha.

Run as ``python -m tests.reference.steel_quadrature``, it prints the table at two resolutions and writes
``tests/data/steel_quadrature.json``.
"""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tamis.sim.dem.impact.scene import Impact
from tamis.sim.dem.simulators import impact
from tamis.types import Array

ANGLES = np.array([10.0, 20.0, 30.0, 40.0, 50.0, 60.0])
CTR, CTR_SD = np.array(
    [[0.523, 0.524, 0.637, 0.779, 0.846, 0.886], [0.010, 0.014, 0.044, 0.013, 0.042, 0.024]]
)
CNR, CNR_SD = np.array(
    [[0.890, 0.892, 0.918, 0.896, 0.918, 0.874], [0.020, 0.015, 0.014, 0.005, 0.013, 0.033]]
)
PRIOR = {
    "mu": (0.05, 0.2),
    "alpha": (0.15, 1.35),
    "gamma": (0.1e4, 15e4),
    "k_t": (0.1e8, 15e8),
    "s_ctr": (0.0, 0.01),
    "s_cnr": (0.0, 0.01),
}
FIXED = {"M1": 0.25, "M2": 0.5}
DATA = Path(__file__).parent.parent / "data"

_V = Impact.speed * math.cos(math.radians(30.0))
_K_N = 4.0 / 3.0 * Impact.young / (2.0 * (1.0 - Impact.poisson**2)) * math.sqrt(Impact.radius)
_LENGTH = (Impact.mass * _V**2 / _K_N) ** 0.4


@dataclass(frozen=True)
class Grid:
    """Numbers of nodes by panel: of the interpolation in alpha and log g, of mu, of k_t, of the variances."""

    alpha: tuple[int, int]
    log_g: tuple[int, int, int, int]
    mu: int
    k_t: tuple[int, int, int, int]
    variance: int
    dense: int


COARSE = Grid(alpha=(5, 3), log_g=(2, 5, 9, 6), mu=40, k_t=(6, 24, 56, 12), variance=24, dense=16)
FINE = Grid(alpha=(8, 5), log_g=(3, 8, 14, 9), mu=56, k_t=(8, 40, 96, 24), variance=40, dense=32)

ALPHA_PANELS = (PRIOR["alpha"][0], 0.65, PRIOR["alpha"][1])
ALPHA_DENSE = (
    PRIOR["alpha"][0],
    0.5,
    0.55,
    0.6,
    0.65,
    0.8,
    PRIOR["alpha"][1],
)  # gamma reaches its bound near 0.57
LOG_G_PANELS = tuple(math.log(g) for g in (3e-7, 1e-3, 0.03, 0.3, 5.0))
K_T_PANELS = (PRIOR["k_t"][0], 0.3e8, 0.75e8, 2.5e8, PRIOR["k_t"][1])  # 1e-5 of the mass is above 2.5e8


def panels(edges: Sequence[float], counts: Sequence[int]) -> tuple[Array, Array]:
    """Gauss-Legendre nodes and weights on consecutive panels."""
    nodes, weights = [], []
    for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True):
        x, w = np.polynomial.legendre.leggauss(count)
        nodes.append(0.5 * (high - low) * x + 0.5 * (high + low))
        weights.append(0.5 * (high - low) * w)
    return np.concatenate(nodes), np.concatenate(weights)


def interpolation(x: Array, edges: Sequence[float], counts: Sequence[int]) -> Array:
    """Values at ``x`` of the polynomials of the nodes of `panels`: (len(x), number of nodes), zero on other panels."""
    vander = np.polynomial.legendre.legvander
    blocks = []
    for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True):
        nodes, _ = np.polynomial.legendre.leggauss(count)
        here = (x >= low) & ((x < high) | (high == edges[-1]))
        basis = vander((2.0 * x - low - high) / (high - low), count - 1) @ np.linalg.inv(
            vander(nodes, count - 1)
        )
        blocks.append(np.where(here[:, None], basis, 0.0))
    return np.concatenate(blocks, axis=1)


def over_variance(model: Array, y: Array, sd: Array, nodes: int) -> Array:
    """Integrate the likelihood of a group of data, times 1, s, s^2, over its relative variance s: (..., 6) -> (3, ...).

    Nodes are those of sqrt(s): the integrand varies fastest where s is below the measured variance.
    """
    largest = PRIOR["s_ctr"][1]
    root, weight = panels((0.0, math.sqrt(largest)), (nodes,))
    s = root**2
    weight = weight * 2.0 * root / largest
    var = sd[:, None] ** 2 + s * y[:, None] ** 2
    like = np.exp(-0.5 * ((model - y) ** 2 @ (1.0 / var)) - 0.5 * np.log(2.0 * math.pi * var).sum(axis=0))
    return np.stack([like @ (weight * s**k) for k in range(3)])


def restitution(name: str, **inputs: Any) -> Array:
    """Return cnr or ctr at the six angles: shape of the broadcast inputs, then 6."""
    arrays = np.broadcast_arrays(*(np.asarray(value)[..., None] for value in inputs.values()), ANGLES)
    columns = {key: np.ravel(array) for key, array in zip([*inputs, "angle"], arrays, strict=True)}
    return np.asarray(impact.batch(columns)[name].reshape(arrays[0].shape))


def gamma_unit(alpha: float) -> float:
    """The gamma of damping number 1."""
    return Impact.mass * _V / _LENGTH ** (1.0 + alpha)


def tangential(alpha: float, grid: Grid) -> Array:
    """Integrate L_ctr over s_ctr, mu and k_t at the nodes of log g.

    One row a node: the integral, then with mu, mu^2, k_t, k_t^2, s, s^2, then its density in k_t.
    """
    low, high = PRIOR["mu"]
    mu, w_mu = panels(PRIOR["mu"], (grid.mu,))
    k_t, w_k = panels(K_T_PANELS, grid.k_t)
    weight = np.outer(w_mu / (high - low), w_k / (PRIOR["k_t"][1] - PRIOR["k_t"][0]))
    rows = []
    for log_g in panels(LOG_G_PANELS, grid.log_g)[0]:
        ctr = restitution(
            "ctr", mu=mu[:, None], k_t=k_t, gamma=math.exp(log_g) * gamma_unit(alpha), alpha=alpha
        )
        like, like_s, like_s2 = weight * over_variance(ctr, CTR, CTR_SD, grid.variance)
        by_mu, by_k = like.sum(axis=1), like.sum(axis=0)
        moments = [
            like.sum(),
            by_mu @ mu,
            by_mu @ mu**2,
            by_k @ k_t,
            by_k @ k_t**2,
            like_s.sum(),
            like_s2.sum(),
        ]
        rows.append(np.concatenate([moments, by_k / w_k]))
    return np.array(rows)


def normal(alpha: float, grid: Grid) -> Array:
    """Integrate L_cnr over s_cnr and gamma, times the polynomials of the nodes of log g.

    Rows: with 1, gamma, gamma^2, s, s^2; one column a node.
    """
    low, high = PRIOR["gamma"]
    unit = gamma_unit(alpha)
    inside = np.clip(LOG_G_PANELS, math.log(low / unit), math.log(high / unit))
    pieces = np.unique(np.concatenate([np.linspace(a, b, 9) for a, b in itertools.pairwise(inside)]))
    log_g, weight = panels(pieces.tolist(), [grid.dense] * (len(pieces) - 1))
    gamma = np.exp(log_g) * unit
    cnr = restitution("cnr", gamma=gamma, alpha=alpha)
    one, s, s2 = over_variance(cnr, CNR, CNR_SD, grid.variance) * weight * gamma / (high - low)
    kinds = np.stack([one, one * gamma, one * gamma**2, s, s2])
    return np.asarray(kinds @ interpolation(log_g, LOG_G_PANELS, grid.log_g))


def summary(kinds: Array, table: Array, grid: Grid) -> dict[str, Any]:
    """Join both factors: rows of `tangential`, and `normal` with two more kinds, alpha and alpha^2."""
    from scipy.interpolate import CubicSpline

    one, g, g2, s, s2, a, a2 = kinds @ table[:, 0]
    total, mu, mu2, k, k2, sc, sc2, *by_k = kinds[0] @ table
    pairs = {
        "mu": (mu, mu2),
        "alpha": (a, a2),
        "gamma": (g, g2),
        "k_t": (k, k2),
        "s_ctr": (sc, sc2),
        "s_cnr": (s, s2),
    }
    mean = {name: float(first / one) for name, (first, _) in pairs.items()}
    spread = {
        name: math.sqrt(max(second / one - mean[name] ** 2, 0.0)) for name, (_, second) in pairs.items()
    }
    density = CubicSpline(panels(K_T_PANELS, grid.k_t)[0], np.array(by_k) / total)
    x = np.arange(0.2e8, 2.4e8, 1e5)
    p = density(x)
    top = [i for i in range(1, len(x) - 1) if p[i] > p[i - 1] and p[i] >= p[i + 1] and p[i] > 0.05 * p.max()]
    if len(top) != 2:
        raise ValueError(f"expected two modes of k_t, found {len(top)} at {x[top]}")
    antimode = top[0] + int(np.argmin(p[top[0] : top[1]]))
    return {
        "log_evidence": math.log(total),
        "mean": mean,
        "cov": {name: spread[name] / mean[name] for name in pairs},
        "k_t_modes": x[top].tolist(),
        "k_t_antimode": float(x[antimode]),
        "k_t_peak_ratio": float(p[top[0]] / p[top[1]]),
        "k_t_lower_mass": float(density.integrate(PRIOR["k_t"][0], x[antimode])),
    }


def fixed_exponent(alpha: float, grid: Grid) -> dict[str, Any]:
    """Models M1 and M2."""
    kinds = normal(alpha, grid)
    return summary(np.stack([*kinds, alpha * kinds[0], alpha**2 * kinds[0]]), tangential(alpha, grid), grid)


def free_exponent(grid: Grid) -> dict[str, Any]:
    """Model M3; with the posterior density of alpha over its prior at 1/4 and 1/2."""
    nodes, _ = panels(ALPHA_PANELS, grid.alpha)
    tables = np.stack([tangential(alpha, grid) for alpha in nodes])
    dense, weight = panels(ALPHA_DENSE, [grid.dense] * (len(ALPHA_DENSE) - 1))
    basis = interpolation(dense, ALPHA_PANELS, grid.alpha)
    low, high = PRIOR["alpha"]
    kinds = np.zeros((7, len(nodes), tables.shape[1]))
    for alpha, w, polynomial in zip(dense, weight / (high - low), basis, strict=True):
        part = normal(alpha, grid)
        part = np.stack([*part, alpha * part[0], alpha**2 * part[0]])
        kinds += w * polynomial[:, None] * part[:, None, :]
    result = summary(kinds.reshape(7, -1), tables.reshape(-1, tables.shape[2]), grid)
    ratios = {}
    for alpha in FIXED.values():
        table = np.tensordot(interpolation(np.array([alpha]), ALPHA_PANELS, grid.alpha)[0], tables, axes=1)
        ratios[f"{alpha:g}"] = float(normal(alpha, grid)[0] @ table[:, 0]) / math.exp(result["log_evidence"])
    return {**result, "alpha_density_over_prior": ratios}


def solve(model: str, grid: Grid) -> dict[str, Any]:
    """Return the summary of M1, M2 or M3."""
    return free_exponent(grid) if model == "M3" else fixed_exponent(FIXED[model], grid)


def main() -> None:
    """Print both resolutions of the three models and store them."""
    results: dict[str, Any] = {
        "origin": "written by tests/reference/steel_quadrature.py; natural logarithms, SI units"
    }
    for model in ("M1", "M2", "M3"):
        results[model] = {}
        for name, grid in (("coarse", COARSE), ("fine", FINE)):
            start = time.perf_counter()
            row = solve(model, grid)
            results[model][name] = row
            means = "  ".join(f"{k} {row['mean'][k]:.5g} ({100 * row['cov'][k]:.2f} %)" for k in PRIOR)
            low, high = (1e-8 * mode for mode in row["k_t_modes"])
            print(f"{model} {name:6} log Z {row['log_evidence']:.4f}  {means}")
            print(
                f"{'':9} k_t modes {low:.3f}e8 {high:.3f}e8, peak ratio {row['k_t_peak_ratio']:.4f}, antimode "
                f"{1e-8 * row['k_t_antimode']:.3f}e8, lower mass {row['k_t_lower_mass']:.5f} "
                f"[{time.perf_counter() - start:.0f} s]",
                flush=True,
            )
    for model, alpha in FIXED.items():
        ratio = math.log(results["M3"]["fine"]["alpha_density_over_prior"][f"{alpha:g}"])
        difference = results[model]["fine"]["log_evidence"] - results["M3"]["fine"]["log_evidence"]
        print(f"log Z({model}) - log Z(M3) = {difference:.5f}, ln p({alpha}|D)/p({alpha}) = {ratio:.5f}")
    (DATA / "steel_quadrature.json").write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
