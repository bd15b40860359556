"""What is tested: a rig of two actuators on a specimen, a plant on sliding bearings, a specimen that answers late."""

from __future__ import annotations

from dataclasses import dataclass

from tamis.errors import StudyError
from tamis.interfaces import Case, port
from tamis.sim.common.records import GENERATED


@dataclass(frozen=True)
class Rig(Case):
    """The shear rig of the ELSA laboratory (SERA deliverable D27.1, 2019, section 1): two actuators that pull a beam.

    Period, weight of force, tension and constraints are printed there; stiffnesses, gain, lag, delay and noise are
    proposals, and so is the strength of the specimen.
    """

    cycles: int = port(20, bounds=(1, 100000), doc="of the reference")
    period: float = port(2.0, unit="s", bounds=(0.1, 1000.0), doc="of a cycle")
    control: str = port(
        "mixed",
        choices=("mixed", "modal", "displacement"),
        doc="a loop on a mixed feedback, a loop for each mode with its own gains, or both actuators in displacement",
    )
    p: float = port(20.0, unit="1/s", bounds=(0.01, 1000.0), doc="proportional gain in displacement")
    w: float = port(
        4e-9,
        unit="m/N",
        bounds=(0.0, 1e-6),
        doc="weight of force in a mixed feedback; modal gain in force is p w",
    )
    i_c: float = port(
        0.0, unit="1/s2", bounds=(0.0, 1e4), doc="integral gain in displacement, modal control only"
    )
    i_d: float = port(
        0.0, unit="m/(N s2)", bounds=(0.0, 1e-4), doc="integral gain in force, modal control only"
    )
    f0: float = port(1.5e5, unit="N", bounds=(0.0, 1e7), doc="tension of the beam that is asked for")
    k_a: float = port(5e8, unit="N/m", bounds=(1e6, 1e11), doc="stiffness of an actuator and what holds it")
    lag: float = port(5e-3, unit="s", bounds=(0.0, 0.1), doc="time constant of the valves")
    delay: float = port(0.01, unit="s", bounds=(0.0, 0.1), doc="of what the controller measures")
    offset: float = port(
        0.0,
        unit="m",
        bounds=(-1e-3, 1e-3),
        doc="by which the second actuator's displacement is measured too large",
    )
    k_s: float = port(4e8, unit="N/m", bounds=(1e6, 1e10), doc="first stiffness of the specimen, when new")
    strength: float = port(2e5, unit="N", bounds=(1e3, 1e7), doc="force at which the new specimen yields")
    hardening: float = port(0.01, bounds=(0.0, 0.5), doc="stiffness after yield, of the first")
    loss: float = port(
        2e-5, bounds=(0.0, 0.01), doc="share of its stiffness that the specimen loses in a cycle"
    )
    drop: float = port(0.0, bounds=(0.0, 0.5), doc="share that it loses at once")
    drop_cycle: int = port(11, bounds=(1, 100000), doc="cycle at whose start it does")
    slope: float = port(1.76e8, unit="N/m", bounds=(0.0, 1e10), doc="of displacement in the upper constraint")
    target: float = port(
        3.17e5,
        unit="N",
        bounds=(1e3, 1e7),
        doc="upper constraint: largest force + slope x displacement of a cycle",
    )
    learning: float = port(
        1.0, bounds=(0.0, 1.5), doc="share of a constraint's error that the next cycle corrects; 0: none"
    )
    noise_y: float = port(
        1e-6, unit="m", bounds=(0.0, 1e-3), doc="standard deviation of measured displacements"
    )
    noise_f: float = port(200.0, unit="N", bounds=(0.0, 1e5), doc="standard deviation of measured forces")
    seed: int = port(1, bounds=(0, 2**63 - 1), doc="of the noise")
    dt: float = port(1e-3, unit="s", bounds=(1e-5, 0.01), doc="longest step of the integration")


@dataclass(frozen=True)
class Plant(Case):
    """A tank on four concave sliding bearings with its piping (SERA deliverable D27.1, 2019, section 2.1.6).

    The numbers are those of the independent reference; the printed table has stiffnesses of the liquid that are a
    hundred times too large.
    """

    record: str = port(
        str(GENERATED),
        kind="file",
        doc="ground acceleration, AT2 or CSV; by default a generated motion of 40 s",
    )
    pga: float = port(
        4.25, unit="m/s2", bounds=(0.0, 50.0), doc="peak that the record is scaled to; 0: as it is"
    )
    duration: float = port(
        40.0, unit="s", bounds=(0.01, 1000.0), doc="simulated, the ground at rest after the record"
    )
    dt: float = port(1e-4, unit="s", bounds=(1e-6, 0.05), doc="coarse step")
    radius: float = port(5.0, unit="m", bounds=(0.1, 1000.0), doc="of the concave sliding surfaces")
    friction: float = port(0.08, bounds=(1e-3, 1.0), doc="coefficient of friction of the bearings")
    weight: float = port(1.36e6, unit="N", bounds=(1e3, 1e9), doc="vertical load of one bearing")
    elastic: float = port(
        5e-4, unit="m", bounds=(1e-6, 0.1), doc="displacement at which a bearing begins to slide"
    )
    tested: int = port(2, bounds=(1, 4), doc="bearings in the laboratory, of four; their force is multiplied")
    piping: str = port(
        "chain",
        choices=("chain", "beam", "none"),
        doc="chain of 30 masses, pipe of 30 degrees of freedom, or none",
    )
    method: str = port(
        "gc",
        choices=("gc", "pm", "monolithic"),
        doc="partitioned, staggered or parallel; or all in one system",
    )
    subcycling: int = port(1, bounds=(1, 1000), doc="steps of the bearings in one of the rest")
    delay: float = port(
        0.0,
        unit="s",
        bounds=(0.0, 10.0),
        doc="of the actuators that move the bearings, by the laboratory's clock",
    )
    scale: float = port(1.0, bounds=(1.0, 1e4), doc="seconds of the test in a second of the plant (lambda)")
    mass_fraction: float = port(
        0.5,
        bounds=(1e-3, 0.99),
        doc="of the sliding mass that is the bearings' (m_f): changes their link forces; with subcycling or pm also "
        "the motion, within the error of the scheme",
    )
    m_s: float = port(33430.0, unit="kg", bounds=(1.0, 1e9), doc="mass that slides with the base")
    m_i: float = port(451776.0, unit="kg", bounds=(1.0, 1e9), doc="impulsive mass of the liquid")
    m_c: float = port(85794.0, unit="kg", bounds=(1.0, 1e9), doc="convective mass: it sloshes")
    k_i: float = port(8.77158e8, unit="N/m", bounds=(1.0, 1e13), doc="stiffness of the impulsive motion")
    k_c: float = port(386575.0, unit="N/m", bounds=(1.0, 1e13), doc="stiffness of sloshing")
    c_i: float = port(1990680.0, unit="N s/m", bounds=(0.0, 1e11), doc="damping of the impulsive motion")
    c_c: float = port(1821.15, unit="N s/m", bounds=(0.0, 1e11), doc="damping of sloshing")
    interval: float = port(
        5e-3, unit="s", bounds=(1e-5, 10.0), doc="from one kept instant to the next, about"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.method == "monolithic" and self.subcycling > 1:
            raise StudyError("plant: subcycling needs subdomains of their own; method is monolithic")
        if self.elastic >= self.friction * self.radius:
            raise StudyError(
                f"plant: bearings would be stiffer sliding than sticking: elastic must be below friction x radius = "
                f"{self.friction * self.radius:g} m, found {self.elastic:g} m"
            )


@dataclass(frozen=True)
class Late(Case):
    """A mass on a computed spring and a tested one, which an actuator moves late (real-time hybrid test)."""

    mass: float = port(1000.0, unit="kg", bounds=(1e-3, 1e9), doc="in all")
    k_n: float = port(2e4, unit="N/m", bounds=(0.0, 1e12), doc="stiffness that is computed")
    k_p: float = port(2e4, unit="N/m", bounds=(1e-3, 1e12), doc="stiffness of the specimen")
    c: float = port(400.0, unit="N s/m", bounds=(0.0, 1e12), doc="damping, computed")
    delay: float = port(
        0.01, unit="s", bounds=(0.0, 10.0), doc="of the actuator, by the clock of the laboratory"
    )
    hold: float = port(
        0.0,
        unit="s",
        bounds=(0.0, 10.0),
        doc="for which a command is held, by that clock; 0: a continuous test",
    )
    scale: float = port(
        1.0, bounds=(1.0, 1e4), doc="seconds of the test in a second of the structure (lambda)"
    )
    mass_fraction: float = port(
        0.1, bounds=(1e-3, 0.99), doc="of the mass that is integrated with the specimen"
    )
    pulse: float = port(
        1.0, unit="m/s2", bounds=(-100.0, 100.0), doc="ground acceleration of a half-sine at the start"
    )
    duration: float = port(20.0, unit="s", bounds=(0.1, 1e4), doc="of the structure's time")
    dt: float = port(1e-3, unit="s", bounds=(1e-6, 0.1), doc="step")
