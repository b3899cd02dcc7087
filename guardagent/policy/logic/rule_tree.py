"""The atomic rules of a rule, and the combination of their results for a proposed call.

As in the evaluator, a conjunction considers only this call; other rules also consider whether their atomic rules held
so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from guardagent.policy.language import ast
from guardagent.policy.logic.expressions import conj, disj, neg
from guardagent.policy.logic.semantics import Semantics, SymbolicCall
from guardagent.policy.logic.values import (
    TRUE,
    Value,
    conjunction,
    disjunction,
    negation,
    truth,
    when_false,
    when_true,
)

Tree = int | tuple[str, tuple["Tree", ...]]  # the index of an atomic rule, or "all" or "any" of trees


@dataclass(frozen=True, slots=True)
class AtomicRule:
    """A rule without AND, OR and NOT; `negated` if it is under an odd number of NOTs."""

    rule: ast.Rule
    negated: bool

    @property
    def is_propositional(self) -> bool:
        return isinstance(self.rule, ast.Temporal)


class RuleTree:
    """The atomic rules of a rule, in the evaluator's order, and their combination."""

    def __init__(self, rules: Sequence[ast.Rule]) -> None:
        self.atomic_rules: list[AtomicRule] = []
        trees = tuple(self._tree(rule, negated=False) for rule in rules)
        self.tree: Tree = trees[0] if len(trees) == 1 else ("all", trees)
        self.is_conjunction = _is_conjunction(self.tree)

    def _tree(self, rule: ast.Rule, *, negated: bool) -> Tree:
        match rule:
            case ast.AllOf(parts) | ast.AnyOf(parts):
                every = isinstance(rule, ast.AllOf) is not negated
                return "all" if every else "any", tuple(self._tree(part, negated=negated) for part in parts)
            case ast.Not(body):
                return self._tree(body, negated=not negated)
        self.atomic_rules.append(AtomicRule(rule, negated))
        return len(self.atomic_rules) - 1

    def combine(self, values: Sequence[Value], so_far: Callable[[int], Value]) -> Value:
        """Combines results of the atomic rules to the result of the rule.

        Args:
            values: the results of the atomic rules for a call.
            so_far: returns whether an atomic rule held so far.
        """
        every = conjunction(values)
        if self.is_conjunction or when_true(every) is True:
            return every
        kept = [conjunction([so_far(at), value]) for at, value in enumerate(values)]
        found = _value(self.tree, kept)
        fine = when_true(every)
        return truth(disj(fine, when_true(found)), conj(neg(fine), when_false(found)))


def _is_conjunction(tree: Tree) -> bool:
    return isinstance(tree, int) or (tree[0] == "all" and all(map(_is_conjunction, tree[1])))


def _value(tree: Tree, values: Sequence[Value]) -> Value:
    if isinstance(tree, int):
        return values[tree]
    kind, trees = tree
    return (conjunction if kind == "all" else disjunction)(_value(one, values) for one in trees)


# --- atomic rules


def judge_call(part: AtomicRule, call: SymbolicCall, semantics: Semantics) -> Value:
    """Judges a proposed call by an atomic data rule, with all outcomes known."""
    match part.rule, part.negated:
        case ast.Forall(pattern, condition), False:
            return _required(pattern, condition, call, semantics)
        case ast.Before(pattern, condition, partner, wanted), False:
            earlier = ast.SomeCall(partner, wanted, ok=True)
            return _required(pattern, ast.Implies(condition, earlier), call, semantics)
        case ast.Exists(pattern, condition), True:
            return _required(pattern, ast.Negation(condition), call, semantics)
        case ast.After(pattern, condition), False:
            return _known(creates_obligation(pattern, condition, call, semantics))
    return TRUE  # decided at the end


def _required(pattern: ast.Pattern, condition: ast.Term, call: SymbolicCall, semantics: Semantics) -> Value:
    matched, names = semantics.match_proposed(pattern, call, {})
    if when_false(matched) is True:
        return TRUE
    return disjunction([negation(matched), semantics.value(condition, names)])


def creates_obligation(pattern: ast.Pattern, condition: ast.Term, call: SymbolicCall, semantics: Semantics) -> Value:
    """Returns the condition under which a call requires a later one."""
    matched, names = semantics.match_proposed(pattern, call, {})
    if when_false(matched) is True:
        return matched
    return conjunction([matched, semantics.value(condition, names)])


def _known(value: Value) -> Value:
    """Returns true if a truth value is known, else unknown."""
    return truth(disj(when_true(value), when_false(value)), no=False)


def uses_known(part: AtomicRule) -> bool:
    """Whether an atomic rule uses `known`, so that more knowledge can change its result from true to false."""
    return any(isinstance(one, ast.Known) for one in ast.walk(part.rule))


def patterns_of(rules: Sequence[ast.Rule]) -> Iterator[ast.Pattern]:
    """Yields all patterns of data rules."""
    for rule in rules:
        for part in RuleTree([rule]).atomic_rules:
            if not part.is_propositional:
                yield from (one for one in ast.walk(part.rule) if isinstance(one, ast.Pattern))
