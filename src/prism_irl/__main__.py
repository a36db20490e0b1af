"""`python -m prism_irl` is `prism`."""

import gc
import sys


def run() -> int:
    """The command; interrupted while its modules are being imported, it ends as it does later."""
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
    sys.exit(run())
