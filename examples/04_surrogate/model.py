"""Water that leaks through a borehole from an upper aquifer to a lower one, by a simulator made slow on purpose."""

import math
import os
import time

import tamis

SECONDS = float(os.environ.get("BOREHOLE_SECONDS", "0.1"))  # a run takes; real ones take minutes


def flow(rw, r, Tu, Hu, Tl, Hl, L, Kw):
    """Steady flow (Morris, Mitchell & Ylvisaker 1993, 10.1080/00401706.1993.10485320)."""
    log = math.log(r / rw)
    return 2 * math.pi * Tu * (Hu - Hl) / (log * (1 + 2 * L * Tu / (log * rw**2 * Kw) + Tu / Tl))


@tamis.simulator(
    outputs={"q": "m3/yr"},
    units={"rw": "m", "r": "m", "Tu": "m2/yr", "Hu": "m", "Tl": "m2/yr", "Hl": "m", "L": "m", "Kw": "m/yr"},
)
def borehole(*, rw=0.1, r=2500.0, Tu=89000.0, Hu=1050.0, Tl=89.0, Hl=760.0, L=1400.0, Kw=10950.0):
    """Flow through a borehole of radius rw and length L between aquifers with heads Hu and Hl."""
    time.sleep(SECONDS)
    return {"q": flow(rw, r, Tu, Hu, Tl, Hl, L, Kw)}
