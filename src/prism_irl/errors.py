"""Errors written for the person who reads them.

One sentence that says what is wrong, where, and what to do. The command line prints it and exits with code 2;
everything else that goes wrong is our fault and exits with code 1.
"""


class InputError(ValueError):
    """The data, the options or the files given are wrong; the message says where and what to do, in one line."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))  # whatever cells and names of files it quotes


def brief(error: BaseException) -> str:
    """First line of somebody else's error, or its kind, to be put in brackets inside one of ours."""
    return str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__


def one_line(text: str) -> str:
    """A message as one line of a terminal: what data brought along cannot move the cursor or colour the screen."""
    return "".join(c if c.isprintable() else " " if c in "\n\r\t" else f"\\x{ord(c):02x}" for c in text.strip())
