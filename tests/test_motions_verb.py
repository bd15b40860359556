"""`tamis motions`: records on the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tamis.cli.main import main
from tamis.simulation import find
from tests.test_signals import CORRALITOS, EL_CENTRO


def test_records_are_measured_identified_and_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, figure = tmp_path / "fit.csv", tmp_path / "fit.svg"
    given = ["--step", "0.01", "--csv", str(table), "--figure", str(figure)]
    assert main(["motions", str(CORRALITOS), str(EL_CENTRO), *given]) == 0
    said = capsys.readouterr().out
    measured = next(line.split() for line in said.splitlines() if line.startswith("RSN753"))
    assert measured[1:] == ["40.0", "s", "0.01", "s", "6.32", "0.559", "3.25", "12.5", "6.86", "3.02"]
    assert 'd5_95 = { prior = "uniform", low = 6.9' in said
    assert table.read_text().startswith("record,arias,d5_95,t45,omega_mid,omega_rate,zeta\nRSN753")
    assert "omega_rate" in figure.read_text()


def test_a_record_is_drawn_beside_its_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = find("tamis:motions.filtered_noise").run({"duration": 25.0}, tmp_path)
    rows = "".join(f"{x:.6g}\n" for x in made["a"])
    (tmp_path / "one.csv").write_text("north\n" + rows)
    figure = tmp_path / "one.svg"
    given = ["--dt", "0.01", "--unit", "m/s2", "--figure", str(figure)]
    assert main(["motions", str(tmp_path / "one.csv"), *given]) == 0
    page = figure.read_text()
    assert (
        "one simulated motion" in page and "response spectrum, 5 % damping" in page and "period [s]" in page
    )
    capsys.readouterr()
    for arguments, said in [
        ([str(tmp_path / "one.csv")], "has no column t or time"),
        ([str(EL_CENTRO), "--dt", "0.01"], "--dt: every file gives its own times"),
        ([str(EL_CENTRO), "--figure", str(tmp_path / "one.txt")], "ends in .png, .svg, .pdf"),
        ([str(tmp_path / "none.AT2")], "no record"),
        ([str(EL_CENTRO), "--step", "-1"], "must be positive"),
    ]:
        assert main(["motions", *arguments]) == 2
        assert said in capsys.readouterr().err


def test_a_step_is_for_the_files_that_give_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = find("tamis:motions.filtered_noise").run({"duration": 20.0}, tmp_path)["a"]
    (tmp_path / "bare.csv").write_text("a [m/s2]\n" + "".join(f"{x:.6g}\n" for x in a))
    timed = "".join(f"{0.02 * i:.2f},{x:.6g}\n" for i, x in enumerate(a))
    (tmp_path / "timed.csv").write_text("t [s],a [m/s2]\n" + timed)
    assert main(["motions", str(tmp_path / "bare.csv"), str(tmp_path / "timed.csv"), "--dt", "0.01"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.split()[1:2] == ["20.0"]]
    assert [row[3] for row in rows] == ["0.01"] and rows[0][0] == "bare.csv"


def test_the_correlation_plot_of_a_set() -> None:
    from tamis.report.motions import scatter_figure

    values = np.random.default_rng(0).normal(size=(8, 3))
    figure = scatter_figure(("a", "b", "c"), values, np.corrcoef(values, rowvar=False))
    assert len(figure.axes) == 9
    shown = [text.get_text() for ax in figure.axes for text in ax.texts]
    assert shown == [
        f"{r:.2f}".replace("-", "−") for r in np.corrcoef(values, rowvar=False)[np.triu_indices(3, 1)]
    ]
