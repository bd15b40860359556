"""All benchmarks in one run, side by side with other packages where there are any.

``make bench`` calls this with the interpreter of an environment that holds the peers. Each benchmark is a script of
its own beside this file that prints Markdown; what they print becomes docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import ast
import platform
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "benchmarks.md"
HEAD = """\
# Benchmarks

Made by `make bench`. Errors and counts do not depend on the machine; times do, and are comparable only within one
table, which was measured in one run ({machine}).
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peers", help="interpreter of an environment with the packages of peers.txt")
    options = parser.parse_args()
    peers = ["--peers", options.peers] if options.peers else []
    page = HEAD.format(
        machine=f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    )
    code = 0
    scripts = (
        ("evidence.py", peers),
        ("campaign.py", ["--large"]),
        ("pce.py", ["--large", *peers]),
        ("kriging.py", peers),
        ("samplers.py", []),
        ("trajectories.py", []),
        ("contact.py", ["--large", *peers]),
        ("dem.py", ["--large"]),
        ("motions.py", peers),
        ("rail.py", ["--large"]),
        ("fire.py", ["--large", *peers]),
        ("hybrid.py", peers),
    )
    for script, arguments in scripts:
        title = (ast.get_docstring(ast.parse((HERE / script).read_text())) or "").split("\n")[0].rstrip(".")
        command = " ".join([script, *(a for a in arguments if a not in peers)])
        page += f"\n## {title}\n\n`python benchmarks/{command}`\n\n"
        print(f"\n# {title}\n", flush=True)
        with subprocess.Popen(
            [sys.executable, str(HERE / script), *arguments], stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout
            for line in process.stdout:
                print(line, end="", flush=True)
                page += line
        code = code or process.returncode
    if code == 0 and peers:
        PAGE.write_text(page, encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main())
