"""Every surrogate passes the battery, and the battery tells what is no surrogate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tamis.errors import StudyError
from tamis.surrogates.base import Score, score
from tamis.surrogates.contract import check_surrogate
from tamis.surrogates.kriging import fit_kriging
from tamis.surrogates.multifidelity import fit_multifidelity
from tamis.surrogates.pce import fit_pce
from tamis.surrogates.reduced import Fit, fit_reduced
from tamis.types import Array, Gauss


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


FITS: dict[str, Fit] = {
    "pce": fit_pce,
    "kriging": lambda u, y: fit_kriging(u, y, rng=rng()),
    "kriging, linear": lambda u, y: fit_kriging(u, y, kernel="matern32", trend="linear", rng=rng()),
    "kriging, exact": lambda u, y: fit_kriging(u, y, nugget=0.0, rng=rng()),
    "one level": lambda u, y: fit_multifidelity([(u, y)], rng=rng()),
    "reduced pce": lambda u, y: fit_reduced(u, y, fit_pce),
    "reduced kriging": lambda u, y: fit_reduced(u, y, FITS["kriging"]),
}


@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize("d", [2, *(pytest.param(d, marks=pytest.mark.slow) for d in (1, 5))])
def test_contract(name: str, d: int) -> None:
    check_surrogate(FITS[name], d=d)


@dataclass(frozen=True)
class Plane:
    """Least squares by a linear function: it passes."""

    u: Array
    y: Array

    @property
    def coefficient(self) -> Array:
        basis = np.column_stack([np.ones(len(self.u)), self.u])
        return np.asarray(np.linalg.lstsq(basis, self.y, rcond=None)[0])

    @property
    def score(self) -> Score:
        return score(self.y, self.y - np.column_stack([np.ones(len(self.u)), self.u]) @ self.coefficient)

    def predict(self, u: Array) -> Gauss:
        if u.shape[1] != self.u.shape[1]:
            raise ValueError("wrong dimension")
        mean = np.column_stack([np.ones(len(u)), u]) @ self.coefficient
        return Gauss(mean, np.broadcast_to(self.score.rmse**2, mean.shape))

    def arrays(self) -> dict[str, Any]:
        return {"u": self.u, "y": self.y}

    @classmethod
    def of(cls, arrays: Mapping[str, Any]) -> Plane:
        return cls(arrays["u"], arrays["y"])


def plane(kind: type[Plane]) -> Fit:
    def fit(u: Array, y: Array) -> Plane:
        if not np.isfinite(y).all():
            raise StudyError("not finite")
        return kind(u.copy(), y.copy())

    return fit


class Negative(Plane):
    def predict(self, u: Array) -> Gauss:
        return Gauss(super().predict(u).mean, -np.ones((len(u), 3)))


class Flat(Plane):
    def predict(self, u: Array) -> Gauss:
        mean = super().predict(u).mean
        return Gauss(np.tile(self.y.mean(axis=0), (len(u), 1)), np.zeros_like(mean))


class Crowded(Plane):
    def predict(self, u: Array) -> Gauss:
        found = super().predict(u)
        return Gauss(found.mean + 1e-3 * (found.mean - found.mean[:1]), found.var)


class Boastful(Plane):
    @property
    def score(self) -> Score:
        found = super().score
        return Score(found.q2[:1], found.rmse, found.worst, found.residuals)


class Forgetful(Plane):
    @classmethod
    def of(cls, arrays: Mapping[str, Any]) -> Plane:
        return cls(arrays["u"], np.round(arrays["y"], 2))


class Lost(Plane):
    def predict(self, u: Array) -> Gauss:
        found = super().predict(u)
        return Gauss(
            found.mean, found.var * (np.nan if len(self.u) > 9 and np.ptp(self.u[:, -1]) == 0 else 1)
        )


class Anywhere(Plane):
    def predict(self, u: Array) -> Gauss:
        return super().predict(u[:, : self.u.shape[1]])


WRONG: dict[str, tuple[Callable[[Array, Array], Any], str]] = {
    "negative": (plane(Negative), "a variance is negative"),
    "flat": (plane(Flat), "a straight line is missed"),
    "crowded": (plane(Crowded), "the mean of one point differs"),
    "boastful": (plane(Boastful), "expected a score of 3 outputs and 40 runs"),
    "forgetful": (plane(Forgetful), "predictions change through a file"),
    "lost": (plane(Lost), "an input that does not vary: predictions are not finite"),
    "anywhere": (plane(Anywhere), "points of another dimension"),
    "aliased": (lambda u, y: Plane(u, y), "changes with the arrays"),
    "careless": (lambda u, y: plane(Plane)(u, np.nan_to_num(y)), "must be refused with a StudyError"),
}


def test_a_surrogate_of_the_user_passes() -> None:
    check_surrogate(plane(Plane), d=3)


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_surrogate_is_told(name: str) -> None:
    fit, message = WRONG[name]
    with pytest.raises(AssertionError, match=message):
        check_surrogate(fit)


def test_what_can_be_changed_is_told() -> None:
    def fit(u: Array, y: Array) -> Any:
        fitted = plane(Plane)(u, y)

        class Open:
            score, predict, arrays, of = fitted.score, fitted.predict, fitted.arrays, Plane.of

        return Open()

    with pytest.raises(AssertionError, match="make it a frozen dataclass"):
        check_surrogate(fit)
