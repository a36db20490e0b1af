"""`python -m prism_irl` is `prism`."""

import gc
import os
import sys
from contextlib import suppress


def forget_current_folder() -> None:
    """Take the current folder, which ``python -m`` puts first, off the import path: a file in it is no package."""
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    with suppress(OSError):  # a folder that is gone
        if sys.path and not sys.flags.safe_path and os.path.abspath(sys.path[0]) == os.getcwd() != package:
            del sys.path[0]


def run() -> int:
    """The command; interrupted while its modules are being imported, it ends as it does later."""
    os.environ.setdefault("PYTHONSAFEPATH", "1")  # for processes that libraries start with python -m and -c
    # Importing makes hundreds of thousands of objects that all stay: looking for garbage among them takes a second,
    # and as long again at the end.
    gc.set_threshold(200_000, 20, 20)
    try:
        from prism_irl.cli.main import run as command

        return command()
    except KeyboardInterrupt:
        print("prism: interrupted.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    forget_current_folder()
    sys.exit(run())
