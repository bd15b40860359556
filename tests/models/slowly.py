"""A model that takes its time, and leaves a mark when it is done if asked to."""

import os
import time

import tamis


@tamis.simulator(outputs={"z": "m"})
def slowly(*, a=1.0, seconds=0.1):
    time.sleep(seconds)
    if count := os.environ.get("TAMIS_TEST_COUNT"):
        with open(count, "a") as file:
            file.write("x")
    return {"z": [a, 2 * a]}
