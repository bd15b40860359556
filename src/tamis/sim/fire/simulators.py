"""The simulators of the family and their ports."""

from __future__ import annotations

from tamis.interfaces import Port
from tamis.sim.fire import braced, virtual
from tamis.sim.fire.braced import Braced
from tamis.sim.fire.drive import results
from tamis.sim.fire.scene import Frame, Member
from tamis.sim.fire.virtual import Hybrid
from tamis.simulation import simulator
from tamis.types import Array

_EN = "EN 1993-1-2:2005, Eurocode 3: design of steel structures, structural fire design"
_SERA = "SERA deliverable D27.1, 2019, section 3 and 6.3"
_CRISFIELD = "Crisfield 1991, Non-linear Finite Element Analysis of Solids and Structures, vol. 1, chapter 7"
_RIKS = "Riks 1979, doi:10.1016/0020-7683(79)90081-7"
_COMMON = {
    "time": Port(
        "time", unit="s", doc="instants recorded, from the start of the fire to its end or to failure"
    ),
    "temperature": Port("temperature", unit="C", doc="temperature of the hottest member at time"),
    "failed": Port("failed", doc="1 where no equilibrium is left before the fire ends, else 0"),
    "limit_point": Port(
        "limit_point",
        doc="1 where arc length went through the limit point and found the equilibria behind it, which are at earlier "
        "times and unstable; 0 where there is no failure, or where the path was lost there",
    ),
    "failure_time": Port("failure_time", unit="s", doc="of failure; the end of the fire where there is none"),
    "failure_temperature": Port("failure_temperature", unit="C", doc="of the hottest member at failure_time"),
}

_PLACES = {
    "corner_ux": "left joint of the first floor, along x",
    "corner_uy": "left joint of the first floor, upwards",
    "joint_uy": "second joint of the first floor, upwards",
    "mid_beam_uy": "middle of the first beam of the first floor, upwards",
    "roof_ux": "left joint of the roof, along x",
}


def warm() -> None:
    """Compile every kernel of the family, once, before several processes need them."""
    Frame(bays=1, storeys=1, elements=2, fibres="7", fire="iso834", until=60.0).history()
    Frame(bays=1, storeys=1, elements=2, fibres="7", fire="iso834", until=60.0, protection=0.01).history()
    Member(elements=2, fibres="7", load=4e4, reached=1000.0, record=50.0).history()
    Hybrid(elements=2, bays=1, storeys=2, settling=1.0, until=5.0, record=1.0).test()
    Braced(storeys=1, elements=2, pga=1.0, calm=0.1, dt=0.1, until=60.0).history()


@simulator(
    name="tamis:fire.member",
    version="2",
    inputs=Member,
    outputs={
        **_COMMON,
        "deflection": Port("deflection", unit="m", doc="of the middle, upwards, at time"),
        "end_ux": Port("end_ux", unit="m", doc="of the second end, away from the first, at time"),
        "axial_force": Port("axial_force", unit="N", doc="at the first support, tension positive, at time"),
        "end_moment": Port(
            "end_moment", unit="N m", doc="of the first support on the member, at time; 0 if pinned"
        ),
    },
    references=(_EN, _CRISFIELD, _RIKS),
)
def member(case: Member) -> dict[str, Array]:
    """Heat a loaded steel member on two supports until it fails.

    Corotational fibre beam with the stress-strain law of EN 1993-1-2; free, sprung or held along its axis, with a
    temperature gradient through its depth, protected or bare.
    """
    history, places = case.history()
    out = results(history, {"deflection": places["middle"], "end_ux": places["end"]})
    clamp = history.force[:, places["clamp"]]
    return {
        **out,
        "axial_force": -history.force[:, places["support"]],
        "end_moment": clamp if case.ends == "fixed" else 0.0 * clamp,
    }


@simulator(
    name="tamis:fire.frame",
    version="2",
    inputs=Frame,
    outputs={
        **_COMMON,
        **{name: Port(name, unit="m", doc=f"{doc}, at time") for name, doc in _PLACES.items()},
    },
    references=(_SERA, _EN, _CRISFIELD, _RIKS),
)
def frame(case: Frame) -> dict[str, Array]:
    """Heat the ground storey of a steel frame until it fails.

    Columns of the ground storey and beams of the first floor follow a ramp or a gas temperature, bare or protected;
    the rest stays cold. Geometrically and materially non-linear; failure is a limit point of time.
    """
    return results(*case.history())


@simulator(
    name="tamis:fire.hybrid",
    version="2",
    inputs=Hybrid,
    outputs={
        "time": Port("time", unit="s", doc="instants recorded, from the start of the fire"),
        "temperature": Port("temperature", unit="C", doc="of the hot members at time"),
        **{name: Port(name, unit="m", doc=f"{doc}, in the test, at time") for name, doc in _PLACES.items()},
        **{
            f"monolithic_{name}": Port(
                f"monolithic_{name}", unit="m", doc=f"{doc}, of the frame in one piece, at time"
            )
            for name, doc in _PLACES.items()
        },
        "deviation": Port(
            "deviation",
            doc="largest difference of these five displacements over the largest of them, at time",
        ),
        "lag": Port(
            "lag",
            unit="m",
            doc="by which the roof of the test is behind that of the frame in one piece, at time",
        ),
        "lag_estimate": Port(
            "lag_estimate",
            unit="m",
            doc="that lag to first order, from damping, velocity and present stiffness, which is 2/omega times the "
            "velocity of the cold frame; where dampers leave it alone (memory) it is what they would cause",
        ),
        "omega": Port("omega", unit="rad/s", doc="lowest frequency of the relaxation, cold"),
        "failed": Port("failed", doc="1 where specimen or frame found no equilibrium before the end, else 0"),
    },
    references=(
        _SERA,
        "Gravouil & Combescure 2001, doi:10.1002/1097-0207(20010110)50:1<199::AID-NME132>3.0.CO;2-A",
        "Craig & Bampton 1968, doi:10.2514/3.4741",
        _EN,
    ),
)
def hybrid(case: Hybrid) -> dict[str, Array]:
    """Rehearse a hybrid fire test: a hot specimen and a cold computed frame, tied step by step.

    Dynamic relaxation by partitioned integration; the specimen is reached by two calls, impose and read. The frame in
    one piece, its cold part linear as in the test, stands beside it.
    """
    return virtual.results(case)


@simulator(
    name="tamis:fire.after_earthquake",
    version="2",
    inputs=Braced,
    outputs={
        **_COMMON,
        "storey_ux": Port("storey_ux", unit="m", doc="left joint of the first floor, along x, at time"),
        "roof_ux": Port("roof_ux", unit="m", doc="left joint of the roof, along x, at time"),
        "quake_time": Port("quake_time", unit="s", doc="instants recorded in the earthquake and until rest"),
        "quake_drift": Port(
            "quake_drift", doc="displacement of the first floor over its height, at quake_time"
        ),
        "drift_peak": Port("drift_peak", doc="largest change of that drift in the earthquake"),
        "drift_residual": Port(
            "drift_residual", doc="change of that drift from before the earthquake to the start of the fire"
        ),
        "lost_protection": Port(
            "lost_protection", doc="part of the burning length whose protection the earthquake took"
        ),
        "energy_input": Port("energy_input", unit="J", doc="work of the ground on the frame"),
        "energy_dissipated": Port("energy_dissipated", unit="J", doc="plastic work in fibres"),
        "energy_damping": Port("energy_damping", unit="J", doc="work of damping"),
        "energy_missing": Port("energy_missing", unit="J", doc="what the books of energy do not account for"),
    },
    references=(_SERA, _EN, "Newmark 1959, doi:10.1061/JMCEA3.0000098", _RIKS),
)
def after_earthquake(case: Braced) -> dict[str, Array]:
    """Shake a braced frame, then burn a column or the brace of its ground storey until it fails.

    The earthquake is dynamic, with yielding and buckling of braces; residual drifts and lost protection are carried
    into the static fire.
    """
    return braced.after_earthquake(case)
