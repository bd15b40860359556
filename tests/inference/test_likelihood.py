"""Direct likelihoods through both interfaces, against the density written out by hand."""

import textwrap

import numpy as np
import pytest
from scipy.stats import norm

import tamis
from tamis.inference.likelihood import answers

MODEL = """
    import numpy as np
    import os
    import tamis

    @tamis.simulator(outputs={"y": "", "t": "s", "w": ""})
    def line(*, a=0.0, b=1.0, x=0.0):
        if b > 1.9:
            raise tamis.SimulationError("diverged")
        if b < -1.9:
            raise RuntimeError("bug")
        t = np.linspace(0, 1, 5)
        return {"y": a + b * x, "t": t, "w": a + b * t}

    @tamis.simulator(outputs={"y": "", "t": "s", "w": ""})
    def quick(*, a=0.0, b=1.0, x=0.0):
        return line.function(a=a, b=b, x=x)

    @quick.batch(outputs=("y",))
    def many(a, b, x):
        return {"y": np.where(b > 1.9, np.nan, a + b * x)}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "model.py").write_text(textwrap.dedent(MODEL))
    return tmp_path


def space():
    names = (("a", tamis.uniform(-2, 2)), ("b", tamis.uniform(-2, 2)), ("s", tamis.uniform(0.1, 1)))
    return tamis.Space(tuple(tamis.Parameter(name, law) for name, law in names))


TESTS = tuple(
    tamis.Experiment(
        f"x={x}", {"x": x}, (tamis.Observation(tamis.value("y"), np.array([y]), tamis.Gaussian("s")),)
    )
    for x, y in ((0.0, 0.3), (1.0, 1.1), (2.0, 2.5))
)


def likelihood(simulator, store=None, **options):
    return tamis.Likelihood(
        space(), tuple((e, tamis.Direct(simulator, e, ("a", "b"), {}, store, **options)) for e in TESTS)
    )


def by_hand(x):
    return sum(
        norm(a_b[0] + a_b[1] * e.conditions["x"], a_b[2]).logpdf(e.observations[0].y[0])
        for e in TESTS
        for a_b in [x]
    )


X = np.array([[0.1, 1.0, 0.3], [-1.0, 0.5, 0.9], [0.0, 1.95, 0.5]])


@pytest.mark.parametrize("name", ["line", "quick"])
def test_both_doors_give_the_density_and_zero_for_a_failure(folder, name):
    simulator = tamis.find(f"model.py:{name}", folder)
    with tamis.RunStore(folder / "runs") as store:
        found = likelihood(simulator, store, executor=0)(X)
        assert len(store) == (9 if name == "line" else 0)  # the batch interface never touches the store
    assert found[:2] == pytest.approx([by_hand(x) for x in X[:2]]) and np.isneginf(found[2])


def test_an_output_the_batch_does_not_offer_goes_through_the_store(folder):
    simulator = tamis.find("model.py:quick", folder)
    t = np.array([0.0, 0.5])
    test = tamis.Experiment(
        "w", {}, (tamis.Observation(tamis.at("w", t), np.zeros(2), tamis.Known(1.0), coord=t),)
    )
    with tamis.RunStore(folder / "runs") as store:
        found = tamis.Direct(simulator, test, ("a", "b"), {}, store, executor=0)(
            np.array([[1.0, 2.0 / 3], [0.0, 1.95]])
        )
        assert len(store) == 2
    assert found.mean[0] == pytest.approx([1.0, 1.0 + 1 / 3]) and np.isnan(found.mean[1]).all()


def test_a_crash_stops_the_sampler_unless_told_to_reject(folder):
    simulator = tamis.find("model.py:line", folder)
    bad = np.array([[0.0, -1.95, 0.5], [0.1, 1.0, 0.3]])
    with tamis.RunStore(folder / "runs") as store:
        with pytest.raises(tamis.TamisError, match=r'crashed at .*RuntimeError: bug.*on_crash = "reject"'):
            likelihood(simulator, store, executor=0)(bad)
        found = likelihood(simulator, store, executor=0, on_crash="reject")(bad)
    assert np.isneginf(found[0]) and found[1] == pytest.approx(by_hand(bad[1]))


def test_without_a_store_a_slow_simulator_is_refused(folder):
    with pytest.raises(tamis.StudyError, match="no batch interface; give a run store"):
        likelihood(tamis.find("model.py:line", folder))(X)


def test_parameters_win_over_conditions_over_fixed_inputs(folder):
    simulator = tamis.find("model.py:line", folder)
    direct = tamis.Direct(simulator, TESTS[1], ("a",), {"x": 7.0, "b": 3.0})
    assert direct.inputs(np.array([0.5])) == {"x": 1.0, "b": 3.0, "a": 0.5}


def test_two_specimens_may_share_a_surrogate():
    """The same law, each with a parameter of its own: each is asked at its own point."""
    u = np.linspace(0, 1, 20)[:, None]
    law = tamis.fit_pce(u, 3 * u[:, 0])
    both = tamis.Space(
        (tamis.Parameter("E1", tamis.uniform(0, 1)), tamis.Parameter("E2", tamis.uniform(0, 1)))
    )
    forwards = [tamis.Emulated(both.subset((name,)), law) for name in ("E1", "E2")]
    found = answers(both, forwards, np.array([[0.1, 0.9]]))
    assert [f.mean[0, 0] for f in found] == pytest.approx([0.3, 2.7])


def test_half_an_answer_is_no_number_for_the_sampler_to_tell():
    """A failed run has likelihood zero, and is told elsewhere."""

    class Half:
        reads = ("a",)

        def __call__(self, x):
            mean = np.column_stack([x[:, 0], np.where(x[:, 0] < 0, np.nan, x[:, 0])])
            mean[x[:, 0] > 1] = np.nan
            return tamis.types.Gauss(mean, np.zeros_like(mean))

    test = tamis.Experiment(
        "two", {}, (tamis.Observation(tamis.value("y"), np.array([0.3, 0.3]), tamis.Gaussian(1.0)),)
    )
    found = tamis.Likelihood(space(), ((test, Half()),))(
        np.array([[0.5, 0, 1.0], [-0.5, 0, 1.0], [1.5, 0, 1.0]])
    )
    assert np.isfinite(found[0]) and np.isnan(found[1]) and np.isneginf(found[2])
