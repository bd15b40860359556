"""What a train is to be like: the fields are the inputs of its simulator. A track is in `tracks`."""

from __future__ import annotations

from dataclasses import dataclass

from tamis.interfaces import Case, port
from tamis.replays import Replay
from tamis.sim.rail.tracks import SPECTRA


@dataclass(frozen=True)
class Vehicle(Case):
    """Cars of the Manchester benchmark at constant speed on a straight irregular track, sensors at one bogie."""

    w1: float = port(
        0.5, bounds=(0.0, 1.0), doc="yaw dampers of the measured bogie; 0.5 is nominal, 0 half of it"
    )
    w2: float = port(0.5, bounds=(0.0, 1.0), doc="lateral dampers of the other bogie of that car")
    w3: float = port(0.5, bounds=(0.0, 1.0), doc="lateral dampers of the measured bogie")
    w4: float = port(0.5, bounds=(0.0, 1.0), doc="secondary vertical stiffness of the measured bogie")
    w5: float = port(0.5, bounds=(0.0, 1.0), doc="secondary vertical dampers of the measured bogie")
    w6: float = port(0.5, bounds=(0.0, 1.0), doc="primary vertical dampers of the measured bogie")
    w7: float = port(0.5, bounds=(0.0, 1.0), doc="primary longitudinal stiffness of the measured bogie")
    speed: float = port(60.0, unit="m/s", bounds=(1.0, 200.0), doc="of the train")
    duration: float = port(12.5, unit="s", bounds=(0.05, 600.0), doc="from the first to the last sample")
    seed: int = port(1, bounds=(0, 2**63 - 1), doc="of the track, where it is not from a file")
    track: str = port(
        "",
        kind="file",
        doc="CSV with columns s, lateral, gauge, vertical, cross_level in m; empty: from the spectra",
    )
    spectrum: str = port("low", choices=SPECTRA, doc="disturbance of a track from spectra, ERRI B176")
    variation: float = port(
        0.0,
        bounds=(0.0, 1.0),
        doc="of the level of a track from spectra, standard deviation of its logarithm",
    )
    amplitude: float = port(1.0, bounds=(0.0, 100.0), doc="factor on all irregularities")
    cars: int = port(1, bounds=(1, 20), doc="coupled at their ends")
    sensors: str = port(
        "head",
        choices=("head", "rear"),
        doc="measured bogie: the first of the train or the last one",
    )
    conicity: float = port(0.1, bounds=(0.0, 0.6), doc="of the wheels at nominal gauge")
    friction: float = port(0.4, bounds=(0.01, 1.0), doc="coefficient between wheels and rails")
    rate: float = port(200.0, unit="Hz", bounds=(10.0, 5000.0), doc="samples a second")
    step: float = port(
        1e-3, unit="s", bounds=(1e-6, 2e-3), doc="longest time step; shorter where stability asks for it"
    )
    runup: float = port(
        1.0,
        unit="s",
        bounds=(0.0, 60.0),
        doc="of running before the first sample, in which the irregularities fade in from a perfect track",
    )

    def replay(self, fps: float) -> Replay:
        """Show the train on its track."""
        from tamis.sim.rail.drawing import replay

        return replay(self, fps)
