"""The package layout: few rooms in layers, no import cycles, and rooms that do not grow unnoticed."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from benchmarks.house import count_files, count_rooms

HOUSE = Path(__file__).parents[1]
PACKAGE = HOUSE / "guardagent"
DEFINITION = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
DOOR = ("guardagent.policy.policies", "guardagent.session.session")  # a policy opens its sessions


@cache
def settings() -> dict[str, Any]:
    """Returns the tables of tools in pyproject.toml."""
    tools: dict[str, Any] = tomllib.loads((HOUSE / "pyproject.toml").read_text())["tool"]
    return tools


def layer_names() -> list[str]:
    """Returns the layers of the import-linter contract, which cover the whole package."""
    contracts = settings()["importlinter"]["contracts"]
    layers: list[str] = next(contract["layers"] for contract in contracts if contract["containers"] == ["guardagent"])
    return layers


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(HOUSE).with_suffix("").parts).removesuffix(".__init__")


def outside_of_functions(node: ast.AST) -> Iterator[ast.AST]:
    """Yields the statements that run when a module is imported, or that a type checker reads."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.expr):
            yield child
            yield from outside_of_functions(child)


def imported(path: Path, modules: AbstractSet[str]) -> Iterator[str]:
    """Yields the modules of the package that a module imports."""
    for node in outside_of_functions(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from {alias.name for alias in node.names} & modules
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}:{node.lineno}: expected the whole name of the module"
            places = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from {place if place in modules else str(node.module) for place in places} & modules


def test_the_package_root_stays_small() -> None:
    """At most twenty folders, six files and twelve layers."""
    folders = [path for path in PACKAGE.iterdir() if (path / "__init__.py").exists()]
    assert len(folders) <= 20
    assert len(list(PACKAGE.glob("*.py"))) <= 6
    assert len(layer_names()) <= 12


def test_no_room_is_larger_than_its_row() -> None:
    """`[tool.house]` in pyproject.toml has the files and the lines of code that each room may have."""
    rows = settings()["house"]
    assert {
        room: f"{count.files} files, {count.code} lines of code; its row: {rows.get(room)}"
        for room, count in count_rooms(count_files()).items()
        if room not in rows or count.files > rows[room]["files"] or count.code > rows[room]["code"]
    } == {}


def test_the_page_names_every_room() -> None:
    """Each room has a row in the table of the architecture page."""
    rows = re.findall(r"^\| (`.+?) \|", (HOUSE / "docs" / "architecture.md").read_text(), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([\w.]+)`", row)}
    there = {path.name for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert there - {"__init__.py", "__main__.py"} <= named


def test_there_are_no_import_cycles() -> None:
    """This includes imports for type annotations."""
    files = {name_of(path): path for path in PACKAGE.rglob("*.py")}
    graph = {name: set(imported(path, files.keys())) for name, path in files.items()}
    graph[DOOR[0]].remove(DOOR[1])
    TopologicalSorter(graph).prepare()


def test_each_test_file_mirrors_a_module() -> None:
    """Its name is that of a module of its room, or its folder is one of the other kinds."""
    others = {"properties", "docs", "attacks", "content", "mutants"}
    files = [path.relative_to(HOUSE / "tests") for path in (HOUSE / "tests").rglob("test_*.py")]
    assert [
        str(file) for file in files if len(file.parts) > 1 and file.parts[0] not in others and not mirrors(file)
    ] == []


def mirrors(test: Path) -> bool:
    """Whether a module (for bench, also an evaluation) has a name that the test's name begins with."""
    rooms = [PACKAGE / test.parts[0], *([HOUSE / "benchmarks"] if test.parts[0] == "bench" else [])]
    return any(f"{test.stem}_".startswith(f"test_{name}_") for room in rooms for name in names_in(room))


@cache
def names_in(room: Path) -> set[str]:
    return {path.stem.strip("_") for path in (room, *room.rglob("*"))} - {""}


def test_no_module_binds_a_name_twice() -> None:
    """A second definition at the top level would replace the first one for the functions above it, too."""
    repeated = [
        (str(path.relative_to(HOUSE)), name)
        for path in PACKAGE.rglob("*.py")
        for name, count in Counter(defined_at_top(ast.parse(path.read_text()))).items()
        if count > 1
    ]
    assert repeated == []


def defined_at_top(module: ast.Module) -> Iterator[str]:
    """Yields the names of definitions and assignments; those of overloads once, with their implementation."""
    for node in module.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))
        elif isinstance(node, DEFINITION) and "overload" not in map(ast.unparse, node.decorator_list):
            yield node.name
