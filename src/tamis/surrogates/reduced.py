"""Principal components: a long signal as a few numbers, and a surrogate of these.

Why: a signal of a thousand instants is not a thousand outputs. Its instants move together, so that a few patterns,
those along which the runs differ most, give all of it; a surrogate of ten components costs a hundredth of one of a
thousand outputs. And the surrogate's error moves together too: an error of one component shifts the whole signal.
Taken as independent at every instant it would average out over the signal, and a likelihood would find the
surrogate far better than it is. So a prediction carries the errors of the components along their patterns. What the
truncation leaves out is a signal of its own, with patterns of its own: those that stand out of white noise, ten at
most, carry their variance, and only what is left then is taken as independent from instant to instant.

Noise in the signal has components too, as many as there are runs, and no surrogate predicts them. A component whose
left-out Q2 is not positive is predicted worse than by its mean, zero: it tells nothing but its variance, and a
likelihood pays for each. So it is left out with the truncation, its variance with it, and the surrogate is fitted
again to the others. Of a front and of a wave with 2 and 10 % of noise (30 to 128 runs, 99.99 % of the energy)
22 to 123 components become 10 to 22; new runs are predicted as well by Kriging, and up to a quarter better in mean
square by polynomials; the left-out error comes out at 0.6 to 2.4 of theirs, where it was 0.4 to 5000. Patterns of pure
noise are no better in the tail: they take their variance from all other directions, in which 90 % intervals then hold
as little as 82 %.

The signal is centred but not scaled: its instants share a unit, and dividing each by its own spread would blow up
those where nothing happens. The patterns are the right singular vectors of the centred runs (n, m); with n < m
there are at most n - 1 of them.

A run left out takes part in two things: the surrogate of the components, which has leave-one-out residuals, and the
basis. The basis without the run need not be computed: given the components, the patterns are the least-squares fit of
the signal to them, so that what the truncation leaves of a run is to be divided by one minus the run's leverage in the
components. Against bases found anew without each run (fronts and waves, 20 to 300 runs, 95 to 99.9 % of the energy)
the mean square comes out at 0.66 to 1.01 of the exact one, 0.89 or more from 40 runs on; without the correction, at
0.06 to 0.96.

A signal that never changes keeps one component, always zero, so that its surrogate still knows its inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from tamis.blas import one_thread
from tamis.errors import StudyError, nearest
from tamis.files import save_arrays
from tamis.surrogates.base import Score, Surrogate, read, score, score_arrays, score_of
from tamis.types import Array, Gauss

Fit: TypeAlias = Callable[
    ..., Surrogate
]  # points (n, d), outputs (n, k), perhaps such pairs of cheaper runs -> fitted

_KINDS = {
    "pce": ("tamis.surrogates.pce", "PCE"),
    "kriging": ("tamis.surrogates.kriging", "Kriging"),
    "multifidelity": ("tamis.surrogates.multifidelity", "MultiFidelity"),
    "reduced": ("tamis.surrogates.reduced", "Reduced"),
}
_PREFIX = "inner_"
_TAIL = 10  # patterns at most of what is left out; more gained nothing in the density of new runs


@dataclass(frozen=True)
class Reduced:
    """A surrogate of a signal of m numbers by k principal components."""

    centre: Array  # (m,)
    modes: Array  # (k, m), orthonormal
    inner: Surrogate  # of the components
    tail: Array  # (t, m), patterns of what the truncation leaves out, times their standard deviations
    rest: Array  # (m,), variance that neither has
    score: Score

    def predict(self, u: Array) -> Gauss:
        """Return means (n, m), variances left out, and errors along the modes of components and truncation."""
        component = self.inner.predict(u)
        mean = self.centre + component.mean @ self.modes
        weight = np.hstack([component.var, np.ones((len(mean), len(self.tail)))])
        return Gauss(mean, np.broadcast_to(self.rest, mean.shape), np.vstack([self.modes, self.tail]), weight)

    def arrays(self) -> dict[str, Any]:
        """Return all there is as arrays, for a file."""
        inner = {_PREFIX + name: value for name, value in self.inner.arrays().items()}
        own = {name: getattr(self, name) for name in ("centre", "modes", "tail", "rest")}
        return {"kind": np.array(kind_of(self.inner)), **own, **score_arrays(self.score), **inner}

    @classmethod
    def of(cls, arrays: Mapping[str, Any]) -> Reduced:
        """Make it again from what `arrays` returned."""
        inner = {name[len(_PREFIX) :]: a for name, a in arrays.items() if name.startswith(_PREFIX)}
        surrogate = from_arrays(str(arrays["kind"]), inner)
        centre, modes, tail, rest = (arrays[name] for name in ("centre", "modes", "tail", "rest"))
        return cls(centre, modes, surrogate, tail, rest, score_of(arrays))

    def save(self, path: Path) -> None:
        """Write to one ``.npz`` file."""
        save_arrays(path, self.arrays())

    @classmethod
    def load(cls, path: Path) -> Reduced:
        """Read what `save` wrote."""
        return read(path, cls.of, "reduced model")


@one_thread
def fit_reduced(
    u: Array, y: Array, fit: Fit, *, energy: float = 0.999, cheaper: Sequence[tuple[Array, Array]] = ()
) -> Reduced:
    """Fit to runs at points u (n, d) of the unit cube with signals y (n, m) of one unit.

    ``fit`` makes the surrogate of the components, whose errors it takes as independent; ``energy`` is the share of
    the variance, summed over the signal, that the components keep before those that cannot be predicted are left out.
    Runs of ``cheaper`` simulators, points and signals, are given to ``fit`` by their components along these patterns.
    """
    u, y = np.asarray(u, dtype=np.float64), np.asarray(y, dtype=np.float64)
    y = y[:, None] if y.ndim == 1 else y
    if y.ndim != 2 or len(y) != len(u) or not y.size:
        raise StudyError(
            f"principal components need points (n, d) and signals (n, m); found {u.shape}, {y.shape}"
        )
    if not np.isfinite(y).all():
        row = int(np.flatnonzero(~np.isfinite(y).all(axis=1))[0])
        raise StudyError(f"signals must be finite; row {row} is not: leave failed runs out")
    if not 0 < energy <= 1:
        raise StudyError(f"the energy to keep must lie above 0 and not above 1; found {energy:g}")
    centre = y.mean(axis=0)
    left, size, right = _components(y, centre)
    held = np.cumsum(size**2)
    kept = np.arange(len(size)) <= np.searchsorted(held, energy * held[-1])

    def fitted() -> Surrogate:
        below = [(points, (signals - centre) @ right[kept].T) for points, signals in cheaper]
        return fit(u, left[:, kept] * size[kept], *below)

    inner = fitted()
    lost = inner.score.q2 <= 0
    if lost.any():
        lost[0] &= not lost.all()
        kept[np.flatnonzero(kept)[lost]] = False
        inner = fitted()
    leverage = np.sum(left[:, kept] ** 2, axis=1) + 1 / len(y)
    truncated = (left[:, ~kept] * size[~kept]) @ right[~kept]
    left_out = truncated / np.maximum(1 - leverage, 1e-10)[:, None]
    _, spread, pattern = np.linalg.svd(left_out / np.sqrt(len(y)), full_matrices=False)
    tail = (spread[:, None] * pattern)[: _standing_out(size[~kept], y.shape, int(kept.sum()))]
    rest = np.maximum(np.mean(left_out**2, axis=0) - np.sum(tail**2, axis=0), 0.0)
    modes = right[kept]
    found = score(y, inner.score.residuals @ modes + left_out, inner.score.judged)
    return Reduced(centre, modes, inner, tail, rest, found)


def _components(y: Array, centre: Array) -> tuple[Array, Array, Array]:
    """Return the singular vectors (n, k), values (k,) and patterns (k, m) of the runs.

    Values at the rounding of the largest number are zero and left out; one is always left.
    """
    left, size, right = np.linalg.svd(y - centre, full_matrices=False)
    k = int(np.sum(size > 1e-14 * np.abs(y).max() * np.sqrt(y.size)))
    if k == 0:
        return np.zeros((len(y), 1)), np.zeros(1), np.zeros((1, y.shape[1]))
    return left[:, :k], size[:k], right[:k]


def _standing_out(size: Array, shape: tuple[int, ...], k: int) -> int:
    """Return how many of the singular values left out, the largest first, are those of patterns and not of noise.

    Of white noise in n by m numbers the largest pattern holds (m^-1/2 + n^-1/2)^2 of the variance (Marchenko & Pastur
    1967, 10.1070/SM1967v001n04ABEH001994). One that holds half as much again of what is left is no noise; neither is
    one that holds half of it.
    """
    power = size**2
    share = power / np.cumsum(power[::-1])[::-1]
    gone = k + np.arange(len(size))  # the mean and those before it take a row, and a column, each
    edge = (1 / np.sqrt(shape[1] - gone) + 1 / np.sqrt(shape[0] - 1 - gone)) ** 2
    stands = share > np.minimum(1.5 * edge, 0.5)
    return int(np.argmin(np.append(stands[:_TAIL], False)))


def kind_of(surrogate: Surrogate) -> str:
    """Return the name under which a file says what kind of surrogate it holds."""
    cls = type(surrogate)
    for kind, where in _KINDS.items():
        if where == (cls.__module__, cls.__qualname__):
            return kind
    raise StudyError(f"a {cls.__qualname__} cannot be stored; kinds that can: {', '.join(_KINDS)}")


def from_arrays(kind: str, arrays: Mapping[str, Any]) -> Surrogate:
    """Make a surrogate again from its kind and what its `arrays` returned."""
    if kind not in _KINDS:
        raise StudyError(f'no kind of surrogate "{kind}"{nearest(kind, _KINDS)}')
    module, name = _KINDS[kind]
    surrogate: Surrogate = getattr(import_module(module), name).of(arrays)
    return surrogate
