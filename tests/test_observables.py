"""From signals to numbers, against closed forms."""

import numpy as np
import pytest

import tamis

T = np.linspace(0.0, 2.0, 401)


def test_scalars():
    run = {"t": T, "z": np.sin(np.pi * T) - 2.0 * (T > 1.9), "c": np.array(3.0)}
    assert tamis.value("c")(run).tolist() == [3.0]
    assert tamis.final("z")(run) == pytest.approx([-2.0])
    assert tamis.peak("z")(run)[0] == pytest.approx(run["z"][np.argmax(abs(run["z"]))])
    assert tamis.peak_time("z")(run)[0] == T[np.argmax(abs(run["z"]))]


def test_extremes_of_one_side_or_without_a_sign():
    """Of a signal between -3 and 1 the peak is -3, the largest value 1, the least -3, the largest magnitude 3."""
    run = {"t": T, "z": 2.0 * np.sin(np.pi * T) - 1.0}
    found = [f("z", unit="m")(run)[0] for f in (tamis.largest, tamis.least, tamis.peak_abs, tamis.peak)]
    assert found == pytest.approx([1.0, -3.0, 3.0, -3.0])
    both = {"z": np.array([[1.0, -5.0], [4.0, 2.0]])}
    many = [f("z").many(both).tolist() for f in (tamis.largest, tamis.least, tamis.peak_abs)]
    assert many == [[[1.0], [4.0]], [[-5.0], [2.0]], [[5.0], [4.0]]]
    assert tamis.peak("z").how == "peak" and tamis.least("z").how == "min"


def test_interpolation_is_exact_on_a_straight_line():
    run = {"t": T, "z": 3 * T - 1}
    assert tamis.at("z", [0.0, 0.123456, 2.0])(run) == pytest.approx([-1.0, 3 * 0.123456 - 1, 5.0], abs=1e-14)


def test_outside_the_span_is_a_failure_unless_held():
    run = {"t": T, "z": T}
    with pytest.raises(tamis.SimulationError, match="outside its span"):
        tamis.at("z", [2.5])(run)
    assert tamis.at("z", [-1.0, 2.5], extend="hold")(run).tolist() == [0.0, 2.0]


def test_an_empty_output_is_a_failure_of_the_run():
    """A silo that never clogs has no avalanches: neither their sizes nor the largest of them."""
    run = {"p": np.empty(0), "size_p": np.empty(0)}
    for observed in (tamis.at("size_p", [0.5], along="p"), tamis.largest("size_p")):
        with pytest.raises(tamis.SimulationError, match="size_p is empty in the run"):
            observed(run)


def test_many_runs_with_times_of_their_own():
    t = np.array([T, 2 * T])
    z = tamis.at("z", [0.5, 3.0]).many({"t": t, "z": t**1})
    assert z[1] == pytest.approx([0.5, 3.0]) and z[0, 0] == pytest.approx(0.5) and np.isnan(z[0, 1])


def test_spectrum_of_a_sine_is_its_amplitude():
    # 0.005 s x 400 samples hold 20 whole periods, so that the projection is exact
    t = np.arange(400) * 0.005
    run = {"t": t, "z": 7.0 + 1.5 * np.sin(2 * np.pi * 10 * t)}
    assert tamis.spectrum("z", [10.0, 20.0])(run) == pytest.approx([1.5, 0.0], abs=1e-12)
    with pytest.raises(tamis.SimulationError):
        tamis.spectrum("z", [150.0])(run)  # above the Nyquist frequency of 100 Hz


def test_envelope_of_a_decaying_oscillation():
    t = np.linspace(0, 10, 4001)
    run = {"t": t, "z": np.exp(-0.2 * t) * np.cos(2 * np.pi * 5 * t)}
    # 25 periods away from the ends, the analytic signal is exact to the decay in a period: 0.2/(2 pi 5)
    assert tamis.envelope("z", [5.0])(run)[0] == pytest.approx(np.exp(-1.0), rel=0.01)


def test_a_function_of_the_users_own(tmp_path):
    from tamis.observables import load_custom

    (tmp_path / "observe.py").write_text(
        "def span(outputs):\n    return outputs['z'].max() - outputs['z'].min()\n"
    )
    span = load_custom("observe.py:span", tmp_path, ("z",))
    assert span({"z": np.array([1.0, 4.0])}).tolist() == [3.0]
    assert span.many({"z": np.array([[1.0, 4.0], [0.0, 0.5]])}).tolist() == [[3.0], [0.5]]
    with pytest.raises(tamis.StudyError, match='no function "spam"; did you mean "span"'):
        load_custom("observe.py:spam", tmp_path, ("z",))


def test_intensity_measures_and_response_spectra_are_those_of_the_signals():
    from tamis import signals
    from tamis.observables import MEASURES

    assert MEASURES.keys() == signals.MEASURES.keys()
    t = 0.01 * np.arange(1001)
    a = np.random.default_rng(3).standard_normal((3, 1001))
    runs = {"t": np.array([t, 2 * t, t]), "a": a}
    for how in MEASURES:
        many = tamis.measure("a", how).many(runs)
        assert many[:, 0] == pytest.approx(
            [float(signals.MEASURES[how](row, dt)) for row, dt in zip(a, (0.01, 0.02, 0.01), strict=True)]
        )
    spectrum = tamis.response_spectrum("a", [0.1, 1.0], damping=0.02)
    assert spectrum.many(runs)[1] == pytest.approx(signals.response_spectrum(a[1], 0.02, [0.1, 1.0], 0.02))
    assert spectrum.axis == "period [s]" and spectrum.needs == ("a", "t")
    uneven = {"t": np.append(t[:-1], 20.0), "a": a[0]}
    for observable in (spectrum, tamis.measure("a", "arias")):
        with pytest.raises(tamis.SimulationError, match="constant step of t"):
            observable(uneven)
    with pytest.raises(tamis.StudyError, match='no intensity measure "aria"; did you mean "arias"'):
        tamis.measure("a", "aria")
    with pytest.raises(tamis.StudyError, match=r"periods .* must be positive, found 0 s"):
        tamis.response_spectrum("a", [0.0, 1.0])
    with pytest.raises(tamis.StudyError, match="damping"):
        tamis.response_spectrum("a", [1.0], damping=1.0)
