"""Evidence for `sources(x)`: the labelled strings in a value, and the calls, messages and facts that they came from.

Values that depend on the state are left out: the evidence goes to a model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from guardagent.policy.evaluation.history_index import Env
from guardagent.policy.evaluation.monitor_interface import Explanation
from guardagent.policy.evaluation.operands import is_shown
from guardagent.policy.evaluation.terms import Compiler, Names, names_in
from guardagent.policy.language import ast
from guardagent.policy.language.values import Unknown
from guardagent.types import EMPTY

Note = Callable[[Env, Explanation], None]
"""Adds the evidence to an explanation."""


def source_evidence(condition: ast.Term, compiler: Compiler, names: Names) -> Note | None:
    """Compiles the evidence for the sources in a condition; None if there are none."""
    bodies = [one for one in _bodies(condition) if is_shown(one) and names_in(one) <= names.keys()]
    terms = [compiler.term(one, names) for one in bodies]
    if not terms:
        return None

    def note(env: Env, found: Explanation) -> None:
        values = [value for term in terms if type(value := term(env)) is not Unknown]
        origins = {one["value"]: one for value in values for one in env[0].provenance.origins(value, env[0])}
        if not origins:
            return
        known: list[Any] = [*found.evidence.get("sources", []), *origins.values()]
        unique = {one["value"]: one for one in known}
        found.evidence = {**found.evidence, "sources": list(unique.values())}
        found.because = "; ".join(f"{value} came from {' and '.join(one['from'])}" for value, one in unique.items())

    return note


def _bodies(node: object, items: Mapping[str, ast.Term] = EMPTY) -> Iterator[ast.Term]:
    """The values whose sources a condition reads; a list stands for an item of it."""
    if isinstance(node, ast.Sources):
        used = [items[name] for name in sorted(names_in(node.body)) if name in items]
        yield from used or [node.body]
    if isinstance(node, ast.OverItems):
        over = next((items[name] for name in sorted(names_in(node.items)) if name in items), node.items)
        items = {**items, node.variable: over}
    for child in ast.children(node):
        yield from _bodies(child, items)
