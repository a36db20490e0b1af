"""Nothing outside a component's own file asks which component it has: traits and hooks of the protocols say it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from prism_irl.rewards import REWARDS
from prism_irl.switching import SWITCHING

PACKAGE = Path(__file__).parents[1] / "src" / "prism_irl"
PROTOCOLS = {"Switching", "RewardModel", "SwitchingOptions", "RewardOptions"}
"""Base classes, of which a value may always be asked whether it is one."""
NAMES = {*SWITCHING, *REWARDS}
HOLDERS = {
    *("switching", "rewards", "switching_", "rewards_", "rewards_model_", "switching_options", "reward_options"),
    *("chain", "pair", "when", "half"),
}
"""What components, their options and their names are called where somebody holds one."""


def trees() -> dict[str, ast.Module]:
    """Syntax tree of every module by its path below the package."""
    return {
        path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def components(modules: dict[str, ast.Module]) -> dict[str, set[str]]:
    """Concrete classes of components and of their options, and the files in which each is defined."""
    bases: dict[str, set[str]] = {}
    files: dict[str, set[str]] = {}
    for file, tree in modules.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                bases.setdefault(node.name, set()).update(last_name(base) for base in node.bases)
                files.setdefault(node.name, set()).add(file)
    found = set(PROTOCOLS)
    while more := {name for name, above in bases.items() if above & found} - found:
        found |= more
    return {name: files[name] for name in found - PROTOCOLS}


def last_name(node: ast.expr) -> str:
    """Last identifier of an expression such as ``model.switching_``; empty where there is none."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def named(node: ast.expr) -> set[str]:
    """All identifiers and strings of an expression."""
    found = {last_name(inner) for inner in ast.walk(node) if isinstance(inner, ast.Attribute | ast.Name)}
    return found | {
        inner.value for inner in ast.walk(node) if isinstance(inner, ast.Constant) and isinstance(inner.value, str)
    }


def questions(tree: ast.Module, classes: set[str]) -> Iterator[tuple[int, str]]:
    """Line and text of everything that asks for a concrete component."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            function = last_name(node.func)
            if function in ("isinstance", "issubclass") and named(node.args[1]) & classes:
                yield node.lineno, ast.unparse(node)
            if function in ("hasattr", "getattr") and len(node.args) > 1 + (function == "getattr"):
                fixed = isinstance(node.args[1], ast.Constant)  # a loop over names asks for no particular one
                if fixed and last_name(node.args[0]) in HOLDERS:
                    yield node.lineno, ast.unparse(node)
            if function == "startswith" and isinstance(node.func, ast.Attribute):
                told = {text.rstrip("+") for text in named(node.args[0])} if node.args else set()
                if told & NAMES and last_name(node.func.value) in HOLDERS:
                    yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            typed = any(isinstance(side, ast.Call) and last_name(side.func) == "type" for side in sides)
            if typed and set().union(*map(named, sides)) & classes:
                yield node.lineno, ast.unparse(node)
            strings = {
                inner.value for side in sides for inner in ast.walk(side) if isinstance(inner, ast.Constant)
            } & NAMES
            if strings and any(last_name(side) in HOLDERS for side in sides):
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.MatchClass) and last_name(node.cls) in classes:
            yield node.cls.lineno, ast.unparse(node.cls)


def test_nobody_asks_for_a_concrete_component() -> None:
    modules = trees()
    classes = components(modules)
    assert {"MarkovChain", "PlaceChain", "TabularPolicies", "GoalPolicies", "Goals", "State"} <= classes.keys()
    found = []
    for file, tree in modules.items():
        others = {name for name, own in classes.items() if file not in own}
        found += [f"{file}:{line} {text}" for line, text in questions(tree, others)]
    assert not found, "\n".join(found)


def test_the_count_sees_every_kind_of_question() -> None:
    asked = """
isinstance(rewards, GoalPolicies)
hasattr(model.switching_, "dwell_proba")
getattr(rewards, "free", None)
pair.startswith("single+")
type(model.switching_) is MarkovChain
model.switching == "markov"
match rewards:
    case GoalPolicies():
        pass
"""
    assert len(list(questions(ast.parse(asked), {"GoalPolicies", "MarkovChain"}))) == 7
