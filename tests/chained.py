"""Two conjugate studies of a line and one that draws from their posteriors: shared by the tests of chains.

Model k says y = slope theta; theta ~ N(1, 2^2), one measurement y = 2 with error 0.5: posterior and evidence are known.
The chain throws: z = gain slope + 2 theta + tau N(0, 1), the last of which comes with the seed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.shelf import contents

LINE = """
import numpy as np
import tamis

@tamis.simulator(inputs={"theta": tamis.Port("theta", unit="m")}, outputs={"y": "m"})
def line(*, theta=0.0, slope=1.0, kind=0.0):
    return {"y": slope * theta}

@line.batch(outputs=("y",))
def many(*, theta, slope, kind):
    return {"y": np.asarray(slope * theta)}
"""
THROW = """
import time
import numpy as np
import tamis
from scipy.special import ndtri

PORTS = {"theta": tamis.Port("theta", unit="m")}

@tamis.simulator(inputs=PORTS, outputs={"z": "m"})
def throw(*, theta=0.0, slope=1.0, gain=3.0, tau=0.7, seed=0):
    return {"z": gain * slope + 2.0 * theta + tau * ndtri((seed * 0.6180339887498949 + 0.5) % 1.0)}

@throw.batch(outputs=("z",))
def many(*, theta, slope, gain, tau, seed):
    return {"z": gain * slope + 2.0 * theta + tau * ndtri((seed * 0.6180339887498949 + 0.5) % 1.0)}

@tamis.simulator(inputs=PORTS, outputs={"z": "m"})
def slowly(*, theta=0.0, slope=1.0, gain=3.0, delay=0.0, seed=0):
    time.sleep(delay)
    return {"z": gain * slope + 2.0 * theta + ndtri((seed * 0.6180339887498949 + 0.5) % 1.0)}
"""
COMMON = """
tamis = 1
[model]
simulator = "model.py:line"
[parameters]
theta = { prior = "normal", mean = 1.0, sd = 2.0 }
[[experiment]]
name = "pull"
observe = [ { output = "y", data = "pull.csv", y = "y", noise = { kind = "known", sd = 0.5 } } ]
[design]
n = 8
[inference]
n = 4000
"""
CHAIN = """
tamis = 1
[model]
simulator = "model.py:throw"
[parameters]
from = ["../line/one.toml", "../line/half.toml"]
draws = 4000
replicates = 2
[[predict]]
name = "far"
observe = [ { output = "z", limit = 8.0 } ]
[[predict]]
name = "gains"
sweep = { input = "gain", start = 1, stop = 5, n = 5 }
observe = [ { output = "z" } ]
"""


FRAGILITY = """
[fragility]
predict = "gains"
intensity = "gain"
limit = 8.0
"""


def write_chain(folder: Path) -> Path:
    """Write the two studies and the chain; return the folder of the chain."""
    line, chain = folder / "line", folder / "chain"
    for each in (line, chain):
        each.mkdir(parents=True)
    (line / "model.py").write_text(LINE)
    (line / "common.toml").write_text(COMMON)
    (line / "one.toml").write_text('extends = "common.toml"\n')
    (line / "half.toml").write_text('extends = "common.toml"\n[model.inputs]\nslope = 0.5\n')
    (line / "pull.csv").write_text("y\n2.0\n")
    (chain / "model.py").write_text(THROW)
    (chain / "study.toml").write_text(CHAIN)
    return chain


def small_chain(folder: Path, delay: float = 0.0) -> Path:
    """Write a chain whose prediction takes 192 runs, each of which may be made to last, and its fragility no more."""
    chain = write_chain(folder)
    for file, old, new in (
        (folder / "line/common.toml", "n = 4000", "n = 300"),
        (chain / "study.toml", 'model.py:throw"', f'model.py:slowly"\ninputs = {{ delay = {delay} }}'),
        (chain / "study.toml", "draws = 4000", "draws = 30"),
        (chain / "study.toml", "n = 5", "n = 2"),
    ):
        file.write_text(file.read_text().replace(old, new))
    (chain / "study.toml").write_text((chain / "study.toml").read_text() + FRAGILITY)
    return chain


def chain_files(chain: Path) -> dict[str, bytes]:
    """Return all that a chain and its sources leave, but for what holds times."""
    found = {
        str(p.relative_to(chain.parent)): p.read_bytes() for p in chain.parent.glob("*/results/**/*.npz")
    }
    for each in (chain.parent / "line", chain):
        found |= {f"{each.name}/{name}": content for name, content in contents(each / "runs").items()}
    return found


def exact(slope: float) -> tuple[float, float, float]:
    """Return mean and variance of the posterior, and the log evidence."""
    prior, noise, y = 4.0, 0.25, 2.0
    variance = 1 / (1 / prior + slope**2 / noise)
    spread = slope**2 * prior + noise
    evidence = -0.5 * np.log(2 * np.pi * spread) - 0.5 * (y - slope) ** 2 / spread
    return variance * (1.0 / prior + slope * y / noise), variance, evidence
