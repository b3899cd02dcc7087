"""Generates the mutants of a policy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from guardagent.errors import InputError, name_hint
from guardagent.policy.file.rule_keys import RuleSource
from guardagent.policy.file.source_text import SourceText
from guardagent.policy.language.parser import read_rule
from guardagent.policy.language.rule_text import rule_text
from guardagent.policy.load import declarations_of
from guardagent.policy.mutants_pieces.constraints import script_variants, term_variants
from guardagent.policy.mutants_pieces.differences import difference
from guardagent.policy.mutants_pieces.mutant import Mutant, Mutants, single
from guardagent.policy.mutants_pieces.rules import RuleVariants
from guardagent.policy.mutants_pieces.scopes import scope_variants
from guardagent.policy.policies import Policies
from guardagent.policy.solver.compilation import smt_text
from guardagent.policy.solver.contexts import shared_contexts
from guardagent.policy.words.policy import source_in_words

LIMIT = 100

Variant = tuple[str, str, RuleSource]  # the change, the changed text, the changed policy


def mutants_of(policies: Policies, rule: str, *, limit: int = LIMIT) -> Mutants:
    """The mutants of a policy: each has one small change, and compiles. `on_violation:` stays.

    Where there are more than `limit`, every kind of change keeps its share, and the rest is counted in `left_out`.

    Args:
        policies: the loaded policies.
        rule: the id of the policy.
        limit: the greatest number of mutants.

    Raises:
        InputError: no policy has the id, or the policies come from no policy file.
    """
    declared = declarations_of(policies)
    source = source_of(policies, rule)
    if source.kind == "request":
        return Mutants(
            (), (f"policy {rule!r} is a request in natural language; only formulas and constraints have mutants",)
        )
    generator = _Generator(policies, source)
    with shared_contexts():
        return generator.mutants(source_in_words(source, declared).text, limit)


def source_of(policies: Policies, rule: str) -> RuleSource:
    """The policy with an id, as written.

    Raises:
        InputError: no policy has the id, or the policies come from no policy file.
    """
    declarations_of(policies)
    found = next((one for one in policies.source.rules if one.id == rule), None) if policies.source else None
    if found is None:
        raise InputError(f"no such policy {rule!r}{name_hint(rule, policies.ids)}")
    return found


class _Generator:
    def __init__(self, policies: Policies, source: RuleSource) -> None:
        self._policies, self._source = policies, source
        self._declared = replace(declarations_of(policies), scopes=source.scopes)

    def mutants(self, words: str, limit: int) -> Mutants:
        found: list[Mutant] = []
        seen, variants = {words}, self._interleaved()
        for at, (kind, text, source) in enumerate(variants):
            if len(found) >= limit:
                more = f"up to {len(variants) - at} more mutants: only {limit} were made"
                return Mutants(tuple(found), (more,))
            phrase = self._words(source)
            if phrase is None or phrase in seen:
                continue
            seen.add(phrase)
            alone = self._compiled(source)
            if alone is not None:
                found.append(Mutant(_head(kind), f"{kind}: {difference(words, phrase)}", text, source, alone))
        return Mutants(tuple(found))

    def _interleaved(self) -> list[Variant]:
        """All variants: the first of each kind, then the second of each, and so on."""
        numbers: Counter[str] = Counter()
        ranked = []
        for at, variant in enumerate(self._variants()):
            kind = _head(variant[0])
            numbers[kind] += 1
            ranked.append((numbers[kind], at, variant))
        return [variant for _, _, variant in sorted(ranked, key=lambda one: one[:2])]

    def _words(self, source: RuleSource) -> str | None:
        """The words of a variant; None if it does not parse."""
        try:
            return source_in_words(source, self._declared).text
        except InputError:
            return None

    def _compiled(self, source: RuleSource) -> Policies | None:
        try:
            return single(self._policies, source)
        except InputError:
            return None

    def _variants(self) -> Iterator[Variant]:
        source = self._source
        for kind, scope, text in scope_variants(source.applies_to):
            yield kind, text, replace(source, applies_to=scope)
        yield from self._formulas() if source.solver is None else self._constraints()

    def _formulas(self) -> Iterator[Variant]:
        source, rules = self._source, RuleVariants(self._policies.tags)
        for at, statement in enumerate(source.statements):
            rest = source.statements[:at] + source.statements[at + 1 :]
            if rest:
                yield "formula dropped", "", replace(source, statements=rest)
            for kind, changed in rules.variants(read_rule(statement.text, self._declared)):
                text = rule_text(changed)
                statements = (*source.statements[:at], _text(text, statement), *source.statements[at + 1 :])
                yield kind, text, replace(source, statements=statements, scopes=("",))

    def _constraints(self) -> Iterator[Variant]:
        source, solver = self._source, self._source.solver
        assert solver is not None
        written = smt_text(solver)
        for kind, text in script_variants(written.text):
            yield kind, text, replace(source, solver=replace(solver, smt=_text(text, written), smt_file=None))
        for name, tool in solver.tools.items():
            whole = [("permit dropped", "true")] if tool.permit.text.strip() != "true" else []
            for kind, text in (*whole, *term_variants(tool.permit.text.strip())):
                tools = {**solver.tools, name: replace(tool, permit=_text(text, tool.permit))}
                yield kind, text, replace(source, solver=replace(solver, tools=tools))


def _head(kind: str) -> str:
    """The kind of a change, without what it concerns."""
    return kind.partition(" (")[0]


def _text(text: str, place: SourceText) -> SourceText:
    """A text at the place of the one that it replaces."""
    return SourceText(text, place.path, place.line)
