"""Studies whose surrogate is of the log-likelihood itself, and those that ask for the next experiment."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

import tamis
from tamis import Study
from tamis.cli.main import main
from tamis.cli.summary import print_results
from tamis.errors import StudyError
from tamis.inference.emulated import fit_loglike
from tamis.inference.posterior import Posterior
from tamis.study.reader import read
from tamis.study.stages import posterior as sampling
from tamis.study.stages.table import up_to_date
from tamis.surrogates import kriging
from tests.shelf import spots

MODEL = """
import numpy as np
import tamis

@tamis.simulator(outputs={"t": "s", "z": "m"})
def decay(*, a=1.0, r=1.0, load=1.0):
    "A decaying signal, linear in a, bent in r; fails where it would grow."
    if r < 0.02:
        raise tamis.SimulationError("it grows")
    t = np.linspace(0.0, 3.0, 31)
    return {"t": t, "z": load * a * np.exp(-r * t)}
"""
STUDY = """
tamis = 1
seed = 5
[model]
simulator = "model.py:decay"
[parameters]
a = { prior = "uniform", low = 0.0, high = 2.0 }
r = { prior = "uniform", low = 0.0, high = 2.0 }
[[experiment]]
name = "signal"
observe = [ { output = "z", how = "at", data = "z.csv", x = "t", y = "z", noise = { kind = "known", sd = 0.05 } } ]
[design]
method = "sobol"
n = 60
[surrogate]
method = "kriging"
target = "loglike"
[inference]
trajectories = 20
draws = 200
[[next]]
name = "another load"
sweep = { input = "load", values = [0.5, 1.0, 4.0] }
draws = 100
observe = [ { output = "z", how = "final", noise = { kind = "known", sd = 0.05 } } ]
"""
ENRICH = 'enrich = { where = "posterior", budget = 60, batch = 15, q2 = 0.999 }'
T = np.linspace(0.1, 2.9, 15)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    write(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def surrogate(tmp_path_factory):
    """The study with its surrogate, enriched in the posterior: made once, sampled by several tests."""
    made = tmp_path_factory.mktemp("surrogate")
    write(made)
    edit(made, 'target = "loglike"', f'target = "loglike"\n{ENRICH}')
    Study.load(made / "study.toml").run("surrogate", executor=0)
    return made


@pytest.fixture
def enriched(surrogate, tmp_path, monkeypatch):
    folder = tmp_path / "enriched"
    shutil.copytree(surrogate, folder)
    monkeypatch.chdir(folder)
    return folder


def write(tmp_path):
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "study.toml").write_text(STUDY)
    z = 1.1 * np.exp(-0.8 * T) + 0.05 * np.random.default_rng(0).standard_normal(len(T))
    rows = "".join(f"{t:.6g},{v:.6g}\n" for t, v in zip(T, z, strict=True))
    (tmp_path / "z.csv").write_text("t [s],z [m]\n" + rows)


def edit(folder, old, new):
    path = folder / "study.toml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))


def exact(folder):
    """Return the mean and sd of the exact posterior, on a grid."""
    data = np.loadtxt(folder / "z.csv", delimiter=",", skiprows=1)
    a, r = (g.ravel() for g in np.meshgrid(np.linspace(0, 2, 801), np.linspace(0, 2, 801)))
    model = np.interp(
        data[:, 0], np.linspace(0, 3, 31), np.arange(31.0)
    )  # observed between samples, linearly
    low = np.floor(model).astype(int)
    grid = np.linspace(0, 3, 31)
    total = np.zeros(len(a))
    for k, (i, f) in enumerate(zip(low, model - low, strict=True)):
        value = a * ((1 - f) * np.exp(-r * grid[i]) + f * np.exp(-r * grid[i + 1]))
        total -= 0.5 * ((data[k, 1] - value) / 0.05) ** 2
    weight = np.exp(total - total.max())
    weight /= weight.sum()
    x = np.column_stack([a, r])
    mean = weight @ x
    return mean, np.sqrt(weight @ (x - mean) ** 2)


@pytest.mark.filterwarnings("ignore:.*have no likelihood.*")
def test_trajectories_give_the_posterior_and_cost_the_design_only(enriched):
    folder = enriched
    found = Study.load("study.toml").run("posterior", executor=0)
    mean, sd = exact(folder)
    draws = found.posterior.flat
    # the surrogate, enriched in the posterior, knows the log-likelihood there to a tenth: 0.15 sd of a mean
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 0.15 * sd)
    assert np.all(np.abs(draws.std(axis=0) / sd - 1) < 0.15)
    assert found.posterior.x.shape[0] % 20 == 0 and len(draws) >= 20 * 200
    record = found.emulations[0]
    assert (record.label, record.series) == ("log-likelihood", "all tests") and record.failed > 0
    assert record.growth[-1, 0] > 60 and record.growth[-1, 1] > record.growth[0, 1]
    # nothing but the design and its enrichment was run
    assert len(spots(folder / "runs")) == record.growth[-1, 0]


def test_the_predictor_alone_by_the_other_samplers(enriched):
    """It takes the surrogate for the truth: the same middle, and nothing said of what the surrogate does not know."""
    folder = enriched
    edit(folder, "trajectories = 20\ndraws = 200", 'method = "tmcmc"\nn = 600')
    found = Study.load("study.toml").run("posterior", executor=0)
    assert found.posterior.log_evidence is not None and found.posterior.x.shape == (1, 600, 2)
    assert "surrogate_share" not in found.posterior.diagnostics
    mean, sd = exact(folder)
    assert np.all(
        np.abs(found.posterior.flat.mean(axis=0) - mean) < 0.25 * sd
    )  # 0.15 of the surrogate, 2.5 / sqrt(600)


def test_two_measures_of_one_surrogate_have_two_names(enriched, capsys):
    """Q2 of left-out runs is over the prior; what enrichment raises is the part of the posterior that is data's."""
    found = Study.load("study.toml").run("surrogate", executor=0)
    (record,) = found.emulations
    assert record.measure == "share of the variance due to data"
    assert record.growth[-1, 1] != record.q2 and 0 <= record.growth[-1, 1] <= 1
    print_results(found, as_json=False)
    line = capsys.readouterr().out.splitlines()[0]
    assert line == (
        f"surrogate: kriging, Q2 {record.q2:.5g} over the prior; "
        f"share of the variance due to data {record.growth[-1, 1]:.4f}"
    )
    for worry in found.worries:
        assert "Enrichment" not in worry.text or "; share of the variance due to data is 0." in worry.text


def test_what_the_surrogate_does_not_know_is_said(folder):
    """A handful of runs leave the posterior to the surrogate: a red line, not only a column of a table."""
    edit(folder, "n = 60", "n = 14")
    edit(folder, 'target = "loglike"', 'target = "loglike"\nmin_q2 = -1e9')
    found = Study.load("study.toml").run("posterior", executor=0)
    share = found.posterior.diagnostics["surrogate_share"].max()
    told = [w for w in found.worries if "is due to the surrogate of the log-likelihood" in w.text]
    assert share > 0.1 and len(told) == 1 and told[0].serious == (share > 0.5)


@pytest.mark.slow
def test_interrupted_trajectories_end_with_the_same_bytes(folder, monkeypatch):
    study = Study.load("study.toml")
    study.run("posterior", executor=0)
    wanted = (folder / "results/study/posterior.npz").read_bytes()
    shutil.rmtree(folder / "results")
    calls = []
    draw = kriging.Kriging.draw

    def cut(self, *arguments):
        drawn = draw(self, *arguments)
        each = drawn.each

        class Counted:
            def __call__(self, u):
                return drawn(u)

            def each(self, u):
                calls.append(len(u))
                if len(calls) in (60, 200):
                    raise KeyboardInterrupt
                return each(u)

        return Counted()

    monkeypatch.setattr(kriging.Kriging, "draw", cut)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            study.run("posterior", executor=0)
        assert list((folder / "results/study").glob("checkpoint-*.npz"))
    study.run("posterior", executor=0)
    assert (folder / "results/study/posterior.npz").read_bytes() == wanted


def test_the_mode_is_climbed_from_where_the_predictor_is_highest():
    """A function that the log-likelihood may be is high at 0.3; the predictor knows its top to be at 0.7."""
    space = tamis.Space((tamis.Parameter("x", tamis.uniform(0.0, 1.0)),))
    u = np.linspace(0, 1, 41)[:, None]
    hills = np.log(0.1 * np.exp(-0.5 * ((u - 0.3) / 0.05) ** 2) + np.exp(-0.5 * ((u - 0.7) / 0.05) ** 2))
    emulated = fit_loglike(space, u, hills[:, 0], trend="constant", rng=np.random.default_rng(0))
    draws = np.array([[[0.31], [0.68]]])
    own = Posterior(space, draws, np.array([[3.0, -0.2]]), np.zeros((1, 2)))
    found = sampling._with_mode(own, emulated)
    # 41 runs give the top of a hill to a hundredth of its width
    assert found.best() == pytest.approx([0.7], abs=5e-4)


def test_next_ranks_loads_and_the_report_shows_them(enriched, capsys):
    folder = enriched
    assert main(["next", "study.toml", "-j", "0"]) == 0
    said = capsys.readouterr().out
    rows = [line for line in said.splitlines() if line.startswith("another load")]
    assert [row.split("load = ")[1].split()[0] for row in rows] == ["4", "1", "0.5"]  # more load, more signal
    states = up_to_date(read(folder / "study.toml"))
    assert states["next"] and not states["prediction"]  # which a ranking does not need
    assert main(["next", "study.toml", "-j", "0", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    ranked = [line for line in lines if line["task"] == "candidate"]
    assert [r["conditions"] for r in ranked] == ["load = 4", "load = 1", "load = 0.5"]
    assert set(ranked[0]["narrowing"]) == {"a", "r"}
    assert main(["run", "study.toml", "-j", "0"]) == 0
    page = (folder / "results/study/report.html").read_text()
    assert (
        "The next experiment" in page and "load = 4" in page and "Trajectories of the log-likelihood" in page
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'method = "kriging"',
            'method = "pce"',
            "surrogate.target: a surrogate of the log-likelihood is Kriging",
        ),
        (
            'target = "loglike"',
            'target = "loglike"\nenrich = { budget = 20 }',
            'surrogate.enrich.where: a log-likelihood is enriched where = "posterior"',
        ),
        (
            'target = "loglike"',
            'target = "loglike"\nenergy = 0.9999',  # also where it says the default
            "surrogate.energy: is for principal components of long signals",
        ),
        (
            'kind = "known", sd = 0.05 } } ]\n[design]',
            'kind = "gaussian", sd = "s" } } ]\n[parameters.s]\nprior = "uniform"\nlow = 0.01\nhigh = 0.1\n[design]',
            "needs it known",
        ),
        ("trajectories = 20", 'split = "experiment"', "inference.split"),
        (
            "[design]",
            '[[experiment]]\nname = "held"\nuse = "validate"\nobserve = [ { output = "z", how = "at", data = "z.csv", '
            'x = "t", y = "z", noise = { kind = "gaussian", sd = "s" } } ]\n[parameters.s]\nprior = "uniform"\n'
            "low = 0.01\nhigh = 0.1\n[design]",
            "the error of held, z has unknown s",
        ),
        ("[design]", "[sensitivity]\n[design]", "Sobol indices need a surrogate of the observables"),
        (
            "trajectories = 20",
            "chains = 20",
            'only method = "metropolis" has it; this study samples by "mct"',
        ),
        (
            "draws = 100",
            "emulate = true",
            'next[0].emulate: needs a surrogate: [surrogate] method = "pce" or "kriging" with target = "observables"',
        ),
    ],
)
def test_refusals(folder, old, new, message):
    edit(folder, old, new)
    with pytest.raises(StudyError) as caught:
        Study.load("study.toml")
    assert message in str(caught.value)


def test_a_candidate_without_an_error_is_refused(folder, capsys):
    edit(folder, 'how = "final", noise = { kind = "known", sd = 0.05 }', 'how = "final"')
    assert main(["next", "study.toml"]) == 2
    assert "next[0].observe[0].noise: missing; say what error they carry" in capsys.readouterr().err


def test_no_candidates(folder, capsys):
    text = (folder / "study.toml").read_text()
    (folder / "study.toml").write_text(text[: text.index("[[next]]")])
    assert main(["next", "study.toml"]) == 2
    assert "study.toml has no [[next]] table" in capsys.readouterr().err
