"""Parses rules over data: their forms, the patterns of calls, and the terms in them.

A term is a value, a condition, or an application of a function or a definition.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any, NoReturn

from guardagent._support.syntax import PatternError, compile_pattern
from guardagent.errors import name_hint
from guardagent.policy.file.source_tree import shortened
from guardagent.policy.functions import function, rule_functions
from guardagent.policy.language import ast, grammar
from guardagent.policy.language.declarations import (
    NO_DECLARATIONS,
    Call,
    Declarations,
    expanded,
    place_of,
    token_at,
    with_equations,
)
from guardagent.policy.language.grammar import Node, TemporalError, tree_of, unquoted
from guardagent.policy.language.printer import text_of
from guardagent.policy.language.values import NOT_IN_MAPPING, NOT_IN_MIXED, Unknown, is_searchable, seconds
from guardagent.types import MAX_DIGITS

NULLS = ("null", "None", "none", "nil")
ROLES = ("user", "assistant", "system", "tool")
"""The roles of messages."""
_KINDS = ("tool", "action", "decision")
_PLAIN = frozenset({"anything", "regex", "variable", "text", "number", "negative", "true", "false"})
"""The values of arguments in a pattern that stand in it themselves; other ones are compared."""
RESERVED = frozenset({"state", "true", "false", "True", "False", "in", "matches"})
_NUMBERS = (ast.Elapsed, ast.Now, ast.TimeOf, ast.Length, ast.CountCalls, ast.SumCalls, ast.CounterValue)
_A_NUMBER = "a number, or a duration without quotes such as 30m"
_AN_INSTANT = "an instant such as 'time(\"2026-01-31T12:00:00Z\")'"
_FLOW_CALL = "the call"  # no label in a rule can contain a space
_NO_CONDITION = (
    ast.ListOf,
    ast.SetOf,
    ast.SetOperation,
    ast.Arithmetic,
    ast.Negative,
    ast.Length,
    ast.CountCalls,
    ast.SumCalls,
    ast.CallFold,
    ast.State,
    ast.TimeOf,
    ast.Now,
    ast.Elapsed,
    ast.Principal,
    ast.Sources,
    ast.CounterValue,
    ast.MessagesText,
)
VALUES: dict[str, ast.Term] = {
    "now": ast.Now(),
    "elapsed": ast.Elapsed(),
    ast.USAGE: ast.Fact((ast.USAGE,)),
    "principal": ast.Principal(),
}  # values, unless a pattern binds the name


def read_term(
    text: str, names: Collection[str], declarations: Declarations = NO_DECLARATIONS, *, truth: bool = False
) -> ast.Term:
    """Parses an expression by itself.

    Args:
        text: the expression.
        names: the variables in scope.
        declarations: the names that it can use.
        truth: whether it must be a condition.

    Raises:
        TemporalError: as for `read_rule`.
    """
    try:
        tree = qualified(tree_of(text, "condition"), declarations)
        return RuleParser(text, declarations).term(tree, names, truth=truth)
    except RecursionError:
        raise TemporalError("the expression is nested too deeply; simplify it", text[:80], 1, 1) from None


def read_definition(name: str, declarations: Declarations) -> ast.Term:
    """The body of a definition, with calls of other definitions expanded.

    Raises:
        ContentError: the definition is invalid, or it uses itself; with its place.
    """
    definition, bodies = declarations.definitions[name], declarations.bodies
    if name not in bodies:
        bodies[name] = None
        try:
            inside = replace(declarations, scopes=definition.scopes)
            bodies[name] = read_term(definition.body.text, definition.parameters, inside)
        except TemporalError as error:
            raise definition.body.error(str(error), error.line, error.column) from None
    body = bodies[name]
    if body is None:
        raise definition.body.error(f"the definition {name!r} uses itself; expected definitions without a cycle")
    return body


def qualified(tree: Node, declared: Declarations) -> Node:
    """Replaces the tags of a rule in an included file by their full names."""
    if declared.scopes != ("",):
        tree = deepcopy(tree)  # others read the same tree
        for node in tree.find_pred(lambda subtree: subtree.data in ("group", "tagged")):
            token = node.children[0]
            node.children[0] = token_at(token, declared.full(str(token), declared.tags))
    return tree


@dataclass
class BoundNames:
    """The names in scope at one place of a rule.

    Attributes:
        variables: the bound variables.
        labels: the bound labels, each with whether the output of its call is available.
    """

    variables: set[str] = field(default_factory=set)
    labels: dict[str, bool] = field(default_factory=dict)

    def copy(self) -> BoundNames:
        return BoundNames(set(self.variables), dict(self.labels))


class RuleParser:
    """Parses one rule over data, or a term of one."""

    def __init__(self, text: str, declared: Declarations) -> None:
        self._text, self._declared = text, declared
        self._equations: list[ast.Term] = []  # of the arguments of the last pattern that equal a term

    def rule(self, tree: Node) -> ast.Rule:
        return getattr(self, f"_{tree.data}")(tree.children)  # type: ignore[no-any-return]

    # --- the five forms

    def _forall(self, children: Sequence[Node]) -> ast.Rule:
        scope = BoundNames()
        pattern, equations = self._pattern(children[0], scope, proposed=True), self._last_equations()
        return ast.Forall(pattern, _if_equal(equations, self._condition(children[1], scope)))

    def _exists(self, children: Sequence[Node]) -> ast.Rule:
        return ast.Exists(*self._matching(children[0], children[1], BoundNames()))

    def _before(self, children: Sequence[Node]) -> ast.Rule:
        scope = BoundNames()
        pattern, condition = self._matching(children[0], children[1], scope, proposed=True)
        return ast.Before(pattern, condition, *self._matching(children[2], children[3], scope))

    def _after(self, children: Sequence[Node]) -> ast.Rule:
        scope = BoundNames()
        pattern, condition = self._matching(children[0], children[1], scope, proposed=True)
        scope.labels = dict.fromkeys(scope.labels, True)  # the partner comes later, when the first call has its output
        return ast.After(pattern, condition, *self._matching(children[2], children[3], scope))

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
            parts.append(ast.Before(*self._matching(later, None, scope), *self._matching(earlier, None, scope)))
        return parts[0] if len(parts) == 1 else ast.AllOf(tuple(parts))

    def _flow(self, children: Sequence[Node]) -> ast.Rule:
        """Reads `flow(label -> call, condition)`: no argument of the call has the label, unless the condition holds."""
        labels, pattern, condition = children
        scope = BoundNames()
        call, equations = self._pattern(pattern, scope, proposed=True), self._last_equations()
        call = call if call.label else replace(call, label=_FLOW_CALL)
        inside = ast.Sources(ast.OfCall("args", ast.Label(call.label or _FLOW_CALL)))
        names = [ast.Constant(self._source_label(label)) for label in labels.children]
        absent = [ast.Negation(ast.Compare(name, "in", inside)) for name in names]
        none = absent[0] if len(absent) == 1 else ast.And(tuple(absent))
        allowed = none if condition is None else ast.Or((none, self._condition(condition, scope)))
        return ast.Forall(call, _if_equal(equations, allowed))

    # --- patterns of calls

    def _source_label(self, token: Any) -> str:
        source_label = str(token)  # files share their labels, so they have no prefix
        if source_label not in self._declared.labels:
            hint = name_hint(source_label, self._declared.labels)
            self._fail(f"unknown label {source_label!r}{hint}; declare it in 'labels:'", token)
        return source_label

    def _matching(
        self, pattern: Node, condition: Node | None, scope: BoundNames, *, proposed: bool = False
    ) -> tuple[ast.Pattern, ast.Term]:
        """Reads a pattern and the condition on its calls."""
        read, equations = self._pattern(pattern, scope, proposed=proposed), self._last_equations()
        return read, with_equations(equations, self._condition(condition, scope))

    def _last_equations(self) -> list[ast.Term]:
        equations, self._equations = self._equations, []
        return equations

    def _pattern(self, tree: Node, scope: BoundNames, *, proposed: bool = False) -> ast.Pattern:
        """Reads a pattern, adds its label and variables to the scope, and notes the arguments that equal a term."""
        label, tools, *arguments = tree.children
        read = tuple(self._argument(child, scope) for child in arguments if child is not None)
        names = [argument.name for argument in read]
        if twice := [name for name in names if names.count(name) > 1]:
            self._fail(f"argument {twice[0]!r} appears twice; remove one", tree)
        if label is not None:
            if label in _KINDS:
                self._fail(
                    f"{str(label)!r} cannot be a label; expected a pattern 'TOOL(...)', or 'f:TOOL(...)' with a label",
                    label,
                )
            if label in scope.labels or label in scope.variables:
                self._fail(f"the name {str(label)!r} is already in use; choose another label", label)
            self._refuse_declared(label)
            scope.labels[str(label)] = not proposed
        for argument in read:
            if isinstance(argument.value, ast.Variable):
                scope.variables.add(argument.value.name)
        self._equations = [
            ast.Compare(argument.value, "==", self._term(child.children[1], scope))
            for argument, child in zip(read, arguments, strict=False)
            if child is not None and isinstance(argument.value, ast.Variable) and child.children[1].data not in _PLAIN
        ]
        return ast.Pattern(tuple(map(self._tool, tools.children)), read, label and str(label), place_of(tree))

    def constant_pattern(self, tree: Node) -> ast.Pattern:
        """Reads a call as a step of a formula: with constant arguments."""
        tools, *arguments = tree.children
        for child in filter(None, arguments):
            if child.children[1].data not in _PLAIN - {"variable"}:
                self._fail(
                    "an argument in a temporal formula is constant; expected a string in quotes, a number, true, "
                    "false, a regular expression between slashes or '.*'",
                    child.children[1],
                )
        pattern = self._pattern(Node("pattern", [None, *tree.children], tree.first, tree.outer), BoundNames())
        if "*" in pattern.tools:
            self._fail("'*' in a temporal formula; expected the name of a tool, or of a set such as '@writes'", tools)
        return pattern

    def _tool(self, tree: Node) -> str:
        if tree.data == "tagged":
            return f"@{tree.children[0]}"
        return self._name(tree.children[0])

    def _name(self, token: Any) -> str:
        return unquoted(token, self._text) if token.type == "QUOTED" else str(token)

    def _argument(self, tree: Node, scope: BoundNames) -> ast.Argument:
        name, value = tree.children
        if name.type == "NAME" and not name.isidentifier():
            self._fail(f"{str(name)!r} is not a plain argument name; if it is the name, write it in quotes", name)
        if value.data == "state":
            self._fail("'state' cannot name a variable; choose another name", name)
        if value.data not in _PLAIN:
            return ast.Argument(self._name(name), ast.Variable(self._new_name(name, scope), place_of(value)))
        return ast.Argument(self._name(name), self._value(value, scope))

    def _new_name(self, argument: Any, scope: BoundNames) -> str:
        """A name for the value of an argument, which the rule does not use."""
        stem = re.sub(r"\W", "_", f"its_{self._name(argument)}")
        names = itertools.chain([stem], (f"{stem}_{at}" for at in itertools.count(2)))
        name = next(name for name in names if name not in scope.variables and name not in self._text)
        scope.variables.add(name)
        return name

    def _value(self, tree: Node, scope: BoundNames) -> ast.ExactValue | ast.RegexValue | ast.AnyValue | ast.Variable:
        match tree.data:
            case "anything":
                return ast.AnyValue()
            case "regex":
                return ast.RegexValue(self._regex(tree.children[0]))
            case "variable":
                token = tree.children[0]
                if token in NULLS:
                    self._fail(
                        f"{str(token)!r} is not a value; to test that an argument is present, write 'known(x)'", token
                    )
                if token in RESERVED or token in scope.labels:
                    self._fail(f"{str(token)!r} cannot name a variable; choose another name", token)
                if token not in scope.variables:
                    self._refuse_declared(token)
                return ast.Variable(str(token), place_of(token))
        return ast.ExactValue(self._constant(tree).value)

    def _regex(self, token: Any) -> str:
        regex = token[1:-1].replace("\\/", "/")
        try:
            compile_pattern(regex)
        except PatternError as error:
            self._fail(f"invalid regular expression: {shortened(str(error))}; expected RE2 syntax", token)
        return str(regex)

    def _constant(self, tree: Node) -> ast.Constant:
        match tree.data:
            case "text":
                return ast.Constant(unquoted(tree.children[0], self._text))
            case "number":
                return ast.Constant(self._number(tree.children[0]))
            case "negative":
                return ast.Constant(-self._number(tree.children[-1]))
            case "true" | "false":
                return ast.Constant(tree.data == "true")
        raise AssertionError(tree.data)

    def _refuse_declared(self, token: Any) -> None:
        """Rejects a variable with the name of a constant: it would match any value."""
        for kind, table in (("constant", self._declared.constants), ("definition", self._declared.definitions)):
            if self._declared.find(str(token), table) is not None:
                self._fail(
                    f"{str(token)!r} is a {kind}, so it cannot name a variable; "
                    "choose another name, and compare the values in a condition",
                    token,
                )

    def _number(self, token: Any) -> int | Fraction:
        if len(token) > MAX_DIGITS:
            self._fail(f"the number has {len(token):,} digits; expected at most {MAX_DIGITS}", token)
        number = Fraction(str(token))
        return int(number) if number.denominator == 1 else number

    def _fail(self, problem: str, where: Any) -> NoReturn:
        place = place_of(where)
        raise TemporalError(problem, self._text, place.line, place.column)

    # --- terms

    def term(self, tree: Node, names: Collection[str], *, truth: bool = False) -> ast.Term:
        read = self._condition if truth else self._term
        return read(tree, BoundNames(set(names)))

    def _condition(self, tree: Node | None, scope: BoundNames) -> ast.Term:
        """Reads a term that can be true or false."""
        if tree is None:
            return ast.TRUE
        term = self._term(tree, scope)
        if _is_no_condition(term):
            self._fail(f"expected a condition; {text_of(term)[:60]!r} is neither true nor false", tree)
        if isinstance(term, ast.OverItems) and term.which == "count":
            self._fail("expected a condition; count(...) is a number", tree)
        return term

    def _conditions(self, trees: Sequence[Node], scope: BoundNames) -> tuple[ast.Term, ...]:
        return tuple(self._condition(tree, scope) for tree in trees)

    def _term(self, tree: Node, scope: BoundNames) -> ast.Term:
        read: Callable[[Node, BoundNames], ast.Term] = getattr(self, f"_t_{tree.data}", self._t_constant)
        return read(tree, scope)

    def _terms(self, trees: Sequence[Node], scope: BoundNames) -> tuple[ast.Term, ...]:
        return tuple(self._term(tree, scope) for tree in trees if tree is not None)

    def _t_constant(self, tree: Node, _: BoundNames) -> ast.Term:
        return self._constant(tree)

    def _t_variable(self, tree: Node, scope: BoundNames) -> ast.Term:
        token = tree.children[0]
        if token in scope.labels:
            self._fail(
                f"{str(token)!r} is a call; expected 'output({token})', 'args({token})' or 'failed({token})'", token
            )
        if token in NULLS:
            self._fail(f"{str(token)!r} is not a value; to test that a value is present, write 'known(x)'", token)
        if token not in scope.variables and (term := self._declared_value(str(token), token, scope)) is not None:
            return term
        if token not in scope.variables and token in VALUES:
            return VALUES[token]
        if token not in scope.variables:
            known = [*scope.variables, *self._declared.constants]
            self._fail(
                f"unknown variable {str(token)!r}"
                f"{name_hint(str(token), known)}; "
                "bind a variable in a pattern, or write a string in quotes",
                token,
            )
        return ast.Variable(str(token), place_of(token))

    def _t_listed(self, tree: Node, scope: BoundNames) -> ast.Term:
        return ast.ListOf(self._terms(tree.children, scope))

    def _t_all_of(self, tree: Node, scope: BoundNames) -> ast.Term:
        return ast.And(self._conditions(tree.children, scope))

    def _t_any_of(self, tree: Node, scope: BoundNames) -> ast.Term:
        return ast.Or(self._conditions(tree.children, scope))

    def _t_negation(self, tree: Node, scope: BoundNames) -> ast.Term:
        return ast.Negation(self._condition(tree.children[0], scope))

    def _t_implies(self, tree: Node, scope: BoundNames) -> ast.Term:
        return ast.Implies(*self._conditions(tree.children, scope))

    def _t_compared(self, tree: Node, scope: BoundNames) -> ast.Term:
        left, operator, right = tree.children
        whole = self._term(right, scope)
        if operator == "in" and (problem := _unsearchable(whole)) is not None:
            self._fail(str(problem.why[0]), right)
        compared = ast.Compare(self._term(left, scope), str(operator), whole)  # type: ignore[arg-type]
        self._check_labels(compared, tree)
        if operator != "in":
            self._check_number(compared.left, whole, right)
            self._check_number(whole, compared.left, left)
        return compared

    def _check_number(self, number: ast.Term, other: ast.Term, place: Node) -> None:
        """Rejects a string beside a term that is always a number: the comparison could never be known."""
        if _is_number(number) and isinstance(other, ast.Constant) and isinstance(other.value, str):
            expected = _AN_INSTANT if isinstance(number, ast.Now | ast.TimeOf) else _A_NUMBER
            self._fail(f"{text_of(number)} is never {text_of(other)}, a string; expected {expected}", place)

    def _check_labels(self, node: ast.Compare | ast.SetOperation, tree: Node) -> None:
        """Rejects a label that does not exist beside `sources(...)`: the comparison could never hold."""
        for sources, other in ((node.left, node.right), (node.right, node.left)):
            if not _is_of_sources(sources):
                continue
            if isinstance(node, ast.Compare) and node.operator != "in" and isinstance(other, ast.Constant):
                self._fail(
                    f"sources(...) is a set; expected '{text_of(other)} in sources(...)', or a set in braces", tree
                )
            items = other.items if isinstance(other, ast.SetOf | ast.ListOf) else (other,)
            for item in items:
                if isinstance(item, ast.Constant) and isinstance(item.value, str):
                    self._known_label(item.value, tree)

    def _known_label(self, label: str, tree: Node) -> None:
        known = sorted({*self._declared.labels, "model"})
        if label not in known:
            self._fail(f"unknown label {label!r}{name_hint(label, known)}; declare it in 'labels:'", tree)

    def _t_matches(self, tree: Node, scope: BoundNames) -> ast.Term:
        return ast.Matches(self._term(tree.children[0], scope), self._regex(tree.children[1]))

    def _t_arithmetic(self, tree: Node, scope: BoundNames) -> ast.Term:
        left, operator, right = tree.children
        return ast.Arithmetic(self._term(left, scope), str(operator), self._term(right, scope))  # type: ignore[arg-type]

    def _t_minus(self, tree: Node, scope: BoundNames) -> ast.Term:
        body = self._term(tree.children[0], scope)
        if isinstance(body, ast.Constant) and not isinstance(body.value, str | bool):
            return ast.Constant(-body.value)
        return ast.Negative(body)

    def _t_field(self, tree: Node, scope: BoundNames) -> ast.Term:
        path = _path(tree)
        if path and path[0] not in scope.variables:
            term = self._declared_value(".".join(path), tree, scope)
            if term is not None:
                return term
        body, name = self._term(tree.children[0], scope), str(tree.children[1])
        if body != VALUES[ast.USAGE]:
            return ast.Field(body, name)
        if name not in ast.USED:
            self._fail(f"unknown field {name!r} of 'usage'{name_hint(name, ast.USED)}", tree.children[1])
        return ast.Fact((ast.USAGE, name))

    def _t_item(self, tree: Node, scope: BoundNames) -> ast.Term:
        return ast.Item(*self._terms(tree.children, scope))

    def _t_slice(self, tree: Node, scope: BoundNames) -> ast.Term:
        body, *ends = tree.children
        start, end = (None if term is None else self._term(term, scope) for term in ends)
        bounds = (start or ast.Constant(0), *([] if end is None else [end]))
        return ast.Apply("[:]", (self._term(body, scope), *bounds), place_of(tree))

    def _t_row(self, tree: Node, scope: BoundNames) -> ast.Term:
        rows, key, value = tree.children
        operands = self._term(rows, scope), ast.Constant(str(key)), self._term(value, scope)
        return ast.Apply("[=]", operands, place_of(tree))

    def _t_let(self, tree: Node, scope: BoundNames) -> ast.Term:
        """Reads `let x = value in condition`, which has the value in place of the name."""
        name, value, operator, body = tree.children
        if operator != "in":
            self._fail(f"unexpected {str(operator)!r}; expected 'let {name} = VALUE in CONDITION'", operator)
        self._require_new(name, scope, "the value")
        term, inner = self._term(value, scope), scope.copy()
        inner.variables.add(str(name))
        shared = scope.variables | scope.labels.keys()
        passed = Call({str(name): term}, (), None, lambda problem: self._fail(problem, name), shared)
        return expanded(self._condition(body, inner), passed)

    def _require_new(self, name: Any, scope: BoundNames, what: str) -> None:
        if not name.isidentifier() or name in RESERVED or name in scope.variables or name in scope.labels:
            self._fail(f"{str(name)!r} cannot name {what} here; choose a new name", name)
        self._refuse_declared(name)

    def _t_known(self, tree: Node, scope: BoundNames) -> ast.Term:
        return ast.Known(self._term(tree.children[0], scope))

    def _t_length(self, tree: Node, scope: BoundNames) -> ast.Term:
        return ast.Length(self._term(tree.children[0], scope))

    def _t_fact(self, tree: Node, _: BoundNames) -> ast.Term:
        return ast.Fact(tuple(self._name(tree.children[0]).split(".")))

    def _t_state(self, _: Node, __: BoundNames) -> ast.Term:
        return ast.State()

    def _t_state_of(self, tree: Node, scope: BoundNames) -> ast.Term:
        function, *arguments = tree.children
        name = self._declared.full(str(function), self._declared.functions)
        return ast.StateOf(name, self._terms(arguments, scope), place_of(function))

    def _t_of_call(self, tree: Node, scope: BoundNames) -> ast.Term:
        what, call = tree.children
        if call.data == "label":
            return ast.OfCall(str(what), self._label(call.children[0], str(what), scope))  # type: ignore[arg-type]
        return ast.OfCall(str(what), self._selected(call, scope))  # type: ignore[arg-type]

    def _selected(self, tree: Node, scope: BoundNames) -> ast.Selected:
        which, pattern, condition = tree.children
        return ast.Selected(str(which), *self._matching(pattern, condition, scope.copy()))  # type: ignore[arg-type]

    def _label(self, token: Any, what: str, scope: BoundNames) -> ast.Label:
        if token not in scope.labels:
            known = (
                name_hint(str(token), scope.labels)
                if scope.labels
                else "; label a call in its pattern, such as 'f:TOOL()'"
            )
            self._fail(f"unknown call {str(token)!r}{known}", token)
        if what == "time" and not scope.labels[token]:
            self._fail(f"the time of the proposed call {str(token)!r} is 'now'; expected 'now'", token)
        if what not in ("args", "tool") and not scope.labels[token]:
            self._fail(f"'{what}({token})' of a proposed call does not exist yet; expected 'args({token})'", token)
        return ast.Label(str(token), place_of(token))

    def _window(self, tree: Node | None, scope: BoundNames) -> ast.Term | None:
        if tree is None:
            return None
        window = self._term(tree, scope)
        seconds = window.value if isinstance(window, ast.Constant) else 1
        if isinstance(seconds, str | bool) or seconds <= 0:
            self._fail(f"{text_of(window)} is not the length of a time window; expected one such as '24h'", tree)
        return window

    def _no_window(self, term: Node) -> None:
        """Refuses a duration as the term of a sum or of `distinct`: it was meant as a window."""
        if getattr(term, "data", "") == "duration":
            self._fail(f"{term.children[0]} is not a value of the calls; for a time window write 'within'", term)

    def _past(
        self, scope: BoundNames, inner: BoundNames, pattern: Node, condition: Node | None, within: Node | None
    ) -> tuple[ast.Pattern, ast.Term, ast.Term | None]:
        """Reads past calls: their pattern and condition, in an inner scope, and their time window."""
        window = self._window(within, scope)
        return *self._matching(pattern, condition, inner), window

    def _t_count_calls(self, tree: Node, scope: BoundNames) -> ast.Term:
        return ast.CountCalls(*self._past(scope, scope.copy(), *tree.children))

    def _t_sum_calls(self, tree: Node, scope: BoundNames) -> ast.Term:
        pattern, condition, term, within = tree.children
        inner = scope.copy()
        call, such, window = self._past(scope, inner, pattern, condition, within)
        self._no_window(term)
        return ast.SumCalls(call, such, self._term(term, inner), window)

    def _t_some_call(self, tree: Node, scope: BoundNames) -> ast.Term:
        call, such, window = self._past(scope, scope.copy(), *tree.children)
        return ast.SomeCall(call, such, ok=True, within=window)

    def _t_distinct(self, tree: Node, scope: BoundNames) -> ast.Term:
        pattern, first, second, within = tree.children
        inner = scope.copy()
        call, such, window = self._past(scope, inner, pattern, None if second is None else first, within)
        self._no_window(second or first)
        return ast.CallFold("distinct", call, such, self._term(second or first, inner), window)

    def _t_since(self, tree: Node, scope: BoundNames) -> ast.Term:
        """Reads `since(p, !q)`: the last successful p is later than each q."""
        pattern, other, condition, within = tree.children
        call, such, window = self._past(scope, scope.copy(), pattern, condition, within)
        begun = ast.CallFold("last ok", call, such, within=window)
        return ast.Compare(begun, ">", ast.CallFold("last", *self._matching(other, None, scope.copy())))

    def _t_previous(self, tree: Node, scope: BoundNames) -> ast.Term:
        """Reads `previous(p)`: the last successful p is the last call."""
        call, such = self._matching(tree.children[0], tree.children[1], scope.copy())
        last = ast.CallFold("last", ast.Pattern(("*",)), ast.TRUE)  # a new node, since nodes differ by identity
        return ast.Compare(ast.CallFold("last ok", call, such), "==", last)

    def _t_pending(self, tree: Node, scope: BoundNames) -> ast.Term:
        pattern, condition = tree.children
        pending = ast.CallInFlight(*self._matching(pattern, condition, scope.copy()))
        own = ast.Label(pending.pattern.label or "")
        for node in ast.walk(pending.condition):
            if isinstance(node, ast.OfCall) and node.call == own and node.what in ("output", "failed"):
                self._fail(
                    f"{text_of(node)!r} of a call in flight does not exist yet; expected 'args({own.name})'", tree
                )
        return pending

    # --- sets, durations and functions

    def _t_set_of(self, tree: Node, scope: BoundNames) -> ast.Term:
        items = self._terms(tree.children, scope)
        for item in items:
            if isinstance(item, ast.Constant) and not isinstance(item.value, str):
                self._fail(f"{text_of(item)} in a set; expected strings, or a list for other values", tree)
        return ast.SetOf(items)

    def _t_set_operation(self, tree: Node, scope: BoundNames) -> ast.Term:
        left, operator, right = tree.children
        combined = ast.SetOperation(self._term(left, scope), str(operator), self._term(right, scope))  # type: ignore[arg-type]
        self._check_labels(combined, tree)
        return combined

    def _t_duration(self, tree: Node, _: BoundNames) -> ast.Term:
        token = tree.children[0]
        number = token.rstrip("mshdw")
        return ast.Constant(seconds(self._number(token_at(token, number)), token[len(number) :]))

    def _t_apply(self, tree: Node, scope: BoundNames) -> ast.Term:
        """Reads `name(...)`: a form of its own (`_f_NAME`), or a function."""
        name, *operands = tree.children
        present = [operand for operand in operands if operand is not None]
        special: Callable[..., ast.Term] | None = getattr(self, f"_f_{name}", None)
        if special is not None:
            return special(name, present, scope)
        if (known := function(name)) is not None:
            arguments = self._operands(present, scope)
            if known.zoned and len(arguments) == len(known.parameters) - 1:
                arguments = (*arguments, ast.Zone())
            return ast.Apply(str(name), arguments, place_of(name))
        return self._applied(str(name), name, present, scope)

    def _t_apply_included(self, tree: Node, scope: BoundNames) -> ast.Term:
        """Reads `file.name(...)`: a definition or function of an included file."""
        body, name, *operands = tree.children
        path = _path(body)
        if not path:
            self._fail(f"{str(name)!r} is applied to a value; expected 'name(...)' or 'file.name(...)'", name)
        arguments = [operand for operand in operands if operand is not None]
        return self._applied(".".join((*path, str(name))), name, arguments, scope)

    def _applied(self, name: str, token: Any, operands: Sequence[Node], scope: BoundNames) -> ast.Term:
        """Applies a definition, or a function of the toolbox."""
        if (defined := self._declared.find(name, self._declared.definitions)) is not None:
            return self._expanded(defined, self._terms(operands, scope), token, scope)
        function = self._declared.find(name, self._declared.functions)
        if function is None:
            self._fail(f"unknown function {name!r}{name_hint(name, self._functions())}", token)
        return ast.Apply(function, self._operands(operands, scope), place_of(token))

    def _functions(self) -> list[str]:
        declared = self._declared
        return [
            *grammar.FUNCTIONS,
            *filter(str.isidentifier, rule_functions()),
            *declared.functions,
            *declared.definitions,
        ]

    # --- definitions and constants

    def _declared_value(self, name: str, where: Any, scope: BoundNames) -> ast.Term | None:
        """The value of a constant, or of a definition without parameters; None if the name is neither."""
        declared = self._declared
        if (constant := declared.find(name, declared.constants)) is not None:
            value = declared.constants[constant]
            return ast.Variable(constant) if declared.keeps_names else _constant_term(value, constant)
        defined = declared.find(name, declared.definitions)
        return None if defined is None else self._expanded(defined, (), where, scope)

    def _expanded(self, name: str, arguments: Sequence[ast.Term], where: Any, scope: BoundNames) -> ast.Term:
        parameters = self._declared.definitions[name].parameters
        if len(arguments) != len(parameters):
            form = f"{name}({', '.join(parameters)})"
            self._fail(f"wrong number of arguments for {name!r}: {len(arguments)}; expected {form!r}", where)
        if self._declared.keeps_names:
            return ast.Apply(name, tuple(arguments), place_of(where))
        body = read_definition(name, self._declared)
        names = [*scope.variables, *scope.labels]
        passed = dict(zip(parameters, arguments, strict=True))
        return expanded(body, Call(passed, names, place_of(where), lambda problem: self._fail(problem, where)))

    def _f_first(self, name: Any, _: Sequence[Node], __: BoundNames) -> ast.Term:
        self._fail(f"'{name}(...)' is a call; to read it, write 'output({name}(...))'", name)

    _f_last = _f_first

    def _operands(self, trees: Sequence[Node], scope: BoundNames) -> tuple[ast.Term | ast.RegexValue, ...]:
        return tuple(self._operand(tree, scope) for tree in trees)

    def _operand(self, tree: Node, scope: BoundNames) -> ast.Term | ast.RegexValue:
        if tree.data == "regex":
            return ast.RegexValue(self._regex(tree.children[0]))
        if tree.data == "selected":
            self._fail(
                "expected a value; a call is one in 'output(...)', 'args(...)', 'failed(...)', 'time(...)'", tree
            )
        return self._term(tree, scope)

    def _f_time(self, name: Any, operands: Sequence[Node], scope: BoundNames) -> ast.Term:
        """Reads the time of a call; of a string, the function `time` reads it."""
        if len(operands) == 2:
            return ast.Apply("time", self._operands(operands, scope), place_of(name))
        operand = self._only(name, operands, "a call or a string")
        if operand.data == "selected":
            return ast.TimeOf(self._selected(operand, scope))
        if operand.data == "variable" and operand.children[0] in scope.labels:
            return ast.TimeOf(self._label(operand.children[0], "time", scope))
        return ast.Apply("time", (self._term(operand, scope),), place_of(name))

    def _f_tool(self, name: Any, operands: Sequence[Node], scope: BoundNames) -> ast.Term:
        operand = self._only(name, operands, "a call")
        if operand.data == "selected":
            return ast.OfCall("tool", self._selected(operand, scope))
        if operand.data != "variable":
            self._fail("expected 'tool(f)' with the label of a call", name)
        return ast.OfCall("tool", self._label(operand.children[0], "tool", scope))

    def _f_sources(self, name: Any, operands: Sequence[Node], scope: BoundNames) -> ast.Term:
        return ast.Sources(self._term(self._only(name, operands, "a value"), scope))

    def _f_seen(self, name: Any, operands: Sequence[Node], _: BoundNames) -> ast.Term:
        if not operands or any(operand.data != "variable" for operand in operands):
            self._fail("expected 'seen(LABEL)' with a label of 'labels:'", name)
        return ast.Seen(tuple(self._source_label(operand.children[0]) for operand in operands))

    def _f_text(self, name: Any, operands: Sequence[Node], scope: BoundNames) -> ast.Term:
        own = {*self._declared.functions, *self._declared.definitions}
        if self._declared.find(str(name), own) is not None:
            return self._applied(str(name), name, operands, scope)
        role = str(operands[0].children[0]) if len(operands) == 1 and operands[0].data == "variable" else ""
        if role not in ROLES:
            self._fail(f"expected 'text(ROLE)' with {' or '.join(ROLES)}, such as 'text(user)'", name)
        return ast.MessagesText(role)

    def _f_counter(self, name: Any, operands: Sequence[Node], scope: BoundNames) -> ast.Term:
        counters = self._declared.counters
        if not operands or operands[0].data != "variable":
            self._fail("expected 'counter(NAME, KEY)' with a name of 'counters:'", name)
        counter, keys = operands[0].children[0], self._terms(operands[1:], scope)
        full = self._declared.find(str(counter), counters)
        if full is None:
            unknown = f"unknown counter {str(counter)!r}{name_hint(str(counter), counters)}"
            self._fail(f"{unknown}; declare it in 'counters:'", counter)
        if len(keys) != counters[full]:
            self._fail(f"counter {str(counter)!r} has {counters[full]} keys; {len(keys)} are written", counter)
        return ast.CounterValue(full, keys, place_of(name))

    def _only(self, name: Any, operands: Sequence[Node], expected: str) -> Node:
        if len(operands) != 1:
            self._fail(f"{name!s}(...) has {len(operands)} arguments; expected {expected}", name)
        return operands[0]

    def _t_count_items(self, tree: Node, scope: BoundNames) -> ast.Term:
        return self._over_items("count", *tree.children, scope=scope)

    def _t_quantified(self, tree: Node, scope: BoundNames) -> ast.Term:
        return self._over_items(*tree.children, scope=scope)

    def _over_items(self, which: str, name: Any, items: Node, condition: Node, *, scope: BoundNames) -> ast.Term:
        self._require_new(name, scope, "the items")
        inner = scope.copy()
        inner.variables.add(str(name))
        return ast.OverItems(which, str(name), self._term(items, scope), self._condition(condition, inner))  # type: ignore[arg-type]


def _if_equal(equations: Sequence[ast.Term], condition: ast.Term) -> ast.Term:
    """A condition on the calls whose arguments equal some values; other calls satisfy it."""
    return ast.Implies(with_equations(equations, ast.TRUE), condition) if equations else condition


def _unsearchable(whole: ast.Term) -> Unknown | None:
    """The reason why 'in' can never search the value of a term; None if it may."""
    if isinstance(whole, ast.OfCall) and whole.what == "args":
        return NOT_IN_MAPPING
    if not isinstance(whole, ast.ListOf):
        return None
    known: list[Any] = [
        item.value if isinstance(item, ast.Constant) else [] if isinstance(item, ast.ListOf) else {}
        for item in whole.items
        if not _is_open(item)
    ]
    return None if is_searchable(known) else NOT_IN_MIXED


def _is_open(item: ast.Term) -> bool:
    """Whether the kind of an item is open until the check."""
    return not isinstance(item, ast.Constant | ast.ListOf | ast.SetOf)


def _is_number(node: ast.Term) -> bool:
    """Whether a term that is known is always a number."""
    return isinstance(node, _NUMBERS) or ast.is_usage(node)


def _is_of_sources(node: ast.Term) -> bool:
    """Whether a term is a set of labels."""
    if isinstance(node, ast.SetOperation):
        return _is_of_sources(node.left) or _is_of_sources(node.right)
    return isinstance(node, ast.Sources)


def _constant_term(value: Any, name: str) -> ast.Term:
    if isinstance(value, tuple) and not any(isinstance(item, tuple | Mapping) for item in value):
        return ast.ListOf(tuple(map(ast.Constant, value)))
    return ast.Constant(value, name)


def _path(tree: Node) -> tuple[str, ...]:
    """The names of `a.b.c`; empty for other terms."""
    if tree.data == "variable":
        return (str(tree.children[0]),)
    inner = _path(tree.children[0]) if tree.data == "field" else ()
    return (*inner, str(tree.children[1])) if inner else ()


def _is_no_condition(term: ast.Term) -> bool:
    """Whether a term is neither true nor false, whatever the values."""
    match term:
        case ast.Constant(value):
            return type(value) is not bool
        case ast.Apply(name) if (known := function(name)) is not None:
            return known.result not in ("", "truth value")
    return isinstance(term, _NO_CONDITION)
