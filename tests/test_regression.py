"""Standardised regression coefficients: exact lines, published factors, failed runs."""

from __future__ import annotations

import numpy as np
import pytest

from tamis.analysis.sensitivity import regression
from tamis.design import sobol
from tamis.errors import StudyError
from tamis.types import Array


def orthonormal(n: int, d: int) -> Array:
    """Columns with sample mean zero, deviation one and no correlation."""
    z = np.random.default_rng(0).standard_normal((n, d))
    q, _ = np.linalg.qr(z - z.mean(axis=0))
    return np.asarray(q * np.sqrt(n))


def test_regression_of_a_line_is_exact() -> None:
    z = orthonormal(50, 3)
    x = np.array([1.0, -2.0, 1e6]) + z * [0.1, 3.0, 1e4]
    y = np.column_stack([x @ [5.0, 1.0, -2e-4], np.full(50, 7.0)])
    found = regression(x, y)
    b = np.array([0.5, 3.0, -2.0])
    np.testing.assert_allclose(found.src[:, 0], b / np.sqrt(b @ b), rtol=1e-9)
    assert np.sum(found.src[:, 0] ** 2) == pytest.approx(found.r2[0], abs=1e-12)  # independent inputs
    assert found.r2[0] == pytest.approx(1.0, abs=1e-12)
    assert np.isnan(found.src[:, 1]).all() and np.isnan(found.r2[1])


# SERA D27.1, section 5.1.3.3: coefficients, deviations of the inputs, standardised coefficients as printed, their sum
# of squares, and the deviation of the output (table of the Monte Carlo statistics)
SERA = {
    "HF 1 Hz": (
        [121.637, -184.921, -1.341, -11.336, 233.368, 51.051, 105.288],
        [0.604, -0.033, -0.005, -0.041, 0.625, 0.072, 0.148],
        0.79,
        40.29,
    ),
    "HF 5 Hz": (
        [142.189, -1039.919, 8.962, -17.270, 274.501, 57.610, 119.292],
        [0.598, -0.158, 0.027, -0.052, 0.623, 0.069, 0.143],
        0.80,
        47.52,
    ),
    "GBF 1 Hz": (
        [36.829, -123.851, 0.118, -2.923, 80.914, 21.616, 45.237],
        [0.530, -0.064, 0.001, -0.030, 0.628, 0.088, 0.185],
        0.72,
        13.91,
    ),
    "GBF 5 Hz": (
        [44.718, -351.593, 3.008, -5.089, 96.270, 23.168, 53.458],
        [0.537, -0.152, 0.026, -0.044, 0.624, 0.079, 0.182],
        0.74,
        16.65,
    ),
}


@pytest.mark.parametrize("case", SERA)
def test_regression_gives_the_published_sensitivity_factors(case: str) -> None:
    b, printed, squares, deviation = SERA[case]
    sd = np.array([0.2, 0.0072, 0.1442, 0.1442, 0.1079, 0.0568, 0.0568])
    z = orthonormal(40, 8)
    line = z[:, :7] * sd @ b
    y = line + z[:, 7] * np.sqrt(deviation**2 - line.var())
    found = regression(z[:, :7] * sd, y)
    # printed to three digits; the deviations of the inputs to four, kappa's to two: 0.7 % of 0.158
    np.testing.assert_allclose(found.src[:, 0], printed, atol=2e-3)
    assert found.r2[0] == pytest.approx(squares, abs=6e-3)


def test_regression_leaves_failed_runs_out_and_takes_stuck_inputs() -> None:
    x = np.column_stack([sobol(20, 2, np.random.default_rng(7)), np.full(20, 4.0)])
    y = x[:, 0] - x[:, 1]
    y[3] = np.nan
    found = regression(x, y)
    np.testing.assert_allclose(found.src, regression(np.delete(x, 3, 0), np.delete(y, 3)).src, rtol=1e-12)
    assert found.src[2, 0] == 0.0 and found.r2[0] == pytest.approx(1.0)
    with pytest.raises(StudyError, match="more than 4 runs that gave an answer; found 4"):
        regression(x[:5], y[:5])
