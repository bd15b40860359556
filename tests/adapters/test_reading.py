"""Numbers out of a program's files: what each format takes, and what it refuses."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tamis.adapters.reading import Read, read_all, reading
from tamis.errors import SimulationError, StudyError


def taken(folder, content, **table):
    file = table.pop("file", "out.dat")
    (folder / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_all({"z": reading("outputs.z", {"file": file, **table})}, folder)["z"]


GROWING = """ step 1
 displacements for set TIP
   1  1.0D-3
   2  2.0D-3
 step 2
 displacements for set TIP

   1  0.3
   2  0.4

   3  0.5
 end of step
   9  9.9 9.9
"""


def test_tables(tmp_path):
    np.testing.assert_array_equal(taken(tmp_path, "# x y\n1 2\n3, 4\n\nend\n5; 6\n", column=2), [2, 4, 6])
    np.testing.assert_array_equal(taken(tmp_path, "1.5D-3 -.5d+2 1.5-103 +2.e1", column=1), [1.5e-3])
    np.testing.assert_array_equal(taken(tmp_path, "1.5D-3 -.5d+2 1.5-103 +2.e1", column=2), [-50])
    np.testing.assert_array_equal(taken(tmp_path, "1.5D-3 -.5d+2 1.5-103 +2.e1", column=3), [1.5e-103])
    np.testing.assert_array_equal(taken(tmp_path, GROWING, column=2, after="set TIP"), [0.3, 0.4, 0.5])


@pytest.mark.parametrize(
    ("text", "table", "message"),
    [
        ("1 2\n3\n", {"column": 1}, "out.dat, line 2: found 1 number, but 2 on line 1"),
        ("1 2\n", {"column": 3}, "line 1: no column 3, the line has 2"),
        ("text\n", {"column": 1}, "no line of numbers"),
        ("", {"column": 1}, "no line of numbers"),
        ("1 2\n3 NaN\n", {"column": 2}, "line 2, column 2: not a finite number"),
        ("1 2\n3 -Infinity\n", {"column": 2}, "line 2, column 2: not a finite number"),
        ("1 2\n3 ****\n", {"column": 2}, "line 2, column 2: not a finite number"),
        ("1 1e999\n", {"column": 2}, "not a finite number"),
        ("1 2\n", {"column": 1, "after": "TIP"}, 'no line contains "TIP"'),
        ("TIP\nheader\n1 2\n", {"column": 1, "after": "TIP"}, "no line of numbers directly after line 1"),
        (GROWING, {"column": 1}, "line 13: found 3 numbers, but 2 on line 3"),
        ("no\n", {"format": "last"}, "no line has a number"),
        ("E = 1\nE = nan\n", {"format": "last"}, "line 2: not a finite number"),
        ("E = 1\nE = *****\n", {"format": "last"}, "line 2: not a finite number"),
        ("E = 1\n", {"format": "last", "column": 2}, "line 1: no number 2, the line has 1"),
        ("{", {"format": "json", "key": "a"}, "line 1: not JSON"),
        ('{"ab": 1}', {"format": "json", "key": "abc"}, 'no key "abc" of "abc"; did you mean "ab"?'),
        ('{"a": [1]}', {"format": "json", "key": "a.b"}, 'no key "b" of "a.b" in list'),
        ('{"a": [1, [2]]}', {"format": "json", "key": "a"}, "not an array of numbers"),
        ('{"a": [1, "x"]}', {"format": "json", "key": "a"}, "not a number or a list of numbers"),
        ('{"a": true}', {"format": "json", "key": "a"}, "not a number or a list of numbers"),
        ('{"a": null}', {"format": "json", "key": "a"}, "not a number or a list of numbers"),
        ('{"a": []}', {"format": "json", "key": "a"}, "is empty"),
        ('{"a": [1, NaN]}', {"format": "json", "key": "a"}, "not finite"),
        ("[" * 100000, {"format": "json", "key": "a"}, "out.dat"),
        ("a,b\n1,2\n", {"format": "csv", "column": "c"}, 'out.dat has no column "c"'),
        ("a,b\n", {"format": "csv", "column": "a"}, "expected a header line and at least one row"),
        ("a,b\n1,x\n", {"format": "csv", "column": "b"}, 'out.dat, line 2, column "b": expected a number'),
        ("a,b\n1,\n", {"format": "csv", "column": "b"}, "found an empty cell"),
        ("a,b\n1,inf\n", {"format": "csv", "column": "b"}, "inf is not a finite number"),
    ],
)
def test_what_cannot_be_read_fails_the_run(tmp_path, text, table, message):
    with pytest.raises(SimulationError) as caught:
        taken(tmp_path, text, **table)
    assert message in str(caught.value) and str(caught.value).startswith("output z: ")


def test_json_and_last_lines(tmp_path):
    nested = json.dumps({"a": {"b": [[1, 2], [3, 4.5]]}, "c": 2})
    np.testing.assert_array_equal(taken(tmp_path, nested, file="o.json", key="a.b"), [[1, 2], [3, 4.5]])
    assert taken(tmp_path, nested, file="o.json", key="c") == 2
    text = "energy 1.0\n*** total: E=3.5 J, W = -2.0D1 in 4 steps\n*** done ***\n"
    np.testing.assert_array_equal(taken(tmp_path, text, format="last"), [3.5, -20.0, 4.0])
    np.testing.assert_array_equal(taken(tmp_path, text, format="last", column=2), [-20.0])


def test_csv_tables_of_any_separator_and_their_units(tmp_path):
    np.testing.assert_array_equal(
        taken(tmp_path, "# x\nt;w [m]\n0;1\n1;2\n", file="a.csv", column="w"), [1, 2]
    )
    with pytest.raises(StudyError, match=r'unit \[mm\], the study says "m"'):
        taken(tmp_path, "t,w [mm]\n0,1\n", file="a.csv", column="w", unit="m")


def test_binary_rubbish_and_large_files_are_refused(tmp_path):
    for table in ({"column": 1}, {"format": "json", "key": "a"}, {"format": "csv", "column": "a"}):
        with pytest.raises(SimulationError):
            taken(tmp_path, bytes(range(128, 256)), **table)
    with (tmp_path / "big.dat").open("wb") as file:
        file.truncate(1_000_000_001)
    with pytest.raises(SimulationError, match="larger than 1 GB"):
        read_all({"z": Read("big.dat", "table", 1)}, tmp_path)


def test_a_decimal_comma_is_not_taken_for_two_numbers(tmp_path):
    with pytest.raises(SimulationError, match=r"out\.dat"):
        taken(tmp_path, "1,5 2\n2,5 3\n", column=2)
    np.testing.assert_array_equal(taken(tmp_path, "1,5,2\n2,5,3\n", column=3), [2, 3])
