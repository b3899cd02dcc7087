"""Finds where in the program's source an object is made that says its name: `LlmAgent(name="draft", ...)`."""

from __future__ import annotations

import ast
import linecache
import sys
import sysconfig
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from guardagent.workflow.python_source.evaluation.values import Stub

_LIBRARIES = tuple(
    {path for name in ("stdlib", "platstdlib", "purelib", "platlib") if (path := sysconfig.get_path(name))}
)


def source_location(target: object, name: str, *classes: str) -> dict[str, Any]:
    """Where an object was made: one that is read from its source knows it, another is found by its name."""
    if isinstance(target, Stub):
        return {"file": getattr(target, "file", None), "line": getattr(target, "line", None)}
    return construction_site(name, *classes)


def construction_site(name: str, *classes: str) -> dict[str, Any]:
    """The file and line where an object of one of some classes is made by that name; nothing where not just one is."""
    found = [(file, line) for kind, file, line in _index(tuple(_files())).get(name, ()) if kind in classes]
    return {"file": found[0][0], "line": found[0][1]} if len(found) == 1 else {}


@lru_cache(maxsize=4)
def _index(files: tuple[str, ...]) -> dict[str, list[tuple[str, str, int]]]:
    """For each name that is given in a call: what is called, and where."""
    found: dict[str, list[tuple[str, str, int]]] = {}
    for file in dict.fromkeys(files):
        for name, kind, line in _calls(file):
            found.setdefault(name, []).append((kind, file, line))
    return found


def _files() -> Iterator[str]:
    """The files of the program's own modules."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        own = isinstance(file, str) and file.endswith(".py") and not file.startswith(_LIBRARIES)
        if own and name.partition(".")[0] != "guardagent" and "site-packages" not in str(file):
            yield str(file)


@lru_cache(maxsize=256)
def _calls(file: str) -> tuple[tuple[str, str, int], ...]:
    """All calls in a file that give a name: the name, what is called, and the line."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):
        return ()
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return tuple((name, _callee_name(call.func), call.lineno) for call in calls if (name := _name_argument(call)))


def _name_argument(call: ast.Call) -> str:
    """The name that a call gives, where it is written out."""
    argument = next((one.value for one in call.keywords if one.arg == "name"), call.args[0] if call.args else None)
    return argument.value if isinstance(argument, ast.Constant) and isinstance(argument.value, str) else ""


def _callee_name(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
