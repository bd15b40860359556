"""A steel ball dropped on a steel plate that is not quite flat: it bounces away until it rests.

Each bounce is one impact of `tamis:dem.impact`, on a spot of the plate that is tilted by a small random angle. What the
ball meets is chance (the seed); how it rebounds is what 10_steel_contact has calibrated, for a ball twice as large.
"""

import numpy as np

import tamis

G = 9.81
BOUNCES = 60  # at most; the ball rests when it rises less than REST
REST = 1e-4

impact = tamis.find("tamis:dem.impact")
PORTS = {name: impact.inputs[name] for name in ("young", "poisson", "mu", "gamma", "alpha", "k_t", "radius")}
PORTS |= {
    "density": tamis.Port("density", unit="kg/m3", doc="of the ball"),
    "height": tamis.Port("height", unit="m", bounds=(1e-3, 10.0), doc="from which it is dropped"),
    "tilt": tamis.Port("tilt", unit="rad", bounds=(0.0, 0.2), doc="standard deviation of the plate's slope"),
}


@tamis.simulator(
    inputs=PORTS,
    outputs={"n": "", "top": "m", "duration": "s", "distance": "m"},
)
def bounce(
    *,
    radius=0.01,
    density=7668.0,
    height=0.5,
    tilt=0.02,
    young=2.1e11,
    poisson=0.3,
    mu=0.104,
    gamma=9.0e4,
    alpha=0.5,
    k_t=1.3e8,
    seed=0,
):
    """Heights of successive rebounds, time until it rests, distance from where it was dropped."""
    rng = np.random.default_rng(seed)
    mass = density * 4.0 / 3.0 * np.pi * radius**3
    steel = {"young": young, "poisson": poisson, "mu": mu, "gamma": gamma, "alpha": alpha, "k_t": k_t}
    across, up, spin = 0.0, -np.sqrt(2.0 * G * height), 0.0
    x, t = 0.0, np.sqrt(2.0 * height / G)
    top = np.zeros(BOUNCES)
    for i in range(BOUNCES):
        slope = tilt * rng.standard_normal()
        c, s = np.cos(slope), np.sin(slope)
        normal, along = -s * across + c * up, c * across + s * up  # in the frame of the spot it meets
        if normal >= 0.0:
            break
        sign = 1.0 if along >= 0.0 else -1.0
        hit = impact.batch(
            {
                "speed": np.array([np.hypot(normal, along)]),
                "angle": np.degrees(np.arctan2([abs(along)], -normal)),
                "spin": np.array([sign * spin]),
                "radius": radius,
                "mass": mass,
                **steel,
            }
        )
        normal, along = -normal * hit["cnr"][0], along * hit["ctr"][0]
        spin = sign * hit["spin_out"][0]
        across, up = c * along - s * normal, s * along + c * normal
        top[i] = max(up, 0.0) ** 2 / (2.0 * G)
        if top[i] < REST:
            break
        flight = 2.0 * up / G
        x, t, up = x + across * flight, t + flight, -up
    return {"n": np.arange(1.0, BOUNCES + 1), "top": top, "duration": t, "distance": abs(x)}
