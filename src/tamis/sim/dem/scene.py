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

from dataclasses import dataclass, fields

from tamis.errors import StudyError


@dataclass(frozen=True)
class Impact:
    """A sphere thrown at a wall of its own material; SI units, angle in degrees from the normal.

    By default the steel sphere of Hadjidoukas et al. (2014, 10.1016/j.cma.2014.07.017, section 4).
    """

    speed: float = 2.2
    angle: float = 30.0
    spin: float = 0.0
    radius: float = 0.02225
    mass: float = 0.3538
    young: float = 2.1e11
    poisson: float = 0.3
    mu: float = 0.104
    gamma: float = 9.0e4
    alpha: float = 0.5
    k_t: float = 1.3e8

    def __post_init__(self) -> None:
        for name in ("speed", "radius", "mass", "young"):
            self._require(name, getattr(self, name) > 0.0, "positive")
        for name in ("mu", "gamma", "k_t"):
            self._require(name, getattr(self, name) >= 0.0, "zero or positive")
        self._require("angle", 0.0 <= self.angle < 90.0, "in [0, 90) degrees from the normal")
        self._require("poisson", -1.0 < self.poisson <= 0.5, "in (-1, 0.5]")
        self._require("alpha", 0.0 <= self.alpha < 1.5, "in [0, 1.5): the spring must outlast the dashpot")

    def _require(self, name: str, holds: bool, what: str) -> None:
        if not holds:
            raise StudyError(f"impact: {name} must be {what}, found {getattr(self, name):g}")

    def values(self) -> tuple[float, ...]:
        """Return the fields in the order the kernels take them."""
        return tuple(float(getattr(self, field.name)) for field in fields(self))
