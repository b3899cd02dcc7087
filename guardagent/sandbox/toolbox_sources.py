"""Lists the source files that a toolbox file may run: itself, and those of its folder that it imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from guardagent._support import syntax


def source_files(*paths: Path) -> tuple[Path, ...]:
    """Returns toolbox files of one folder and the files of this folder that they import, also indirectly, sorted."""
    folder, found, waiting = paths[0].parent, set(paths), list(paths)
    while waiting:
        at = waiting.pop()
        new = {file for file in _imported_by(at) if file.is_relative_to(folder)} - found
        found |= new
        waiting += new
    return tuple(sorted(found))


def _imported_by(path: Path) -> Iterator[Path]:
    for level, names in _imports(path.read_text(encoding="utf-8-sig")):
        base = path.parents[level - 1] if level <= len(path.parents) else path.parent
        for file in (base.joinpath(*names).with_suffix(".py"), base.joinpath(*names, "__init__.py")):
            if names and file.is_file():
                yield file


@lru_cache(maxsize=256)
def _imports(source: str) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """Returns (level, dotted name) of each relative import: the module, its parents, and the imported names."""
    found = []
    for node in ast.walk(syntax.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.level:
            parts = tuple(node.module.split(".")) if node.module else ()
            found += [(node.level, parts[:end]) for end in range(1, len(parts) + 1)]
            found += [(node.level, (*parts, alias.name)) for alias in node.names]
    return tuple(found)
