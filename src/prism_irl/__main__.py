"""`python -m prism_irl` is `prism`."""

import sys


def run() -> int:
    """The command; interrupted while its modules are being imported, it ends as it does later."""
    try:
        from prism_irl.cli.main import run as command

        return command()
    except KeyboardInterrupt:
        print("prism: interrupted.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(run())
