"""Shared set-up: one cache of compiled kernels, kept between runs, and temporary files in memory where there is room.

What is compiled is compiled once: tests of the simulators' kernels go to one worker, and processes that need a kernel
at the same time wait for one of them. Tests that share a server or a fitted study go to one worker too.
"""

import gc
import os
import shutil
import signal
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
MEMORY = Path("/dev/shm")
ENOUGH = 2**31  # bytes; all temporary files of a run are a tenth of it
os.environ["TAMIS_CACHE"] = str(ROOT / ".cache" / "tamis")
os.environ["MPLBACKEND"] = "Agg"
os.environ["OPENBLAS_NUM_THREADS"] = "1"  # as the command line does; workers share the cores
signal.signal(
    signal.SIGINT, signal.default_int_handler
)  # started in the background, a shell would have it ignored


def in_memory() -> bool:
    """Say whether temporary files may lie in memory: what is synced there is not waited for."""
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK):
        return False
    no_programs = os.statvfs(MEMORY).f_flag & os.ST_NOEXEC
    return not no_programs and shutil.disk_usage(MEMORY).free >= ENOUGH


if in_memory():
    os.environ["TMPDIR"] = str(MEMORY)  # for what the tests start, too
    tempfile.tempdir = None

import hypothesis  # noqa: E402
import pytest  # noqa: E402

hypothesis.settings.register_profile("ci", derandomize=True, max_examples=50, deadline=None)
hypothesis.settings.register_profile("soak", max_examples=2000, deadline=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

FIRST = ("sim", "test_examples.py", "test_walk.py", "test_cluster.py", "study")
TOGETHER = (  # what compiles the same kernels, or shares servers, reports or a study that is run once
    "tests/sim/",
    "tests/test_cluster.py",
    "tests/test_store_damage.py",
    "tests/adapters/test_serve",
    "tests/adapters/test_umbridge_peer.py",
    "tests/report/test_compare.py",
    "tests/report/test_page.py",
    "tests/report/test_parameters.py",
    "tests/study/test_damage.py",
    "tests/study/test_loglike.py",
    "tests/study/test_stages.py",
)


def pytest_collection_modifyitems(items):
    """Let those that take longest begin first, so that no worker waits for another in the end."""
    here = Path(__file__).parent

    def turn(item):
        name = item.path.relative_to(here).parts[0]
        return FIRST.index(name) if name in FIRST else len(FIRST)

    items.sort(key=turn)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish():
    gc.collect()
    gc.freeze()  # modules and tests are here to stay: a collection need not go through them again


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    from xdist.scheduler import LoadScopeScheduling

    class SomeTogether(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return next((start for start in TOGETHER if nodeid.startswith(start)), nodeid)

    config.option.loadscopereorder = False  # by the number of their tests; ours are in order
    return SomeTogether(config, log)
