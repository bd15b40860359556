"""Parameters from records: recovered from motions made with them, sets of records, and what cannot be identified."""

from __future__ import annotations

import numpy as np
import pytest

from tamis.errors import StudyError
from tamis.sim.common.records import read_record
from tamis.sim.motions import drive
from tamis.sim.motions.identify import NAMES, expected, fit, identify
from tests.sim.motions.test_motions import DT, SETS, columns
from tests.test_signals import CORRALITOS, EL_CENTRO


def made(values: dict[str, float], n: int, first: int = 5000, samples: int = 4001) -> np.ndarray:
    return drive.modulated(columns(values, n), drive.noise(np.arange(first, first + n), samples), DT)["a"]


@pytest.mark.statistical
def test_expected_crossings_are_those_counted() -> None:
    """400 motions, 3 standard errors of the counts (0.3 % false alarms each; the seed is fixed)."""
    values = SETS["middle"]
    motions = drive.modulated(columns(values, 400), drive.noise(np.arange(400), 2001), DT)
    x = motions["a"][:, 1:] / motions["q"][:, 1:]
    ups, reversals = expected(
        DT, 2001, values["omega_mid"], values["omega_rate"], values["t45"], values["zeta"], 0.3
    )
    seen = ((x[:, :-1] < 0) & (x[:, 1:] >= 0)).sum(axis=1)
    here, turns = x[:, 1:-1], (x[:, 1:-1] - x[:, :-2]) * (x[:, 1:-1] - x[:, 2:]) > 0
    counted = (turns & (here * (here - x[:, 2:]) < 0)).sum(axis=1)
    for found, wanted in ((seen, ups.sum()), (counted, reversals.sum())):
        assert abs(found.mean() - wanted) < 3 * found.std() / 20


def recovered(values: dict[str, float], n: int, motions: int) -> dict[str, tuple[float, float]]:
    """Mean of what is identified over its true value, and the standard error of that."""
    found = fit([(a, DT) for a in made(values, n)], motions=motions).values
    return {
        name: (found[:, j].mean() / values[name], found[:, j].std() / abs(values[name]) / np.sqrt(n))
        for j, name in enumerate(NAMES)
    }


@pytest.mark.statistical
def test_parameters_are_recovered() -> None:
    """Sixty motions, uncorrected: three standard errors, beside the 1 or 2 % by which d5_95 is short and t45 long."""
    for name, (ratio, error) in recovered(SETS["middle"], 60, 0).items():
        assert abs(ratio - 1) < 3 * error + (0.02 if name in ("d5_95", "t45") else 0.0), name


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("name", SETS)
def test_parameters_are_recovered_from_five_hundred_motions(name: str) -> None:
    """As asked for: 2 % or 2 standard errors, t45 5 %, damping 4 %; the times corrected by 100 motions.

    Found: 0.7, 1.2 and 1.4 % at most of d5_95, t45 and damping; the middle frequency is 1 % low.
    """
    found = recovered(SETS[name], 500, 100)
    for parameter, tolerance in {
        "arias": 0.02,
        "d5_95": 0.02,
        "omega_mid": 0.02,
        "t45": 0.05,
        "zeta": 0.04,
    }.items():
        ratio, error = found[parameter]
        assert abs(ratio - 1) < max(tolerance, 2 * error), parameter
    ratio, error = found["omega_rate"]  # nothing is asked of it; 3 standard errors are 7 to 20 %
    assert abs(ratio - 1) < 3 * error


def test_supplied_records() -> None:
    """Both are identified; what is made with the parameters has the record's intensity and times on average."""
    for file in (EL_CENTRO, CORRALITOS):
        record = read_record(file).at_step(DT)
        found = identify(record.a, record.dt, motions=100)
        again = fit([(a, DT) for a in made(vars(found), 30, samples=len(record.a))], motions=0).values
        raw = identify(record.a, record.dt, motions=0)
        for j, name in enumerate(NAMES[:4]):
            # 3 standard errors of 30 motions and, of the times, of the hundred that correct them
            spread = again[:, j].std() * 3 * np.sqrt(1 / 30 + 1 / 100)
            assert abs(again[:, j].mean() - getattr(raw, name)) < spread, (file.name, name)


@pytest.mark.parametrize("n", [8, 100])
def test_a_set_of_records_gives_bounds_and_correlations(n: int) -> None:
    """Motions of parameters drawn from Table D.3: what is fitted follows what they were made with."""
    rng = np.random.default_rng(4)
    low, high = np.array([0.1, 6.0, 2.0, 15.0, 0.1]), np.array([4.0, 12.0, 5.5, 31.0, 0.55])
    drawn = dict(
        zip(("arias", "d5_95", "t45", "omega_mid", "zeta"), rng.uniform(low, high, (n, 5)).T, strict=True)
    )
    given = {**drawn, "omega_rate": np.full(n, -0.568), "floor": np.full(n, 0.3)}
    fitted = fit(
        [(a, DT) for a in drive.modulated(given, drive.noise(np.arange(n), 4001), DT)["a"]], motions=0
    )
    assert fitted.values.shape == (n, 6) and fitted.correlation.shape == (6, 6)
    assert (fitted.bounds[:, 0] == fitted.values.min(axis=0)).all()
    for name, true in drawn.items():
        ratio = fitted.values[:, NAMES.index(name)] / true
        # 3 standard errors (0.3 % false alarms; seeds are fixed), and what d5_95 is short and t45 long by, uncorrected
        assert abs(ratio.mean() - 1) < 3 * ratio.std(ddof=1) / np.sqrt(n) + 0.02, name
    # parameters were drawn independently: 3.3 standard errors of a correlation of 100, each of 15 in a thousand sets
    off = np.abs(fitted.correlation[np.triu_indices(6, 1)])
    assert n < 100 or np.sort(off)[-2] < 0.33  # but for d5_95 and t45 of one motion, which err together


def test_what_cannot_be_identified() -> None:
    with pytest.raises(StudyError, match="zero everywhere"):
        identify(np.zeros(1000), DT)
    with pytest.raises(StudyError, match="at least 100 finite"):
        identify(np.ones(10), DT)
    with pytest.raises(StudyError, match="must be positive"):
        identify(np.ones(1000), -0.01)
    with pytest.raises(StudyError, match="too few to identify"):
        identify(np.linspace(0, 1, 1000) * np.linspace(1, 0, 1000), DT)
    with pytest.raises(StudyError, match="no records"):
        fit([])
    assert np.isnan(fit([(made(SETS["middle"], 1)[0], DT)], motions=0).correlation).all()
