"""The newcomer's fifteen minutes, executed with the clock."""

import os
import signal
import subprocess
import textwrap
import time
import tomllib

import numpy as np
import pytest

from tests.shelf import spots
from tests.test_examples import EXAMPLES, TAMIS, check

OWN_MODEL = """
    import os
    import time

    import numpy as np
    import tamis

    T = np.linspace(0.0, 2.0, 201)

    @tamis.simulator(outputs={"t": "s", "x": "m"}, units={"stiffness": "N/m", "mass": "kg"})
    def oscillator(*, mass=1.0, stiffness=100.0, damping=0.02):
        '''Free decay of a damped oscillator released at 1 cm.'''
        time.sleep(float(os.environ.get("SLOW", "0")))
        return {"t": T, "x": decay(*(np.array([v]) for v in (mass, stiffness, damping)))[0]}

    def decay(mass, stiffness, damping):
        omega = np.sqrt(stiffness / mass)[:, None]
        damping = damping[:, None]
        return 0.01 * np.exp(-damping * omega * T) * np.cos(omega * np.sqrt(1 - damping**2) * T)

    @oscillator.batch
    def many(mass, stiffness, damping):
        return {"t": np.broadcast_to(T, (len(mass), len(T))), "x": decay(mass, stiffness, damping)}
"""

OWN_STUDY = """
    tamis = 1
    title = "My oscillator"

    [model]
    simulator = "model.py:oscillator"

    [parameters]
    stiffness = { prior = "uniform", low = 50.0, high = 200.0, unit = "N/m" }
    damping   = { prior = "uniform", low = 0.0, high = 0.1 }
    sigma     = { prior = "lognormal", median = 0.001, cov = 1.0, unit = "m" }

    [[experiment]]
    name = "release"
    [[experiment.observe]]
    output = "x"
    how = "at"
    data = "data/release.csv"
    noise = { kind = "gaussian", sd = "sigma" }

    [design]
    n = 40

    [inference]
    n = 500
"""


@pytest.mark.example
def test_fifteen_minutes(tmp_path):
    start = time.monotonic()

    def tamis(*words, folder=tmp_path / "ball", code=0, **environment):
        done = subprocess.run(
            [*TAMIS, *words], cwd=folder, capture_output=True, text=True, env={**os.environ, **environment}
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    # minute 0: four files
    assert "tamis run study.toml" in tamis("new", "ball", folder=tmp_path)
    ball = tmp_path / "ball"
    files = sorted(str(p.relative_to(ball)) for p in ball.rglob("*") if p.is_file())
    assert files == ["data/drop-1.0.csv", "data/drop-2.0.csv", "model.py", "study.toml"]
    assert "exists and is not empty" in tamis("new", "ball", folder=tmp_path, code=2)

    assert all((ball / name).read_bytes() == (EXAMPLES / "01_ball" / name).read_bytes() for name in files)

    # minute 1: a calibrated ball, with a quarter of the example's samples; minute 3: its report
    text = (ball / "study.toml").read_text()
    assert "n = 2000" in text
    text = text.replace("n = 2000", "n = 500")
    (ball / "study.toml").write_text(text)
    out = tamis("run", "study.toml")
    check(ball, tomllib.loads((EXAMPLES / "01_ball" / "expected.toml").read_text()), wider=2.0)
    assert "The data narrow 3 of 3 parameters" in out and "report: results/study/report.html" in out
    report = (ball / "results/study/report.html").read_text()
    assert "The data narrow 3 of 3 parameters" in report and "drop-5.0" in report
    assert "http://" not in report.replace("http://www.w3.org", "")

    # minute 5: an error parameter's prior changes no simulation
    runs = sorted(spots(ball / "runs"))
    (ball / "study.toml").write_text(text.replace("median = 0.01", "median = 0.02"))
    out = tamis("run", "study.toml", "--to", "posterior")
    assert "posterior: " in out and "runs: " not in out
    assert sorted(spots(ball / "runs")) == runs

    # minute 7: a built-in simulator
    assert "dem.impact" in tamis("sim")
    assert "coefficient of friction" in tamis("sim", "dem.impact")
    assert "cnr" in tamis("sim", "dem.impact", "angle=20")

    # minute 8: a model of one's own, with `check` saying what is missing, one thing after the other
    (ball / "model.py").write_text(textwrap.dedent(OWN_MODEL))
    assert '"ball" does not exist; valid names: oscillator' in tamis("check", "study.toml", code=2)
    study = textwrap.dedent(OWN_STUDY)
    (ball / "study.toml").write_text(study.replace("damping   =", "dampping ="))
    assert "no data file" in tamis("check", "study.toml", code=2)
    rng = np.random.default_rng(3)
    t = np.linspace(0.05, 1.95, 60)
    x = 0.01 * np.exp(-0.03 * 11.0 * t) * np.cos(
        11.0 * np.sqrt(1 - 0.03**2) * t
    ) + 0.0005 * rng.standard_normal(60)
    rows = "\n".join(f"{a:.4f},{b:.6f}" for a, b in zip(t, x, strict=True))
    (ball / "data" / "release.csv").write_text("t [s],x [mm]\n" + rows)
    assert 'gives "x" in "mm", but output x is in "m"' in tamis("check", "study.toml", code=2)
    (ball / "data" / "release.csv").write_text("t [s],x [m]\n" + rows)
    assert "parameters.dampping: read by nobody" in (out := tamis("check", "study.toml", code=2))
    assert 'did you mean "damping"' in out
    (ball / "study.toml").write_text(study)
    assert "design: 40 runs" in tamis("check", "study.toml")

    # minute 13: interrupted and resumed
    slow = {**os.environ, "SLOW": "0.2"}
    process = subprocess.Popen(
        [*TAMIS, "run", "study.toml", "-j", "2"], cwd=ball, env=slow, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while len(spots(ball / "runs")) < len(runs) + 4 and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130 and "the same command goes on" in err
    kept = len(spots(ball / "runs"))
    assert len(runs) + 4 <= kept < len(runs) + 40
    status = tamis("status", "study.toml")
    assert f"{kept - len(runs)} done" in status
    out = tamis("run", "study.toml", "-j", "2", SLOW="0.01")
    assert len(spots(ball / "runs")) == len(runs) + 40

    # minute 15: their own report; the truth is 121 N/m and 0.03
    assert "The data narrow 3 of 3 parameters" in out
    assert "My oscillator" in (ball / "results/study/report.html").read_text()
    assert time.monotonic() - start < 900
