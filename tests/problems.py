"""Posteriors whose evidence is known, shared by tests and benchmarks.

The Gaussian ones are written as their likelihood's peaks, so that other packages can be given the same problem: a
likelihood is a sum of ``exp(height) exp(-1/2 (x - mean)' precision (x - mean))``. Nothing of tamis is imported before a
space is asked for.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import gammaln, logsumexp, ndtr, ndtri


@dataclass(frozen=True)
class Problem:
    """A prior, standard normal or uniform in a box, and a log-likelihood of (n, d) points.

    Where modes matter, `cell` says in which part of the posterior each point lies, -1 for none, and `shares` holds the
    parts' masses.
    """

    name: str
    dim: int
    box: tuple[float, float] | None  # None: standard normal
    loglike: Callable[[np.ndarray], np.ndarray]
    log_evidence: float
    cell: Callable[[np.ndarray], np.ndarray] | None = None
    shares: np.ndarray | None = None

    def found(self, x: np.ndarray) -> np.ndarray:
        """Share of the points in each part, that which is due being 1."""
        cell = self.cell(x)
        return np.bincount(cell[cell >= 0], minlength=len(self.shares)) / len(x) / self.shares

    @property
    def space(self) -> Any:
        import tamis

        law = tamis.uniform(*self.box) if self.box else tamis.normal(0.0, 1.0)
        return tamis.Space(tuple(tamis.Parameter(f"x{i + 1}", law) for i in range(self.dim)))


@dataclass(frozen=True)
class Peaks:
    """A likelihood made of Gaussian peaks."""

    height: np.ndarray  # (K,)
    mean: np.ndarray  # (K, d)
    precision: np.ndarray  # (K, d, d)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        off = x[:, None] - self.mean
        return logsumexp(self.height - 0.5 * np.einsum("nki,kij,nkj->nk", off, self.precision, off), axis=1)


def linear(d: int = 5, m: int = 20, sd: float = 0.3, seed: int = 1) -> Problem:
    """Linear regression with known noise and a standard normal prior: the evidence is a normal density of the data."""
    rng = np.random.default_rng(seed)
    design, truth = rng.normal(size=(m, d)), rng.normal(size=d)
    y = design @ truth + sd * rng.normal(size=m)
    precision = design.T @ design / sd**2
    best = np.linalg.solve(precision, design.T @ y / sd**2)
    height = -0.5 * ((y - design @ best) ** 2).sum() / sd**2 - m * math.log(sd * math.sqrt(2 * math.pi))
    covariance = design @ design.T + sd**2 * np.eye(m)
    log_evidence = -0.5 * (
        y @ np.linalg.solve(covariance, y) + np.linalg.slogdet(2 * math.pi * covariance).logabsdet
    )
    peaks = Peaks(np.array([height]), best[None], precision[None])
    return Problem(f"linear Gaussian, {d}-D", d, None, peaks, float(log_evidence))


def two_modes() -> Problem:
    """Two narrow Gaussians, of weights 0.3 and 0.7, far apart in a square 200 times as wide as they are."""
    sd, weight = 0.1, np.array([0.3, 0.7])
    mean = np.array([[-5.0, -5.0], [4.0, 6.0]])
    height = np.log(weight / (2 * math.pi * sd**2))
    peaks = Peaks(height, mean, np.array([np.eye(2) / sd**2] * 2))
    return Problem(
        "two modes, 2-D", 2, (-10.0, 10.0), peaks, -2 * math.log(20.0)
    )  # tails outside: below 1e-300


def peaked() -> Problem:
    """One Gaussian in seven dimensions, all correlations 0.9, a fiftieth of the box wide."""
    d, sd, correlation = 7, 0.02, 0.9
    covariance = sd**2 * ((1 - correlation) * np.eye(d) + correlation)
    height = -0.5 * np.linalg.slogdet(2 * math.pi * covariance).logabsdet
    mean = np.linspace(0.3, 0.7, d)
    peaks = Peaks(np.array([height]), mean[None], np.linalg.inv(covariance)[None])
    return Problem("correlated peak, 7-D", d, (0.0, 1.0), peaks, 0.0)  # tails outside: 15 sd, below 1e-50


def banana() -> Problem:
    """A Gaussian bent along a parabola."""

    def loglike(x: np.ndarray) -> np.ndarray:
        bend = (x[:, 1] - x[:, 0] ** 2) / 0.1
        return -0.5 * (x[:, 0] ** 2 + bend**2) - math.log(2 * math.pi * 0.1)

    edges = ndtri(np.arange(1, 6) / 6)
    # |x1| > 5, where the parabola leaves the box: 6e-7 of the mass
    return Problem(
        "banana, 2-D",
        2,
        (-25.0, 25.0),
        loglike,
        -2 * math.log(50.0),
        lambda x: np.searchsorted(edges, x[:, 0]),
        np.full(6, 1 / 6),
    )


def shells(d: int) -> Problem:
    """Two Gaussian shells of radius 2 and width 0.1, side by side (Feroz, Hobson & Bridges 2009,
    10.1111/j.1365-2966.2009.14548.x); the evidence by one-dimensional quadrature of the radius."""
    radius, width, centre, half = 2.0, 0.1, 3.5, 6.0
    r = np.linspace(radius - 12 * width, radius + 12 * width, 20001)
    density = np.exp(-0.5 * ((r - radius) / width) ** 2) / (width * math.sqrt(2 * math.pi)) * r ** (d - 1)
    area = math.log(2) + 0.5 * d * math.log(math.pi) - gammaln(d / 2)
    log_evidence = math.log(2) + area + math.log(np.trapezoid(density, r)) - d * math.log(2 * half)

    def loglike(x: np.ndarray) -> np.ndarray:
        off = np.zeros(d)
        off[0] = centre
        each = [
            -0.5 * ((np.linalg.norm(x - c, axis=1) - radius) / width) ** 2
            - math.log(width * math.sqrt(2 * math.pi))
            for c in (off, -off)
        ]
        return np.logaddexp(*each)

    def cell(x: np.ndarray) -> np.ndarray:
        return 2 * (x[:, 0] > 0) + (x[:, 1] > 0)  # which shell, and which side of it

    return Problem(
        f"two shells, {d}-D", d, (-half, half), loglike, float(log_evidence), cell, np.full(4, 1 / 4)
    )


def eggbox() -> Problem:
    """Eighteen peaks of height exp(243) in a square (Feroz, Hobson & Bridges 2009, section 6.1).

    The evidence by the midpoint rule: the likelihood is even about every edge of the square, so that its periodic
    continuation is smooth and the rule converges faster than any power. Two peaks lie in corners, eight on edges.
    """
    side = 10 * math.pi

    def loglike(x: np.ndarray) -> np.ndarray:
        return (2 + np.cos(x[:, 0] / 2) * np.cos(x[:, 1] / 2)) ** 5

    wave = np.cos((np.arange(2000) + 0.5) / 2000 * side / 2)
    log_evidence = 243 + math.log(np.exp((2 + np.outer(wave, wave)) ** 5 - 243).mean())
    place = np.array([(i, j) for i in range(6) for j in range(6) if (i + j) % 2 == 0])
    inside = np.where((place == 0) | (place == 5), 0.5, 1.0).prod(axis=1)
    number = np.full((6, 6), -1)
    number[tuple(place.T)] = np.arange(18)

    def cell(x: np.ndarray) -> np.ndarray:
        return number[tuple(np.rint(x / (2 * math.pi)).astype(int).T)]

    return Problem("eggbox, 2-D", 2, (0.0, side), loglike, log_evidence, cell, inside / inside.sum())


def donut() -> Problem:
    """A ring of radius 5 and width 0.05, six hundred times as long as wide; the evidence in closed form.

    The integral of 2 pi r exp(-(r - R)^2 / (2 w^2)) over r > 0 is 2 pi R w sqrt(2 pi), but for exp(-5000).
    """
    radius, width, half, sectors = 5.0, 0.05, 10.0, 12

    def loglike(x: np.ndarray) -> np.ndarray:
        return -0.5 * ((np.linalg.norm(x, axis=1) - radius) / width) ** 2

    def cell(x: np.ndarray) -> np.ndarray:
        turn = np.arctan2(x[:, 1], x[:, 0]) / (2 * math.pi) + 0.5
        return np.minimum((sectors * turn).astype(int), sectors - 1)

    log_evidence = math.log(2 * math.pi * radius * width * math.sqrt(2 * math.pi)) - 2 * math.log(2 * half)
    return Problem("donut, 2-D", 2, (-half, half), loglike, log_evidence, cell, np.full(sectors, 1 / sectors))


def funnel(d: int) -> Problem:
    """Neal's funnel (2003, 10.1214/aos/1056562461): v normal of sd 3, the others normal of variance exp(v).

    The box holds all of v and cuts the others where v is large: the evidence by quadrature of v.
    """
    half = 30.0

    def loglike(x: np.ndarray) -> np.ndarray:
        v, rest = x[:, 0], (x[:, 1:] ** 2).sum(axis=1)
        constant = 0.5 * d * math.log(2 * math.pi) + math.log(3)
        return -0.5 * (v**2 / 9 + rest * np.exp(-v) + (d - 1) * v) - constant

    v = np.linspace(-half, half, 20001)
    inside = (1 - 2 * ndtr(-half * np.exp(-v / 2))) ** (d - 1)
    mass = np.exp(-(v**2) / 18) / (3 * math.sqrt(2 * math.pi)) * inside
    cumulated = np.cumsum(mass) / mass.sum()
    edges = np.interp(np.arange(1, 5) / 5, cumulated, v)
    log_evidence = math.log(np.trapezoid(mass, v)) - d * math.log(2 * half)
    return Problem(
        f"funnel, {d}-D",
        d,
        (-half, half),
        loglike,
        log_evidence,
        lambda x: np.searchsorted(edges, x[:, 0]),
        np.full(5, 1 / 5),
    )


def narrow(sd: float = 0.02, wide: float = 0.15, share: float = 0.9) -> Problem:
    """A narrow Gaussian off centre with most of the mass, and a wide one in the middle, in a box of five dimensions.

    The narrow one shows, above the wide one, in 2.5e-4 of the box. Each is divided by what of it lies in the box.
    """
    d, width, weight = 5, np.array([sd, wide]), np.array([share, 1 - share])
    mean = np.array([np.full(d, 0.8), np.full(d, 0.5)])
    inside = (ndtr((1 - mean[:, 0]) / width) - ndtr(-mean[:, 0] / width)) ** d
    height = np.log(weight / inside) - d * np.log(width * math.sqrt(2 * math.pi))
    peaks = Peaks(height, mean, np.array([np.eye(d) / w**2 for w in width]))
    return Problem(
        "narrow mode, 5-D",
        d,
        (0.0, 1.0),
        peaks,
        0.0,
        lambda x: (np.abs(x - 0.8).max(axis=1) < 5 * sd).astype(int),  # 1e-3 of the wide one lie within
        weight[::-1],
    )


KNOWN = (linear, two_modes, peaked)


def steel(model: str) -> tuple[Any, Callable[[np.ndarray], np.ndarray], dict[str, Any]]:
    """Steel contact of Hadjidoukas et al. (2014): space, log-likelihood, and its exact posterior by quadrature."""
    import tamis
    from tests.reference.steel_quadrature import ANGLES, CNR, CNR_SD, CTR, CTR_SD, DATA, FIXED, PRIOR

    names = [name for name in PRIOR if name != "alpha" or model not in FIXED]
    space = tamis.Space(tuple(tamis.Parameter(name, tamis.uniform(*PRIOR[name])) for name in names))
    impact = tamis.find("tamis:dem.impact")

    def loglike(x: np.ndarray) -> np.ndarray:
        theta = dict(zip(names, x.T, strict=True))
        alpha = theta.get("alpha", np.full(len(x), FIXED.get(model, 0.0)))
        inputs = {"mu": theta["mu"], "gamma": theta["gamma"], "k_t": theta["k_t"], "alpha": alpha}
        many = {name: np.repeat(value, len(ANGLES)) for name, value in inputs.items()}
        answers = impact.batch({**many, "angle": np.tile(ANGLES, len(x))})
        total = np.zeros(len(x))
        for name, y, sd in (("ctr", CTR, CTR_SD), ("cnr", CNR, CNR_SD)):
            variance = sd**2 + theta[f"s_{name}"][:, None] * y**2
            off = answers[name].reshape(len(x), -1) - y
            total += -0.5 * (off**2 / variance + np.log(2 * math.pi * variance)).sum(axis=1)
        return total

    exact = json.loads(Path(DATA / "steel_quadrature.json").read_text())[model]["fine"]
    return space, loglike, exact


def decay() -> tuple[Any, Callable[..., np.ndarray], Callable[..., np.ndarray]]:
    """A decaying exponential measured at eight times: space, simulator of measurements and log-likelihood of each row.

    Rate, amplitude and standard deviation of the errors are unknown; their posterior is bent and skewed.
    """
    import tamis

    space = tamis.Space(
        (
            tamis.Parameter("rate", tamis.lognormal(1.0, 0.8)),
            tamis.Parameter("amplitude", tamis.uniform(0.5, 3.0)),
            tamis.Parameter("sd", tamis.lognormal(0.2, 0.5)),
        )
    )
    time = np.linspace(0.25, 2.0, 8)

    def model(x: np.ndarray) -> np.ndarray:
        return x[:, 1:2] * np.exp(-x[:, :1] * time)

    def simulate(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return model(x) + x[:, 2:] * rng.standard_normal((len(x), len(time)))

    def loglike(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        square = ((y - model(x)) ** 2).sum(axis=1) / x[:, 2] ** 2
        return -0.5 * square - len(time) * np.log(x[:, 2] * math.sqrt(2 * math.pi))

    return space, simulate, loglike


def line() -> tuple[Any, Callable[..., np.ndarray], Callable[..., np.ndarray]]:
    """A straight line measured at six places with known errors, as `decay`.

    The priors are uniform and cut the posterior; the log-likelihood is a quadratic of the parameters.
    """
    import tamis

    space = tamis.Space(
        (
            tamis.Parameter("level", tamis.uniform(0.0, 1.0)),
            tamis.Parameter("slope", tamis.uniform(-1.0, 1.0)),
        )
    )
    place, sd = np.linspace(0.0, 1.0, 6), 0.4

    def simulate(x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return x[:, :1] + x[:, 1:] * place + sd * rng.standard_normal((len(x), len(place)))

    def loglike(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return -0.5 * ((y - x[:, :1] - x[:, 1:] * place) ** 2).sum(axis=1) / sd**2

    return space, simulate, loglike
