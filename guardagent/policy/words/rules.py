"""Puts rules into words: one sentence for each formula.

In propositional rules, about the order of steps, an atom needs a step that ended well; its negation also excludes a
step that failed or is in flight. So "is a call of x" in a premise counts from the start of the call, and "is a
successful call of x" only once it ended well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import permutations
from typing import Any

from guardagent.policy.language import ast
from guardagent.policy.language import formula as f
from guardagent.policy.language.formula import sequence
from guardagent.policy.language.parser import step_pattern
from guardagent.policy.scope import EscalationStage
from guardagent.policy.words.terms import SentenceScope, TermWords, code, duration, either, numbered, sentence

# --- propositional rules

_MOST_STEPS = 4  # of a sequence that is recognised
_KINDS = {"tool:": "call of", "action:": "step with the action", "decision:": "step with the decision"}


def rule_of_steps(formula: f.Formula) -> str:
    """The sentence for a propositional rule, without its full stop."""
    if isinstance(formula, f.Conjunction | f.Disjunction) and not all(map(_is_literal, formula.parts)):
        head = "all of these hold" if isinstance(formula, f.Conjunction) else "at least one of these holds"
        return numbered(head, sorted(map(rule_of_steps, formula.parts)))
    if isinstance(formula, f.Release) and formula.left == f.FALSE:
        return _always(formula) or f"at every step, {_words(formula.right)}"
    if isinstance(formula, f.Until) and formula.left == f.TRUE:
        return f"at some step, {_words(formula.right)}"
    return f"at the first step, {_words(formula)}"


def steps_words_count(formula: f.Formula) -> int:
    """The number of literals of a formula."""
    return sum(isinstance(part, f.Literal) for part in f.subformulas(formula))


def _is_literal(formula: f.Formula) -> bool:
    return isinstance(formula, f.Literal)


def _noun(atom: str) -> str:
    """An atom as a step: `call of x`, `step with the tag t`."""
    if atom.startswith("@"):
        return f"call of a tool of {code(atom)}"
    if (step := step_pattern(atom)) is not None:
        return _call(step)
    for prefix, noun in _KINDS.items():
        if atom.startswith(prefix):
            return f"{noun} {code(atom.removeprefix(prefix))}"
    return f"step with the tag {code(atom)}"


def _always(formula: f.Release) -> str | None:
    """The short sentence for a common rule about every step; None for others."""
    body = formula.right
    if isinstance(body, f.Literal) and not body.positive:
        return f"there must never be a {_noun(body.atom)}"
    if not isinstance(body, f.Disjunction):
        return None
    negative = [part for part in body.parts if isinstance(part, f.Literal) and not part.positive]
    for trigger in sorted(negative, key=lambda part: part.atom):
        if response := _response(trigger.atom, body) or _precondition(trigger, body):
            return response
    return None


def _precondition(trigger: f.Literal, body: f.Disjunction) -> str | None:
    """The sentence for `G(q -> O p)` of two different tools, which no step can be at once."""
    match [part for part in body.parts if part != trigger]:
        case [f.Since(f.TruthConstant(True), f.Literal(needed, True))]:
            if _are_tools([trigger.atom, needed]):
                return f"a {_noun(trigger.atom)} is allowed only after an earlier successful {_noun(needed)}"
    return None


def _response(trigger: str, body: f.Disjunction) -> str | None:
    """The sentence for `p -> F q`, `p -> F[<=k] q` and `p -> F q -> F r`."""
    first = f.Literal(trigger)
    rest = [part for part in body.parts if part != f.negation(first)]
    match rest:
        case [f.Within(steps, f.Literal(needed, True))]:
            own = "" if _are_tools([trigger, needed]) else "that step or "
            return f"after every {_noun(trigger)}, {own}{_next(steps)} must be a successful {_noun(needed)}"
    wanted = [atom for atom in f.atoms(body) if f.Literal(atom) in f.subformulas(body)]
    for size in range(1, _MOST_STEPS + 1) if len(wanted) <= _MOST_STEPS else ():
        for order in permutations(wanted, size):
            if f.implies(first, sequence(first, [f.Literal(step) for step in order])) == body:
                nouns = " and then a successful ".join(map(_noun, order))
                several = "" if _are_tools([trigger, *order]) else "; one step can be several of these"
                return (
                    f"after every {_noun(trigger)} there must be a successful {nouns} before the next {_noun(trigger)} "
                    f"and before the end{several}"
                )
    return None


def _call(step: ast.Pattern) -> str:
    tools, details, _ = TermWords().pattern(step, SentenceScope(), "it")
    return f"call of {tools} ({details})"


def _are_tools(atoms: Sequence[str]) -> bool:
    """Whether atoms are different tools, so that no step is two of them."""
    return len(set(atoms)) == len(atoms) and all(atom.startswith("tool:") for atom in atoms)


def _words(formula: f.Formula) -> str:  # noqa: C901 - a case for each kind
    match formula:
        case f.TruthConstant(value):
            return "true" if value else "false"
        case f.Literal(atom, positive):
            return f"the step is {'a successful' if positive else 'no'} {_noun(atom)}"
        case f.Conjunction(parts):
            return " and ".join(_parts(parts))
        case f.Disjunction(parts):
            return _either(parts)
        case f.Next(f.TruthConstant(value), strong) if value is strong:
            return f"there is {'a' if strong else 'no'} next step"
        case f.Previous(f.TruthConstant(value), strong) if value is strong:
            return f"there is {'a' if strong else 'no'} step before"
        case f.Next(body, strong):
            return f"there is a next step, and there {_inside(body)}" if strong else f"at any next step {_inside(body)}"
        case f.Previous(body, strong):
            if strong:
                return f"there is a step before, and there {_inside(body)}"
            return f"at any step before this one {_inside(body)}"
        case f.Within(steps, body):
            return f"at this step or {_next(steps)} {_inside(body)}"
    return _since_or_until(formula)


def _since_or_until(formula: f.Formula) -> str:
    match formula:
        case f.Until(f.TruthConstant(True), right):
            return f"at this step or a later one {_inside(right)}"
        case f.Until(left, right):
            return f"up to a step at which {_inside(right)}, which must come, {_inside(left)}"
        case f.Release(f.TruthConstant(False), right):
            return f"at this step and every later one {_inside(right)}"
        case f.Release(left, right):
            if (rest := _weak(left, right)) is not None:
                return f"up to the first step at which {_inside(left)}, or to the end, {_inside(rest)}"
            return f"up to and including the first step at which {_inside(left)}, or to the end, {_inside(right)}"
        case f.Since(f.TruthConstant(True), right):
            return f"at this step or an earlier one {_inside(right)}"
        case f.Since(left, right):
            return f"since the last step at which {_inside(right)}, which must have been, {_inside(left)}"
        case f.TriggerFormula(f.TruthConstant(False), right):
            return f"at this step and every earlier one {_inside(right)}"
        case f.TriggerFormula(left, right):
            return (
                f"from the last step at which {_inside(left)}, or from the beginning, up to this step {_inside(right)}"
            )
    raise AssertionError(formula)


def _weak(left: f.Formula, right: f.Formula) -> f.Formula | None:
    """`p` of `p W q`, given `q` and `p OR q`; None for another formula."""
    whole = right.parts if isinstance(right, f.Disjunction) else frozenset({right})
    inner = left.parts if isinstance(left, f.Disjunction) else frozenset({left})
    rest = f.any_of(whole - inner)
    return rest if rest != f.FALSE and f.weak_until(rest, left) == f.Release(left, right) else None


def _next(steps: int) -> str:
    return "the next one" if steps == 1 else f"one of the next {steps}"


def _inside(formula: f.Formula) -> str:
    return f"({_words(formula)})"


def _parts(parts: Iterable[f.Formula]) -> list[str]:
    """The parts in the order of their texts, since their order in the rule does not matter."""
    return sorted(_words(part) if isinstance(part, f.Literal) else _inside(part) for part in parts)


def _either(parts: Iterable[f.Formula]) -> str:
    """A disjunction; with negative atoms and other parts, as `if ... then ...`."""
    negative = sorted(part.atom for part in parts if isinstance(part, f.Literal) and not part.positive)
    others = _parts(part for part in parts if not (isinstance(part, f.Literal) and not part.positive))
    if not negative or not others:
        return either(_parts(parts))
    return f"if the step is {' and '.join(f'a {_noun(atom)}' for atom in negative)}, then {either(others)}"


# --- formulas

_NUMBERED = 3  # parts of a condition from which on they are numbered


class RuleWords:
    """Puts the formulas of one rule into words, and counts what had to stay code.

    Attributes:
        terms: the words for its conditions.
    """

    def __init__(self) -> None:
        self.terms = TermWords()

    def sentence(self, rule: ast.Rule) -> str:
        """The sentence for a formula."""
        return sentence(self._words(rule))

    def _words(self, rule: ast.Rule) -> str:
        match rule:
            case ast.AllOf(parts):
                return numbered("all of these hold", map(self._words, parts))
            case ast.AnyOf(parts):
                return numbered("at least one of these holds", map(self._words, parts))
            case ast.Not(body):
                return f"this must not hold: ({self._words(body)})"
            case ast.Temporal(formula):
                self.terms.atoms += steps_words_count(formula)
                return rule_of_steps(formula)
        phrase: Any = {ast.Forall: self._forall, ast.Exists: self._exists, ast.Before: self._before}
        return str(phrase.get(type(rule), self._after)(rule))

    def _subject(self, pattern: ast.Pattern, condition: ast.Term) -> tuple[str, SentenceScope]:
        """The words for the calls that a rule is about, and the scope of its conditions."""
        tools, details, scope = self.terms.pattern(pattern, SentenceScope(), "the call", proposed=True)
        return f"call of {tools}{self.terms.details(details, condition, scope)}", scope

    def _forall(self, rule: ast.Forall) -> str:
        premise, needed = ast.TRUE, rule.condition
        if isinstance(needed, ast.Implies) and needed.first != ast.TRUE:
            premise, needed = needed.first, needed.second  # type: ignore[assignment]  # any condition
        subject, scope = self._subject(rule.pattern, premise)
        if isinstance(needed, ast.Constant) and isinstance(needed.value, bool):
            return f"a {subject} is {'always' if needed.value else 'never'} allowed"
        return f"a {subject} is allowed only if {self._conditions(needed, scope)}"

    def _conditions(self, node: ast.Term, scope: SentenceScope) -> str:
        """A condition; one of many parts as a numbered list."""
        if isinstance(node, ast.And | ast.Or) and len(node.parts) >= _NUMBERED:
            head = "all of these hold" if isinstance(node, ast.And) else "at least one of these holds"
            return numbered(head, (self.terms.condition(part, scope) for part in node.parts))
        return self.terms.condition(node, scope)

    def _exists(self, rule: ast.Exists) -> str:
        tools, details, scope = self.terms.pattern(rule.pattern, SentenceScope(), "that call")
        such = self.terms.details(details, rule.condition, scope)
        return f"before the conversation ends, there must be a successful call of {tools}{such}"

    def _before(self, rule: ast.Before) -> str:
        subject, scope = self._subject(rule.pattern, rule.condition)
        partner = self._partner(rule.partner, rule.partner_condition, scope, "the earlier call")
        return f"a {subject} is allowed only after an earlier successful call of {partner}"

    def _after(self, rule: ast.After) -> str:
        subject, scope = self._subject(rule.pattern, rule.condition)
        partner = self._partner(rule.partner, rule.partner_condition, scope, "the later call")
        return f"after every {subject}, before the conversation ends, there must be a successful call of {partner}"

    def _partner(self, pattern: ast.Pattern, condition: ast.Term, scope: SentenceScope, name: str) -> str:
        tools, details, inner = self.terms.pattern(pattern, scope, name)
        return f"{tools}{self.terms.details(details, condition, inner)}"


def approvers_in_words(stages: Sequence[EscalationStage]) -> str:
    """A sentence on who may approve a violating call, one stage after the other."""
    parts = []
    for stage in stages:
        group = "" if stage.roles is None else f" of the group {either([code(name) for name in stage.roles])}"
        within = "" if stage.deadline is None else f" within {duration(Fraction(str(stage.deadline)))}"
        parts.append(f"{stage.quorum or 'an'} approver{'s' if (stage.quorum or 1) > 1 else ''}{group}{within}")
    return sentence(f"it waits for {', then for '.join(parts)}")
