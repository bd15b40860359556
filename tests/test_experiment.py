"""What a simulator is given, and what is taken from its outputs."""

import numpy as np
import pytest

import tamis
from tamis.experiment import WrongCount, draws_seed, imposed


def test_parameters_win_over_conditions_and_conditions_over_what_is_fixed():
    """One rule for points of a design, likelihoods, numerical experiments and nominal runs, numbers or columns."""
    fixed, conditions = {"x": 7.0, "b": 3.0, "seed": 1}, {"x": 1.0, "c": "file"}
    assert imposed(fixed, conditions, {"a": 0.5}) == {"x": 1.0, "b": 3.0, "seed": 1, "c": "file", "a": 0.5}
    assert imposed(fixed, conditions, {"b": 0.5}, seed=9) == {"x": 1.0, "b": 0.5, "seed": 9, "c": "file"}
    assert imposed({}, {"seed": 2}, {}, seed=9) == {"seed": 2}  # a seed that a test imposes is not drawn
    assert draws_seed({"a", "seed"}, {"a": 1.0}, ()) and not draws_seed({"a"}, {})
    assert not draws_seed({"a", "seed"}, {"a": 1.0}, {"seed": 2})


def test_outputs_become_a_row_of_numbers():
    outputs = {"t": np.array([0.0, 1.0, 2.0]), "y": np.array([1.0, 3.0, 5.0]), "p": np.array(4.0)}
    seen = (
        tamis.Observation(tamis.at("y", [0.5, 1.5]), np.zeros(2), tamis.Known(1.0), label="y"),
        tamis.Observation(tamis.value("p"), np.zeros(1), tamis.Known(1.0)),
    )
    test = tamis.Experiment("drop", {}, seen)
    np.testing.assert_array_equal(test.numbers(outputs), [2.0, 4.0, 4.0])
    stacked = {name: np.stack([array, array]) for name, array in outputs.items()}
    np.testing.assert_array_equal(test.rows(stacked), [[2.0, 4.0, 4.0]] * 2)
    assert test.needs == {"t", "y", "p"}
    with pytest.raises(tamis.SimulationError, match="drop, y: "):
        test.numbers({**outputs, "t": np.array([0.0, 0.5, 1.0])})
    with pytest.raises(
        WrongCount, match="drop, observation 2: the model gives 3 numbers where 1 are expected"
    ):
        test.numbers({**outputs, "p": outputs["y"]})
    with pytest.raises(tamis.StudyError, match="drop, y: the outputs do not fit each other"):
        test.numbers({**outputs, "t": np.array([0.0, 1.0])})
