"""The template of a page, and how it writes sentences."""

from __future__ import annotations

import re
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape

_OPTION = re.compile(r"(?<![\w-])--[a-z]+(-[a-z]+)*")


@cache
def page_template() -> Template:
    """The page with all its parts, compiled once."""
    environment = Environment(
        loader=PackageLoader("prism_irl.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["options"] = marked_options
    for part in environment.list_templates():
        environment.get_template(part)
    return environment.get_template("report.html.j2")


def marked_options(text: str) -> Markup:
    """A sentence whose options (--n-starts) are code, which no end of a line cuts at its hyphens."""
    return Markup(_OPTION.sub(r"<code>\g<0></code>", str(escape(text))))
