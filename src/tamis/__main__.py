"""``python -m tamis``."""

import sys

from tamis.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
