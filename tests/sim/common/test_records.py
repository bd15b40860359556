"""Records from files, and what is said of files that are not sound."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tamis import signals
from tamis.errors import StudyError
from tamis.sim.common.records import read_record
from tests.test_signals import CORRALITOS, EL_CENTRO


def test_at2() -> None:
    """Peaks of the PEER flatfile: 0.281 g and 0.645 g, printed with three digits."""
    record = read_record(EL_CENTRO)
    assert (len(record.a), record.dt, record.title[:18]) == (5372, 0.01, "Imperial Valley-02")
    assert signals.pga(record.a, record.dt) / signals.GRAVITY == pytest.approx(0.281, abs=5e-4)
    assert record.duration == pytest.approx(53.71) and record.t[-1] == pytest.approx(53.71)
    other = read_record(str(CORRALITOS))
    assert (len(other.a), other.dt) == (7997, 0.005)
    assert signals.pga(other.a, other.dt) / signals.GRAVITY == pytest.approx(0.645, abs=5e-4)
    coarse = other.at_step(0.01)
    assert coarse.dt == 0.01 and coarse.duration == pytest.approx(other.duration, abs=0.01)
    assert signals.arias(coarse.a, coarse.dt) == pytest.approx(signals.arias(other.a, other.dt), rel=0.01)


def test_csv_in_two_columns_or_one(tmp_path: Path) -> None:
    a = np.round(np.sin(np.arange(50)), 6)
    two, one = tmp_path / "two.csv", tmp_path / "one.csv"
    two.write_text("t [s],a [g]\n" + "".join(f"{0.02 * i:.3f},{x}\n" for i, x in enumerate(a)))
    one.write_text("north;east\n" + "".join(f"{x};0\n" for x in a))
    record = read_record(two)
    assert record.dt == pytest.approx(0.02, rel=1e-12) and np.array_equal(record.a, a * signals.GRAVITY)
    record = read_record(one, column="north", dt=0.005, unit="cm/s2")
    assert record.dt == 0.005 and record.a == pytest.approx(a / 100, rel=1e-15)


def altered(tmp_path: Path, lines: list[str]) -> Path:
    file = tmp_path / "bad.AT2"
    file.write_text("\n".join(lines) + "\n")
    return file


def test_at2_files_that_are_not_sound(tmp_path: Path) -> None:
    lines = EL_CENTRO.read_text().splitlines()
    for kept, said in [
        (lines[:500], r"bad.AT2 ends at line 500 after 2480 accelerations, line 4 says 5372 \(NPTS\)"),
        ([*lines, "  .1E-02"], r"line \d+: more than the 5372 accelerations that line 4 says"),
        (lines[:3], "ends at line 3: expected 4 lines of header"),
        (
            [*lines[:3], "5372 points", *lines[4:]],
            'line 4: expected "NPTS= count, DT= step SEC", found "5372 points"',
        ),
        ([*lines[:3], "NPTS= 10, DT= -.01 SEC", *lines[4:]], "line 4: expected"),
        ([*lines[:9], "  .1 oops .2", *lines[10:]], 'line 10: expected numbers, found ".1 oops .2"'),
    ]:
        with pytest.raises(StudyError, match=said):
            read_record(altered(tmp_path, kept))
    with pytest.raises(StudyError, match=r'no record ".*RSN5.*"; did you mean "RSN6'):
        read_record(EL_CENTRO.with_name("RSN5_IMPVALL.I_I-ELC180-hor1.AT2"))
    with pytest.raises(StudyError, match="says its own step"):
        read_record(EL_CENTRO, dt=0.01)
    old = altered(tmp_path, [*lines[:3], " 6 .02 NPTS, DT", " 1 2 3 4 5", " 6"])
    assert read_record(old).dt == 0.02 and len(read_record(old).a) == 6


def test_csv_files_that_are_not_sound(tmp_path: Path) -> None:
    file = tmp_path / "r.csv"
    for text, given, said in [
        (
            "t [s],a [m/s2]\n0,1\n0.01,2\n0.03,1\n0.04,0\n0.05,0\n",
            {},
            "line 4: the step is not constant, 0.02 s here and 0.01",
        ),
        ("t [s],a [m/s2]\n0.02,1\n0.01,2\n0,1\n", {}, "do not increase"),
        ("t [ms],a [m/s2]\n0,1\n1,2\n", {}, 'expected in s, found column "t" in "ms"'),
        ("a [m/s2]\n1\n2\n", {}, "has no column t or time"),
        ("a [m/s2]\n1\n2\n", {"dt": -0.01}, "step must be positive, found dt = -0.01"),
        ("t,a [m/s2]\n0,1\n1,2\n", {"dt": 0.01}, "one of them is too many"),
        ("t,a [m/s]\n0,1\n1,2\n", {}, '"m/s" is no unit of an acceleration; did you mean'),
        ("t,a\n0,1\n1,2\n", {}, "no unit"),
        ("t,a [g]\n0,1\n1,2\n", {"unit": "m/s2"}, 'in "g", and unit = "m/s2" was given'),
        ("t,a [g],b [g]\n0,1,2\n1,2,3\n", {}, "2 columns besides the times; name the one to read: a, b"),
        ("t,a [g]\n0,1\n1,x\n", {}, 'line 3, column "a": expected a number, found "x"'),
    ]:
        file.write_text(text)
        with pytest.raises(StudyError, match=said):
            read_record(file, **given)  # type: ignore[arg-type]
