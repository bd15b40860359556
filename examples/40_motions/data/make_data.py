"""Make the tables of this example from the record: motion, spectrum, measures and what single motions scatter by."""

from pathlib import Path

import numpy as np

from tamis import read_record, signals
from tamis.observables import MEASURES
from tamis.sim.motions.identify import identify
from tamis.simulation import find

HERE = Path(__file__).parent
STEP = 0.01  # s, that of the simulated motions
TAKEN = ("arias", "d5_95", "t45", "crossings_5_45", "crossings_45_95", "reversals_5_95")
MOTIONS = 300


def table(name: str, header: str, *columns: np.ndarray) -> None:
    np.savetxt(HERE / name, np.column_stack(columns), fmt="%.6g", delimiter=",", header=header, comments="")


def main() -> None:
    record = read_record(HERE / "RSN753_LOMAP_CLS000-hor1.AT2").at_step(STEP)
    found = identify(record.a, STEP)
    print(record.title, found, sep="\n")
    # how much the measures of one motion scatter about their mean: over motions of the parameters identified
    given = {name: np.full(MOTIONS, value) for name, value in vars(found).items()}
    motions = find("tamis:motions.filtered_noise").batch({**given, "seed": np.arange(MOTIONS)})["a"]
    measures, header = [], []
    for how in TAKEN:
        scatter = signals.MEASURES[how](motions, STEP)
        value = float(signals.MEASURES[how](record.a, STEP))
        measures += [[value], [float(value * scatter.std() / scatter.mean())]]
        header += [f"{how} [{MEASURES[how]}]", f"{how}_sd [{MEASURES[how]}]"]
    table("measures.csv", ",".join(header), *np.array(measures))
    shown = slice(0, 2001, 2)  # 20 s
    table("motion.csv", "t [s],a [m/s2]", record.t[shown], record.a[shown])
    periods = np.geomspace(0.05, 5.0, 41)
    table("spectrum.csv", "period [s],a [m/s2]", periods, signals.response_spectrum(record.a, STEP, periods))


if __name__ == "__main__":
    main()
