"""The normal form of a syntax tree: equal for rules that differ in the names of variables and labels only."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, is_dataclass
from typing import Any

from guardagent.policy.language import ast

_PROPOSED = (ast.Forall, ast.Before, ast.After)
_FORMS = (*_PROPOSED, ast.Exists)  # each has names of its own


def canonical(rule: Any) -> str:
    """The normal form. A variable that the proposed call binds and nothing uses says nothing, and is left out."""
    return _text(rule, {}, Counter())


def _text(node: Any, names: dict[str, str], uses: Counter[str], *, proposed: bool = False) -> str:
    if isinstance(node, _FORMS):
        names = {}
        uses = Counter(node.name for node in ast.walk(node) if isinstance(node, ast.Variable | ast.Label))
    if isinstance(node, ast.Pattern):
        kept = tuple(argument for argument in node.arguments if not (proposed and _is_unused(argument, uses)))
        label = names.setdefault(node.label, f"n{len(names)}") if node.label and uses[node.label] else None
        return f"Pattern({node.tools}, {[_text(argument, names, uses) for argument in kept]}, {label})"
    if isinstance(node, tuple):
        return f"({', '.join(_text(part, names, uses) for part in node)})"
    if not is_dataclass(node):
        return f"{type(node).__name__} {sorted(map(repr, node)) if isinstance(node, frozenset) else node!r}"
    parts = []
    for at, field in enumerate(fields(node)):
        value = getattr(node, field.name)
        if field.name == "variable" or (field.name == "name" and isinstance(node, ast.Variable | ast.Label)):
            value = names.setdefault(value, f"n{len(names)}")
        if field.name != "place":
            parts.append(_text(value, names, uses, proposed=at == 0 and isinstance(node, _PROPOSED)))
    return f"{type(node).__name__}({', '.join(parts)})"


def _is_unused(argument: ast.Argument, uses: Counter[str]) -> bool:
    return isinstance(argument.value, ast.Variable) and uses[argument.value.name] == 1
