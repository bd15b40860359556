"""Shared set-up: one compilation cache a worker, kept between runs and inherited by subprocesses.

Tests of the simulators' kernels go to one worker, so that nothing is compiled twice.
"""

import os
import signal
from pathlib import Path

ROOT = Path(__file__).parent.parent
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "main")
os.environ["TAMIS_CACHE"] = str(ROOT / ".cache" / f"tamis-{WORKER}")
os.environ["MPLBACKEND"] = "Agg"
os.environ["OPENBLAS_NUM_THREADS"] = "1"  # as the command line does; workers share the cores
signal.signal(
    signal.SIGINT, signal.default_int_handler
)  # started in the background, a shell would have it ignored

import hypothesis  # noqa: E402
import pytest  # noqa: E402

hypothesis.settings.register_profile("ci", derandomize=True, max_examples=50, deadline=None)
hypothesis.settings.register_profile("soak", max_examples=2000, deadline=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    from xdist.scheduler import LoadScopeScheduling

    class OneWorkerForKernels(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return "tests/sim" if nodeid.startswith("tests/sim/") else nodeid

    return OneWorkerForKernels(config, log)
