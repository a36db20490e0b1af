"""Sphinx: `make docs` builds these pages into build/docs, without warnings and without a network."""

import os
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

project = "PRISM"
author = "The PRISM developers"
copyright = author
release = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["**/.ipynb_checkpoints"]
suppress_warnings = ["toc.empty_glob"]  # pages that a checkout does not have yet

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
# Notebooks are executed by the tests; PRISM_DOCS_EXECUTE=1 also puts their results into the pages.
nb_execution_mode = "force" if os.environ.get("PRISM_DOCS_EXECUTE") else "off"
nb_execution_raise_on_error = True

html_theme = "pydata_sphinx_theme"
html_title = "PRISM"
html_theme_options = {"show_prev_next": False, "navigation_with_keys": False, "secondary_sidebar_items": ["page-toc"]}
html_sidebars: dict[str, list[str]] = {"index": []}
html_show_sourcelink = False

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # signatures name every parameter, docstrings say what it is
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True

LITERAL = re.compile(r"(``.+?``|`[^`]+`)")
CONTINUED = re.compile(r"^(\w+(?:, \w+)*,)\n(?=\w)", re.MULTILINE)


def plain(text: str) -> str:
    """Escape what reStructuredText would read as a link or a substitution: ``rewards_`` and ``|S|``."""
    return re.sub(r"\w_\b(?!\w)", lambda found: found.group()[0] + r"\_", text).replace("|", r"\|")


def as_written(app, what, name, obj, options, lines):
    """Show docstrings as they are written, outside of literals; a list of parameters may take two lines."""
    whole = CONTINUED.sub(r"\1 ", "\n".join(lines)).split("\n")
    lines[:] = ["".join(part if part[:1] == "`" else plain(part) for part in LITERAL.split(line)) for line in whole]


def list_methods(app):
    """Write the tables of methods and halves from the registry, the only list of them."""
    from prism_irl.models import registry
    from prism_irl.rewards import REWARDS
    from prism_irl.switching import SWITCHING

    rows = [
        f"| `{entry.id}` | {entry.name} | {entry.switching or '–'} | {entry.rewards or '–'} | {entry.when} |"
        for entry in registry.NAMED.values()
    ]
    table = ["| id | method | switching | rewards | when to choose it |", "|---|---|---|---|---|", *rows, ""]
    for title, known in (("switching", SWITCHING), ("rewards", REWARDS)):
        table += [f"| `--{title}` | choose it for |", "|---|---|"]
        table += [*(f"| `{name}` | {half.about} |" for name, half in known.items()), ""]
    (Path(app.srcdir) / "reference" / "method_list.inc").write_text("\n".join(table), encoding="utf-8")


def list_flags(app):
    """Write every flag of every command, as its long help shows them."""
    import contextlib
    import io

    from prism_irl.cli.help import show_help
    from prism_irl.cli.main import app as command

    names = [[name] for name in command if not name.startswith("-") and name != "data"]
    names += [["data", name] for name in command["data"] if not name.startswith("-")]
    pages = []
    for name in names:
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            show_help(command, name, everything=True)
        pages.append(f"## prism {' '.join(name)}\n\n```text\n{shown.getvalue()}```\n")
    (Path(app.srcdir) / "reference" / "flags.inc").write_text("\n".join(pages), encoding="utf-8")


def setup(app):
    """Run before napoleon, which makes its own links."""
    app.connect("builder-inited", list_methods)
    app.connect("builder-inited", list_flags)
    app.connect("autodoc-process-docstring", as_written, priority=100)
