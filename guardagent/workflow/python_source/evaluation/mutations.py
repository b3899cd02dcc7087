"""Finds code that can change a collection, through its name or through another reference."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import lru_cache
from typing import TypeGuard

ADDS = {"append", "add", "insert", "appendleft", "setdefault", "__setitem__"}
ADDS_ALL = {"extend", "update", "extendleft"}
SHUFFLES = {"reverse", "sort", "remove", "pop", "popleft", "clear", "rotate", "discard"}
_MUTATIONS = ADDS | ADDS_ALL | SHUFFLES

# The positions where a name does not escape: the node around it, and the field of the node.
_HARMLESS: dict[type[ast.AST], str] = {
    ast.Attribute: "value",
    ast.Subscript: "value slice",
    ast.For: "iter",
    ast.AsyncFor: "iter",
    ast.comprehension: "iter ifs",
    ast.Return: "value",
    ast.Yield: "value",
    ast.Compare: "left comparators",
    ast.UnaryOp: "operand",
    ast.BinOp: "left right",
    ast.AugAssign: "value",
    ast.If: "test",
    ast.IfExp: "test",
    ast.While: "test",
    ast.Assert: "test",
    ast.Starred: "value",
    ast.FormattedValue: "value",
    ast.Match: "subject",
}


def escapes(tree: ast.AST, name: str, is_harmless: Callable[[ast.Call], bool]) -> bool:
    """Whether a collection escapes, so that code can change it without its name.

    Args:
        tree: the function.
        name: the name.
        is_harmless: whether a call leaves its arguments unchanged.
    """
    return any(
        not (field in _HARMLESS.get(type(parent), "").split() or _is_kept(tree, parent))
        and not (isinstance(parent, ast.Call) and is_harmless(parent))
        for parent, field in _uses(tree, name)
    )


def _is_kept(tree: ast.AST, parent: ast.AST) -> bool:
    """Whether a constructor stores it in its object: attributes, like globals, count as unchanged."""
    targets = parent.targets if isinstance(parent, ast.Assign) else []
    is_constructor = isinstance(tree, ast.FunctionDef) and tree.name == "__init__"
    return is_constructor and bool(targets) and all(isinstance(one, ast.Attribute) for one in targets)


def _uses(tree: ast.AST, name: str) -> list[tuple[ast.AST, str]]:
    """Returns the uses of a name: the node around it (for a keyword, the call), and the field of the node."""
    return _all_uses(tree).get(name, [])


@lru_cache(maxsize=512)
def _all_uses(tree: ast.AST) -> dict[str, list[tuple[ast.AST, str]]]:
    found: dict[str, list[tuple[ast.AST, str]]] = {}
    for parent in ast.walk(tree):
        for field_name, value in () if isinstance(parent, ast.keyword) else ast.iter_fields(parent):
            several = value if isinstance(value, list) else [value]
            children = [_unnamed(one) for one in several if not _is_copied(one, parent)]
            for name in dict.fromkeys(one.id for one in children if _is_read(one)):
                if field_name != "elt" or name not in _loop_names(parent):
                    found.setdefault(name, []).append((parent, field_name))
    return found


def _loop_names(node: ast.AST) -> set[str]:
    """Returns the loop variables of a comprehension."""
    targets = [part.target for part in getattr(node, "generators", ())]
    return {one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)}


def _unnamed(child: object) -> object:
    return child.value if isinstance(child, ast.keyword) else child


def _is_copied(child: object, parent: ast.AST) -> bool:
    """Whether it is `**child`, which a call or a dictionary copies."""
    if isinstance(parent, ast.Dict):
        return any(key is None and value is child for key, value in zip(parent.keys, parent.values, strict=True))
    return isinstance(child, ast.keyword) and child.arg is None


def _is_read(node: object) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)


def mutates_nothing(tree: ast.AST) -> bool:
    """Whether the code of a function changes no collection and passes none to other code."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in _MUTATIONS:
            return False
        if isinstance(node, ast.Subscript | ast.Attribute) and not isinstance(node.ctx, ast.Load):
            return False
        if isinstance(node, ast.AugAssign):
            return False
        if isinstance(node, ast.Call) and not _passes_no_name(node):
            return False
    return True


def _passes_no_name(call: ast.Call) -> bool:
    if isinstance(call.func, ast.Name) and call.func.id in HARMLESS_NAMES:
        return True
    arguments = [*call.args, *(one.value for one in call.keywords)]
    return not any(isinstance(one, ast.Name | ast.Starred) for one in arguments)


HARMLESS_NAMES = frozenset(
    """
    len list tuple set frozenset dict sorted reversed min max sum any all next iter enumerate zip map filter str repr
    print bool isinstance range type id choice deepcopy copy dumps
    Command Send ToolMessage AIMessage HumanMessage SystemMessage
    """.split()
)
