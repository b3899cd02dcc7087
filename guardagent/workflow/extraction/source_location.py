"""Finds the source location where a named object is constructed, as in `LlmAgent(name="draft", ...)`."""

from __future__ import annotations

import ast
import linecache
import sys
import sysconfig
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from guardagent.workflow.python_source.values import Stub

_LIBRARIES = tuple(
    {path for name in ("stdlib", "platstdlib", "purelib", "platlib") if (path := sysconfig.get_path(name))}
)


def source_location(target: object, name: str, *classes: str) -> dict[str, Any]:
    """Returns the file and line where an object is constructed: from its stub, or by its name."""
    if isinstance(target, Stub):
        return {"file": getattr(target, "file", None), "line": getattr(target, "line", None)}
    return construction_site(name, *classes)


def construction_site(name: str, *classes: str) -> dict[str, Any]:
    """Returns the file and line where an object of that name is constructed; empty unless there is exactly one."""
    found = [(file, line) for kind, file, line in _index(tuple(_files())).get(name, ()) if kind in classes]
    return {"file": found[0][0], "line": found[0][1]} if len(found) == 1 else {}


@lru_cache(maxsize=4)
def _index(files: tuple[str, ...]) -> dict[str, list[tuple[str, str, int]]]:
    """Maps each name in a call to the callees, with file and line."""
    found: dict[str, list[tuple[str, str, int]]] = {}
    for file in dict.fromkeys(files):
        for name, kind, line in _calls(file):
            found.setdefault(name, []).append((kind, file, line))
    return found


def _files() -> Iterator[str]:
    """Yields the files of the modules of the program."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        own = isinstance(file, str) and file.endswith(".py") and not file.startswith(_LIBRARIES)
        if own and name.partition(".")[0] != "guardagent" and "site-packages" not in str(file):
            yield str(file)


@lru_cache(maxsize=256)
def _calls(file: str) -> tuple[tuple[str, str, int], ...]:
    """Returns the calls in a file that pass a name: the name, the callee and the line."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return ()
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return tuple((name, _callee_name(call.func), call.lineno) for call in calls if (name := _name_argument(call)))


def _name_argument(call: ast.Call) -> str:
    """Returns the name that a call passes as a literal; empty if there is none."""
    argument = next((one.value for one in call.keywords if one.arg == "name"), call.args[0] if call.args else None)
    return argument.value if isinstance(argument, ast.Constant) and isinstance(argument.value, str) else ""


def _callee_name(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
