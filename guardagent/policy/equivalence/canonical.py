"""Rewrites rules so that two spellings of the same rule become equal.

Variables and labels get names in order, commutative operands are sorted, and `before` becomes a condition of `forall`.
A rule about the order of steps and a data rule about bare calls are translated to each other where that is exact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any, TypeGuard

from guardagent.policy.evaluation.history_index import ANY
from guardagent.policy.evaluation.terms import is_true
from guardagent.policy.language import ast
from guardagent.policy.language import formula as f
from guardagent.policy.lint.steps import step_formula
from guardagent.types import EMPTY


def parts_of(rule: ast.Rule, *, negated: bool = False) -> Iterator[ast.Rule]:
    """Yields rules whose conjunction is a rule."""
    match rule:
        case ast.AllOf(parts) if not negated:
            yield from (conjunct for part in parts for conjunct in parts_of(part))
        case ast.AnyOf(parts) if negated:
            yield from (conjunct for part in parts for conjunct in parts_of(part, negated=True))
        case ast.Not(body):
            yield from parts_of(body, negated=not negated)
        case ast.Exists(pattern, condition) if negated:
            yield ast.Forall(pattern, ast.Negation(condition))
        case ast.Temporal(f.Release(f.TruthConstant(False), f.Conjunction(parts))) if not negated:
            yield from (ast.Temporal(f.globally(part)) for part in sorted(parts, key=repr))
        case _:
            yield ast.Not(rule) if negated else rule


def canonical(rule: ast.Rule) -> ast.Rule:
    """Returns an equivalent rule in a canonical spelling."""
    if isinstance(rule, ast.Temporal | ast.SolverRule):
        return rule
    if isinstance(rule, ast.AllOf | ast.AnyOf):
        return type(rule)(tuple(sorted(map(canonical, rule.parts), key=repr)))
    if isinstance(rule, ast.Not):
        return ast.Not(canonical(rule.body))
    if isinstance(rule, ast.Before):
        earlier = ast.SomeCall(rule.partner, rule.partner_condition, ok=True)
        condition = earlier if is_true(rule.condition) else ast.Implies(rule.condition, earlier)
        rule = ast.Forall(rule.pattern, condition)
    return _renamed(_pruned(_ordered(rule)))  # type: ignore[no-any-return]


def _pruned(rule: Any) -> Any:
    """Drops names that are used once. The proposed call may lack an argument; an earlier one may not."""
    uses = Counter(node.name for node in ast.walk(rule) if isinstance(node, ast.Variable | ast.Label))

    def pattern(node: ast.Pattern, *, proposed: bool) -> ast.Pattern:
        arguments = []
        for pattern_argument in sorted(node.arguments, key=lambda argument: argument.name):
            if not isinstance(pattern_argument.value, ast.Variable) or uses[pattern_argument.value.name] > 1:
                arguments.append(pattern_argument)
            elif not proposed:
                arguments.append(ast.Argument(pattern_argument.name, ast.AnyValue()))
        label = node.label if node.label and uses[node.label] else None
        return ast.Pattern(tuple(sorted(node.tools)), tuple(arguments), label)

    def pruned(node: Any) -> Any:
        if isinstance(node, ast.Pattern):
            return pattern(node, proposed=node is rule.pattern and isinstance(rule, ast.Forall))
        return mapped(node, pruned)

    return pruned(rule)


def mapped(node: Any, change: Any) -> Any:
    """Returns a node with its children changed, and without its place."""
    values = {field.name: getattr(node, field.name) for field in fields(node) if field.init}
    new = {name: _changed(value, change) for name, value in values.items() if name != "place"}
    return replace(node, **new, **({"place": ast.Place()} if "place" in values else {}))


def _changed(value: Any, change: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_changed(part, change) for part in value)
    is_node = hasattr(value, "__dataclass_fields__") and not isinstance(value, ast.Place)
    return change(value) if is_node else value


def _ordered(node: Any) -> Any:
    node = mapped(node, _ordered)
    match node:
        case ast.SomeCall(pattern, condition, True) if pattern.label:
            return replace(node, condition=_without(condition, ast.OfCall("failed", ast.Label(pattern.label))))
        case ast.Implies(first, second):
            return _ordered(ast.Or((ast.Negation(first), second)))
        case ast.Negation(body):
            return _negation(body)
        case ast.And(parts) | ast.Or(parts):
            return _junction(type(node), parts)
        case ast.Compare():
            return _comparison(node)
        case ast.OverItems():
            return _over_items(node)
    return node


def _negation(body: ast.Term) -> ast.Term:
    match body:
        case ast.Negation(inner):
            return inner
        case ast.Compare(left, operator, right) if operator in ast.OPPOSITE:
            term: ast.Term = ast.Compare(left, ast.OPPOSITE[operator], right)
        case ast.And(parts):
            term = ast.Or(tuple(map(ast.Negation, parts)))
        case ast.Or(parts):
            term = ast.And(tuple(map(ast.Negation, parts)))
        case _:
            return ast.Negation(body)
    return _ordered(term)  # type: ignore[no-any-return]


def _over_items(node: ast.OverItems) -> ast.Term:
    """Conditions on all items become conditions on any; alternatives on any item become alternatives."""
    match node:
        case ast.OverItems("all", variable, items, condition):
            some = ast.OverItems("any", variable, items, ast.Negation(condition))
            return _ordered(ast.Negation(some))  # type: ignore[no-any-return]
        case ast.OverItems("any", variable, items, ast.Or(parts)):
            disjunction = ast.Or(tuple(ast.OverItems("any", variable, items, part) for part in parts))
            return _ordered(disjunction)  # type: ignore[no-any-return]
    return node


def _comparison(node: ast.Compare) -> ast.Term:
    if (term := _without_count(node)) is not None:
        return _ordered(term)  # type: ignore[no-any-return]
    left, right = node.left, node.right
    if node.operator == "in" and isinstance(right, ast.ListOf) and _is_alike(right.items):
        return _ordered(ast.Or(tuple(ast.Compare(left, "==", item) for item in right.items)))  # type: ignore[no-any-return]
    if node.operator in (">", ">="):
        return ast.Compare(right, ast.MIRRORED[node.operator], left)
    is_turned = node.operator in ("==", "!=") and repr(right) < repr(left)
    return ast.Compare(right, node.operator, left) if is_turned else node


def _without_count(node: ast.Compare) -> ast.Term | None:
    """The comparison of a number of items with 0 or 1 as a condition on any item, where it is one."""
    for count, operator, limit in (
        (node.left, node.operator, node.right),
        (node.right, ast.MIRRORED.get(node.operator), node.left),
    ):
        if isinstance(count, ast.OverItems) and count.which == "count" and _is_number(limit):
            some = replace(count, which="any")
            if (operator, limit.value) in ((">", 0), (">=", 1), ("!=", 0)):
                return some
            if (operator, limit.value) in (("<", 1), ("<=", 0), ("==", 0)):
                return ast.Negation(some)
    return None


def _is_alike(items: tuple[ast.Term, ...]) -> bool:
    """Whether items are constants of one type, so that a value is comparable to all of them or to none."""
    kinds = {str if isinstance(item.value, str) else type(None) for item in items if _is_scalar(item)}
    return len(kinds) == 1 and all(map(_is_scalar, items))


def _is_scalar(term: ast.Term) -> TypeGuard[ast.Constant]:
    return isinstance(term, ast.Constant) and not isinstance(term.value, bool | None)


def _is_number(term: ast.Term) -> TypeGuard[ast.Constant]:
    return isinstance(term, ast.Constant) and not isinstance(term.value, bool | str)


def _without(condition: ast.Term, failed: ast.Term) -> ast.Term:
    """Drops `!failed(f)` from the condition of a call that has to end well anyway."""
    parts = condition.parts if isinstance(condition, ast.And) else (condition,)
    left = tuple(part for part in parts if part != ast.Negation(failed))
    return condition if len(left) == len(parts) else _junction(ast.And, left)


def _junction(kind: Any, parts: tuple[Any, ...]) -> Any:
    flat = [operand for part in parts for operand in (part.parts if isinstance(part, kind) else (part,))]
    left = [operand for operand in flat if operand != ast.Constant(value=kind is ast.And)]
    operands = tuple(sorted({repr(operand): operand for operand in left}.values(), key=repr))
    return operands[0] if len(operands) == 1 else ast.TRUE if not operands and kind is ast.And else kind(operands)


def _renamed(node: Any, names: Mapping[str, str] = EMPTY, depth: int = 0) -> Any:
    """Names variables after their arguments, and calls after the depth of their terms."""
    if isinstance(node, ast.Variable | ast.Label):
        return type(node)(names.get(node.name, node.name))
    if isinstance(node, ast.Pattern) and node.label:
        node = replace(node, label=names[node.label])
    if isinstance(node, ast.OverItems):
        names = {**names, node.variable: f"item {depth}"}
        node = replace(node, variable=names[node.variable])
        depth += 1
    for at, pattern in enumerate(_patterns(node)):
        names = _bound(pattern, names, f"{depth}{'p' * at}")
        depth += 1 - at
    return mapped(node, lambda child: _renamed(child, names, depth))


def _patterns(node: Any) -> list[ast.Pattern]:
    """The patterns that bind names in a node, in order."""
    attributes = [getattr(node, name, None) for name in ("pattern", "partner")]
    return [attribute for attribute in attributes if isinstance(attribute, ast.Pattern)]


def _bound(pattern: ast.Pattern, names: Mapping[str, str], prefix: str) -> Mapping[str, str]:
    bound_names = dict(names)
    for argument in pattern.arguments:
        if isinstance(argument.value, ast.Variable):
            bound_names.setdefault(argument.value.name, f"{prefix}.{argument.name}")
    return {**bound_names, pattern.label: f"call {prefix}"} if pattern.label else bound_names


# --- from steps to data


def as_data(rule: ast.Rule) -> ast.Rule | None:
    """Returns an equivalent rule whose parts are not formulas about steps, or None."""
    match rule:
        case ast.Temporal(f.Release(f.TruthConstant(False), body)):
            return _data_of(body)
        case ast.Temporal():
            return None
    return rule


def _data_of(body: f.Formula) -> ast.Rule | None:
    """Returns `forall(q(), ...)` for `G(!q || ...)`."""
    parts = body.parts if isinstance(body, f.Disjunction) else frozenset({body})
    tools = [part.atom for part in parts if isinstance(part, f.Literal) and not part.positive]
    conditions = [_condition_of(part) for part in sorted(parts, key=repr) if not isinstance(part, f.Literal)]
    if len(tools) != 1 or len(conditions) + 1 != len(parts) or None in conditions:
        return None
    pattern = _pattern_of(tools[0])
    if pattern is None or any(_overlap(pattern, condition) for condition in conditions):
        return None
    return ast.Forall(
        pattern,
        ast.Or(tuple(condition for condition in conditions if condition)) if conditions else ast.Constant(False),  # noqa: FBT003
    )


def _condition_of(formula: f.Formula) -> ast.Term | None:
    match formula:
        case f.Since(f.TruthConstant(True), f.Literal(atom, True)):
            pattern = _pattern_of(atom)
            return None if pattern is None else ast.SomeCall(pattern, ast.TRUE, ok=True)
        case f.TriggerFormula(f.TruthConstant(False), f.Literal(atom, False)):
            pattern = _pattern_of(atom)
            return None if pattern is None else _none_of(pattern)
        case f.Conjunction(parts) | f.Disjunction(parts):
            conditions = [_condition_of(part) for part in sorted(parts, key=repr)]
            kind = ast.And if isinstance(formula, f.Conjunction) else ast.Or
            return None if None in conditions else kind(tuple(condition for condition in conditions if condition))
    return None


def _none_of(pattern: ast.Pattern) -> ast.Term:
    return ast.Compare(ast.CountCalls(pattern, ast.TRUE), "==", ast.Constant(0))


def _pattern_of(atom: str) -> ast.Pattern | None:
    if atom.startswith("tool:"):
        return ast.Pattern((atom.removeprefix("tool:"),))
    return ast.Pattern((atom,)) if atom[0] == "@" else None


def _overlap(pattern: ast.Pattern, condition: ast.Term | None) -> bool:
    """Whether the proposed call could be the earlier one: for a formula about steps it is one of them."""
    if any(tool[0] == "@" for tool in pattern.tools):
        return True
    partners = [node for node in ast.walk(condition) if isinstance(node, ast.Pattern)]
    return any(tool[0] == "@" or tool in pattern.tools for partner in partners for tool in partner.tools)


# --- from data to steps


def as_steps(rule: ast.Rule) -> ast.Rule | None:
    """Returns an equivalent rule over formulas about steps, or None."""
    match rule:
        case ast.AllOf(parts) | ast.AnyOf(parts):
            steps = [as_steps(part) for part in parts]
            return None if None in steps else type(rule)(tuple(step for step in steps if step))
        case ast.Not(body):
            inside = as_steps(body)
            return None if inside is None else ast.Not(inside)
        case ast.SolverRule():
            return None
        case ast.Forall(pattern, condition) if not pattern.arguments and ANY not in pattern.tools:
            needed = _steps_of(condition)
            return None if needed is None else ast.Temporal(f.globally(f.implies(f.call_of(pattern.tools), needed)))
    formula = step_formula(rule, negated=False)
    return ast.Temporal(formula.formula) if formula.exact else None


def _steps_of(condition: ast.Term) -> f.Formula | None:
    match condition:
        case ast.Constant(value) if isinstance(value, bool):
            return f.TRUE if value else f.FALSE
        case ast.And(parts) | ast.Or(parts):
            steps = [_steps_of(part) for part in parts]
            join = f.all_of if isinstance(condition, ast.And) else f.any_of
            return None if None in steps else join(step for step in steps if step is not None)
        case ast.SomeCall(pattern, inner, True, None) if _is_bare(pattern, inner):
            return f.Previous(f.once(f.call_of(pattern.tools)))
        case ast.Compare(ast.CountCalls(pattern, inner, None), "==", ast.Constant(0)) if _is_bare(pattern, inner):
            return f.Previous(f.historically(f.negation(f.call_of(pattern.tools))), strong=False)
        case ast.Compare(ast.Constant(0), "==", ast.CountCalls(pattern, inner, None)) if _is_bare(pattern, inner):
            return f.Previous(f.historically(f.negation(f.call_of(pattern.tools))), strong=False)
    return None


def _is_bare(pattern: ast.Pattern, condition: ast.Term) -> bool:
    return not pattern.arguments and is_true(condition) and ANY not in pattern.tools
