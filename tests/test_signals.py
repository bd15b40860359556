"""Measures of accelerations against closed forms, response spectra against an independent integrator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tamis import signals
from tamis.errors import StudyError
from tamis.sim.common.records import read_record
from tamis.sim.motions import drive

DATA = Path(__file__).parent.parent / "examples" / "40_motions" / "data"
EL_CENTRO = DATA / "RSN6_IMPVALL.I_I-ELC180-hor1.AT2"
CORRALITOS = DATA / "RSN753_LOMAP_CLS000-hor1.AT2"
DT = 0.01
T = DT * np.arange(2001)


def generated(n: int = 1) -> np.ndarray:
    names = {
        "arias": 2.0,
        "d5_95": 10.0,
        "t45": 4.0,
        "omega_mid": 25.0,
        "omega_rate": -0.5,
        "zeta": 0.3,
        "floor": 0.3,
    }
    columns = {name: np.full(n, value) for name, value in names.items()}
    return drive.modulated(columns, drive.noise(np.arange(n), len(T)), DT)["a"]


def test_measures_of_a_sine() -> None:
    """Ten whole periods of A sin(w t): every measure is known; the trapezoidal sums are exact but for (w dt)^2/12."""
    amplitude, w = 3.0, np.pi
    a = amplitude * np.sin(w * T)
    tolerance = (w * DT) ** 2 / 6
    assert signals.pga(a, DT) == pytest.approx(amplitude, rel=tolerance)
    assert signals.pgv(a, DT) == pytest.approx(2 * amplitude / w, rel=tolerance)
    assert signals.arias(a, DT) == pytest.approx(np.pi / (2 * signals.GRAVITY) * amplitude**2 * 10, rel=1e-12)
    assert signals.cav(a, DT) == pytest.approx(amplitude * 2 / np.pi * 20, rel=tolerance)
    # the share of energy up to t is t/20 - sin(2 w t)/(40 w), at t = 1, 9 and 19 a twentieth of the whole numbers
    assert signals.arias_times(a, DT, (0.05, 0.45, 0.95)) == pytest.approx([1.0, 9.0, 19.0], abs=DT)
    assert signals.d5_95(a, DT) == pytest.approx(18.0, abs=DT) and signals.t45(a, DT) == pytest.approx(
        9.0, abs=DT
    )


def test_many_motions_are_measured_as_one_is() -> None:
    a = generated(3)
    for measure in signals.MEASURES.values():
        assert measure(a, DT).tolist() == [float(measure(row, DT)) for row in a]
    periods = [0.1, 1.0]
    assert np.array_equal(
        signals.response_spectrum(a, DT, periods), [signals.response_spectrum(row, DT, periods) for row in a]
    )


def newmark(a: np.ndarray, dt: float, period: float, damping: float) -> float:
    """Pseudo-acceleration by the average-acceleration scheme, 400 steps a period and 16 a sample, all in one filter."""
    from scipy.signal import lfilter

    parts = max(16, int(np.ceil(400 * dt / period)))
    h, w = dt / parts, 2 * np.pi / period
    x = np.arange((len(a) - 1) * parts + 1) / parts
    fine = np.interp(x, np.arange(len(a)), a)
    # Newmark with beta 1/4, gamma 1/2 is the trapezoidal rule: s is 2/h (z - 1)/(z + 1) in 1/(s^2 + 2 d w s + w^2)
    s = 2 / h
    numerator = np.array([1.0, 2.0, 1.0])
    denominator = (
        s * s * np.array([1, -2, 1]) + 2 * damping * w * s * np.array([1, 0, -1]) + w * w * numerator
    )
    return float(w * w * np.abs(lfilter(numerator, denominator, fine)).max())


@pytest.mark.parametrize("motion", ["el centro", "corralitos", "generated"])
def test_response_spectrum_is_that_of_a_fine_newmark_solution(motion: str) -> None:
    """Asked for: 1e-3. Our cubic between 16 steps a period misses 6e-5, Newmark with 400 of them (w h)^2/12 = 2e-5."""
    record = {"el centro": EL_CENTRO, "corralitos": CORRALITOS}.get(motion)
    a, dt = (generated()[0], DT) if record is None else (read_record(record).a, read_record(record).dt)
    periods = np.array([0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0])
    fine = [newmark(a, dt, period, 0.05) for period in periods]
    assert signals.response_spectrum(a, dt, periods) == pytest.approx(fine, rel=1e-4)


def test_the_mass_of_a_long_oscillator_stays_where_it_is() -> None:
    # its displacement is that of the ground, less what spring and damper, of order w t, pull; in closed form each step
    # lost (period/step)^3 of its digits, all of them beyond 1e5 steps a period
    a = np.random.default_rng(2).standard_normal(800)
    v = np.concatenate([[0.0], np.cumsum(DT * (a[1:] + a[:-1]) / 2)])
    u = np.concatenate([[0.0], np.cumsum(DT * v[:-1] + DT**2 * (a[:-1] / 3 + a[1:] / 6))])
    for period in (1e5, 1e8):
        omega = 2 * np.pi / period
        found = signals.response_spectrum(a, DT, [period])[0] / omega**2
        assert found == pytest.approx(
            np.abs(u).max(), rel=0.2 * omega * 800 * DT + 1e-5
        )  # 1e-5: between samples


def test_response_spectrum_of_a_step_and_its_ends() -> None:
    """A constant acceleration from rest: displacement a/w^2 (1 + exp(-pi d/(1-d^2)^(1/2))), whatever the step."""
    a = np.full(101, 2.0)
    for damping in (0.0, 0.05, 0.5):
        peak = 2.0 * (1 + np.exp(-np.pi * damping / np.sqrt(1 - damping**2)))
        # the cubic between 16 steps a period misses (2 pi/16)^4/384 = 6e-5 at most
        assert signals.response_spectrum(a, 0.05, [0.04, 0.3, 1.0], damping) == pytest.approx(peak, rel=7e-5)
    a = generated()[0]
    assert signals.response_spectrum(a, DT, [1e-3])[0] == pytest.approx(
        signals.pga(a, DT), rel=2e-3
    )  # a stiff one
    with pytest.raises(StudyError, match="must be positive"):
        signals.response_spectrum(a, DT, [0.0])
    with pytest.raises(StudyError, match="damping"):
        signals.response_spectrum(a, DT, [1.0], 1.5)


def test_scaling() -> None:
    a = generated(2)
    assert signals.pga(signals.scaled_to_pga(a, 4.0), DT) == pytest.approx([4.0, 4.0], rel=1e-12)
    scaled = signals.scaled_to_spectrum(a, DT, 0.4, 3.0)
    assert signals.response_spectrum(scaled, DT, [0.4])[:, 0] == pytest.approx([3.0, 3.0], rel=1e-12)
    with pytest.raises(StudyError, match="zero everywhere"):
        signals.scaled_to_pga(np.zeros(5), 1.0)
    with pytest.raises(StudyError, match="positive"):
        signals.scaled_to_pga(a, -1.0)


def test_resampling_lets_nothing_alias() -> None:
    """5 Hz stay; 40 Hz, at 50 samples a second 10 Hz, are gone to 1e-3 (the filter's stop band) but at the ends."""
    slow, fast = np.sin(2 * np.pi * 5 * T), np.sin(2 * np.pi * 40 * T)
    coarse = signals.resampled(slow + fast, DT, 0.02)
    inside = slice(50, -50)
    assert (
        np.abs(coarse - slow[::2])[inside].max() < 2e-3 < np.abs((slow + fast)[::2] - slow[::2])[inside].max()
    )
    fine = signals.resampled(slow, DT, 0.004)
    t = 0.004 * np.arange(len(fine))
    assert np.abs(fine - np.sin(2 * np.pi * 5 * t))[250:-250].max() < 2e-3
    assert np.array_equal(signals.resampled(slow, DT, DT), slow)
    with pytest.raises(StudyError, match="ratio of whole numbers"):
        signals.resampled(slow, DT, DT * np.pi)
    with pytest.raises(StudyError, match="must be positive"):
        signals.resampled(slow, DT, -0.01)


def test_base_line() -> None:
    drift = 0.02 - 0.003 * T
    assert np.abs(signals.without_drift(drift, DT, 1)).max() < 1e-12
    assert np.abs(signals.without_drift(0.02 + 0 * T, DT, 0)).max() < 1e-12
    a = generated(2)
    corrected = signals.without_drift(a + drift, DT, 1)
    assert np.allclose(corrected, signals.without_drift(a, DT, 1), atol=1e-12)  # whatever line was added
    end = np.abs(signals.velocity(corrected, DT))[:, -1]
    assert (end < 0.3 * np.abs(signals.velocity(a + drift, DT))[:, -1]).all()
    with pytest.raises(StudyError, match="0 or more"):
        signals.without_drift(a, DT, -1)


def test_a_critically_damped_filter_leaves_no_residual_motion() -> None:
    """Ten seconds after the motion, 12.6 time constants of 0.2 Hz, 13 exp(-12.6) = 5e-5 of the peaks is left."""
    a = np.concatenate([generated()[0], np.zeros(1001)])
    filtered = signals.high_passed(a, DT, 0.2)
    v, d = signals.velocity(filtered, DT), signals.displacement(filtered, DT)
    assert abs(v[-1]) < 1e-4 * np.abs(v).max() and abs(d[-1]) < 2e-3 * np.abs(d).max()
    # the acceleration above the corner is left alone: a short period's response hardly changes
    before, after = (signals.response_spectrum(x, DT, [0.2])[0] for x in (a, filtered))
    assert after == pytest.approx(before, rel=0.02)


def test_crossings_of_a_sine_are_its_frequency_and_it_has_no_reversals() -> None:
    """Within one crossing of the 16 or 20 that a window holds; a ripple of ten times the frequency reverses often."""
    a = np.sin(2 * np.pi * 2 * T + 0.3)
    assert signals.MEASURES["crossings_5_45"](a, DT) == pytest.approx(2.0, abs=1 / 8)
    assert signals.MEASURES["crossings_45_95"](a, DT) == pytest.approx(2.0, abs=1 / 10)
    assert signals.MEASURES["reversals_5_95"](a, DT) == 0
    ripple = a + 0.2 * np.sin(2 * np.pi * 20 * T)
    # a maximum and a minimum for each ripple, less those on the wrong side of zero: half, and two at each crossing of 4
    assert 10 < signals.MEASURES["reversals_5_95"](ripple, DT) < 20
