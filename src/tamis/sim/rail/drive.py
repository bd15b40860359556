"""Trains from scene to outputs: arrays, the step, sampled signals, what failed turned into errors."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tamis.errors import SimulationError
from tamis.sim.rail import kernels, tracks, vehicle
from tamis.sim.rail.kernels import BODIES, DAMPERS, Bogies, Car
from tamis.sim.rail.scene import Vehicle
from tamis.sim.rail.tracks import Track
from tamis.types import Array

SHOWN = 20.0  # Hz: what a track has to show at the speed of the train
_STABLE = 2.0  # of 2.78, where the steps of Runge-Kutta's method grow along the negative axis
_FLOOR = -0.8  # m, of the floor above the centre of the car body
SENSORS = ("car_lateral", "car_vertical", "bogie_lateral", "bogie_vertical")


class Train(NamedTuple):
    """A train as its kernels take it."""

    car: Car
    bogies: Bogies
    lead: Array
    measured: int  # bogie with the sensors

    @property
    def freedoms(self) -> int:
        """Number of displacements."""
        return len(self.lead) // 4 * BODIES

    @property
    def size(self) -> int:
        """Length of the state."""
        return len(self.lead) // 4 * (2 * BODIES + DAMPERS)


class Journey(NamedTuple):
    """What was sampled of a run: times, displacements, accelerations, forces of the wheels, track."""

    t: Array
    states: Array
    accelerations: Array
    loads: Array  # samples, wheelsets, (load left, right, lateral force left, right)
    line: tracks.Line
    start: float


def train_of(case: Vehicle) -> Train:
    """Return the train of a case."""
    measured = 0 if case.sensors == "head" else 2 * case.cars - 1
    w = {name: getattr(case, name) for name in ("w1", "w2", "w3", "w4", "w5", "w6", "w7")}
    car = vehicle.car(case.conicity, case.friction)
    return Train(car, vehicle.bogies(case.cars, measured, w), vehicle.leads(case.cars), measured)


def jacobian(train: Train, v: float) -> Array:
    """Return the linearised rates of a train at rest on a perfect track."""
    n = train.size
    perfect, loads = np.zeros((1, kernels.SIGNALS, 4)), np.empty((len(train.lead), 4))
    moving = 2 * train.freedoms
    scale = np.concatenate([np.full(moving, 1e-7), np.full(n - moving, 1e-2)])  # m, m/s; N
    slopes = np.empty((n, n))
    ahead, behind = np.empty(n), np.empty(n)
    for i in range(n):
        x = np.zeros(n)
        x[i] = scale[i]
        kernels.evaluate(x, 0.0, v, train.lead, 1.0, perfect, train.car, train.bogies, ahead, loads)
        kernels.evaluate(-x, 0.0, v, train.lead, 1.0, perfect, train.car, train.bogies, behind, loads)
        slopes[:, i] = (ahead - behind) / (2.0 * scale[i])
    return slopes


def _step(train: Train, fastest: float, longest: float, between: float) -> int:
    """Return the number of steps from sample to sample: stable at rest, and where dampers have blown off."""
    car, bogies = train.car, train.bogies
    blown = (
        car.secondary_series * car.lateral_ratio / bogies.lateral_rate.min(),
        car.secondary_series * car.vertical_ratio / bogies.vertical_rate.min(),
        car.yaw_series * car.yaw_ratio / bogies.yaw_rate.min(),
    )
    limit = min(longest, _STABLE / max(fastest, *map(float, blown)))
    return max(1, math.ceil(between / limit - 1e-9))


def line_of(case: Vehicle, needed: float) -> tracks.Line:
    """Return the track of a case, at least as long as the train needs."""
    if not case.track:
        return tracks.synthesised(
            Track(
                spectrum=case.spectrum,
                length=needed + 1.0,
                seed=case.seed,
                variation=case.variation,
                amplitude=case.amplitude,
            )
        )
    name = Path(case.track).name
    line = tracks.load(case.track)
    if line.s[-1] < needed * (1.0 - 1e-12):
        raise SimulationError(
            f"{name} is {line.s[-1]:g} m long; the train needs {needed:g} m: {case.runup:g} s of run-up and "
            f"{case.duration:g} s at {case.speed:g} m/s, and its own length; lower duration, speed, runup or cars"
        )
    if line.spacing > 0.5 * case.speed / SHOWN:
        raise SimulationError(
            f"{name} has a sample every {line.spacing:g} m: at {case.speed:g} m/s it shows nothing above "
            f"{0.5 * case.speed / line.spacing:.3g} Hz; {SHOWN:g} Hz need {0.5 * case.speed / SHOWN:.3g} m or less"
        )
    return tracks.Line(line.s, case.amplitude * line.signals)


def faded(line: tracks.Line, start: float, over: float) -> tracks.Line:
    """Return a track whose irregularities grow from nothing where the train stands to all of them after the run-up."""
    if over <= 0.0:
        return line
    ahead = np.clip((line.s - start) / over, 0.0, 1.0)
    return tracks.Line(line.s, line.signals * (ahead**3 * (10.0 - 15.0 * ahead + 6.0 * ahead**2))[:, None])


def travel(case: Vehicle) -> tuple[Train, Journey, float]:
    """Run a train; return what was sampled and the greatest growth rate of the linearised train, in 1/s."""
    train = train_of(case)
    start = float(train.lead[-1])
    count = int(case.duration * case.rate * (1.0 + 1e-12) + 1e-9) + 1
    before = math.ceil(case.runup * case.rate - 1e-9)
    needed = start + case.speed * (before + count - 1) / case.rate
    line = faded(line_of(case, needed), start, 0.8 * case.speed * case.runup)
    values = np.linalg.eigvals(jacobian(train, case.speed))
    between = _step(train, float(np.abs(values).max()), case.step, 1.0 / case.rate)
    n, samples = train.freedoms, before + count
    states, accelerations = np.empty((samples, n)), np.empty((samples, n))
    loads = np.empty((samples, len(train.lead), 4))
    with np.errstate(all="ignore"):
        status, s = kernels.run(
            np.zeros(train.size), start, case.speed, 1.0 / (case.rate * between), between, train.lead,
            line.spacing, tracks.pieces(line), train.car, train.bogies, states, accelerations, loads,
        )  # fmt: skip
    _check(status, s, start, case)
    t = np.arange(count) / case.rate
    kept = slice(before, None)
    journey = Journey(
        t, states[kept], accelerations[kept], loads[kept], line, start + case.speed * before / case.rate
    )
    return train, journey, float(values.real.max())


def simulate(case: Vehicle) -> dict[str, Array]:
    """Run a train and return what its sensors show."""
    train, journey, growth = travel(case)
    car, end = divmod(train.measured, 2)
    a = journey.accelerations[:, car * BODIES : (car + 1) * BODIES]
    arm, o = train.car.pivot * (1 - 2 * end), 5 + 5 * end
    wheels = journey.loads[:, 4 * car : 4 * car + 4]
    vertical, lateral = wheels[:, :, :2], wheels[:, :, 2:]
    quotient = np.abs(lateral) / np.maximum(vertical, 0.05 * train.car.load)
    signals = {
        "car_lateral": a[:, 0] + arm * a[:, 4] - _FLOOR * a[:, 2],
        "car_vertical": a[:, 1] - arm * a[:, 3],
        "bogie_lateral": a[:, o] + train.car.axle * (1 - 2 * end) * a[:, o + 4],
        "bogie_vertical": a[:, o + 1] - train.car.axle * (1 - 2 * end) * a[:, o + 3],
    }
    dt = 1.0 / case.rate
    return {
        "t": journey.t,
        **signals,
        "wheel_loads": vertical.reshape(len(vertical), 8),
        "derailment": np.array(quotient.max()),
        "ride_lateral": np.array(ride(signals["car_lateral"], dt, 0.737)),
        "ride_vertical": np.array(ride(signals["car_vertical"], dt, 0.588)),
        "growth": np.array(growth),
    }


def ride(a: Array, dt: float, weight: float) -> float:
    """Return Sperling's ride index of an acceleration: 4.42 (weighted root mean square)^0.3."""
    f = np.fft.rfftfreq(len(a), dt)
    square = np.square(f)
    above = 1.911 * square + np.square(0.25 * square)
    below = np.square(1.0 - 0.277 * square) + np.square(1.563 * f - 0.0368 * square * f)
    power = np.square(np.abs(np.fft.rfft(a)) / len(a)) * 2.0
    return float(4.42 * (weight * math.sqrt(float((power * above / below).sum()))) ** 0.3)


def track(case: Track) -> dict[str, Array]:
    """Return the signals of a track."""
    line = tracks.made(case)
    return {"s": line.s, **dict(zip(tracks.NAMES, line.signals.T, strict=True))}


def warm() -> None:
    """Compile every kernel of the family, once, before several processes or threads need them."""
    simulate(Vehicle(duration=0.05, runup=0.0))


def _check(status: int, s: float, start: float, case: Vehicle) -> None:
    t = (s - start) / case.speed - case.runup
    where = f"with the first wheelset at s = {s:.1f} m of the track, t = {t:.2f} s"
    if status == kernels.DERAILED:
        raise SimulationError(
            f"derailment {where}: a flange has climbed {1e3 * kernels.CLIMBED:g} mm beyond its clearance; the track is "
            "too rough or the train unstable at this speed"
        )
    if status == kernels.DIVERGED:
        raise SimulationError(f"the motion diverged {where}; lower step, found {case.step:g} s")
