"""Write the "measurements" of this example: a formula and drawn errors, no laboratory and no CalculiX.

Step response of an Euler-Bernoulli cantilever, twenty modes of equal damping ratio, tip force put on at once.
"""

from pathlib import Path

import numpy as np

E, ZETA, ERROR = 2.07e11, 0.012, 2e-4  # Pa, -, m: what the calibration must find
DENSITY, LENGTH, WIDTH, THICKNESS = 7850.0, 1.0, 0.03, 0.01
FIRST = np.array([1.8751040687, 4.6940911330, 7.8547574382, 10.9955407349, 14.1371683910])


def tip(t, force, e, zeta):
    """Return the displacement of the tip at times t: each mode has mass m/4 when its tip moves by 1."""
    wave = np.concatenate([FIRST, (np.arange(6, 21) - 0.5) * np.pi])  # roots of cos x cosh x = -1
    omega = wave**2 * np.sqrt(e * THICKNESS**2 / 12 / DENSITY) / LENGTH**2
    mass = DENSITY * LENGTH * WIDTH * THICKNESS
    damped = omega * np.sqrt(1 - zeta**2)
    phase = damped * t[:, None]
    decay = np.exp(-zeta * omega * t[:, None]) * (np.cos(phase) + zeta * omega / damped * np.sin(phase))
    return (4 * force / (mass * omega**2) * (1 - decay)).sum(axis=1)


def main():
    """Write one table a test."""
    t = np.arange(1, 61) * 0.01
    for force, seed in ((-10.0, 1), (-20.0, 2)):
        w = tip(t, force, E, ZETA) + ERROR * np.random.default_rng(seed).standard_normal(len(t))
        rows = "".join(f"{a:.2f},{b:.6f}\n" for a, b in zip(t, w, strict=True))
        (Path(__file__).parent / f"step{-force:.0f}.csv").write_text("t [s],w [m]\n" + rows)


if __name__ == "__main__":
    main()
