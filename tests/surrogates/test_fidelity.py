"""Cheaper runs: what they buy where the levels are related, and that they do no harm where they are not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tamis
from tamis.surrogates.fidelity import fit_fidelities, removed
from tamis.surrogates.joined import Joined, Part
from tamis.surrogates.kriging import Kriging, fit_kriging
from tamis.surrogates.multifidelity import MultiFidelity, fit_multifidelity
from tamis.types import Array
from tests.surrogates.smooth import forrester, forrester_cheap, park, park_cheap


def rng(seed: int = 2) -> np.random.Generator:
    return np.random.default_rng(seed)


def alone(u: Array, y: Array) -> Kriging:
    return fit_kriging(u, y, rng=rng())


def joint(levels) -> MultiFidelity:
    return fit_multifidelity(levels, rng=rng())


def other_1(u: Array) -> Array:
    answer: Array = np.cos(20 * u[:, 0]) + 3 * u[:, 0]
    return answer


def other_4(u: Array) -> Array:
    answer: Array = np.cos(7 * u[:, 0] + 3 * u[:, 1]) * u[:, 2] + 5 * u[:, 3] ** 2
    return answer


def errors(f, cheap, d: int, n: int, many: int, seed: int) -> tuple[float, float, bool]:
    """Return root mean squared errors of the surrogate chosen and of the expensive runs alone on 2000 new points."""
    u, v = tamis.sobol(many, d, rng(seed)), rng(5).random((2000, d))
    expensive = u[:n], f(u[:n])
    parts, bought = fit_fidelities([(u, cheap(u)), expensive], alone, joint)
    found, plain = parts[0][0].predict(v).mean[:, 0], alone(*expensive).predict(v).mean[:, 0]
    rms = [float(np.sqrt(np.mean((each - f(v)) ** 2))) for each in (found, plain)]
    return rms[0], rms[1], bool(bought.used[0])


@pytest.mark.parametrize(
    ("f", "cheap", "d", "n", "many", "limit"),
    [
        # measured over 60 designs: 0.03 and 0.37; asked for: 0.7
        pytest.param(forrester, forrester_cheap, 1, 6, 18, 0.7, id="Forrester"),
        pytest.param(park, park_cheap, 4, 10, 40, 0.7, id="Park"),
        # asked for: at most 1.1; where they are never used it is the same surrogate to the bit
        pytest.param(forrester, other_1, 1, 6, 18, 1.1, id="Forrester, unrelated"),
        pytest.param(park, other_4, 4, 10, 40, 1.0, id="Park, unrelated"),
        pytest.param(park, lambda u: rng(9).standard_normal(len(u)), 4, 10, 40, 1.0, id="Park, noise"),
    ],
)
def test_cheaper_runs_help_or_do_no_harm(f, cheap, d, n, many, limit) -> None:
    found = np.array([errors(f, cheap, d, n, many, seed) for seed in range(4)])
    ratio = np.sqrt(np.mean(found[:, 0] ** 2) / np.mean(found[:, 1] ** 2))
    assert ratio <= limit
    if limit == 1.0:
        assert not found[:, 2].any()


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize(
    ("f", "cheap", "d", "n", "many", "limit"),
    [
        pytest.param(forrester, forrester_cheap, 1, 6, 18, 0.7, id="Forrester"),
        pytest.param(park, park_cheap, 4, 10, 40, 0.7, id="Park"),
        pytest.param(forrester, other_1, 1, 6, 18, 1.1, id="Forrester, unrelated"),
        pytest.param(forrester, other_1, 1, 9, 27, 1.1, id="Forrester, unrelated, more runs"),
        pytest.param(park, other_4, 4, 10, 40, 1.1, id="Park, unrelated"),
        pytest.param(park, lambda u: rng(9).standard_normal(len(u)), 4, 10, 40, 1.1, id="Park, noise"),
    ],
)
def test_over_sixty_designs_cheaper_runs_help_or_do_no_harm(f, cheap, d, n, many, limit) -> None:
    """Errors of all designs together, and of nearly every single one."""
    found = np.array([errors(f, cheap, d, n, many, seed) for seed in range(100, 160)])
    assert np.sqrt(np.mean(found[:, 0] ** 2) / np.mean(found[:, 1] ** 2)) <= limit
    single = found[:, 0] / found[:, 1]
    assert np.mean(single > 1.1) <= 0.05  # with a dozen runs neither estimate is sure of a single design


@pytest.mark.slow
def test_two_time_steps_of_a_rocking_block() -> None:
    """Tilts of `nscd.rocking` at four instants, with steps of 1 and 5 ms; 24 expensive runs and 120 cheap ones."""
    simulator = tamis.find("tamis:nscd.rocking")
    low, high = np.array([0.3, 1.5, 2.0]), np.array([0.7, 2.5, 6.0])
    times = np.array([0.5, 0.8, 1.1, 1.5])

    def tilts(u: Array, step: float) -> Array:
        rows = []
        for width, height, tilt in low + (high - low) * u:
            case = {"width": width, "height": height, "tilt": tilt, "h": step, "duration": 1.6}
            outputs = simulator.run(case, None)
            rows.append(np.interp(times, outputs["t"], outputs["angle"]))
        return np.array(rows)

    v = rng(5).random((200, 3))
    truth = tilts(v, 1e-3)
    errors, used = [], []
    for design in range(4):
        u = tamis.sobol(120, 3, rng(design))
        levels = [(u, tilts(u, 5e-3)), (u[:24], tilts(u[:24], 1e-3))]
        parts, bought = fit_fidelities(levels, alone, joint)
        found = np.empty_like(truth)
        for model, columns in parts:
            found[:, columns] = model.predict(v).mean
        plain = alone(*levels[-1]).predict(v).mean
        errors.append([np.mean((each - truth) ** 2, axis=0) for each in (found, plain)])
        used.append(bought.used)
    ours, theirs = np.sqrt(np.mean(errors, axis=0))
    # measured: 0.68, 0.25, 0.32 and 0.38, together 0.44; asked for: 0.7
    assert np.mean(used) >= 0.75
    assert np.sqrt(np.mean((ours / theirs) ** 2)) < 0.7
    assert (ours / theirs).max() <= 1.0


def test_outputs_are_chosen_one_by_one_or_together() -> None:
    u = tamis.sobol(40, 1, rng(0))
    cheap = np.column_stack([forrester_cheap(u), other_1(u)])
    expensive = np.column_stack([forrester(u[:8]), forrester(u[:8])])
    levels = [(u, cheap), (u[:8], expensive)]
    parts, bought = fit_fidelities(levels, alone, joint)
    assert bought.used.tolist() == [True, False]
    assert [(type(model), columns.tolist()) for model, columns in parts] == [
        (MultiFidelity, [0]),
        (Kriging, [1]),
    ]
    v = rng(1).random((20, 1))
    whole = fit_multifidelity(levels, rng=rng()), alone(*levels[-1])
    for (model, columns), all_of_them in zip(parts, whole, strict=True):
        for mine, theirs in zip(model.predict(v)[:2], all_of_them.predict(v)[:2], strict=True):
            assert np.array_equal(mine, theirs[:, columns])
    parts, bought = fit_fidelities(levels, alone, joint, together=True)
    assert len(parts) == 1 and len(set(bought.used.tolist())) == 1


def test_error_removed_is_that_of_the_variance() -> None:
    """What conditioning takes away is the variance before less the variance after, lengths kept."""
    cheap, u = tamis.sobol(12, 2, rng(0)), tamis.sobol(6, 2, rng(0))
    model = fit_multifidelity(
        [(cheap, np.sin(5 * cheap[:, 0]) + cheap[:, 1]), (u, 2 * np.sin(5 * u[:, 0]) + u[:, 1] ** 2)],
        rng=rng(),
    )
    at, points = rng(1).random((256, 2)), rng(3).random((3, 2))
    levels = [model.levels[0], model.levels[1]]
    for k in (0, 1):
        level = levels[k]
        more = replace(
            level,
            u=np.vstack([level.u, points]),
            y=np.vstack([level.y, np.zeros((3, 1))]),
            noise=np.vstack([level.noise, np.repeat(level.noise[:1], 3, axis=0)]),
        )
        after = replace(model, levels=tuple(more if i == k else each for i, each in enumerate(levels)))
        # the factors, which new values would change, stay
        x = at - 0.5
        before_, after_ = (m.processes[k][0].predict(x, model.bases(k, x)[0])[1] for m in (model, after))
        factor = model.factors(at)[0][:, 0] if k == 0 else 1.0
        wanted = float(np.mean(factor**2 * (before_ - after_)))
        found = removed(
            Joined((Part(model, np.array([0]), np.arange(6)),), 6, 1), k, 1, points, at, np.ones(1)
        )
        # the basis of the upper level is that of the old lower mean in both; a jitter of 1e-9 of the variance
        assert found == pytest.approx(wanted, rel=1e-3), k
    plain = alone(u, 2 * np.sin(5 * u[:, 0]))
    assert removed(plain, 0, 1, points, at, np.ones(1)) == 0.0 < removed(plain, 1, 1, points, at, np.ones(1))
