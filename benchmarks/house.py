"""The size of the package, and of the paths through it: `python -m benchmarks.house [--root CHECKOUT] [--no-paths]`.

The first table has, for the package and each of its rooms:

- files, functions, and syntax-tree nodes (`ast.walk`);
- lines of code: neither blank (also within a string) nor a comment, and in no docstring;
- the share of lines of code in import statements, wherever they stand;
- the median lines of code of a file.

The next lines count base classes with one child, and protocols with at most one implementer. A child names the base
directly. An implementer is a class that binds all members of the protocol or sets them on `self`, also by its bases; a
child of an implementer does not count again. Both are compared by name, and `--names` lists them.

The last table is that of `flows.py`: how far one unit of work travels. `--root` counts the package of another checkout.

`--table` prints the rows of `[tool.house]` in pyproject.toml, which tests/test_house.py holds the rooms to.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class ClassSummary:
    """A class: the names of its bases, and the names that it binds or sets on `self`."""

    name: str
    bases: frozenset[str]
    members: frozenset[str]


@dataclass(frozen=True, slots=True)
class FileCount:
    """The counts of a file, without its syntax tree: all trees together would fill the memory."""

    room: str
    code: int
    imports: int
    nodes: int
    functions: int
    classes: tuple[ClassSummary, ...]


@dataclass(frozen=True, slots=True)
class RoomCount:
    """The counts of several files."""

    files: int
    code: int
    import_share: float
    median: float
    functions: int
    nodes: int

    @classmethod
    def of(cls, files: list[FileCount]) -> RoomCount:
        code = sum(file.code for file in files)
        share = sum(file.imports for file in files) / max(code, 1)
        functions, nodes = sum(file.functions for file in files), sum(file.nodes for file in files)
        return cls(len(files), code, round(share, 4), median(file.code for file in files), functions, nodes)


class Nodes:
    """The nodes of a syntax tree by their type."""

    def __init__(self, tree: ast.AST) -> None:
        self._by_type = defaultdict[type, list[Any]](list)
        for node in ast.walk(tree):
            self._by_type[type(node)].append(node)

    def __len__(self) -> int:
        return sum(len(nodes) for nodes in self._by_type.values())

    def of(self, *types: type[ast.AST]) -> list[Any]:
        return [node for kind in types for node in self._by_type[kind]]


def count_files(root: Path = ROOT) -> list[FileCount]:
    """Counts each Python file of the package in a checkout."""
    package = root / "guardagent"
    return [count_file(path, room_of(path.relative_to(package))) for path in sorted(package.rglob("*.py"))]


def count_rooms(files: Iterable[FileCount]) -> dict[str, RoomCount]:
    """Returns the counts of each room by its name."""
    rooms = defaultdict(list)
    for file in files:
        rooms[file.room].append(file)
    return {room: RoomCount.of(rooms[room]) for room in sorted(rooms)}


def room_of(path: Path) -> str:
    """Returns the first folder of a path in the package; files beside the folders are the room `root`."""
    return path.parts[0] if len(path.parts) > 1 else "root"


def count_file(path: Path, room: str) -> FileCount:
    source = path.read_text(encoding="utf-8")
    nodes = Nodes(ast.parse(source))
    code = code_lines(source, nodes)
    imports = {line for node in nodes.of(ast.Import, ast.ImportFrom) for line in lines_of(node)}
    functions = nodes.of(ast.FunctionDef, ast.AsyncFunctionDef)
    classes = tuple(summary_of(node) for node in nodes.of(ast.ClassDef))
    return FileCount(room, len(code), len(code & imports), len(nodes), len(functions), classes)


def code_lines(source: str, nodes: Nodes) -> set[int]:
    """Returns the numbers of the lines of code."""
    documented = nodes.of(ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        line
        for node in documented
        if ast.get_docstring(node, clean=False) is not None
        for line in lines_of(node.body[0])
    }
    strings = {line for node in nodes.of(ast.Constant, ast.JoinedStr) for line in lines_of(node)[1:]}
    lines = enumerate(map(str.strip, source.split("\n")), 1)
    return {number for number, line in lines if line and (line[0] != "#" or number in strings)} - docstrings


def lines_of(node: ast.stmt | ast.expr) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def summary_of(node: ast.ClassDef) -> ClassSummary:
    bases = (base.value if isinstance(base, ast.Subscript) else base for base in node.bases)
    names = {base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "") for base in bases}
    return ClassSummary(node.name, frozenset(names), frozenset(member_names(node)))


def member_names(node: ast.ClassDef) -> Iterator[str]:
    for statement in node.body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.AnnAssign(target=target) | ast.Assign(targets=[target]):
                yield from (part.id for part in ast.walk(target) if isinstance(part, ast.Name))
    for part in ast.walk(node):
        match part:
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                yield name


def only_children(classes: list[ClassSummary]) -> dict[str, str]:
    """Returns the base classes that have exactly one child, each with the child's name."""
    children = defaultdict(list)
    for child in classes:
        for base in child.bases:
            children[base].append(child.name)
    names = sorted({base.name for base in classes} & children.keys())
    return {name: children[name][0] for name in names if len(children[name]) == 1}


def protocol_implementers(classes: list[ClassSummary]) -> list[tuple[str, list[str]]]:
    """Returns the name of each protocol with those of its implementers."""
    by_name = defaultdict(list)
    for summary in classes:
        by_name[summary.name].append(summary)

    def members(summary: ClassSummary, below: frozenset[str] = frozenset()) -> frozenset[str]:
        bases = [base for name in summary.bases - below for base in by_name.get(name, ())]
        return summary.members.union(*(members(base, below | {summary.name, base.name}) for base in bases))

    def implementers(protocol: ClassSummary) -> list[str]:
        needed = members(protocol)
        matches = [candidate for candidate, bound in candidates if needed <= bound]
        names = {match.name for match in matches}
        return sorted(match.name for match in matches if not match.bases & names)

    protocols = [summary for summary in classes if "Protocol" in summary.bases]
    candidates = [(summary, members(summary)) for summary in classes if "Protocol" not in summary.bases]
    return sorted((protocol.name, implementers(protocol)) for protocol in protocols)


def count_paths(root: Path) -> dict[str, dict[str, Any]]:
    """Returns the counts of `flows.py` for the package of a checkout."""
    search_path = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, str(Path(__file__).parent / "flows.py"), "--json"]
    environment = {**os.environ, "PYTHONPATH": search_path}
    run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)  # noqa: S603 - our own program
    paths: dict[str, dict[str, Any]] = json.loads(run.stdout)
    return paths


def limits(rooms: dict[str, RoomCount]) -> str:
    """Returns `[tool.house]`."""
    rows = (f"{room} = {{ files = {count.files}, code = {count.code} }}" for room, count in rooms.items())
    return "\n".join(["[tool.house]", *rows])


def markdown(first: str, rows: dict[str, dict[str, Any]]) -> str:
    """Returns a table with the columns of its longest row."""
    columns = max((list(row) for row in rows.values()), key=len)
    lines = [[first, *(column.replace("_", " ") for column in columns)], ["---"] * (len(columns) + 1)]
    for name, row in rows.items():
        lines.append([name, *map(cell, row.values()), *[""] * (len(columns) - len(row))])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cell(value: object) -> str:
    """Returns a number with its thousands separated, a text as it is, and nothing for None."""
    if isinstance(value, int | float):
        return f"{value:,}".removesuffix(".0")
    return "" if value is None else str(value)


def show(
    rooms: dict[str, dict[str, Any]], children: dict[str, str], rare: dict[str, list[str]], protocols: int
) -> None:
    shares = {room: {**count, "import_share": f"{count['import_share']:.1%}"} for room, count in rooms.items()}
    print(markdown("room", shares))
    print(f"\nbase classes with exactly one child: {len(children)}")
    print(f"protocols with at most one implementer: {len(rare)} of {protocols}")


def main() -> None:
    parser = argparse.ArgumentParser(description="The size of the package, and of the paths through it.")
    parser.add_argument("--root", type=Path, default=ROOT, metavar="CHECKOUT", help="count the package in this folder")
    parser.add_argument("--no-paths", action="store_true", help="run nothing of the package")
    parser.add_argument("--names", action="store_true", help="list the base classes and the protocols")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--table", action="store_true", help="print [tool.house] and nothing else")
    options = parser.parse_args()
    files = count_files(options.root)
    rooms = count_rooms(files)
    if options.table:
        print(limits(rooms))
        return
    classes = [summary for file in files for summary in file.classes]
    children, protocols = only_children(classes), protocol_implementers(classes)
    rare = {name: implementers for name, implementers in protocols if len(implementers) <= 1}
    counts = {room: asdict(count) for room, count in {"all": RoomCount.of(files), **rooms}.items()}
    paths = {} if options.no_paths else count_paths(options.root.resolve())
    if options.json:
        single = {"only_children": children, "rarely_implemented": rare, "protocols": len(protocols)}
        print(json.dumps({"rooms": counts, **single, "paths": paths}, indent=2))
        return
    show(counts, children, rare, len(protocols))
    if options.names:
        print("\nbase class: child\n" + "\n".join(f"- {base}: {child}" for base, child in children.items()))
        print(
            "\nprotocol: implementer\n" + "\n".join(f"- {name}: {', '.join(by) or 'none'}" for name, by in rare.items())
        )
    if paths:
        print(f"\n{markdown('path', paths)}")


if __name__ == "__main__":
    main()
