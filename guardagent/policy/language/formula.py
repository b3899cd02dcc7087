"""Propositional temporal formulas over finite traces: LTLf with past operators, in negation normal form.

A *literal* is an atom or its negation. The two are not complementary when a step failed or is in flight: an atom needs
a successful step, its negation needs that no such step ran at all. So a step that helps to satisfy a rule must have
succeeded, and a step that helps to violate it counts from its start.

Build formulas with the functions below: they simplify and normalise. Equal formulas are equal values.

Rules are translated to formulas. At the top level, and under AND, OR and NOT there, Agentproof's forms over atoms have
the meaning of the paper, extended to the end of the trace. All other rules are LTLf over the whole trace.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from guardagent.policy.language.grammar import Node, TemporalError, tree_of, unquoted


class Formula:
    """A formula; the classes below are all kinds of it."""

    __slots__: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Literal(Formula):
    """An atom, or its negation with `positive=False`."""

    atom: str
    positive: bool = True


@dataclass(frozen=True, slots=True)
class TruthConstant(Formula):
    value: bool


@dataclass(frozen=True, slots=True)
class Conjunction(Formula):
    parts: frozenset[Formula]


@dataclass(frozen=True, slots=True)
class Disjunction(Formula):
    parts: frozenset[Formula]


@dataclass(frozen=True, slots=True)
class Next(Formula):
    """`body` holds at the next step. `strong`: a next step must exist; otherwise it also holds at the last step."""

    body: Formula
    strong: bool = True


@dataclass(frozen=True, slots=True)
class Until(Formula):
    """`right` holds eventually, and `left` at every step before."""

    left: Formula
    right: Formula


@dataclass(frozen=True, slots=True)
class Release(Formula):
    """`right` holds up to and including the first step with `left`, or to the end."""

    left: Formula
    right: Formula


@dataclass(frozen=True, slots=True)
class Within(Formula):
    """`body` holds at this step or at one of the `steps` after it."""

    steps: int
    body: Formula


@dataclass(frozen=True, slots=True)
class Previous(Formula):
    """`body` holds at the previous step. `strong`: one must exist; otherwise it also holds at the first step."""

    body: Formula
    strong: bool = True


@dataclass(frozen=True, slots=True)
class Since(Formula):
    """`right` held at some step, and `left` at every step after it, up to and including this one."""

    left: Formula
    right: Formula


@dataclass(frozen=True, slots=True)
class TriggerFormula(Formula):
    """`right` holds at every step from the last one with `left`, or from the beginning, up to this one."""

    left: Formula
    right: Formula


TRUE = TruthConstant(value=True)
FALSE = TruthConstant(value=False)


def all_of(parts: Iterable[Formula]) -> Formula:
    """The conjunction of formulas."""
    flat = _flat(parts, Conjunction)
    if FALSE in flat:
        return FALSE
    flat.discard(TRUE)
    kept = frozenset(part for part in flat if not (isinstance(part, Disjunction) and part.parts & flat))
    return next(iter(kept)) if len(kept) == 1 else Conjunction(kept) if kept else TRUE


def any_of(parts: Iterable[Formula]) -> Formula:
    """The disjunction of formulas."""
    flat = _flat(parts, Disjunction)
    if TRUE in flat:
        return TRUE
    flat.discard(FALSE)
    kept = frozenset(part for part in flat if not (isinstance(part, Conjunction) and part.parts & flat))
    return next(iter(kept)) if len(kept) == 1 else Disjunction(kept) if kept else FALSE


def call_of(tools: Iterable[str]) -> Formula:
    """A call of one of the tools that a pattern names."""
    names = list(tools)
    return TRUE if "*" in names else any_of(Literal(name if name[0] == "@" else f"tool:{name}") for name in names)


def negation(formula: Formula) -> Formula:  # noqa: C901 - a case for each kind
    """The negation, pushed down to the literals."""
    match formula:
        case TruthConstant(value):
            return TruthConstant(not value)
        case Literal(name, positive):
            return Literal(name, not positive)
        case Conjunction(parts):
            return any_of(map(negation, parts))
        case Disjunction(parts):
            return all_of(map(negation, parts))
        case Next(body, strong):
            return Next(negation(body), not strong)
        case Previous(body, strong):
            return Previous(negation(body), not strong)
        case Until(left, right):
            return Release(negation(left), negation(right))
        case Release(left, right):
            return Until(negation(left), negation(right))
        case Since(left, right):
            return TriggerFormula(negation(left), negation(right))
        case TriggerFormula(left, right):
            return Since(negation(left), negation(right))
        case Within(steps, body):
            negated = _throughout(steps, negation(body))
            return negated if holds_on_empty_trace(negated) else any_of([globally(FALSE), negated])
    raise AssertionError(formula)


def holds_on_empty_trace(formula: Formula) -> bool:
    """Whether the empty trace satisfies a formula. It has no step at which `F` or `F[<=k]` could hold."""
    match formula:
        case TruthConstant(value):
            return value
        case Literal(_, positive):
            return not positive
        case Conjunction(parts):
            return all(map(holds_on_empty_trace, parts))
        case Disjunction(parts):
            return any(map(holds_on_empty_trace, parts))
        case Next(_, strong) | Previous(_, strong):
            return not strong
    return isinstance(formula, Release | TriggerFormula)


def implies(first: Formula, second: Formula) -> Formula:
    return any_of([negation(first), second])


def globally(body: Formula) -> Formula:
    return Release(FALSE, body)


def finally_(body: Formula) -> Formula:
    return Until(TRUE, body)


def weak_until(left: Formula, right: Formula) -> Formula:
    return Release(right, any_of([left, right]))


def once(body: Formula) -> Formula:
    return Since(TRUE, body)


def historically(body: Formula) -> Formula:
    return TriggerFormula(FALSE, body)


def _throughout(steps: int, body: Formula) -> Formula:
    """`body` at this step and at each of the next `steps` that exist."""
    result = body
    for _ in range(steps):
        result = all_of([body, Next(result, strong=False)])
    return result


def _flat(parts: Iterable[Formula], kind: type[Conjunction | Disjunction]) -> set[Formula]:
    flat: set[Formula] = set()
    for part in parts:
        flat |= part.parts if isinstance(part, kind) else {part}
    return flat


@lru_cache(64)  # the builders of a rule ask for them in turn
def subformulas(formula: Formula) -> tuple[Formula, ...]:
    """The distinct subformulas, children before parents."""
    formulas: dict[Formula, None] = {}
    stack: list[tuple[Formula, bool]] = [(formula, False)]
    while stack:
        current, opened = stack.pop()
        if current in formulas:
            continue
        if opened:
            formulas[current] = None
        else:
            stack.append((current, True))
            stack += [(child, False) for child in children(current)]
    return tuple(formulas)


def children(formula: Formula) -> list[Formula]:
    match formula:
        case Conjunction(parts) | Disjunction(parts):
            return list(parts)
        case Next(body) | Previous(body) | Within(_, body):
            return [body]
        case Until(left, right) | Release(left, right) | Since(left, right) | TriggerFormula(left, right):
            return [left, right]
    return []


def atoms(formula: Formula) -> list[str]:
    """The atoms of a formula, sorted."""
    return sorted({part.atom for part in subformulas(formula) if isinstance(part, Literal)})


def renamed(parts: Iterable[Formula], names: Mapping[str, str]) -> Formula:
    """The last of some formulas, with other atoms. Each formula follows its subformulas."""
    new: dict[Any, Any] = {}
    for part in parts:
        if isinstance(part, Literal):
            new[part] = Literal(names[part.atom], part.positive)
        elif isinstance(part, Conjunction | Disjunction):
            new[part] = type(part)(frozenset([new[body] for body in part.parts]))
        else:
            values = [getattr(part, name) for name in part.__slots__]
            new[part] = type(part)(*[new.get(value, value) for value in values])
    return cast("Formula", new[part])


# --- from rules to formulas

MAX_BOUND = 1000
DATA_RULES = ("forall", "exists", "before", "after", "seq", "flow")
_UNARY = {"G": globally, "F": finally_, "X": Next, "O": once, "H": historically, "Y": Previous}
_BINARY = {"U": Until, "W": weak_until, "R": Release, "S": Since}


def read_temporal(text: str) -> Formula:
    """Parses a propositional rule to a formula.

    Raises:
        TemporalError: the rule does not parse; with the place and the expected tokens.
    """
    try:
        return formula_of(tree_of(text), text)
    except RecursionError:
        raise TemporalError("the rule is nested too deeply; simplify it", text[:80], 1, 1) from None


def formula_of(tree: Node, text: str) -> Formula:
    """The formula of a top-level tree: the paper's forms, combined by AND, OR and NOT, or LTLf."""
    if tree.data == "all_of":
        return all_of(formula_of(child, text) for child in tree.children)
    if tree.data == "any_of":
        return any_of(formula_of(child, text) for child in tree.children)
    if tree.data == "negation":
        return negation(formula_of(tree.children[0], text))
    return _response(tree, text) or _ltlf(tree, text)


def _response(tree: Node, text: str) -> Formula | None:
    """The formula of `p -> F q`, `p -> F[<=k] q` and `p -> F q -> F r ...` over atoms; None for other trees."""
    parts = _arrows(tree)
    if len(parts) < 2 or not _is_atom(parts[0]):
        return None
    trigger = _atom(parts[0], text)
    if len(parts) == 2 and parts[1].data == "within" and _is_atom(parts[1].children[1]):
        return globally(implies(trigger, Within(_bound(parts[1], text), _atom(parts[1].children[1], text))))
    if not all(part.data == "unary" and part.children[0] == "F" and _is_atom(part.children[1]) for part in parts[1:]):
        return None
    return globally(implies(trigger, sequence(trigger, [_atom(part.children[1], text) for part in parts[1:]])))


def sequence(trigger: Formula, steps: list[Formula]) -> Formula:
    """The steps follow in order, and no trigger precedes the last one. One event can satisfy several steps."""
    if not steps:
        return TRUE
    after = sequence(trigger, steps[1:])
    advances = all_of([negation(trigger), steps[0], after])
    return any_of([all_of([steps[0], after]), Next(Until(negation(trigger), any_of([all_of(steps), advances])))])


def _arrows(tree: Node) -> list[Node]:
    if tree.data != "implies":
        return [tree]
    first, rest = tree.children
    return [first, *_arrows(rest)]


def _is_atom(tree: Node) -> bool:
    return tree.data in ("atom", "group", "step")


def _atom(tree: Node, text: str) -> Formula:
    if tree.data == "step":
        from guardagent.policy.language.parser import step_atoms

        return any_of(map(Literal, step_atoms(tree, text)))
    if tree.data == "group":
        return Literal(f"@{tree.children[0]}")
    kind, name = tree.children
    plain = unquoted(name, text) if name.type == "QUOTED" else name
    if not kind and name.type != "QUOTED" and looks_like_a_tool(name):
        problem = f"{name} without 'tool:' is a tag from the host, and no tool; write tool:{name}"
        raise TemporalError(f"{problem}, or put it in quotes if that tag is meant", text, name.line, name.column)
    return Literal(f"{kind or ''}{plain}")


def _bound(tree: Node, text: str) -> int:
    token = tree.children[0]
    if not 1 <= int(token) <= MAX_BOUND:
        raise TemporalError(f"the bound is {token}; expected 1 to {MAX_BOUND}", text, token.line, token.column)
    return int(token)


def _ltlf(tree: Node, text: str) -> Formula:  # noqa: C901 - a case for each kind
    children = tree.children
    match tree.data:
        case "atom" | "group" | "step":
            return _atom(tree, text)
        case "true" | "false":
            return TRUE if tree.data == "true" else FALSE
        case "unary":
            return _UNARY[children[0]](_ltlf(children[1], text))
        case "within":
            return Within(_bound(tree, text), _ltlf(children[1], text))
        case "binary":
            return _BINARY[children[1]](_ltlf(children[0], text), _ltlf(children[2], text))
        case "negation":
            return negation(_ltlf(children[0], text))
        case "implies":
            return implies(_ltlf(children[0], text), _ltlf(children[1], text))
        case "all_of":
            return all_of(_ltlf(child, text) for child in children)
        case "any_of":
            return any_of(_ltlf(child, text) for child in children)
    if tree.data in DATA_RULES:
        problem = (
            f"{tree.data}(...) is inside of a temporal operator; expected it at the top level, or under AND, OR, NOT"
        )
        raise TemporalError(problem, text, tree.line, tree.column)
    raise AssertionError(tree.data)


# --- names that tools usually have

_VERBS = frozenset(
    """
    accept activate add adjust allocate append apply approve archive assign attach authenticate authorize backup ban
    block book browse build buy calculate call cancel change charge check checkout clear click clone close commit
    compile complete compute configure confirm connect convert copy create deactivate debit delete deploy deposit
    disable disconnect dispatch download draft drop edit email enable encrypt end enroll erase escalate evaluate
    exec execute export extract fetch file fill find finish forward generate get give grant handoff hire import
    insert install invite invoke issue join kick kill launch list load lock log login logout lookup make map merge
    modify monitor move navigate notify open pay ping place post prepare prescribe print process provision publish
    pull purchase push put query quote read rebook reboot rebuild receive recover refund register reject release
    reload remove rename renew reopen replace reply request reschedule reserve reset resolve restart restore resume
    retrieve return revoke rollback rotate run save scale schedule scrape search select sell send set share ship
    show shutdown sign signin signup start stop store submit subscribe summarize suspend swap sync terminate test
    trade transcode transfer translate trigger type uninstall unlock unsubscribe update upgrade upload validate
    verify view wipe wire withdraw write
    """.split()
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def looks_like_a_tool(name: str) -> bool:
    """Whether a name begins or ends with a verb that names of tools have, in any usual spelling."""
    words = [word.lower() for word in _WORD.findall(name)]
    return bool(words) and (words[0] in _VERBS or words[-1] in _VERBS)
