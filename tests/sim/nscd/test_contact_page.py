"""The page about contact scenes runs, here where its engine is compiled anyway."""

from pathlib import Path

import numpy as np
import pytest

from tests.pages import run_python


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    problem = {"W": np.eye(3), "q": np.array([-1.0, 0.5, 0.0]), "mu": np.array([0.3])}
    left = run_python("docs/how-to/contact.md", tmp_path, problem)
    assert left["r"].tolist() == pytest.approx(
        [1.0, -0.3, 0.0], abs=1e-6
    )  # it slides: the cone's edge, by `tol`
