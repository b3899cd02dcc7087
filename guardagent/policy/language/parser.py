"""Parses temporal rules to the syntax tree and checks the names in them.

The variables and the label of a pattern are in scope in the conditions after it. `forall(f:A(...), ...)` can use the
arguments of the proposed call as `args(f)`, but not its output, which does not exist yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from guardagent.policy.language import ast
from guardagent.policy.language.declarations import NO_DECLARATIONS, Declarations
from guardagent.policy.language.formula import any_of
from guardagent.policy.language.grammar import Node, TemporalError, tree_of
from guardagent.policy.language.pattern_parser import BoundNames
from guardagent.policy.language.temporal import DATA_RULES, formula_of
from guardagent.policy.language.term_parser import TermParser, qualified

_FLOW_CALL = "the call"  # no label in a rule can contain a space


def read_rule(text: str, declarations: Declarations = NO_DECLARATIONS) -> ast.Rule:
    """Parses a rule.

    Args:
        text: the rule.
        declarations: the names that it can use.

    Raises:
        TemporalError: the rule does not parse or uses an unbound name; with the place and a correction.
    """
    try:
        return _rule(qualified(tree_of(text), declarations), text, declarations)
    except RecursionError:
        raise TemporalError("the rule is nested too deeply; simplify it", text[:80], 1, 1) from None


def _rule(tree: Node, text: str, declared: Declarations) -> ast.Rule:
    if not any(True for _ in tree.find_pred(lambda node: node.data in DATA_RULES)):
        return ast.Temporal(formula_of(tree, text))
    children = tree.children
    match tree.data:
        case "all_of":
            return ast.AllOf(tuple(_rule(child, text, declared) for child in children))
        case "any_of":
            return _any_of([_rule(child, text, declared) for child in children])
        case "implies":
            return _any_of([ast.Not(_rule(children[0], text, declared)), _rule(children[1], text, declared)])
        case "negation":
            return ast.Not(_rule(children[0], text, declared))
        case kind if kind in DATA_RULES:
            return _RuleParser(text, declared).rule(tree)
    return ast.Temporal(formula_of(tree, text))  # raises: data rules cannot occur there


def _any_of(parts: Sequence[ast.Rule]) -> ast.Rule:
    """Merges propositional alternatives into one formula, so that one automaton tracks all of them."""
    formulas = [part.formula for part in parts if isinstance(part, ast.Temporal)]
    others = tuple(part for part in parts if not isinstance(part, ast.Temporal))
    return ast.AnyOf((*others, ast.Temporal(any_of(formulas)))) if formulas else ast.AnyOf(others)


class _RuleParser(TermParser):
    """Parses one rule over data."""

    def rule(self, tree: Node) -> ast.Rule:
        return getattr(self, f"_{tree.data}")(tree.children)  # type: ignore[no-any-return]

    # --- the five forms

    def _forall(self, children: Sequence[Node]) -> ast.Rule:
        scope = BoundNames()
        return ast.Forall(self._pattern(children[0], scope, proposed=True), self._condition(children[1], scope))

    def _exists(self, children: Sequence[Node]) -> ast.Rule:
        scope = BoundNames()
        return ast.Exists(self._pattern(children[0], scope), self._condition(children[1], scope))

    def _before(self, children: Sequence[Node]) -> ast.Rule:
        scope = BoundNames()
        pattern = self._pattern(children[0], scope, proposed=True)
        condition = self._condition(children[1], scope)
        return ast.Before(pattern, condition, self._pattern(children[2], scope), self._condition(children[3], scope))

    def _after(self, children: Sequence[Node]) -> ast.Rule:
        scope = BoundNames()
        pattern = self._pattern(children[0], scope, proposed=True)
        condition = self._condition(children[1], scope)
        scope.labels = dict.fromkeys(scope.labels, True)  # the partner comes later, when the first call has its output
        return ast.After(pattern, condition, self._pattern(children[2], scope), self._condition(children[3], scope))

    def _seq(self, children: Sequence[Node]) -> ast.Rule:
        """Reads `seq` as a `before` rule for each adjacent pair of steps."""
        parts: list[ast.Rule] = []
        steps = [self._pattern(child, BoundNames()) for child in children]
        for number, step in enumerate(steps):
            if step in steps[:number]:
                self._fail(
                    "this step appears twice, so neither occurrence could be the first; remove one", children[number]
                )
        for earlier, later in pairwise(children):
            scope = BoundNames()
            pattern = self._pattern(later, scope)
            parts.append(ast.Before(pattern, ast.TRUE, self._pattern(earlier, scope), ast.TRUE))
        return parts[0] if len(parts) == 1 else ast.AllOf(tuple(parts))

    def _flow(self, children: Sequence[Node]) -> ast.Rule:
        """Reads `flow(label -> call, condition)`: no argument of the call has the label, unless the condition holds."""
        labels, pattern, condition = children
        scope = BoundNames()
        call = self._pattern(pattern, scope, proposed=True)
        call = call if call.label else replace(call, label=_FLOW_CALL)
        inside = ast.Sources(ast.OfCall("args", ast.Label(call.label or _FLOW_CALL)))
        names = [ast.Constant(self._source_label(label)) for label in labels.children]
        absent = [ast.Negation(ast.Compare(name, "in", inside)) for name in names]
        none = absent[0] if len(absent) == 1 else ast.And(tuple(absent))
        if condition is None:
            return ast.Forall(call, none)
        return ast.Forall(call, ast.Or((none, self._condition(condition, scope))))
