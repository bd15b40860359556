"""A Gaussian process of the log-likelihood: what its own uncertainty adds to a posterior, and what that costs.

``python benchmarks/trajectories.py`` prints Markdown tables. Seven parameters of two decaying oscillations are
calibrated on a signal of 60 instants, from 500 runs: the size of the railway study of Lebel et al. (2019,
10.1016/j.jsv.2019.06.024). The predictor alone (KP) and 100 trajectories of 1000 draws each (MCT) stand beside the
posterior of the true likelihood. CPU seconds, on one thread, depend on the machine.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import time
import warnings
from collections.abc import Callable

import numpy as np

import tamis
from tamis.errors import TamisWarning
from tamis.inference.emulated import fit_loglike, mct
from tamis.inference.tmcmc import tmcmc
from tamis.types import Array

SD = 0.3
RUNS = 500
TIMES = np.linspace(0, 10, 60)
RANGES = {
    "frequency 1": (0.8, 1.2),
    "frequency 2": (1.8, 2.4),
    "damping 1": (0.02, 0.15),
    "damping 2": (0.02, 0.15),
    "amplitude 1": (0.6, 1.4),
    "amplitude 2": (0.2, 0.8),
    "phase": (-0.4, 0.4),
}
SPACE = tamis.Space(
    tuple(tamis.Parameter(name, tamis.uniform(low, high)) for name, (low, high) in RANGES.items())
)


def signal(x: Array) -> Array:
    w1, w2, z1, z2, a1, a2, phase = (x[:, [k]] for k in range(7))
    first = a1 * np.exp(-z1 * w1 * TIMES) * np.cos(w1 * TIMES + phase)
    return np.asarray(first + a2 * np.exp(-z2 * w2 * TIMES) * np.cos(w2 * TIMES - phase))


def problem(seed: int) -> tuple[Array, Callable[[Array], Array]]:
    """Return a truth in the middle of the prior, (1, d), and the log-likelihood of data made with it."""
    rng = np.random.default_rng(seed)
    truth = SPACE.from_unit(0.2 + 0.6 * rng.random((1, 7)))
    y = signal(truth)[0] + SD * rng.standard_normal(len(TIMES))
    return truth, lambda x: np.asarray(-0.5 * np.sum((signal(x) - y) ** 2, axis=1) / SD**2)


def width(x: Array) -> Array:
    low, high = np.quantile(SPACE.to_unit(x), (0.05, 0.95), axis=0)
    return np.asarray(high - low)


def trends(seed: int) -> None:
    """Print what surrogates of two trends miss where the posterior lies."""
    _, loglike = problem(seed)
    u = tamis.sobol(RUNS, 7, np.random.default_rng(seed))
    exact = tmcmc(SPACE, loglike, n=2000, rng=np.random.default_rng(1)).flat
    for trend in ("constant", "quadratic"):
        emulated = fit_loglike(
            SPACE, u, loglike(SPACE.from_unit(u)), trend=trend, rng=np.random.default_rng(2)
        )
        miss = loglike(exact) - emulated(exact)
        top = SPACE.to_unit(exact[[np.argmax(loglike(exact))]])[0]
        _, var = emulated.surrogate.rise(SPACE.to_unit(exact), top)
        print(f"| {seed} | {trend} | {miss.std():.2f} | {np.sqrt(var.mean()):.2f} |", flush=True)


def posteriors(seed: int) -> None:
    """Print widths of 90 % intervals of the exact posterior and of the two surrogate ones."""
    truth, loglike = problem(seed)
    u = tamis.sobol(RUNS, 7, np.random.default_rng(seed))
    exact = tmcmc(SPACE, loglike, n=4000, rng=np.random.default_rng(1))
    clock = [time.process_time()]
    emulated = fit_loglike(SPACE, u, loglike(SPACE.from_unit(u)), rng=np.random.default_rng(2))
    clock.append(time.process_time())
    found = mct(SPACE, emulated, rng=np.random.default_rng(4))
    clock.append(time.process_time())
    alone = tmcmc(SPACE, emulated, n=4000, rng=np.random.default_rng(3))
    wide, share = [width(p.flat) for p in (exact, alone, found)], found.diagnostics["surrogate_share"]
    print("\n| parameter | truth | exact | KP | MCT | part of the variance from the surrogate |")
    print("|---|---|---|---|---|---|")
    place = SPACE.to_unit(truth)[0]
    for k, name in enumerate(SPACE.names):
        print(f"| {name} | {place[k]:.2f} | {' | '.join(f'{w[k]:.3f}' for w in wide)} | {share[k]:.2f} |")
    fit, sample = np.diff(clock)
    more = found.diagnostics
    print(
        f"\nWidths of 90 % intervals in the unit cube. Fit {fit:.1f} CPU s, MCT {sample:.1f} CPU s for "
        f"{len(found.flat)} draws of {int(more['likelihood_calls'])} steps; worst trajectory: rhat "
        f"{more['rhat'].max():.3f}, {more['ess'].min():.0f} effective draws; region {more['region_size']:.2g} of the "
        f"prior, {int(more['region_points'])} points, which carry {more['carried']:.2f} of the variance.",
        flush=True,
    )


def main() -> None:
    warnings.simplefilter("ignore", TamisWarning)  # rhat is printed
    print("| data | trend | rms miss at posterior draws, less its mean | predicted |")
    print("|---|---|---|---|")
    for seed in range(3):
        trends(seed)
    for seed in range(2):
        posteriors(seed)


if __name__ == "__main__":
    main()
