"""Measures and spectra in a study file: what is built of them, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tamis import Study, StudyError

STUDY = """
tamis = 1
title = "motions"
[model]
simulator = "tamis:motions.filtered_noise"
inputs = { duration = 10 }
[parameters]
zeta = { prior = "uniform", low = 0.1, high = 0.5 }
[[predict]]
name = "spectrum"
observe = [ OBSERVE ]
"""
PERIODS = '{ start = 0.1, stop = 10, n = 3, spacing = "log" }'
SPECTRUM = f'{{ output = "a", how = "response_spectrum", times = {PERIODS}, damping = 0.02 }}'


def built(tmp_path: Path, observe: str) -> Study:
    file = tmp_path / "study.toml"
    file.write_text(STUDY.replace("OBSERVE", observe))
    return Study.load(file)


def test_a_spectrum_at_periods_in_a_constant_ratio(tmp_path: Path) -> None:
    (series,) = built(tmp_path, SPECTRUM).series
    (observation,) = series.experiments[0].observations
    assert observation.coord == pytest.approx([0.1, 1.0, 10.0])
    assert (observation.observable.unit, observation.label) == ("m/s2", "response spectrum of a")
    assert observation.observable.damping == 0.02  # type: ignore[attr-defined]


def test_a_measure_has_a_unit_of_its_own(tmp_path: Path) -> None:
    (series,) = built(tmp_path, '{ output = "a", how = "arias" }').series
    (observation,) = series.experiments[0].observations
    assert (observation.observable.unit, observation.label) == ("m/s", "arias of a")
    t = 0.01 * np.arange(101)
    assert observation.observable({"t": t, "a": np.ones(101)})[0] == pytest.approx(np.pi / 2 / 9.80665)


@pytest.mark.parametrize(
    ("observe", "said"),
    [
        (
            '{ output = "t", how = "arias" }',
            "arias is taken of an acceleration in m/s2, and output t is in s",
        ),
        ('{ output = "a", how = "arais" }', 'no observable "arais"; did you mean "arias"'),
        (
            '{ output = "a", how = "pga", damping = 0.05 }',
            'damping is for how = "response_spectrum", found how = "pga"',
        ),
        (SPECTRUM.replace("start = 0.1", "start = 0"), 'spacing = "log" needs a start and a stop above zero'),
        (
            SPECTRUM.replace("0.02", "1.5"),
            "damping of a response spectrum must be from 0 to below 1, found 1.5",
        ),
        (
            '{ output = "a", how = "response_spectrum", times = [-1.0, 1.0] }',
            "periods of a response spectrum must be positive, found -1 s",
        ),
    ],
)
def test_what_is_refused(tmp_path: Path, observe: str, said: str) -> None:
    with pytest.raises(StudyError, match=said):
        built(tmp_path, observe)
