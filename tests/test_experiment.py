"""Reading tables: every malformed file gets a message with its place."""

import numpy as np
import pytest

import tamis
from tamis.experiment import WrongCount, draws_seed, imposed, read_csv


def write(tmp_path, text):
    path = tmp_path / "data.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_units_comments_and_missing_cells(tmp_path):
    sheet = read_csv(write(tmp_path, "# measured on Monday\nt [s], z [m] ,note\n0.0,1.5,a\n\n0.5,,b\n"))
    assert sheet.units == {"t": "s", "z": "m"} and sheet.text("note") == ("a", "b")
    assert sheet.numbers("t").tolist() == [0.0, 0.5] and np.isnan(sheet.numbers("z", missing=True)[1])


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_separators(tmp_path, separator):
    sheet = read_csv(write(tmp_path, f"a{separator}b\n1{separator}2\n"))
    assert sheet.numbers("b").tolist() == [2.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n3\n", "line 3: expected 2 cells as in the header, found 1"),
        ("a,b\n", "expected a header line and at least one row"),
        ("", "found 0 line"),
        ("a,a\n1,2\n", 'column "a" appears twice'),
        (b"\xff\xfe\x00a", "cannot be read as text"),
    ],
)
def test_malformed_files(tmp_path, text, message):
    with pytest.raises(tamis.StudyError, match=message):
        read_csv(write(tmp_path, text))


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("x1", 'line 2, column "a": expected a number, found "x1"'),
        ("", "found an empty cell"),
        ("inf", "not a finite number"),
    ],
)
def test_malformed_cells(tmp_path, cell, message):
    sheet = read_csv(write(tmp_path, f"a,b\n{cell},2\n"))
    with pytest.raises(tamis.StudyError, match=message):
        sheet.numbers("a")


def test_missing_file_offers_the_nearest(tmp_path):
    write(tmp_path, "a\n1\n")
    with pytest.raises(tamis.StudyError, match=r'did you mean "data\.csv"'):
        read_csv(tmp_path / "dat.csv")
    sheet = read_csv(tmp_path / "data.csv")
    with pytest.raises(tamis.StudyError, match='no column "aa"; did you mean "a"'):
        sheet.numbers("aa")


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
