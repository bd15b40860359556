"""A statistic over replicates: without bias, with the right error, its surrogate with known indices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from tamis import Study, StudyError
from tamis.analysis.statistic import Statistic, over_replicates
from tamis.design import sobol
from tamis.results.records import Emulation, Influence, load_records
from tamis.surrogates.pce import fit_pce

Q80 = Statistic("quantile", 0.8)
# y = (1 + 2 a + b) exp(0.5 z): its quantiles are (1 + 2 a + b) exp(0.5 norm.ppf(level)), indices of a and b 0.8, 0.2
MODEL = """
import numpy as np
import tamis

@tamis.simulator(outputs={"y": "m"})
def model(a=0.5, b=0.5, seed=0):
    return {"y": (1 + 2 * a + b) * np.exp(0.5 * np.random.default_rng(seed).standard_normal())}

@model.batch
def many(a, b, seed):
    z = np.array([np.random.default_rng(int(s)).standard_normal() for s in seed])
    return {"y": (1 + 2 * a + b) * np.exp(0.5 * z)}
"""
STUDY = """
tamis = 1
title = "replicates"
[model]
simulator = "model.py:model"
keep = "observed"
[parameters]
a = { prior = "uniform", low = 0, high = 1 }
b = { prior = "uniform", low = 0, high = 1 }
[[predict]]
name = "level"
emulate = true
observe = [ { output = "y" } ]
[design]
method = "sobol"
n = 32
replicates = 200
statistic = "quantile"
level = 0.8
[surrogate]
method = "pce"
min_q2 = 0.8
[sensitivity]
methods = ["sobol"]
"""


def lognormal(n: int, r: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(11)
    scale = 1 + rng.uniform(size=n)
    return scale, (scale[:, None] * np.exp(0.5 * rng.standard_normal((n, r)))).reshape(-1, 1)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("statistic", "true"),
    [
        (Q80, np.exp(0.5 * norm.ppf(0.8))),
        (Statistic("mean"), np.exp(0.125)),
        (Statistic("sd"), np.exp(0.125) * np.sqrt(np.exp(0.25) - 1)),
    ],
    ids=str,
)
def test_it_has_no_bias_and_its_error_is_right(statistic: Statistic, true: float) -> None:
    """400 points of 200 runs: three standard errors (0.3 % false alarms; the seed is fixed), errors within a fifth.

    A standard deviation of 200 lognormal numbers is short by 0.6 %, known from the expansion of the square root.
    """
    scale, y = lognormal(400, 200)
    found = over_replicates(y, np.ones(len(y), bool), 200, statistic, np.random.default_rng(1))
    off = found.y[:, 0] / (scale * true) - 1
    bias = 0.006 if statistic.kind == "sd" else 0.0
    assert abs(off.mean()) < 3 * off.std() / 20 + bias
    assert np.sqrt(np.mean((found.error[:, 0] / (scale * true)) ** 2)) == pytest.approx(off.std(), rel=0.2)
    assert found.partial == 0


def test_failed_runs_are_left_out_and_points_without_half_of_theirs_have_no_answer() -> None:
    _, y = lognormal(3, 10)
    good = np.ones(30, bool)
    good[[3, 10, 11, 12, 13, 14, 15]] = False
    y[~good] = np.nan
    found = over_replicates(y, good, 10, Statistic("mean"), np.random.default_rng(0))
    assert np.isfinite(found.y[:, 0]).tolist() == [True, False, True] and found.partial == 1
    assert found.y[0, 0] == pytest.approx(y[[0, 1, 2, *range(4, 10)]].mean())


def written(tmp_path: Path, text: str) -> Path:
    (tmp_path / "model.py").write_text(MODEL)
    file = tmp_path / "study.toml"
    file.write_text(text)
    return file


@pytest.mark.statistical
def test_polynomial_chaos_of_a_quantile_recovers_its_indices() -> None:
    """Within 0.05, asked for: chance is 4 % of the variance between 64 points, which leaves 0.01 in an index."""
    u = sobol(64, 2, np.random.default_rng(0))
    scale = 1 + 2 * u[:, 0] + u[:, 1]
    y = scale[:, None] * np.exp(0.5 * np.random.default_rng(2).standard_normal((64, 200)))
    found = over_replicates(y.reshape(-1, 1), np.ones(64 * 200, bool), 200, Q80, np.random.default_rng(1))
    indices = fit_pce(u, found.y).sobol()
    assert indices.first[:, 0] == pytest.approx([0.8, 0.2], abs=0.05)
    assert indices.total[:, 0] == pytest.approx([0.8, 0.2], abs=0.05)


def studied(tmp_path: Path, text: str) -> tuple[Emulation, Influence, str]:
    study = Study.load(written(tmp_path, text))
    study.run(executor=0)
    (emulation,) = load_records(study.results / "emulation.npz", Emulation)
    (influence,) = load_records(study.results / "sensitivity.npz", Influence)
    return emulation, influence, (study.results / "report.html").read_text()


def test_a_study_fits_its_surrogate_to_the_statistic(tmp_path: Path) -> None:
    small = (
        STUDY.replace("replicates = 200", "replicates = 10")
        .replace("n = 32", "n = 12")
        .replace("0.8\n[sens", "-9\n[sens")
    )
    small += "[surrogate.enrich]\nbudget = 4\nbatch = 4\n"
    emulation, _, page = studied(tmp_path, small)
    assert emulation.statistic == "80 % quantile over 10 runs"
    assert len(emulation.points) == 16  # the design and four more, each of ten runs
    assert 0 < emulation.chance < 1.5  # 10 runs say little
    assert "fitted to 16 points, each with the 80 % quantile over 10 runs" in page


@pytest.mark.slow
@pytest.mark.statistical
def test_a_study_of_a_quantile_recovers_its_indices(tmp_path: Path) -> None:
    """Within 0.05, asked for; a mean offset of the quantiles of three standard errors at most (0.3 % false alarms)."""
    emulation, influence, _ = studied(tmp_path, STUDY.replace("n = 32", "n = 64"))
    assert influence.first[:, 0] == pytest.approx([0.8, 0.2], abs=0.05)
    assert influence.total[:, 0] == pytest.approx([0.8, 0.2], abs=0.05)
    scale = 1 + 2 * emulation.points[:, 0] + emulation.points[:, 1]
    off = emulation.simulated[:, 0] / (scale * np.exp(0.5 * norm.ppf(0.8))) - 1
    assert abs(off.mean()) < 3 * off.std() / np.sqrt(64)
    # sd of the quantile: (p (1-p)/n)^(1/2) / density, 0.4/14.1/0.28 * 0.5 = 5.1 %, of 2.5 with a spread of 0.645
    assert emulation.chance == pytest.approx((0.051 * 2.5 / 0.645) ** 2, rel=0.4)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("level = 0.8\n", "", r"design.level: a quantile has one"),
        ('statistic = "quantile"\n', "", r'design.level: is that of statistic = "quantile"'),
        (
            "replicates = 200",
            "replicates = 3",
            "design.replicates: a statistic needs at least 5 runs of each point, found 3",
        ),
        (
            'method = "pce"\nmin_q2 = 0.8\n',
            "",
            "design.statistic: is what a surrogate of the observables is fitted to",
        ),
        ("level = 0.8", "level = 1.2", "design.level"),
        ('["sobol"]', '["fosm"]', "sensitivity.methods: .*differentiates single runs"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    text = STUDY.replace(old, new)
    text = text.replace("emulate = true\n", "") if "pce" in old else text
    with pytest.raises(StudyError, match=said):
        Study.load(written(tmp_path, text))
