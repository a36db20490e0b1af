"""Sphinx: `make docs` builds these pages into build/docs, without warnings and without a network."""

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

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_dmath_double_inline = False
html_math_renderer = "paths"
myst_heading_anchors = 3
nb_execution_mode = "off"  # notebooks are stored with what they show: docs/sessions.py

html_theme = "pydata_sphinx_theme"
html_title = "PRISM"
html_theme_options = {"show_prev_next": False, "navigation_with_keys": False, "secondary_sidebar_items": ["page-toc"]}
html_sidebars: dict[str, list[str]] = {"index": []}
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["pages.css"]

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_type_aliases = {name: name for name in ("FloatArray", "IntArray", "BoolArray", "ArrayLike", "Ids", "Vectors")}
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True

LITERAL = re.compile(r"(``.+?``|`[^`]+`)")
SUM = re.compile(r"(\\sum_(?:\{[^}]*\}|\w)(?:\^\w)?)")
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


def list_classes(app):
    """Write a page for every public class."""
    import prism_irl

    folder = Path(app.srcdir) / "reference" / "classes"
    folder.mkdir(exist_ok=True)
    for name in prism_irl.__all__:
        item = getattr(prism_irl, name)
        if isinstance(item, type) and not issubclass(item, Exception):
            more = "What every fit can be asked: :doc:`../models`.\n" if hasattr(item, "fit") else ""
            title = f"{name}\n{'=' * len(name)}\n\n.. currentmodule:: prism_irl\n\n"
            text = f"{title}.. autoclass:: {name}\n   :members:\n\n{more}"
            page = folder / f"{name}.rst"
            if not page.is_file() or page.read_text(encoding="utf-8") != text:
                page.write_text(text, encoding="utf-8")


def formula(latex):
    """A formula as a picture of its own colour and size, without fonts, scripts or a network; its text is its name."""
    from html import escape

    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    spaced = SUM.sub(r"\1\,", " ".join(latex.split()))
    path = TextPath((0, 0), f"${spaced}$", size=16.5, prop=FontProperties(math_fontfamily="stix"))  # as large as text
    (left, low), (right, high) = path.vertices.min(axis=0) - 1, path.vertices.max(axis=0) + 1
    drawn = []
    for points, code in path.iter_segments(simplify=False):
        points = points.round(2)
        pairs = [f"{x:g} {-y:g}" for x, y in zip(points[::2], points[1::2], strict=True)]
        drawn.append({1: "M", 2: "L", 3: "Q", 4: "C", 79: "Z"}[int(code)] + ("" if code == 79 else " ".join(pairs)))
    return (
        f'<svg class="formula" role="img" aria-label="{escape(latex.strip())}" width="{right - left:.1f}" '
        f'height="{high - low:.1f}" viewBox="{left:.1f} {-high:.1f} {right - left:.1f} {high - low:.1f}" '
        f'style="vertical-align:{low:.1f}px;max-width:100%"><path fill="currentColor" d="{"".join(drawn)}"/></svg>'
    )


def visit_inline(writer, node):
    """Write a formula within a sentence."""
    from docutils import nodes

    writer.body.append(formula(node.astext()))
    raise nodes.SkipNode


def visit_block(writer, node):
    """Write a formula that stands apart, which may be scrolled where the screen is narrow."""
    from docutils import nodes

    writer.body.append(f'<div style="overflow-x:auto;margin:1em 2em">{formula(node.astext())}</div>\n')
    raise nodes.SkipNode


def setup(app):
    """Run before napoleon, which makes its own links."""
    app.add_html_math_renderer("paths", (visit_inline, None), (visit_block, None))
    app.connect("builder-inited", list_methods)
    app.connect("builder-inited", list_flags)
    app.connect("builder-inited", list_classes)
    app.connect("autodoc-process-docstring", as_written, priority=100)
