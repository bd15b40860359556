"""All benchmarks in one run, side by side with other packages where there are any.

``make bench`` calls this with the interpreter of an environment that holds the peers. Each benchmark is a script of
its own beside this file and prints a table.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peers", help="interpreter of an environment with the packages of peers.txt")
    options = parser.parse_args()
    peers = ["--peers", options.peers] if options.peers else []
    codes = []
    for script, arguments in (("evidence.py", peers), ("campaign.py", ["3000"])):
        print(f"\n# {script}\n", flush=True)
        codes.append(subprocess.run([sys.executable, str(HERE / script), *arguments], check=False).returncode)
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
