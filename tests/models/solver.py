#!/usr/bin/env python3
"""A program that reads a deck of `key = value` lines and answers, or misbehaves as the deck asks."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

deck = dict(line.split(" = ", 1) for line in Path("deck.txt").read_text().splitlines())
a = float(deck["a"])
how = deck.get("how", "fine")
print(f"a is {a!r}")
print(f"trouble: {how}", file=sys.stderr)
rows = [(float(i), a * i) for i in range(4)]
match how:
    case "exit":
        print("negative jacobian in element 7\n", file=sys.stderr)
        sys.exit(3)
    case "signal":
        os.kill(os.getpid(), signal.SIGSEGV)
    case "nothing":
        sys.exit(0)
    case "garbage":
        Path("out.csv").write_bytes(bytes(range(256)))
        sys.exit(0)
    case "hang":
        subprocess.Popen(["sleep", "1000"])
        time.sleep(1000)
    case "outside":
        os.symlink("/etc/hostname", "out.csv")
        sys.exit(0)
    case "fifo":
        os.mkfifo("out.csv")
        sys.exit(0)
    case "nan":
        rows[2] = (2.0, float("nan"))
text = "time,force [N]\n" + "".join(f"{t!r},{f!r}\n" for t, f in rows)
if how == "ragged":
    text += "4.0\n"
Path("out.csv").write_text(text)
