"""Reading tables: every malformed file gets a message with its place."""

import numpy as np
import pytest

import tamis
from tamis.sheets import read_csv, read_matrix, read_rows


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
        ("0.0,1.5\n0.1,2\n", r"line 1: expected a header with the names .*, found numbers \(0\.0, 1\.5\)"),
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


def test_a_quoted_cell_may_hold_separators_lines_and_what_looks_like_a_comment(tmp_path):
    rows = read_rows(write(tmp_path, '# "a, stray quote\na,b\n1,"two,\n# three"\n\n4,5\n'))
    assert [tuple(row) for row in rows] == [(2, ["a", "b"]), (3, ["1", "two,\n# three"]), (6, ["4", "5"])]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('a,b\n1,2\n3,"4\n', "cannot be read as a table: line 3: unexpected end of data"),
        ('a,b\n"1"2,3\n', "cannot be read as a table: line 2"),
        ("a,b\n1,\0\n", "cannot be read as a table: it contains a zero byte"),
    ],
)
def test_what_is_no_table_is_refused_with_its_line(tmp_path, text, message):
    with pytest.raises(tamis.StudyError, match=message):
        read_csv(write(tmp_path, text))


def test_a_matrix_has_no_header(tmp_path):
    assert read_matrix(write(tmp_path, "# covariance\n1;2\n2;5e-1\n")).tolist() == [[1.0, 2.0], [2.0, 0.5]]
    for text, message in (
        ("a,b\n1,2\n", 'line 1: expected a number, found "a"; a matrix is rows of numbers only'),
        ("1,2\n3\n", "line 2: expected 2 cells as on line 1, found 1"),
        ("1,nan\n", "line 1: nan is not a finite number"),
    ):
        with pytest.raises(tamis.StudyError, match=message):
            read_matrix(write(tmp_path, text))
