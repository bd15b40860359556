"""Two experiments on one contact law: a steel sphere thrown at a wall, and grains that run out of a silo.

One simulator for both, so that one study can weigh them together; the input `test` says which of the two is done, and
outputs of the other one are zero.
"""

from pathlib import Path

import tamis

impact, silo = tamis.find("tamis:dem.impact"), tamis.find("tamis:dem.silo")
SPHERE = {"speed": 2.2, "radius": 0.02225, "mass": 0.3538, "young": 2.1e11, "poisson": 0.3}
# an outlet of five diameters never clogs; grains that are out come back at the top
FLOW = {"grains": 150, "width": 0.024, "outlet": 0.01, "avalanches": 0, "settling": 0.2, "softening": 1e4}
PORTS = {name: silo.inputs[name] for name in ("mu", "gamma", "alpha", "k_t", "duration")}
PORTS |= {
    "angle": tamis.Port("angle", unit="deg", bounds=(0.0, 89.0), doc="of the impact, from the normal"),
    "test": tamis.Port("test", choices=("impact", "silo"), doc="which of the experiments"),
}


@tamis.simulator(inputs=PORTS, outputs={"ctr": "", "cnr": "", "flow": "1/s"})
def steel(*, mu=0.104, gamma=9.03e4, alpha=0.5, k_t=1.23e8, angle=30.0, duration=0.6, test="impact", seed=0):
    """Restitution coefficients of an impact, or grains that leave the silo in a second."""
    law = {"mu": mu, "gamma": gamma, "alpha": alpha, "k_t": k_t}
    if test == "impact":
        found = impact.run({**law, **SPHERE, "angle": angle}, Path())
        return {"ctr": found["ctr"], "cnr": found["cnr"], "flow": 0.0}
    found = silo.run({**law, **FLOW, "duration": duration, "seed": seed % 2**31}, Path())
    return {"ctr": 0.0, "cnr": 0.0, "flow": found["flow"]}
