"""`python -m prism_irl` is `prism`."""

import sys

from prism_irl.cli.main import run

if __name__ == "__main__":
    sys.exit(run())
