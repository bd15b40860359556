"""Draw a wall of nine gabions after four impacts in the layout of Figures 12 to 21 of Dimnet et al. (2013).

`python figures.py` strikes the wall of the defaults, which takes minutes on one core and more the first time, for its
packings; it keeps the signals in wall.npz, prints what was found as Markdown and draws forces.png, accelerations.png
and displacements.png. The measured curves of the paper are not printed as numbers, so there is nothing to lay beside
these; what bounds them is a plastic collision of the ball with all gabions or with the central one alone, and a bed of
springs.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from observe import filtered, statistics

from tamis.simulation import find

HERE = Path(__file__).parent
BALL, GRAINS, K_WW = 260.0, 216, 3e4
SENSORS = ("f1", "f2", "f3", "f4")
SHARES = (0.2, 0.4, 0.8, 1.0)
SPEEDS = np.sqrt(2.0 * 9.81 * 4.0 * np.array(SHARES))


def signals() -> dict[str, np.ndarray]:
    """Return the signals of the wall, from the file where they are kept."""
    path = HERE / "wall.npz"
    if not path.exists():
        found = find("tamis:acd2.gabion_wall")(rebound=0.1)
        np.savez(path, **found)
    return dict(np.load(path))


def bound(gabions: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Return displacement, force and duration where so many gabions move as one with the ball."""
    mass = BALL + gabions * GRAINS * 0.9
    stiffness = gabions * round(GRAINS ** (2 / 3)) * K_WW
    way = SPEEDS * BALL / mass * np.sqrt(mass / stiffness)
    return way, stiffness * way, float(np.pi * np.sqrt(mass / stiffness))


def tables(found: dict[str, np.ndarray]) -> None:
    """Print what each impact does, and what its accelerations have in common."""
    t, each = found["t"], len(found["t"]) // 4
    total = sum(filtered(t, found[name]) for name in SENSORS).reshape(4, -1)
    pulse = (t[1] - t[0]) * (total > 0.1 * total.max(axis=1)[:, None]).sum(axis=1)
    alone, nine = bound(1), bound(9)
    left = np.diff(found["back_left"], prepend=0.0)
    energy = 0.5 * BALL * SPEEDS**2
    late = found["ball_speed"].reshape(4, -1)[:, -each // 10 :].mean(axis=1)
    print("| | " + " | ".join(f"{share:.0%}" for share in SHARES) + " |\n|---|---|---|---|---|")
    for name, values, form in (
        ("largest way of the central back (mean) [cm]", 100 * found["back_peak"], ".1f"),
        ("largest way of a grain of the back [cm]", 100 * found["displacement"], ".1f"),
        (
            "bounds: all nine as one, the central one alone [cm]",
            zip(100 * nine[0], 100 * alone[0], strict=True),
            ".1f",
        ),
        ("central back at the end [cm]", 100 * found["back_left"], ".1f"),
        ("left by this impact [cm/kJ]", 1e5 * left / energy, ".2f"),
        ("force behind the central gabion [kN]", total.max(axis=1) / 1e3, ".0f"),
        ("force behind the wall [kN]", found["force_peak"] / 1e3, ".0f"),
        ("bounds [kN]", zip(nine[1] / 1e3, alone[1] / 1e3, strict=True), ".0f"),
        (
            f"above a tenth of it for [ms] (bounds {1e3 * nine[2]:.0f}, {1e3 * alone[2]:.0f})",
            1e3 * pulse,
            ".0f",
        ),
        ("ball before, over the last hundredth of a second [m/s]", zip(SPEEDS, late, strict=True), ".2f"),
    ):
        cells = [" to ".join(format(v, form) for v in np.atleast_1d(value)) for value in values]
        print(f"| {name} | " + " | ".join(cells) + " |")
    for name in ("a1", "a2", "a3", "a4"):
        rows = statistics(t, found[name], impacts=4)
        cells = [f"{a:.0f} m/s2, {f:.0f} Hz, {1e3 * d:.0f} ms" for a, f, d in rows]
        print(f"| {name}: largest, mean frequency, 5 to 95 % | " + " | ".join(cells) + " |")
    inside = (found["contacts"] >= 6200) & (found["contacts"] <= 8600)
    low, high = np.percentile(found["contacts"], [5, 95])
    print(
        f"\ncontacts a step: {low:.0f} to {high:.0f} in 90 % of the steps, 6200 to 8600 in {inside.mean():.1%} of them"
    )
    print(f"books of energy close to {found['closure']:.0e}, of momentum to {found['momentum_closure']:.0e}")


def grid(found: dict[str, np.ndarray], names: tuple[str, ...], title: str, unit: float) -> Figure:
    """Draw signals: one row a sensor, one column an impact."""
    t = found["t"].reshape(4, -1)[0]
    figure = Figure(figsize=(11, 2.1 * len(names)), layout="constrained")
    axes = figure.subplots(len(names), 4, sharex=True, sharey="row", squeeze=False)
    for row, name in zip(axes, names, strict=True):
        smooth = filtered(found["t"], found[name]).reshape(4, -1)
        for ax, raw, line in zip(row, found[name].reshape(4, -1), smooth, strict=True):
            ax.plot(1e3 * t, raw / unit, color="0.8", lw=0.6, label="as computed")
            ax.plot(1e3 * t, line / unit, color="C3", lw=0.9, label="below 600 Hz")
        row[0].set_ylabel(f"{name} {title}")
    for ax, share in zip(axes[0], SHARES, strict=True):
        ax.set_title(f"{share:.0%} of the energy", fontsize=9)
    for ax in axes[-1]:
        ax.set_xlabel("ms")
    axes[0, -1].legend(fontsize=7)
    figure.align_ylabels(axes[:, 0])
    return figure


def displacements(found: dict[str, np.ndarray]) -> Figure:
    """Draw the largest and the last displacement of each impact, and the ball's peak deceleration."""
    figure = Figure(figsize=(11, 4.0), layout="constrained")
    left, right = figure.subplots(1, 2)
    share = 100 * np.array(SHARES)
    left.plot(share, 100 * found["displacement"], "o-", color="C3", label="largest of a grain of the back")
    left.plot(share, 100 * found["back_peak"], "s-", color="C0", label="central gabion, mean of its back")
    left.plot(share, 100 * found["back_left"], "s:", color="C0", label="the same at the end of the impact")
    left.plot(share, 100 * bound(1)[0], "--", color="0.4", label="bound: central gabion alone")
    left.plot(share, 100 * bound(9)[0], "-.", color="0.4", label="bound: all nine as one")
    left.set(xlabel="share of the energy [%]", ylabel="displacement since the first impact [cm]")
    left.set_ylim(top=1.45 * left.get_ylim()[1])
    left.legend(fontsize=7, ncols=2, loc="upper left")
    smooth = filtered(found["t"], found["a1"]).reshape(4, -1)
    right.plot(share, -smooth.min(axis=1), "o-", color="C3")
    right.set(xlabel="share of the energy [%]", ylabel="largest deceleration of the ball [m/s2]")
    return figure


def main() -> None:
    """Draw all figures beside this file, or into a folder that is given."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    found = signals()
    tables(found)
    grid(found, SENSORS, "[kN]", 1e3).savefig(folder / "forces.png", dpi=130)
    grid(found, ("a1", "a2", "a3", "a4"), "[m/s2]", 1.0).savefig(folder / "accelerations.png", dpi=130)
    displacements(found).savefig(folder / "displacements.png", dpi=130)


if __name__ == "__main__":
    main()
