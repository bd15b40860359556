"""Every built-in simulator keeps the contract: batteries closed over all of them, so that a new one is asked too."""

from __future__ import annotations

import pytest

from tamis.contract import check_simulator
from tamis.families import builtins
from tamis.interfaces import documentation, references, replayable
from tamis.replays import Replay
from tamis.simulation import complete, find
from tests.sim.pin import POINTS

FAILING = {  # where the physics fails within the bounds
    "acd2.gabion": {"grains": 2, "side": 0.1, "patience": 0.02},  # no time to close
    "acd2.gabion_wall": {
        "grains": 2,
        "side": 0.2,
        "packings": 1,
        "energy_2": 0.0,
    },  # a sensor without a grain
    "dem.impact": {"angle": 0.0, "spin": 80.0},
    "fire.frame": {"load": 5e5},  # more than the frame carries cold
    "fire.member": {"gradient": 300.0, "reached": 100.0},  # the top would be below 20 C
    "hybrid.two_actuators": {"p": 200.0, "delay": 0.02},
    "hybrid.delay": {"delay": 0.3, "k_p": 1e6, "duration": 100.0},
    "motions.filtered_noise": {"omega_rate": 10.3},  # beyond the Nyquist frequency
    "nscd.rocking": {"width": 0.1, "tilt": 40.0},
    "rail.track": {"shortest": 0.3},  # less than two samples
    "rail.vehicle": {"amplitude": 12.0, "spectrum": "high", "duration": 2.0},  # it derails
}
WITHOUT_REPLAY = {
    "acd2.impact",  # one jump, at one instant
    "dem.impact",  # a contact of a hundred microseconds, in which nothing is to be seen
    "hybrid.delay",  # one mass back and forth, drawn as a curve
    "motions.filtered_noise",  # a curve, drawn as such; nothing moves but the ground
    "rail.track",  # four curves; what moves on them is the vehicle
}


def test_every_simulator_is_in_the_battery() -> None:
    assert set(builtins()) == set(POINTS), "give each built-in simulator short points in tests/sim/pin.py"
    assert set(FAILING) | WITHOUT_REPLAY <= set(builtins())


@pytest.mark.filterwarnings("ignore:grains of the packing overlap")  # it is left before they come to rest
@pytest.mark.filterwarnings("ignore:the wall is not at rest")  # a hundredth of a second is enough here
@pytest.mark.filterwarnings(
    "ignore:no heap is left"
)  # of forty grains that fall for some hundredths of a second
@pytest.mark.parametrize("name", builtins())
def test_contract(name: str) -> None:
    check_simulator(find(f"tamis:{name}"), *POINTS[name], failing=FAILING.get(name))


@pytest.mark.parametrize("name", builtins())
def test_it_says_what_it_is_and_every_port_what_it_means(name: str) -> None:
    simulator = find(f"tamis:{name}")
    assert simulator.name == simulator.address == f"tamis:{name}"
    assert documentation(simulator).split("\n")[0] == builtins()[name] != ""
    assert references(simulator), f"{name} names no papers: @simulator(references=...)"
    for port in (*simulator.inputs.values(), *simulator.outputs.values()):
        assert port.doc, port.name
    for port in simulator.inputs.values():
        assert port.default is not None and (port.bounds or port.choices or port.kind == "file"), port.name


@pytest.mark.filterwarnings(
    "ignore:no heap is left"
)  # of forty grains that fall for some hundredths of a second
@pytest.mark.parametrize("name", builtins())
def test_replay(name: str) -> None:
    simulator = find(f"tamis:{name}")
    assert (replayable(simulator) is None) == (name in WITHOUT_REPLAY), (
        f"{name} shows no replay: declare one, or say in WITHOUT_REPLAY why there is nothing to see"
    )
    if shown := replayable(simulator):
        point = complete(simulator, POINTS[name][0])
        replay = shown.replay(point, fps=200.0)
        assert isinstance(replay, Replay)
        assert replay.times[-1] == pytest.approx(point.get("duration", replay.times[-1]))
