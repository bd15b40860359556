"""The share of a site's impacts that the calibrated wall stops, from the impacts that a trajectory code wrote.

``python share_stopped.py impacts.csv [--study all] [--limit 1.0] [--repeats 1]``: one impact a row, ``energy [J]``,
or ``mass [kg]`` and ``speed [m/s]``; ``height [m]`` and ``incidence [deg]`` of the path at the wall may follow,
``impact [m]`` along it and the boulder's ``size [m]``; without a size it has the density of that of the tests. A
boulder that comes lower than half its size rolls, and is run as one that touches the ground. Each is run, on the wall
of the study, with parameters drawn from the study's posterior. Printed are the share stopped and the share stopped with
the base moved by less than the limit, with 90 % credible intervals (prior of Jeffreys). Repeats
of an impact tell more of that impact and not of the site: intervals are those of as many impacts as the file has.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from impacts import HERE, STUDY, plainly, run
from scipy.stats import beta

import tamis
from tamis.errors import SimulationError, StudyError
from tamis.sheets import read_csv

UNITS = {
    "energy": "J",
    "mass": "kg",
    "speed": "m/s",
    "height": "m",
    "incidence": "deg",
    "impact": "m",
    "size": "m",
}
TOUCH = 1e-3  # m above the ground, of a boulder that rolls


def impacts(path):
    """Return the inputs of each impact of a file."""
    sheet = read_csv(path)
    if "energy" not in sheet.cells and "speed" not in sheet.cells:
        raise StudyError(
            f"{sheet.path.name} gives neither energy nor speed; expected a column energy [J], or speed [m/s] and "
            "mass [kg]"
        )
    unknown = [name for name in sheet.cells if name not in UNITS]
    if unknown:
        raise StudyError(
            f'{sheet.path.name}: no input "{unknown[0]}" of an impact; expected some of {", ".join(UNITS)}'
        )
    for name in sheet.cells:
        if sheet.units.get(name, UNITS[name]) != UNITS[name]:
            raise StudyError(
                f'{sheet.path.name} gives {name} in "{sheet.units[name]}"; convert it to {UNITS[name]}'
            )
    columns = {name: sheet.numbers(name) for name in sheet.cells}
    for name in ("energy", "speed"):
        if name in columns and columns[name].min() <= 0.0:
            raise StudyError(
                f"{sheet.path.name}: {name} must be above 0 in every row, found {columns[name].min():g}; leave "
                "out what does not reach the wall"
            )
    return [sized({name: float(column[i]) for name, column in columns.items()}) for i in range(len(sheet))]


def sized(impact):
    """Return an impact with the size of its boulder, and above the ground."""
    usual = {
        name: STUDY.fixed.get(name, STUDY.simulator.inputs[name].default)
        for name in ("mass", "size", "height")
    }
    scale = (impact.get("mass", usual["mass"]) / usual["mass"]) ** (1.0 / 3.0)
    size = impact.get("size", usual["size"] * scale)
    return {**impact, "size": size, "height": max(impact.get("height", usual["height"]), 0.5 * size + TOUCH)}


def share(held):
    """Return a share of impacts and its 90 % interval, with the prior of Jeffreys; each counts by its repeats."""
    k, n = float(np.sum(held)), len(held)
    low, high = beta.ppf([0.05, 0.95], k + 0.5, n - k + 0.5)
    return f"{k:g} of {n}: {k / n:.2f} ({low:.2f} to {high:.2f})"


def words(impact):
    """Return an impact as one reads it."""
    return ", ".join(f"{name} {impact[name]:.4g} {unit}" for name, unit in UNITS.items() if name in impact)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--study", default="all")
    parser.add_argument("--limit", type=float, default=1.0, help="of the displacement of the base, m")
    parser.add_argument("--repeats", type=int, default=1, help="draws of the posterior for each impact")
    options = parser.parse_args()
    if options.repeats < 1:
        parser.error("--repeats: expected 1 or more")
    asked = impacts(options.file)
    posterior, rng = tamis.load_results(HERE / "results" / options.study).posterior, np.random.default_rng(1)
    if posterior is None:
        raise StudyError(f"results/{options.study} has no posterior yet: tamis run {options.study}.toml")
    names, draws = posterior.space.names, posterior.flat
    stopped, within, left_out, start = [], [], 0, time.monotonic()
    for k, impact in enumerate(asked):
        held = []
        try:
            for _ in range(options.repeats):
                point = dict(zip(names, draws[rng.integers(len(draws))].tolist(), strict=True))
                found = run({**point, **impact})
                way, holds = float(found["base"].max()), bool(found["stopped"])
                held.append((holds, holds and way < options.limit))
                moving = "" if found["at_rest"] else ", still moving at the end"
                print(
                    f"{words(impact)}: {'' if holds else 'not '}stopped, base moved by {way:.2f} m{moving}",
                    flush=True,
                )
        except SimulationError as error:
            left_out += 1
            print(f"left out, {words(impact)}: {error}")
            continue
        for shares, one in zip((stopped, within), np.mean(held, axis=0), strict=True):
            shares.append(one)
        left = (time.monotonic() - start) / (k + 1) * (len(asked) - k - 1)
        if left > 0.0:
            print(f"{left:.0f} s left", flush=True)
    if left_out:
        print(f"left out of the shares: {left_out} of {len(asked)} impacts")
    if stopped:
        print(f"stopped: {share(stopped)}")
        print(f"stopped, and base below {options.limit:g} m: {share(within)}")


if __name__ == "__main__":
    plainly(main)
