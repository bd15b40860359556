"""Functions of the detection that are compiled into their callers, as kernels of their own."""

from __future__ import annotations

from tamis.jit import kernel
from tamis.sim.common import broad, geometry
from tamis.sim.common import collide as pairwise

place, find_pairs, collide = kernel(geometry.place), kernel(broad.find_pairs), kernel(pairwise.collide)
