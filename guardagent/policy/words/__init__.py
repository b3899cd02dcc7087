"""Puts the policies of a file into plain English, for the people who answer for them.

    rules    formulas, and propositional rules
    terms    conditions and values
    solver   solver rules

The words come from the parsed rule alone, so they are what GuardAgent enforces: they are not a description by an
author or a model. Rules that differ in meaning differ in words. Only the rules of shipped packs, which are long
patterns, have their messages, which the cases of the pack test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from guardagent.errors import InputError, name_hint
from guardagent.policy.file.rule_keys import RuleSource
from guardagent.policy.language.declarations import Declarations
from guardagent.policy.language.parser import read_rule
from guardagent.policy.language.term_parser import read_term
from guardagent.policy.load import declarations_of
from guardagent.policy.scope import Scope as Applicability
from guardagent.policy.words.rules import RuleWords, approvers_in_words
from guardagent.policy.words.terms import SentenceScope, TermWords, code, either, is_condition, quoted, sentence
from guardagent.types import Decision

if TYPE_CHECKING:
    from guardagent.policy.policies import Policies

__all__ = ["Wording", "definitions_in_words", "policies_in_words", "policy_in_words"]

_RESPONSES = {
    Decision.WARN: "A violation is only warned about.",
    Decision.DENY: "",
    Decision.ESCALATE: "A call that violates it needs the approval of a person.",
    Decision.HALT: "A violation ends the conversation.",
}


@dataclass(frozen=True, slots=True)
class Wording:
    """A rule in words.

    Attributes:
        text: the sentences.
        atoms: the number of conditions and steps in the rule.
        coded: the number of those that are shown as code, because they have no words.
    """

    text: str
    atoms: int = 0
    coded: int = 0


def policies_in_words(policies: Policies) -> dict[str, Wording]:
    """Every policy in words, by its id.

    Raises:
        InputError: the policies do not come from a policy file.
    """
    declared = declarations_of(policies)
    return {source.id: source_in_words(source, declared) for source in _sources(policies)}


def policy_in_words(policies: Policies, rule: str, *, named: bool = False) -> Wording:
    """One policy in words.

    Args:
        policies: the loaded policies.
        rule: the id of the policy.
        named: whether constants and definitions stay names; `definitions_in_words` explains these.

    Raises:
        InputError: no policy has the id, or as for `policies_in_words`.
    """
    declared = replace(declarations_of(policies), keeps_names=named)
    source = next((source for source in _sources(policies) if source.id == rule), None)
    if source is None:
        raise InputError(f"no such policy {rule!r}{name_hint(rule, policies.ids)}")
    return source_in_words(source, declared)


def definitions_in_words(policies: Policies) -> dict[str, str]:
    """The sentence for each definition of the policy file, by its name. Parameters stay names."""
    declared, definitions = replace(declarations_of(policies), keeps_names=True), {}
    for name, definition in declared.definitions.items():
        body = read_term(definition.body.text, definition.parameters, replace(declared, scopes=definition.scopes))
        scope = SentenceScope(others={parameter: code(parameter) for parameter in definition.parameters})
        parameters = f"({', '.join(definition.parameters)})" if definition.parameters else ""
        phrase = TermWords().condition if is_condition(body) else TermWords().value
        definitions[name] = sentence(f"{code(name + parameters)} means: {phrase(body, scope)}")
    return definitions


def _sources(policies: Policies) -> Sequence[RuleSource]:
    return () if policies.source is None else policies.source.rules


def source_in_words(source: RuleSource, declared: Declarations) -> Wording:
    """One policy in words, as written in a file.

    Args:
        source: the policy.
        declared: the names that its rule can use.

    Raises:
        InputError: the rule does not parse.
    """
    scope, response = _applicability(source.applies_to), _RESPONSES[source.on_violation]
    text, atoms, coded = _rule(source, replace(declared, scopes=source.scopes))
    if source.on_violation is Decision.ESCALATE:
        parts = [approvers_in_words(source.escalate_to)] if source.escalate_to else []
        if source.approval_scope is not None:
            parts.append(f"A reviewer may allow at once: {source.approval_scope.in_words()}.")
        response = " ".join((response, *parts))
    if source.halts_tool:
        response = "A violation stops the tool, for everybody, until a person lifts the stop."
    return Wording(" ".join(filter(None, (scope, text, response))), atoms, coded)


def _rule(source: RuleSource, declared: Declarations) -> tuple[str, int, int]:
    if source.in_pack and source.message:
        return f"A rule of a pack against this: {source.message}", 1, 0
    if source.solver is not None:
        from guardagent.policy.solver.monitor import smt_text
        from guardagent.policy.words.solver import solver_words

        text, terms = solver_words(source.solver, smt_text(source.solver).text, declared)
        return text, terms.atoms, terms.coded
    if source.kind == "request":
        judge = f"the program {code(source.program.name)}" if source.program else "a model"
        return f"In every call, {judge} looks for this violation: {quoted(source.statements[0].text.strip())}.", 1, 0
    if source.cedar is not None:
        return f"Every call is one that Cedar permits by {code(source.cedar.policies.name)}.", 1, 0
    words = RuleWords()
    sentences = [words.sentence(read_rule(statement.text, declared)) for statement in source.statements]
    return " ".join(sentences), words.terms.atoms, words.terms.coded


def _applicability(scope: Applicability | None) -> str:
    if scope is None:
        return ""
    excluded = scope.excluded and _matched(scope.excluded)
    parts = [f"only {_matched(scope)}" if _matched(scope) else "", f"not {excluded}" if excluded else ""]
    return sentence(f"this holds {', but '.join(filter(None, parts))}")


def _matched(scope: Applicability) -> str:
    sets: Mapping[str, frozenset[str] | None] = {
        "for principals with the role": scope.roles,
        "for principals of the tenant": scope.tenants,
        "for calls of the agent": scope.agents,
    }
    return " and ".join(
        f"{words} {either([code(name) for name in sorted(names)])}" for words, names in sets.items() if names
    )
