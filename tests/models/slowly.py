"""A model that takes its time, and may leave a mark when it is done."""

import time

import tamis


@tamis.simulator(outputs={"z": "m"}, inputs={"mark": tamis.Port("mark", kind="choice", choices=())})
def slowly(*, a=1.0, seconds=0.1):
    time.sleep(seconds)
    return {"z": [a, 2 * a]}
