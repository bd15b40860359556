"""A model that takes its time."""

import time

import tamis


@tamis.simulator(outputs={"z": "m"})
def slowly(*, a=1.0, seconds=0.1):
    time.sleep(seconds)
    return {"z": [a, 2 * a]}
