"""The options of a dataclass, read from its source: names, types, defaults and documentation without importing it.

`prism fit --help` shows the options of PRISM and of every half of a pair, and importing them means importing torch,
which takes seconds. A type is evaluated where it is written; a name in it that another module of this package defines
is looked up there, in the source again.
"""

from __future__ import annotations

import ast
import importlib
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

PACKAGE = Path(__file__).resolve().parents[1]


class Option(NamedTuple):
    """One field of a dataclass."""

    type: Any
    default: Any
    help: str


def read_options(where: str) -> dict[str, Option]:
    """Fields of the dataclass "module:Class" of this package, those of its base classes first."""
    from docstring_parser import parse

    module, _, name = where.partition(":")
    names = _Names(module)
    found = next(node for node in _tree(module).body if isinstance(node, ast.ClassDef) and node.name == name)
    options: dict[str, Option] = {}
    for base in found.bases:
        home = _home(module, base.id) if isinstance(base, ast.Name) else None
        options |= {} if home is None else read_options(home)
    documented: dict[str, str] = {}
    for entry in parse(ast.get_docstring(found) or "").params:
        text = " ".join((entry.description or entry.type_name or "").split())
        documented |= dict.fromkeys(entry.arg_name.replace(" ", "").split(","), text)
    for node in found.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            field, kind = node.target.id, ast.unparse(node.annotation)
            if not kind.startswith("ClassVar") and not field.endswith("_"):  # what a fit sets is no option
                text = documented.pop(field, "") or (options[field].help if field in options else "")
                options[field] = Option(names.evaluate(node.annotation), names.evaluate(node.value), text)
    return {name: option._replace(help=documented.get(name, option.help)) for name, option in options.items()}


def _home(module: str, name: str) -> str | None:
    """Where a name of a module is defined, as "module:Name"; None outside of this package."""
    for node in _tree(module).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return f"{module}:{name}"
        if isinstance(node, ast.ImportFrom) and any((alias.asname or alias.name) == name for alias in node.names):
            return f"{node.module}:{name}" if str(node.module).startswith(f"{PACKAGE.name}.") else None
    return None


class _Names(dict[str, Any]):
    """Names that a module of this package defines by an assignment or imports, evaluated when they are needed."""

    def __init__(self, module: str) -> None:
        super().__init__()
        self.module = module

    def evaluate(self, node: ast.expr) -> Any:
        """Value of an expression of the module; on a command line a class of options is given by its name."""
        if isinstance(node, ast.Call):  # field(default=3, …)
            return self.evaluate(next(keyword.value for keyword in node.keywords if keyword.arg == "default"))
        return eval(compile(ast.Expression(node), self.module, "eval"), {}, self)

    def __missing__(self, name: str) -> Any:
        for node in _tree(self.module).body:
            if isinstance(node, ast.ClassDef) and node.name == name:
                return str
            if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
                return self.evaluate(node.value)
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
                assert node.value is not None
                return self.evaluate(node.value)
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                original = next((alias.name for alias in node.names if (alias.asname or alias.name) == name), None)
                if original is not None and node.module.startswith(f"{PACKAGE.name}."):
                    return _Names(node.module)[original]
                if original is not None:
                    return getattr(importlib.import_module(node.module), original)
        raise KeyError(name)


@cache
def _tree(module: str) -> ast.Module:
    path = PACKAGE.joinpath(*module.split(".")[1:])
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))
