"""A small study of two tests, each with near and far points, for the tests of parts and of error models."""

from __future__ import annotations

import numpy as np

MODEL = """
import numpy as np
import tamis

@tamis.simulator(outputs={"t": "s", "near": "m", "far": "m"})
def beam(*, a=1.0, b=0.5, load=1.0):
    t = np.array([1.0, 2.0, 3.0])
    return {"t": t, "near": load * a * t, "far": load * (a + b * t)}

@beam.batch
def _(*, a, b, load):
    t = np.array([1.0, 2.0, 3.0])
    a, b, load = a[:, None], b[:, None], load[:, None]
    return {"t": np.broadcast_to(t, (len(a), 3)), "near": load * a * t, "far": load * (a + b * t)}
"""
OBSERVE = """observe = [
  { output = "near", how = "at", data = "%s.csv", x = "t", y = "near", noise = { kind = "known", sd = 0.1 } },
  { output = "far",  how = "at", data = "%s.csv", x = "t", y = "far",  noise = { kind = "gaussian", sd = "s" } },
]
"""
STUDY = f"""
tamis = 1
seed = 3
[model]
simulator = "model.py:beam"
[parameters]
a = {{ prior = "normal", mean = 1.0, sd = 1.0 }}
b = {{ prior = "normal", mean = 0.0, sd = 1.0 }}
s = {{ prior = "lognormal", median = 0.1, cov = 0.3, unit = "m" }}
[[experiment]]
name = "light"
conditions = {{ load = 1.0 }}
{OBSERVE % ("light", "light")}
[[experiment]]
name = "heavy"
conditions = {{ load = 2.0 }}
{OBSERVE % ("heavy", "heavy")}
[[predict]]
name = "twice"
conditions = {{ load = 4.0 }}
observe = [ {{ output = "near", how = "final", label = "near at the end", limit = 12.5 }} ]
[design]
method = "sobol"
n = 16
[inference]
method = "metropolis"
chains = 40
draws = 400
"""


def write(folder):
    """Write the study: two tests of two beams, near and far points of each."""
    (folder / "model.py").write_text(MODEL)
    (folder / "study.toml").write_text(STUDY)
    t = np.array([1.0, 2.0, 3.0])
    for name, load, a in (("light", 1.0, 1.0), ("heavy", 2.0, 1.3)):  # the heavy one is another beam
        rows = np.column_stack([t, load * a * t, load * (a + 0.4 * t)])
        text = "\n".join(",".join(f"{v:.6g}" for v in row) for row in rows)
        (folder / f"{name}.csv").write_text(f"t [s],near [m],far [m]\n{text}\n")


def edit(folder, old, new):
    path = folder / "study.toml"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))


def split(folder, by):
    edit(folder, "[inference]", f'[inference]\nsplit = "{by}"')


def few_draws(folder):
    """Sample a tenth as much: for what does not depend on how many draws there are."""
    edit(folder, "draws = 400", "draws = 40")
