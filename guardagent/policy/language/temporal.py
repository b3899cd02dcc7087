"""Translates propositional temporal rules to formulas.

At the top level, and under AND, OR and NOT there, Agentproof's forms over atoms have the meaning of the paper, extended
to the end of the trace. All other rules are LTLf over the whole trace.
"""

from __future__ import annotations

from guardagent.policy.language.formula import (
    FALSE,
    TRUE,
    Formula,
    Literal,
    Next,
    Previous,
    Release,
    Since,
    Until,
    Within,
    all_of,
    any_of,
    finally_,
    globally,
    historically,
    implies,
    negation,
    once,
    weak_until,
)
from guardagent.policy.language.grammar import Node, TemporalError, tree_of, unquoted

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
    return tree.data in ("atom", "group")


def _atom(tree: Node, text: str) -> Formula:
    if tree.data == "group":
        return Literal(f"@{tree.children[0]}")
    kind, name = tree.children
    plain = unquoted(name, text) if name.type == "QUOTED" else name
    return Literal(f"{kind or ''}{plain}")


def _bound(tree: Node, text: str) -> int:
    token = tree.children[0]
    if not 1 <= int(token) <= MAX_BOUND:
        raise TemporalError(f"the bound is {token}; expected 1 to {MAX_BOUND}", text, token.line, token.column)
    return int(token)


def _ltlf(tree: Node, text: str) -> Formula:  # noqa: C901 - a case for each kind
    children = tree.children
    match tree.data:
        case "atom" | "group":
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
