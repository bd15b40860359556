"""Make the stretches of this example: tracks, and what sensors would show on them.

Twenty stretches with worn suspensions (w3 = 0.25, w4 = 0.7, w5 = 0.35) and ten reference stretches with new ones. The
train that "measures" is not the model that is calibrated: its conicity is 0.12 instead of 0.1 and its friction 0.36
instead of 0.4, and its accelerometers have noise. That is the error that the reference stretches are there to identify.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from tamis.simulation import find

HERE = Path(__file__).parent
TRACK = ("s", "lateral", "gauge", "vertical", "cross_level")
SENSORS = ("car_lateral", "car_vertical", "bogie_lateral", "bogie_vertical")
COMMON = {"speed": 40.0, "duration": 5.0, "runup": 1.0, "rate": 80.0}
WORN = {"w3": 0.25, "w4": 0.7, "w5": 0.35}
REAL = {"conicity": 0.12, "friction": 0.36}
NOISE = 0.02  # m/s2


def main() -> None:
    """Write tracks, signals and the two tables that name them."""
    track, vehicle = find("tamis:rail.track"), find("tamis:rail.vehicle")
    data = HERE / "data"
    with tempfile.TemporaryDirectory() as scratch:
        for kind, count, worn in (("stretch", 20, WORN), ("reference", 10, {})):
            rows = ["track,signals"]
            for k in range(1, count + 1):
                seed = k + (1000 if worn else 2000)
                made = track.run(
                    {"length": 264.0, "spacing": 0.5, "seed": seed, "variation": 0.3}, Path(scratch)
                )
                names = f"data/{kind}_{k:02d}_track.csv", f"data/{kind}_{k:02d}_signals.csv"
                table = np.column_stack([made[name] for name in TRACK])
                head = ",".join(f"{name} [m]" for name in TRACK)
                np.savetxt(HERE / names[0], table, ["%.6g", *["%.4g"] * 4], ",", header=head, comments="")
                shown = vehicle.run({**COMMON, **REAL, **worn, "track": str(HERE / names[0])}, Path(scratch))
                noise = NOISE * np.random.default_rng(seed).standard_normal((len(shown["t"]), 4))
                signals = np.column_stack([shown[name] for name in SENSORS]) + noise
                head = ",".join(["t [s]", *(f"{name} [m/s2]" for name in SENSORS)])
                np.savetxt(
                    HERE / names[1],
                    np.column_stack([shown["t"], signals]),
                    ["%.6g", *["%.4g"] * 4],
                    ",",
                    header=head,
                    comments="",
                )
                rows.append(",".join(names))
            table_file = data / f"{'stretches' if worn else 'reference'}.csv"
            table_file.write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
