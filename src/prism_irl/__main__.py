"""`python -m prism_irl` is `prism`."""

import sys

from prism_irl.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
