"""What is thrown, at what, and how: the scene of one impact.

Convention of signs, in the plane of the impact, the wall below::

          n                      speed   of the centre C, before impact
          |  C o                 angle   of its velocity v, from the normal n
          |    |\\                v_t     = speed sin(angle), to the right here
          |  R | \\               spin    > 0: counter-clockwise here, so that the lowest
          |    |  v                      point P of the sphere runs to the right too and
     _____|____P___________              adds to the slip, v_t + R spin
                 v_t -->

Positive spin is therefore *backspin*, as of a ball that is cut; negative spin is topspin, and a sphere with
``spin = -v_t/R`` touches the wall without slip.
"""

from __future__ import annotations

from dataclasses import dataclass

from tamis.interfaces import Case, port


@dataclass(frozen=True)
class Impact(Case):
    """A sphere thrown at a wall of its own material; SI units, angle in degrees from the normal.

    By default the steel sphere of Hadjidoukas et al. (2014, 10.1016/j.cma.2014.07.017, section 4). At 90 degrees there
    is no impact, at alpha = 1.5 the dashpot outlasts the spring, at a Poisson's ratio of -1 there is no stiffness that
    is finite: bounds stay off these.
    """

    speed: float = port(2.2, unit="m/s", bounds=(1e-3, 100.0), doc="speed of the centre before impact")
    angle: float = port(
        30.0, unit="deg", bounds=(0.0, 89.0), doc="direction of the velocity, from the normal of the wall"
    )
    spin: float = port(
        0.0,
        unit="rad/s",
        bounds=(-1e4, 1e4),
        doc="angular velocity before impact; positive is backspin (the contact point runs ahead of the "
        "centre), negative topspin",
    )
    radius: float = port(0.02225, unit="m", bounds=(1e-4, 10.0), doc="radius of the sphere")
    mass: float = port(
        0.3538, unit="kg", bounds=(1e-9, 1e6), doc="mass of the sphere; its inertia is 2/5 m R^2"
    )
    young: float = port(2.1e11, unit="Pa", bounds=(1e5, 1e13), doc="Young's modulus of sphere and wall")
    poisson: float = port(0.3, bounds=(-0.99, 0.5), doc="Poisson's ratio of sphere and wall")
    mu: float = port(0.104, bounds=(0.0, 2.0), doc="coefficient of friction")
    gamma: float = port(
        9.0e4,
        bounds=(0.0, 1e12),
        doc="normal damping, F_n = k_n xi^(3/2) + gamma xi^alpha dxi/dt; its unit, N s/m^(1+alpha), changes "
        "with alpha, so none is given",
    )
    alpha: float = port(
        0.5,
        bounds=(0.0, 1.4),
        doc="exponent of the damping: 0.25 is the law of Tsuji et al., 0.5 that of Kuwabara and Kono",
    )
    k_t: float = port(1.3e8, unit="N/m", bounds=(0.0, 1e13), doc="stiffness of the tangential spring")

    def values(self) -> tuple[float, ...]:
        """Return the fields in the order the kernels take them."""
        return tuple(map(float, vars(self).values()))
