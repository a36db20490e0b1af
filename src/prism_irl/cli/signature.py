"""The constructor of a class, read from its source: names, types, defaults and documentation without importing it.

`prism fit --help` shows the options of PRISM, and importing PRISM means importing torch, which takes seconds. A type is
evaluated where it is written; a name in it that another module of this package defines is looked up there, in the
source again.
"""

from __future__ import annotations

import ast
import importlib
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

PACKAGE = Path(__file__).resolve().parents[1]


class Constructor(NamedTuple):
    """What `inspect` would say of a class: its docstring, and the type and default of each keyword by name."""

    doc: str
    types: dict[str, Any]
    defaults: dict[str, Any]


def read_constructor(module: str, name: str) -> Constructor:
    """Read the constructor of class ``name`` in a module of this package; every argument must have a default."""
    tree, names = _tree(module), _Names(module)
    found = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    init = next(node for node in found.body if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    positional = list(zip(init.args.args[1:], init.args.defaults, strict=True))
    keywords = list(zip(init.args.kwonlyargs, init.args.kw_defaults, strict=True))
    types, defaults = {}, {}
    for argument, default in [*positional, *keywords]:
        assert argument.annotation is not None, f"{name}({argument.arg}) has no type"
        assert default is not None, f"{name}({argument.arg}) has no default"
        types[argument.arg] = names.evaluate(argument.annotation)
        defaults[argument.arg] = names.evaluate(default)
    return Constructor(ast.get_docstring(found) or "", types, defaults)


class _Names(dict[str, Any]):
    """Names that a module of this package defines by an assignment or imports, evaluated when they are needed."""

    def __init__(self, module: str) -> None:
        super().__init__()
        self.module = module

    def evaluate(self, node: ast.expr) -> Any:
        """Value of an expression of the module; names that it does not define are Python's own."""
        return eval(compile(ast.Expression(node), self.module, "eval"), {}, self)

    def __missing__(self, name: str) -> Any:
        for node in _tree(self.module).body:
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
