"""Candidate values of open arguments, from the rules, the facts, the state and the history."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, product
from math import prod
from typing import Any

from guardagent.policy.language import ast
from guardagent.policy.language.values import kind_of
from guardagent.policy.logic.expression_solver import as_json
from guardagent.policy.logic.open_arguments import choices, schema_allows
from guardagent.policy.logic.rule_tree import RuleTree
from guardagent.policy.logic.session_protocol import ReasonerSession
from guardagent.policy.logic.sessions import state_of
from guardagent.policy.policies import Policies
from guardagent.types import EMPTY, thaw

MOST = 40  # candidates of one argument
_PLAIN: tuple[Any, ...] = (0, 1, "", "a", True, False)


def mentioned_arguments(policies: Policies, tool: str) -> frozenset[str]:
    """Returns the arguments that the rules about a tool mention."""
    nodes = [node for rule in policies.rules if tool in rule.tools for one in rule.rules for node in _walk(one)]
    names = {one.name for one in nodes if isinstance(one, ast.Argument)}
    fields = [one for one in nodes if isinstance(one, ast.Field | ast.Item)]
    called = [one for one in fields if isinstance(one.body, ast.OfCall) and one.body.what == "args"]
    names |= {one.name for one in called if isinstance(one, ast.Field)}
    return frozenset(names | {name for one in called if isinstance(one, ast.Item) for name in _text(one.index)})


def _text(node: ast.Term) -> list[str]:
    return [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []


def _walk(rule: ast.Rule) -> Iterator[object]:
    """Yields the syntax nodes of a data rule."""
    for part in RuleTree([rule]).atomic_rules:
        if not part.is_propositional:
            yield from ast.walk(part.rule)


class CandidateValues:
    """The candidate values of a session."""

    def __init__(self, session: ReasonerSession, facts: Mapping[str, Any] | None) -> None:
        self._calls = session.history
        nodes = [node for rule in session.policies.rules for one in rule.rules for node in _walk(one)]
        self._constants = [as_json(one.value) for one in nodes if isinstance(one, ast.Constant | ast.ExactValue)]
        known = {**session._facts, **(facts or {})}  # noqa: SLF001 - the reasoner belongs to the session
        state = state_of(session._conversation.context)  # noqa: SLF001 - as above
        self._around = list(islice(_scalars([known, state]), 4 * MOST))

    def values(self, name: str, schema: Mapping[str, Any] | None) -> list[Any]:
        """Returns candidates of an argument; all allowed values if there are few."""
        few = choices(schema or EMPTY)
        if few is not None:
            return list(few)
        earlier = [thaw(call.args[name]) for call in self._calls if call.args.get(name) is not None]
        numbers = [one for one in self._constants if kind_of(one) == "number"]
        near = [near for one in numbers for near in (one + 1, one - 1)]
        found = [*self._constants, *earlier, *near, *self._around, *_PLAIN]
        return [one for one in _distinct(found) if schema_allows(schema or EMPTY, one)][:MOST]


def _scalars(value: Any, depth: int = 4) -> Iterator[Any]:
    """Yields the scalars in a value, keys included."""
    match kind_of(value):
        case "mapping" if depth:
            for key, one in value.items():
                yield from _scalars(key, 0)
                yield from _scalars(one, depth - 1)
        case "list" if depth:
            for one in value:
                yield from _scalars(one, depth - 1)
        case "text" | "number" | "truth value":
            yield value


def _distinct(values: Iterable[Any]) -> list[Any]:
    return list({(kind_of(one), repr(one)): one for one in values}.values())


def combinations(domains: Sequence[Sequence[Any]], limit: int) -> Iterator[tuple[Any, ...]]:
    """Yields combinations up to a limit, with the longest domains shortened first."""
    while prod(map(len, domains)) > limit and any(len(one) > 2 for one in domains):
        longest = max(map(len, domains))
        domains = [one[: longest - 1] if len(one) == longest else one for one in domains]
    return islice(product(*domains), limit)


def is_exhaustive(schemas: Sequence[Mapping[str, Any] | None], limit: int) -> bool:
    """Whether the combinations cover all allowed values, and the schemas decide each value."""
    few = [choices(one or EMPTY) for one in schemas]
    if any(one is None for one in few) or prod(len(one or ()) for one in few) > limit:
        return False
    pairs = [(schema or EMPTY, value) for schema, values in zip(schemas, few, strict=True) for value in values or ()]
    return all(schema_allows(schema, value) is not None for schema, value in pairs)
