"""Changes of `applies_to:`. Each variant is the kind of the change, the changed scope, and its text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from guardagent.policy.scope import Scope

_SETS = {"roles": "role", "tenants": "tenant", "agents": "agent"}


def scope_variants(scope: Scope | None) -> Iterator[tuple[str, Scope | None, str]]:
    """Leaves out one role, tenant or agent at a time, and the exclusion."""
    if scope is None:
        return
    for attribute, word in _SETS.items():
        names = getattr(scope, attribute) or ()
        for name in sorted(names):
            changed = replace(scope, **{attribute: frozenset(names) - {name} or None})  # type: ignore[arg-type]  # a set
            yield f"{word} dropped", _or_none(changed), f"without the {word} {name}"
    if scope.excluded is not None:
        yield "exclusion dropped", _or_none(replace(scope, excluded=None)), "without 'not'"


def _or_none(scope: Scope) -> Scope | None:
    return None if scope == Scope() else scope
