"""Conditions that explain their result: they record the values that they read while they are decided.

So the explanation shows the values behind the decision, and no state function is called twice. Evidence for
`sources(x)` names the labelled strings in a value, and the calls, messages and facts that they came from. Values that
depend on the state are left out: the evidence goes to a model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from guardagent.policy.evaluation.history_index import suggested
from guardagent.policy.evaluation.history_query import Env, Term
from guardagent.policy.evaluation.monitor_interface import Explanation
from guardagent.policy.evaluation.operands import OperandText, is_shown
from guardagent.policy.evaluation.terms import (
    COMPARISONS,
    UNDECIDED,
    Compiler,
    Names,
    all_of_terms,
    any_of_terms,
    is_true,
)
from guardagent.policy.language import ast
from guardagent.policy.language.printer import window_text
from guardagent.policy.language.values import PLAIN, Truth, Unknown, equal, inverse, shown
from guardagent.policy.provenance.readers import is_one_string
from guardagent.types import EMPTY, origin_text

# --- sources

Note = Callable[[Env, Explanation], None]
"""Adds the evidence to an explanation."""


def source_evidence(condition: ast.Term, compiler: Compiler, names: Names) -> Note | None:
    """Compiles the evidence for the sources in a condition; None if there are none."""
    if "sources" not in compiler.library.features:  # compiling the condition adds it
        return None
    bodies = [body for body in _bodies(condition) if is_shown(body) and ast.names_in(body) <= names.keys()]
    terms = [compiler.term(body, names) for body in bodies]
    if not terms:
        return None

    def note(env: Env, explanation: Explanation) -> None:
        values = [value for term in terms if type(value := term(env)) is not Unknown]
        origins = {origin["value"]: origin for value in values for origin in env[0].provenance.origins(value, env[0])}
        if not origins:
            return
        known: list[Any] = [*explanation.evidence.get("sources", []), *origins.values()]
        unique = {origin["value"]: origin for origin in known}
        explanation.evidence = {**explanation.evidence, "sources": list(unique.values())}
        explanation.because = "; ".join(map(origin_text, unique.values()))

    return note


def _bodies(node: object, items: Mapping[str, ast.Term] = EMPTY) -> Iterator[ast.Term]:
    """The values whose sources a condition reads; a list stands for an item of it."""
    if isinstance(node, ast.Sources):
        used = [items[name] for name in sorted(ast.names_in(node.body)) if name in items]
        yield from used or [node.body]
    if isinstance(node, ast.OverItems):
        over = next((items[name] for name in sorted(ast.names_in(node.items)) if name in items), node.items)
        items = {**items, node.variable: over}
    for child in ast.children(node):
        yield from _bodies(child, items)


# --- conditions

Explain = Callable[[Env, Explanation], str]
"""Explains a decided condition: returns the unmet requirement, or "" if met. Adds details to the explanation."""


def compile_with_evidence(
    condition: ast.Term, compiler: Compiler, names: Names, *, wanted: bool = True
) -> tuple[Term, Explain]:
    """Compiles a condition; returns (condition, explanation). `wanted`: the value that satisfies the rule."""

    def inside(part: ast.Term, *, wanted: bool = wanted) -> tuple[Term, Explain]:
        return compile_with_evidence(part, compiler, names, wanted=wanted)

    match condition:
        case ast.And(parts) if parts:
            terms, explanations = zip(*map(inside, parts), strict=True)
            return all_of_terms(terms), _joined_explanations(explanations, " and " if wanted else " or ")
        case ast.Or(parts):
            terms, explanations = zip(*map(inside, parts), strict=True)
            return any_of_terms(terms), _joined_explanations(explanations, " or " if wanted else " and ")
        case ast.Negation(body):
            term, explain = inside(body, wanted=not wanted)
            return (lambda env: inverse(term(env))), explain
        case ast.Implies(first, second):
            return _implication(first, second, inside, wanted=wanted)
        case ast.Compare() if ast.folds_of(condition) is None:  # `since` and `previous` are explained as written
            return _comparison(condition, compiler, names, wanted=wanted)
    return _opaque_condition(condition, compiler, names, wanted=wanted)


def _joined_explanations(explanations: Iterable[Explain], between: str) -> Explain:
    explainers = tuple(explanations)

    def explain(env: Env, explanation: Explanation) -> str:
        parts = [text for explainer in explainers if (text := explainer(env, explanation))]
        return f"({between.join(parts)})" if len(parts) > 1 and between == " or " else between.join(parts)

    return explain


def _implication(first: ast.Term, second: ast.Term, inside: Any, *, wanted: bool) -> tuple[Term, Explain]:
    """Compiles an implication. Its explanation only names the conclusion where possible."""
    (premise, why_one), (other, why_other) = inside(ast.Negation(first)), inside(second)
    if wanted and not isinstance(second, ast.Constant):
        return any_of_terms((premise, other)), why_other
    return any_of_terms((premise, other)), _joined_explanations((why_one, why_other), " or " if wanted else " and ")


def _comparison(node: ast.Compare, compiler: Compiler, names: Names, *, wanted: bool) -> tuple[Term, Explain]:
    result, first, second = compiler.place(), compiler.place(), compiler.place()
    left, right = (OperandText(side, names, compiler.arguments, compiler.items) for side in (node.left, node.right))
    compared = _compared(node, compiler, names, result, first, second)
    if not wanted and (lacks := _lacks_label(node, compiler, names)) is not None:
        compared = _unless(lacks, compared, result)
    note_sources = source_evidence(node, compiler, names)
    operator = node.operator if wanted else ast.OPPOSITE.get(node.operator, f"not {node.operator}")

    def explain(env: Env, explanation: Explanation) -> str:
        if env[result] is not (not wanted):  # None: decided without this comparison
            return ""
        left_value, other = env[first], env[second]
        left_text, right_text = left.with_value(env, left_value), right.with_value(env, other)
        if not left.is_shown:
            explanation.withheld += (f"{left_text} is {shown(left_value)}",)
        if not right.is_shown:
            explanation.withheld += (f"{right_text} is {shown(other)}",)
        if note_sources is not None:
            note_sources(env, explanation)
        return f"{left_text} {operator} {right_text}"

    return compared, explain


def _compared(
    node: ast.Compare, compiler: Compiler, names: Names, result: int, first: int, second: int
) -> Callable[[Env], Truth]:
    left, right = compiler.term(node.left, names), compiler.term(node.right, names)
    compare, blamed = COMPARISONS[node.operator], compiler.blame(node, names, UNDECIDED)
    constant = node.right.value if isinstance(node.right, ast.Constant) else None
    kind = type(constant) if node.operator == "==" and type(constant) in PLAIN else None

    def compared(env: Env) -> Truth:
        env[first] = left_value = left(env)
        env[second] = other = right(env)
        truth = compare(left_value, other)
        env[result] = truth = blamed(env, truth, left_value, other) if type(truth) is Unknown else truth
        return truth

    def equal_to(env: Env) -> Truth:
        env[first] = value = left(env)
        is_equal = value == constant if type(value) is kind else equal(value, constant)
        env[result] = is_equal = blamed(env, is_equal, value) if type(is_equal) is Unknown else is_equal
        return is_equal

    return compared if kind is None else equal_to


def _lacks_label(node: ast.Compare, compiler: Compiler, names: Names) -> Term | None:
    """Compiles whether a value has no such label, as nothing has it; None if this is not `label in sources(value)`."""
    if node.operator != "in" or not isinstance(node.left, ast.Constant) or not isinstance(node.right, ast.Sources):
        return None
    label, body = node.left.value, compiler.term(node.right.body, names)
    return lambda env: env[0].provenance.lacks(label, env[0]) and is_one_string(body(env))


def _unless(decided: Term, compared: Callable[[Env], Truth], result: int) -> Callable[[Env], Truth]:
    def unless(env: Env) -> Truth:
        if decided(env):
            env[result] = False
            return False
        return compared(env)

    return unless


def _opaque_condition(condition: ast.Term, compiler: Compiler, names: Names, *, wanted: bool) -> tuple[Term, Explain]:
    """Compiles a condition that is explained by its own value."""
    result, term = compiler.place(), compiler.term(condition, names)
    if isinstance(condition, ast.Constant):
        return term, lambda _env, _found: ""

    def noted(env: Env) -> Any:
        env[result] = value = term(env)
        return value

    explain_call = (
        _earlier_call(condition, compiler, names, wanted=wanted) if isinstance(condition, ast.SomeCall) else None
    )
    term_text, negation = compiler.term_text(condition, names), "" if wanted else "not "
    note_sources = source_evidence(condition, compiler, names)

    def explain(env: Env, explanation: Explanation) -> str:
        if env[result] is not (not wanted):
            return ""
        if note_sources is not None:
            note_sources(env, explanation)
        return f"{negation}{term_text.render(env)}" if explain_call is None else explain_call(env, explanation)

    return noted, explain


def _earlier_call(condition: ast.SomeCall, compiler: Compiler, names: Names, *, wanted: bool) -> Explain:
    """Explains a missing or forbidden earlier call."""
    pattern = condition.pattern
    render = missing_call_text(pattern, condition.condition, compiler, names, condition.within)
    tools = tuple(suggested(compiler.library.tools_of(pattern)))
    timed = condition.within is not None or any(
        isinstance(node, ast.Now | ast.Elapsed) for node in ast.walk(condition.condition)
    )
    known = known_arguments(pattern, names)

    def explain(env: Env, explanation: Explanation) -> str:
        call_text = render(env)
        if not wanted:
            return f"no earlier {call_text}"
        args = known(env)
        explanation.missing += (call_text,)
        explanation.timed = explanation.timed or timed
        explanation.sequences += tuple([((tool, args),) for tool in tools])
        return f"an earlier {call_text}"

    return explain


def missing_call_text(
    pattern: ast.Pattern, condition: ast.Term, compiler: Compiler, names: Names, within: ast.Term | None = None
) -> Callable[[Env], str]:
    """Compiles the text of a missing call."""
    if within is not None:
        call_text, window = missing_call_text(pattern, condition, compiler, names), window_text(within)
        return lambda env: f"{call_text(env)} {window}"
    tools = tuple(suggested(compiler.library.tools_of(pattern))) or pattern.tools
    call = compiler.term_text(replace(pattern, tools=tools), names, pattern.label)
    if condition == ast.And(()) or is_true(condition):
        return call.render
    such = compiler.term_text(condition, names, pattern.label)
    return lambda env: f"{call.render(env)} with {such.render(env)}"


def known_arguments(pattern: ast.Pattern, names: Names) -> Callable[[Env], dict[str, Any]]:
    """Compiles a function that returns the arguments of a pattern with known values."""
    values = [
        (argument.name, argument.value)
        for argument in pattern.arguments
        if isinstance(argument.value, ast.ExactValue | ast.Variable)
    ]

    def known(env: Env) -> dict[str, Any]:
        known_values = {}
        for argument, value in values:
            if isinstance(value, ast.ExactValue):
                known_values[argument] = value.value
            elif value.name in names and type(env[names[value.name]]) is not Unknown:
                known_values[argument] = env[names[value.name]]
        return known_values

    return known
