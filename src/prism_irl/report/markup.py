"""Sentences as a page shows them."""

from __future__ import annotations

import re

from markupsafe import Markup, escape

_OPTION = re.compile(r"(?<![\w-])--[a-z]+(-[a-z]+)*")


def marked_options(text: str) -> Markup:
    """A sentence whose options (--n-starts) are code, which no end of a line cuts at its hyphens."""
    return Markup(_OPTION.sub(r"<code>\g<0></code>", str(escape(text))))
