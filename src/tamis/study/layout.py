"""Which observed numbers belong in one picture, where they stand among all, and what their axes are called."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tamis.experiment import Experiment, Observation
from tamis.simulation import Simulator
from tamis.study.series import Series
from tamis.types import Array


@dataclass(frozen=True)
class Block:
    """One observation of one series, in the order of its abscissa."""

    series: Series
    label: str
    xlabel: str  # "" where it is one number
    ylabel: str
    columns: NDArray[np.int64]  # its numbers, among those of all experiments of the layout
    owners: NDArray[np.int64]  # the place in the series of the experiment each comes from
    x: Array
    axis: str = (
        ""  # title of the abscissa of one experiment, where the numbers of several stand one after the other
    )

    @property
    def signal(self) -> bool:
        """Whether its numbers are samples of one signal."""
        return not self.series.along and len(self.columns) > 1


def layout(series: Sequence[Series], simulator: Simulator) -> list[Block]:
    """Return the blocks of several series, whose experiments' numbers stand side by side."""
    blocks, start = [], 0
    for one in series:
        for j, observation in enumerate(one.experiments[0].observations):
            columns, owners = _columns(one, j)
            order = np.argsort(one.values, kind="stable") if one.along else np.arange(len(columns))
            axis = _axis(simulator, one, observation)
            many = observation.coord is not None and len(one.experiments) > 1 and not one.along
            ylabel = titled(observation.label, observation.observable.unit)
            x = _abscissa(one, observation)[order]
            blocks.append(
                Block(
                    one,
                    observation.label,
                    "index over the tests" if many else axis,
                    ylabel,
                    start + columns[order],
                    owners[order],
                    x,
                    axis if many else "",
                )
            )
        start += sum(size(e.observations) for e in one.experiments)
    return blocks


def places(series: Sequence[Series]) -> Iterator[tuple[Series, Experiment, slice]]:
    """Walk over the experiments of several series, saying which columns hold the numbers of each."""
    start = 0
    for one in series:
        for experiment in one.experiments:
            stop = start + size(experiment.observations)
            yield one, experiment, slice(start, stop)
            start = stop


def size(observations: Sequence[Observation]) -> int:
    """Return how many numbers are observed."""
    return sum(o.size for o in observations)


def titled(name: str, unit: str) -> str:
    """Write a name with its unit."""
    return f"{name} [{unit}]" if unit else name


def _columns(series: Series, j: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    start = 0
    found: list[int] = []
    owners: list[int] = []
    for i, experiment in enumerate(series.experiments):
        part = experiment.parts()[j]
        found.extend(range(start + part.start, start + part.stop))
        owners.extend([i] * (part.stop - part.start))
        start += experiment.parts()[-1].stop
    return np.array(found, dtype=np.int64), np.array(owners, dtype=np.int64)


def _abscissa(series: Series, observation: Observation) -> Array:
    if series.along:
        return np.array(series.values)
    if observation.coord is not None and len(series.experiments) == 1:
        return observation.coord
    return np.arange(len(series.experiments) * observation.size, dtype=float)


def _axis(simulator: Simulator, series: Series, observation: Observation) -> str:
    if series.along:
        return titled(series.along, simulator.inputs[series.along].unit)
    if observation.coord is None:
        return ""
    axis = observation.observable.axis
    return titled(axis, simulator.outputs[axis].unit) if axis in simulator.outputs else axis
