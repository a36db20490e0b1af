"""The house keeps its shape: imports point one way, and tests stand where their modules do."""

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "src" / "prism_irl"

# A room may import the rooms on the lines above its own, and itself. Report and figures stand above models, because
# they read results and never models; worlds below datasets, because simulated data lies in the same store.
LEAVES = {
    *("arrays", "checked", "errors", "halves", "limits", "renewal", "storage", "devices", "optional", "mdp", "labels"),
    "maze",
}
ORDER: list[set[str]] = [
    LEAVES,  # import one another only
    {"data"},
    {"switching", "rewards", "evaluation", "figures", "datasets", "robots"},
    {"em", "worlds", "report"},
    {"models"},
    {"scale"},
    {"studies"},
    {"cli"},
    {"__init__", "__main__"},
]

# Tests of what no single module holds.
SPANNING_FOLDERS = {"browser", "docs", "end_to_end", "fuzz", "golden", "oracles", "properties"}
SPANNING = {
    "test_layers.py",
    "cli/test_help.py",  # of every command
    "cli/test_startup.py",
    "models/test_every_continuous_pair.py",
    "models/test_every_method.py",
    "test_components.py",
    "switching/test_incremental.py",  # of every switching model
}


def room(parts: tuple[str, ...]) -> str:
    """First part of a module's path below the package: its folder, or its own name at the root."""
    return parts[0].removesuffix(".py")


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and imported room of every import within the package, those in functions too, those for types only not."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for_types = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)]
    ignored = {id(inner) for block in for_types for statement in block.body for inner in ast.walk(statement)}
    for node in ast.walk(tree):
        if id(node) in ignored:
            continue
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            folder = path.parents[node.level - 1].relative_to(PACKAGE.parent).parts
            names = [".".join((*folder, node.module or "", alias.name)).replace("..", ".") for alias in node.names]
        for name in names:
            package, _, rest = name.partition(".")
            if package == "prism_irl" and rest != "__version__":
                yield node.lineno, room(tuple(rest.split("."))) if rest else "__init__"


def modules() -> Iterator[tuple[str, Path]]:
    """Every module of the package by its path below it."""
    return ((path.relative_to(PACKAGE).as_posix(), path) for path in sorted(PACKAGE.rglob("*.py")))


def test_every_room_has_its_place():
    rooms = {room(path.relative_to(PACKAGE).parts) for _, path in modules()}
    assert rooms == set().union(*ORDER)
    assert sum(map(len, ORDER)) == len(rooms), "a room stands on two lines"


def test_imports_point_one_way():
    line_of = {name: line for line, names in enumerate(ORDER) for name in names}
    wrong = [
        f"{name}:{number} imports {imported}"
        for name, path in modules()
        for number, imported in imports(path)
        if not (imported in line_of and _may_import(line_of, room(path.relative_to(PACKAGE).parts), imported))
    ]
    assert not wrong


def _may_import(line_of: dict[str, int], importing: str, imported: str) -> bool:
    both_leaves = {importing, imported} <= LEAVES
    return importing == imported or both_leaves or line_of[imported] < line_of[importing]


def test_leaves_do_not_import_in_circles():
    within = {leaf: {name for _, name in imports(PACKAGE / f"{leaf}.py")} - {leaf} for leaf in LEAVES}
    while within:
        free = {leaf for leaf, others in within.items() if not others & within.keys()}
        assert free, f"a circle among {sorted(within)}"
        within = {leaf: others for leaf, others in within.items() if leaf not in free}


def test_tests_mirror_the_tree():
    found = {path.relative_to(TESTS) for path in TESTS.rglob("test_*.py")}
    mirrored = {path for path in found if path.parts[0] not in SPANNING_FOLDERS and path.as_posix() not in SPANNING}
    assert not {path.as_posix() for path in mirrored if path.name != "test_cuda.py" and not _has_module(path)}
    assert {Path(name) for name in SPANNING} <= found


def _has_module(test: Path) -> bool:
    """Whether a test has a module of its name, of which a part may be tested apart: ``test_<module>_<part>.py``."""
    root = TESTS.parent if test.parts[0] == "reproduce" else PACKAGE
    words = test.stem.removeprefix("test_").split("_")
    names = ["_".join(words[:n]) for n in range(1, len(words) + 1)]
    folder = root / test.parent
    return any((folder / f"{name}.py").is_file() or (folder / name).is_dir() for name in names)
