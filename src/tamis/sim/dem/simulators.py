"""The simulators of the family and their ports."""

from __future__ import annotations

from tamis.sim.dem import drive
from tamis.sim.dem.scene import Impact
from tamis.simulation import Port, simulator
from tamis.types import Array

warm = drive.warm

_INPUTS = {
    "speed": Port("speed", unit="m/s", bounds=(1e-3, 100.0), doc="speed of the centre before impact"),
    "angle": Port(
        "angle", unit="deg", bounds=(0.0, 89.0), doc="direction of the velocity, from the normal of the wall"
    ),
    "spin": Port(
        "spin",
        unit="rad/s",
        bounds=(-1e4, 1e4),
        doc="angular velocity before impact; positive is backspin (the contact point runs ahead of the "
        "centre), negative topspin",
    ),
    "radius": Port("radius", unit="m", bounds=(1e-4, 10.0), doc="radius of the sphere"),
    "mass": Port("mass", unit="kg", bounds=(1e-9, 1e6), doc="mass of the sphere; its inertia is 2/5 m R^2"),
    "young": Port("young", unit="Pa", bounds=(1e5, 1e13), doc="Young's modulus of sphere and wall"),
    "poisson": Port("poisson", bounds=(0.0, 0.5), doc="Poisson's ratio of sphere and wall"),
    "mu": Port("mu", bounds=(0.0, 2.0), doc="coefficient of friction"),
    "gamma": Port(
        "gamma",
        bounds=(0.0, 1e12),
        doc="normal damping, F_n = k_n xi^(3/2) + gamma xi^alpha dxi/dt; its unit, N s/m^(1+alpha), changes "
        "with alpha, so none is given",
    ),
    "alpha": Port(
        "alpha",
        bounds=(0.0, 1.4),
        doc="exponent of the damping: 0.25 is the law of Tsuji et al., 0.5 that of Kuwabara and Kono",
    ),
    "k_t": Port("k_t", unit="N/m", bounds=(0.0, 1e13), doc="stiffness of the tangential spring"),
}

_OUTPUTS = {
    "cnr": Port("cnr", doc="coefficient of normal restitution: normal speed after over before"),
    "ctr": Port(
        "ctr",
        doc="coefficient of tangential restitution: tangential velocity of the centre after over before; at "
        "angle 0 without spin, its limit",
    ),
    "spin_out": Port("spin_out", unit="rad/s", doc="angular velocity after impact, signed as spin"),
    "contact_time": Port(
        "contact_time", unit="s", doc="from touch until the normal force has come back to zero"
    ),
    "peak_force": Port("peak_force", unit="N", doc="greatest normal force"),
    "t": Port("t", unit="s", doc="201 equally spaced instants of the contact"),
    "F_n": Port("F_n", unit="N", doc="normal force on the sphere at t, away from the wall"),
    "F_t": Port("F_t", unit="N", doc="tangential force on the sphere at t, along its tangential velocity"),
    "xi": Port("xi", unit="m", doc="overlap of sphere and wall at t"),
}


@simulator(
    name="tamis:dem.impact",
    version="2",
    inputs=_INPUTS,
    outputs=_OUTPUTS,
    references=(
        "Hadjidoukas et al. 2014, doi:10.1016/j.cma.2014.07.017",
        "Cundall & Strack 1979, doi:10.1680/geot.1979.29.1.47",
        "Tsuji, Tanaka & Ishida 1992, doi:10.1016/0032-5910(92)88030-L",
        "Kuwabara & Kono 1987, doi:10.1143/JJAP.26.1230",
        "Schwager & Poeschel 2007, doi:10.1007/s10035-007-0065-z",
    ),
)
def impact(
    *,
    speed: float = Impact.speed,
    angle: float = Impact.angle,
    spin: float = Impact.spin,
    radius: float = Impact.radius,
    mass: float = Impact.mass,
    young: float = Impact.young,
    poisson: float = Impact.poisson,
    mu: float = Impact.mu,
    gamma: float = Impact.gamma,
    alpha: float = Impact.alpha,
    k_t: float = Impact.k_t,
) -> dict[str, Array]:
    """Throw a sphere at a wall of its own material; return restitution coefficients and contact forces.

    Hertz spring and power-law dashpot along the normal, never attractive; tangential spring capped by
    friction. Contact ends when the normal force vanishes. The defaults are the steel sphere calibrated by
    Hadjidoukas et al. (2014), near its posterior mean.
    """
    return drive.simulate(Impact(speed, angle, spin, radius, mass, young, poisson, mu, gamma, alpha, k_t))


@impact.batch(outputs=drive.RESULTS)
def impact_batch(
    *,
    speed: Array,
    angle: Array,
    spin: Array,
    radius: Array,
    mass: Array,
    young: Array,
    poisson: Array,
    mu: Array,
    gamma: Array,
    alpha: Array,
    k_t: Array,
) -> dict[str, Array]:
    """Throw many spheres, without the histories."""
    return drive.simulate_many((speed, angle, spin, radius, mass, young, poisson, mu, gamma, alpha, k_t))
