"""Non-smooth contact dynamics: rigid bodies, unilateral contact, Coulomb friction, no regularisation.

All that a person needs who writes scenes is imported from here; modules of tamis import it from where it stands.
"""

from tamis.sim.common.shapes import Bore, Box, Capsule, Convex, Cylinder, HalfSpace, Ring, Sphere
from tamis.sim.nscd.drive import Finer, Rest, run
from tamis.sim.nscd.history import Contacts, History, Ledger, Solver
from tamis.sim.nscd.scene import AxialStop, Body, Law, Motion, Part, Scene, about

__all__ = [
    "AxialStop",
    "Body",
    "Bore",
    "Box",
    "Capsule",
    "Contacts",
    "Convex",
    "Cylinder",
    "Finer",
    "HalfSpace",
    "History",
    "Law",
    "Ledger",
    "Motion",
    "Part",
    "Rest",
    "Ring",
    "Scene",
    "Solver",
    "Sphere",
    "about",
    "run",
]
