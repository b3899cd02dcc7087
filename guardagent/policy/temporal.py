"""Reads a temporal rule: its text, by the grammar in temporal.lark, and what it means.

At the top level, and under AND, OR and NOT there, Agentproof's forms over atoms mean what its paper says, with the end
of the trace added. Everything else is LTLf over the whole trace.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from guardagent.errors import InputError
from guardagent.policy.formula import (
    FALSE,
    TRUE,
    Before,
    Formula,
    Literal,
    Next,
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

if TYPE_CHECKING:
    from lark import Lark

Node = Any  # a lark.Tree, whose children are trees and tokens

MAX_CHARACTERS = 20_000
MAX_BOUND = 1000
_UNARY = {"G": globally, "F": finally_, "X": Next, "O": once, "H": historically, "Y": Before}
_BINARY = {"U": Until, "W": weak_until, "R": Release, "S": Since}
_EXPECTED = {
    "NAME": "a name",
    "QUOTED": "a quoted name",
    "BINARY": "U, W, R or S",
    "INT": "a whole number",
    "_IMPLIES": "->",
    "_OR": "OR",
    "_AND": "AND",
    "RPAR": ")",
    "RSQB": "]",
    "$END": "the end",
}


class TemporalError(InputError):
    """A temporal rule that does not parse: what is wrong, and a caret under the place.

    Attributes:
        line, column: where, from 1, in the rule's text.
    """

    def __init__(self, problem: str, text: str, line: int, column: int) -> None:
        self.line, self.column = line, column
        shown = (text.splitlines() or [""])[line - 1]
        super().__init__(f"{problem}\n  {shown}\n  {' ' * (column - 1)}^")


def read_temporal(text: str) -> Formula:
    """What a temporal rule means.

    Raises:
        TemporalError: it does not parse; with what was expected, and where.
    """
    if len(text) > MAX_CHARACTERS:
        raise TemporalError(
            f"the rule has {len(text):,} characters; expected at most {MAX_CHARACTERS:,}", text[:80], 1, 1
        )
    try:
        return _meaning(_tree(text), text)
    except RecursionError:
        raise TemporalError("the rule is nested too deep", text[:80], 1, 1) from None


@cache
def _parser() -> Lark:
    from lark import Lark

    grammar = Path(__file__).with_suffix(".lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", propagate_positions=True)


def _tree(text: str) -> Node:
    from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken

    try:
        return _parser().parse(text)
    except UnexpectedInput as error:
        lines = text.splitlines() or [""]
        ended = isinstance(error, UnexpectedEOF) or getattr(getattr(error, "token", None), "type", "") == "$END"
        line, column = (len(lines), len(lines[-1]) + 1) if ended else (error.line, error.column)
        wanted = error.allowed if isinstance(error, UnexpectedCharacters) else getattr(error, "expected", ())
        if isinstance(error, UnexpectedToken):
            wanted = error.accepts or error.expected
        found = "it ends here" if ended else f"unexpected {text.splitlines()[line - 1][column - 1 :][:20]!r}"
        raise TemporalError(f"{found}; expected {_listed(wanted or ())}{_hint(text)}", text, line, column) from None


def _listed(terminals: Any) -> str:
    names = {str(name) for name in terminals}
    if "UNARY" in names:  # whatever a rule can begin with
        return "a rule, such as tool:NAME, !tool:NAME, F tool:NAME or one in parentheses"
    return " or ".join(sorted(_EXPECTED.get(name, name.lower()) for name in names)) or "nothing more"


def _hint(text: str) -> str:
    """The form that was probably meant."""
    folded = " ".join(text.split()).lower()
    for signs, form in (
        (("always", "globally", "never"), "G !tool:NAME"),
        (("=>", "implies", "then", "eventually"), "tool:A -> F tool:B"),
        (("until",), "tool:A U tool:B"),
        (("<=", "within"), "tool:A -> F[<=3] tool:B"),
    ):
        if any(sign in folded for sign in signs):
            return f"; did you mean a rule such as `{form}`?"
    return ""


def _meaning(tree: Node, text: str) -> Formula:
    """At the top level: the paper's forms, and what AND, OR and NOT make of them."""
    if tree.data == "all_of":
        return all_of(_meaning(child, text) for child in tree.children)
    if tree.data == "any_of":
        return any_of(_meaning(child, text) for child in tree.children)
    if tree.data == "negation":
        return negation(_meaning(tree.children[0], text))
    return _response(tree, text) or _ltlf(tree, text)


def _response(tree: Node, text: str) -> Formula | None:
    """`p -> F q`, `p -> F[<=k] q` and `p -> F q -> F r ...` over atoms; None for anything else."""
    parts = _arrows(tree)
    if len(parts) < 2 or not _is_atom(parts[0]):
        return None
    trigger = _atom(parts[0])
    if len(parts) == 2 and parts[1].data == "within" and _is_atom(parts[1].children[1]):
        return globally(implies(trigger, Within(_bound(parts[1], text), _atom(parts[1].children[1]))))
    if not all(part.data == "unary" and part.children[0] == "F" and _is_atom(part.children[1]) for part in parts[1:]):
        return None
    return globally(implies(trigger, _sequence(trigger, [_atom(part.children[1]) for part in parts[1:]])))


def _sequence(trigger: Formula, steps: list[Formula]) -> Formula:
    """The steps come from now on, in order, and no trigger before the last of them; one event may do several."""
    if not steps:
        return TRUE
    after = _sequence(trigger, steps[1:])
    advances = all_of([negation(trigger), steps[0], after])
    return any_of([all_of([steps[0], after]), Next(Until(negation(trigger), any_of([all_of(steps), advances])))])


def _arrows(tree: Node) -> list[Node]:
    if tree.data != "implies":
        return [tree]
    first, rest = tree.children
    return [first, *_arrows(rest)]


def _is_atom(tree: Node) -> bool:
    return tree.data in ("atom", "group")


def _atom(tree: Node) -> Formula:
    if tree.data == "group":
        return Literal(f"@{tree.children[0]}")
    kind, name = tree.children
    plain = json.loads(name) if name.type == "QUOTED" else name
    return Literal(f"{kind or ''}{plain}")


def _bound(tree: Node, text: str) -> int:
    token = tree.children[0]
    if not 1 <= int(token) <= MAX_BOUND:
        raise TemporalError(f"the bound is {token}; expected 1 to {MAX_BOUND}", text, token.line, token.column)
    return int(token)


def _ltlf(tree: Node, text: str) -> Formula:
    children = tree.children
    match tree.data:
        case "atom" | "group":
            return _atom(tree)
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
    raise AssertionError(tree.data)
