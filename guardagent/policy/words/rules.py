"""Puts rules into words: one sentence for each formula."""

from __future__ import annotations

from typing import Any

from guardagent.policy.language import ast
from guardagent.policy.words.phrases import numbered, sentence
from guardagent.policy.words.scope import SentenceScope
from guardagent.policy.words.steps import rule_of_steps, steps_words_count
from guardagent.policy.words.terms import TermWords

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
