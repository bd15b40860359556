"""A model that misbehaves on request, in every way a user's program has been seen to."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import subprocess
import sys
import time
import zipfile

import numpy as np

import tamis
import tamis.runs.worker

HOWS = (
    "fine",
    "raises",
    "physics",
    "nan",
    "ragged",
    "unknown",
    "missing",
    "objects",
    "abort",
    "segfault",
    "killed",
    "exit3",
    "exit0",
    "stop",
    "sysexit",
    "interrupt",
    "hang",
    "garbage",
    "fork",
    "fork_back",
    "leaves_child",
    "late_child",
    "scratch",
    "scratch_fine",
    "closes",
    "moves",
    "parent",
    "daemon",
    "huge",
    "escapes",
    "real_time",
    "names_folder",
    "chatters",
    "stray",
    "full",
    "full_work",
)


class Awkward:
    def __array__(self, dtype=None, copy=None):
        return np.array([{}], dtype=object)


@tamis.simulator(outputs={"z": "m"}, inputs={"how": tamis.Port("how", choices=HOWS)})
def trouble(*, how="fine", a=1.0, workdir=None):
    answer = {"z": np.array([a, 2 * a])}
    match how:
        case "raises":
            raise ZeroDivisionError("no way\nto divide")
        case "physics":
            raise tamis.SimulationError("diverged at t = 3 s")
        case "nan":
            answer["z"][1] = np.nan
        case "ragged":
            return {"z": [[1.0, 2.0], [3.0]]}
        case "unknown":
            return {"y": answer["z"]}
        case "missing":
            return {}
        case "objects":
            return {"z": Awkward()}
        case "abort":
            print("before the end")
            os.abort()
        case "segfault":
            ctypes.string_at(0)
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exit3":
            os._exit(3)
        case "exit0":
            os._exit(0)
        case "stop":
            ctypes.CDLL(None).exit(0)
        case "sysexit":
            sys.exit(0)
        case "interrupt":
            raise KeyboardInterrupt
        case "hang":
            time.sleep(1000)
        case "garbage":
            os.write(1, bytes(range(256)) * 10)
            print("a Python line")
            sys.stderr.write("an error line\n")
            subprocess.run(["echo", "a program's line"], check=True)
        case "fork":
            if os.fork() == 0:
                os._exit(0)
        case "fork_back":
            if os.fork() == 0:
                return {"z": np.array([-1.0, -1.0])}
        case "leaves_child":
            subprocess.Popen(["sleep", "1000"])
        case "late_child":
            subprocess.run(["sleep", "1000"], check=True)
        case "scratch":
            (workdir / "half.txt").write_text("half a result")
            raise RuntimeError("stopped half way")
        case "scratch_fine":
            (workdir / "half.txt").write_text("half a result")
        case "closes":
            os.close(1)
            os.close(2)
            sys.stdout = None
        case "moves":
            os.chdir(workdir)
        case "parent":
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(10)
        case "daemon":  # leaves the process group and its parent
            subprocess.run(["sh", "-c", "setsid sleep 1000 > /dev/null 2>&1 &"], check=True)
        case "escapes":  # leaves the process group, then the worker dies
            subprocess.Popen(["sleep", "1000"], start_new_session=True)
            os.kill(os.getpid(), signal.SIGSEGV)
        case "real_time":
            os.kill(os.getpid(), signal.SIGRTMIN + 1)
        case "names_folder":
            (workdir / "none.txt").read_text()
        case "chatters":
            os.write(1, b"begin\n" + b"x" * 5_000_000 + b"\nend\n")
        case "stray":
            for handle in os.listdir("/proc/self/fd"):
                if os.path.islink(f"/proc/self/fd/{handle}") and "socket" in os.readlink(
                    f"/proc/self/fd/{handle}"
                ):
                    os.write(int(handle), b"\x00\x01\x00\x00noise")
            time.sleep(1000)
        case "huge":
            return {"z": np.zeros(3_000_000)}
        case "full":
            zipfile.ZipFile.writestr = (
                _no_space  # not put back after a run, as what tamis itself is made of is
            )
        case "full_work":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(workdir / "half.txt"))
    return answer


def _no_space(archive, info, content):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), info.filename)
