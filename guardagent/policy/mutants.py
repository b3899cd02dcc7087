"""Mutants: policies with one small change of a rule that changes its meaning, for tests of a policy's cases.

Each variant is the kind of the change and the changed node, text, formula, rule or scope. Lint decides, as far as it
can, whether a mutant means the same as its rule: such a mutant asks for no case.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from itertools import takewhile
from typing import Any

from guardagent.errors import InputError, name_hint
from guardagent.policy.file.rule_keys import RuleSource
from guardagent.policy.file.source_tree import SourceText
from guardagent.policy.language import ast
from guardagent.policy.language import formula as f
from guardagent.policy.language.formula import MAX_BOUND
from guardagent.policy.language.parser import number_text, read_rule, rule_text
from guardagent.policy.lint.redundant import redundant_data, redundant_solver, redundant_steps
from guardagent.policy.lint.steps import SearchLimitError
from guardagent.policy.lint.target import LintTarget
from guardagent.policy.load import compile_policies, declarations_of, inspection_only
from guardagent.policy.policies import Policies
from guardagent.policy.scope import Scope
from guardagent.policy.solver.monitor import smt_text
from guardagent.policy.solver.script import SExprReader, parts_of
from guardagent.policy.solver.sources import shared_contexts
from guardagent.policy.words import source_in_words

# --- conditions, values and call patterns

TermVariants = Iterator[tuple[str, Any]]

_BOUNDARY = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
_FEW = 8  # items of a list or a set of tools that are left out, one at a time


class ConditionVariants:
    """Changes one place of a condition at a time.

    Args:
        tags: the sets of tools.
    """

    def __init__(self, tags: Mapping[str, frozenset[str]]) -> None:
        self._tags = tags

    def condition(self, node: Any) -> TermVariants:
        """The variants of a condition, without the one that drops it as a whole."""
        match node:
            case ast.And(parts) | ast.Or(parts):
                yield from self._joined(node, parts)
            case ast.Negation(body):
                yield "condition negated", body
                for kind, changed in self.condition(body):
                    if kind != "condition negated":
                        yield kind, ast.Negation(changed)
            case ast.Implies(first, second):
                yield "premise dropped", second
                yield from ((kind, ast.Implies(variant, second)) for kind, variant in self.condition(first))
                yield from ((kind, ast.Implies(first, variant)) for kind, variant in self.condition(second))
            case ast.Constant():
                return
            case _:
                yield "condition negated", _negated(node)
                yield from self.value(node)

    def _joined(self, node: ast.And | ast.Or, parts: tuple[Any, ...]) -> TermVariants:
        join, other = (ast.And, ast.Or) if isinstance(node, ast.And) else (ast.Or, ast.And)
        for at in range(len(parts)):
            rest = parts[:at] + parts[at + 1 :]
            yield "condition dropped", rest[0] if len(rest) == 1 else join(rest)
        yield ("or in place of and" if join is ast.And else "and in place of or"), other(parts)
        for at, part in enumerate(parts):
            yield from ((kind, join(_put(parts, at, variant))) for kind, variant in self.condition(part))

    def dropped(self, node: Any) -> TermVariants:
        """The variants of a condition, and `true` in its place."""
        if node in (ast.TRUE, ast.And(())):
            return
        if not isinstance(node, ast.And):
            yield "condition dropped", ast.TRUE
        yield from self.condition(node)

    # --- values

    def value(self, node: Any) -> TermVariants:
        """The variants of a value: of itself, then of its parts."""
        yield from self._own(node)
        for member in fields(node):
            if isinstance(node, ast.Item) and member.name == "index":
                continue
            yield from self._part(node, member.name, getattr(node, member.name))

    def _part(self, node: Any, name: str, value: Any) -> TermVariants:
        for at, child in enumerate(value if isinstance(value, tuple) else (value,)):
            if not hasattr(child, "__dataclass_fields__") or isinstance(child, ast.Place):
                continue
            for kind, changed in self._child(name, child):
                yield kind, replace(node, **{name: _put(value, at, changed) if isinstance(value, tuple) else changed})

    def _child(self, name: str, child: Any) -> TermVariants:
        if name == "condition":
            return self.dropped(child)
        if name == "within" and isinstance(child, ast.Constant):
            return (("limit moved", ast.Constant(limit)) for limit in _near(child.value))
        if isinstance(child, ast.Pattern):
            return self.pattern(child)
        return self.condition(child) if isinstance(child, ast.And | ast.Or | ast.Implies) else self.value(child)

    def _own(self, node: Any) -> TermVariants:  # noqa: C901 - a case for each kind
        match node:
            case ast.Compare(left, operator, right):
                if operator in _BOUNDARY:
                    yield "limit moved", ast.Compare(left, _BOUNDARY[operator], right)  # type: ignore[arg-type]
            case ast.Constant(int() | Fraction() as value) if not isinstance(value, bool):
                near = _near(value, 86_400 if value and value % 86_400 == 0 else None)  # a date has no seconds
                yield from (("limit moved", ast.Constant(limit)) for limit in near)
            case ast.ListOf(items) | ast.SetOf(items) if len(items) > 1:
                for at in range(min(len(items), _FEW)):
                    yield "item left out", type(node)(items[:at] + items[at + 1 :])
            case ast.OverItems(which) if which != "count":
                yield "quantifier changed", replace(node, which="any" if which == "all" else "all")
            case ast.Selected(which):
                yield "another call", replace(node, which="last" if which == "first" else "first")
            case ast.CountCalls() | ast.SumCalls() | ast.SomeCall() if node.within is not None:
                yield "window dropped", replace(node, within=None)
            case ast.Seen(labels) if len(labels) > 1:
                for at in range(len(labels)):
                    yield "label left out", ast.Seen(labels[:at] + labels[at + 1 :])

    # --- patterns

    def pattern(self, node: ast.Pattern) -> TermVariants:
        """The variants of a pattern of calls."""
        for tool, tools in self._fewer(node.tools):
            yield f"tool left out ({tool})", replace(node, tools=tools)
        for at, argument in enumerate(node.arguments):
            rest = node.arguments[:at] + node.arguments[at + 1 :]
            yield f"argument dropped ({argument.name})", replace(node, arguments=rest)
            value = argument.value
            if isinstance(value, ast.ExactValue) and not isinstance(value.value, str | bool):
                for limit in _near(value.value):
                    changed = ast.Argument(argument.name, ast.ExactValue(limit))
                    yield "limit moved", replace(node, arguments=_put(node.arguments, at, changed))

    def _fewer(self, tools: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Each tool, and the tools without it; a set is replaced by its other members."""
        for at, tool in enumerate(tools):
            others = tools[:at] + tools[at + 1 :]
            members = sorted(self._tags.get(tool[1:], ())) if tool.startswith("@") else []
            if others:
                yield tool, others
            for member in members[:_FEW] if len(members) > 1 else ():
                yield member, (*others, *(other_member for other_member in members if other_member != member))


def _negated(node: Any) -> Any:
    if isinstance(node, ast.Compare) and node.operator in ast.OPPOSITE:
        return ast.Compare(node.left, ast.OPPOSITE[node.operator], node.right)
    return ast.Negation(node)


def _near(value: int | Fraction, unit: int | Fraction | None = None) -> tuple[int | Fraction, int | Fraction]:
    """The numbers one unit, by default of the last decimal, above and below."""
    places = 0
    while Fraction(value).denominator > 1 and (value * 10**places).denominator > 1 and places < 18:
        places += 1
    unit = unit or Fraction(1, 10**places)
    return _plain(value + unit), _plain(value - unit)


def _plain(value: int | Fraction) -> int | Fraction:
    return int(value) if Fraction(value).denominator == 1 else value


def _put(items: tuple[Any, ...], at: int, item: Any) -> tuple[Any, ...]:
    return (*items[:at], item, *items[at + 1 :])


# --- SMT-LIB text

TextVariants = Iterator[tuple[str, str]]

_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_PREDICATES = ("=", "distinct", *_BOUNDARY)


def script_variants(text: str) -> TextVariants:
    """Changes one place of one assertion at a time."""
    for form in SExprReader(text).forms:
        if text[form.parts[0].start : form.parts[0].end] != "assert":
            continue
        yield "constraint dropped", text[: form.start] + text[form.end :]
        term = form.parts[1]
        for kind, changed in term_variants(text[term.start : term.end]):
            yield kind, text[: term.start] + changed + text[term.end :]


def term_variants(text: str) -> TextVariants:
    """Changes one place of a term at a time."""
    if _NUMBER.fullmatch(text):
        yield from (("limit moved", limit) for limit in _near_text(text))
    if not text.startswith("("):
        return
    parts = parts_of(text)
    words = [text[part.start : part.end] for part in parts]
    yield from _script_changes(words[0], words[1:])
    for part, word in list(zip(parts, words, strict=True))[1:]:
        for kind, changed in term_variants(word):
            yield kind, text[: part.start] + changed + text[part.end :]


def _script_changes(head: str, parts: list[str]) -> TextVariants:
    if head in _BOUNDARY:
        yield "limit moved", f"({_BOUNDARY[head]} {' '.join(parts)})"
    if head in _PREDICATES:
        yield "condition negated", f"(not ({head} {' '.join(parts)}))"
    if head == "not":
        yield "condition negated", parts[0]
    if head == "=>":
        yield "premise dropped", parts[-1]
    if head in ("and", "or"):
        for at in range(len(parts)):
            rest = parts[:at] + parts[at + 1 :]
            yield "condition dropped", rest[0] if len(rest) == 1 else f"({head} {' '.join(rest)})"
        other = "or" if head == "and" else "and"
        yield f"{other} in place of {head}", f"({other} {' '.join(parts)})"


def _near_text(text: str) -> tuple[str, ...]:
    """The numbers one unit of the last decimal above and below; SMT-LIB writes no negative ones."""
    digits = len(text.partition(".")[2].rstrip("0"))
    near = [Fraction(text) + sign * Fraction(1, 10**digits) for sign in (1, -1)]
    return tuple(_written(number, decimal="." in text) for number in near if number >= 0)


def _written(value: Fraction, *, decimal: bool) -> str:
    text = number_text(int(value) if value.denominator == 1 else value)
    return f"{text}.0" if decimal and "." not in text else text


# --- the changed words of two sentences

_WORD = re.compile(r"`+[^`]*`+[,.;]?|\"(?:[^\"\\]|\\.)*\"[,.;]?|[^\s`\"]+")
_TOKEN = re.compile(r"\"(?:[^\"\\]|\\.)*\"|[\w.]+|[^\s\w\"]")  # of a formula
_AROUND = {_WORD: 3, _TOKEN: 5}  # unchanged parts that are shown on both sides


def difference(before: str, after: str, parts: re.Pattern[str] = _WORD) -> str:
    """The changed part of a sentence, with some words around it: `«is at most 5.» becomes «is at most 6.»`."""
    old, new = list(parts.finditer(before)), list(parts.finditer(after))
    same = _common(old, new)
    rest = min(_common(old[::-1], new[::-1]), min(len(old), len(new)) - same)
    around = max(0, same - _AROUND[parts]), max(0, rest - _AROUND[parts])
    return f"«{_shown(before, old, *around)}» becomes «{_shown(after, new, *around)}»"


def _common(matches: Sequence[re.Match[str]], other: Sequence[re.Match[str]]) -> int:
    return sum(1 for _ in takewhile(lambda both: both[0][0] == both[1][0], zip(matches, other, strict=False)))


def _shown(text: str, words: Sequence[re.Match[str]], start: int, rest: int) -> str:
    end = len(words) - rest
    excerpt = text[words[start].start() : words[end - 1].end()] if start < end else ""
    return f"{'… ' if start else ''}{excerpt}{' …' if rest else ''}"


# --- mutants


@dataclass(frozen=True, slots=True)
class Mutant:
    """A policy with one small change.

    Attributes:
        kind: the kind of the change, such as `limit moved`.
        description: the change in words.
        text: the changed formula, SMT-LIB text or scope.
        change: the part of it that differs, as it was and as it is: `«x <= 5)» becomes «x < 5)»`. Of a tool that is
            left out, its name.
        source: the changed policy, with the same id and response.
        policies: the changed policy without the others of its file; it allows unlisted calls.
    """

    kind: str
    description: str
    text: str
    change: str
    source: RuleSource
    policies: Policies = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Mutants:
    """The mutants of a policy.

    Attributes:
        mutants: the changed rules.
        left_out: what was left out, and why.
    """

    mutants: tuple[Mutant, ...]
    left_out: tuple[str, ...] = ()


def single(policies: Policies, source: RuleSource) -> Policies:
    """One policy of a file, compiled without the others. It allows unlisted calls.

    Raises:
        InputError: the policy is invalid.
    """
    return compiled(policies, (source,))


def compiled(policies: Policies, rules: tuple[RuleSource, ...]) -> Policies:
    """Some policies of a file, compiled with its names. They allow unlisted calls.

    Raises:
        InputError: a policy is invalid, or the policies come from no file.
    """
    file = policies.source
    assert file is not None, "the caller has read the rules from the file"
    some = replace(file, rules=rules, unlisted="allow", ignored=())
    return compile_policies(some, policies.functions, inspection_only)


# --- propositional rules

ChangedFormulas = Iterator[tuple[str, f.Formula]]


def formula_variants(formula: f.Formula) -> ChangedFormulas:
    """Changes one place of a formula at a time."""
    yield from _formula_changes(formula)
    for child, rebuilt in _parts(formula):
        yield from ((kind, rebuilt(changed)) for kind, changed in formula_variants(child))


def _formula_changes(formula: f.Formula) -> ChangedFormulas:
    match formula:
        case f.Literal(atom, positive):
            yield "step negated", f.Literal(atom, not positive)
        case f.Conjunction(parts) | f.Disjunction(parts):
            join, other = (f.all_of, f.any_of) if isinstance(formula, f.Conjunction) else (f.any_of, f.all_of)
            for part in sorted(parts, key=repr):
                yield "condition dropped", join(parts - {part})
            yield ("or in place of and" if join is f.all_of else "and in place of or"), other(parts)
        case f.Within(steps, body):
            near = (bound for bound in (steps + 1, steps - 1) if 1 <= bound <= MAX_BOUND)
            yield from (("limit moved", f.Within(bound, body)) for bound in near)
        case f.Release(f.TruthConstant(False), body):
            yield "once in place of always", f.finally_(body)
        case f.Until(f.TruthConstant(True), body):
            yield "always in place of once", f.globally(body)
        case f.Since(f.TruthConstant(True), body):
            yield "earlier step dropped", f.TRUE
            yield "the step before in place of any earlier one", f.Previous(body)
        case f.Until(_, right):
            yield "condition dropped", f.finally_(right)
        case f.Since(_, right):
            yield "condition dropped", f.once(right)


Rebuilt = Callable[[f.Formula], f.Formula]


def _parts(formula: f.Formula) -> Iterator[tuple[f.Formula, Rebuilt]]:
    """Each part, and the function that puts another formula in its place."""
    match formula:
        case f.Conjunction(parts) | f.Disjunction(parts):
            join = f.all_of if isinstance(formula, f.Conjunction) else f.any_of
            for part in sorted(parts, key=repr):
                yield part, lambda replacement, part=part: join([*(parts - {part}), replacement])  # type: ignore[misc]
        case f.Next(body, strong) | f.Previous(body, strong):
            yield body, lambda replacement: type(formula)(replacement, strong)
        case f.Within(steps, body):
            yield body, lambda replacement: f.Within(steps, replacement)
        case f.Until(left, right) | f.Release(left, right) | f.Since(left, right) | f.TriggerFormula(left, right):
            if not isinstance(left, f.TruthConstant):
                yield left, lambda replacement: type(formula)(replacement, right)
            yield right, lambda replacement: type(formula)(left, replacement)


# --- formulas

ChangedRules = Iterator[tuple[str, ast.Rule]]


class RuleVariants:
    """Changes one place of a formula at a time.

    Args:
        tags: the sets of tools.
    """

    def __init__(self, tags: Mapping[str, frozenset[str]]) -> None:
        self._conditions = ConditionVariants(tags)

    def variants(self, rule: ast.Rule) -> ChangedRules:
        match rule:
            case ast.Temporal(formula):
                yield from ((kind, ast.Temporal(variant)) for kind, variant in formula_variants(formula))
            case ast.AllOf(parts) | ast.AnyOf(parts):
                yield from self._joined(rule, parts)
            case ast.Not(body):
                yield "rule negated", body
                yield from ((kind, ast.Not(variant)) for kind, variant in self.variants(body))
            case ast.Forall() | ast.Exists() | ast.Before() | ast.After():
                yield from self._turned(rule)
                yield from self._patterns(rule)
                yield from self._changed(rule)

    def _joined(self, rule: ast.AllOf | ast.AnyOf, parts: tuple[ast.Rule, ...]) -> ChangedRules:
        for at in range(len(parts)):
            rest = parts[:at] + parts[at + 1 :]
            yield "formula dropped", rest[0] if len(rest) == 1 else replace(rule, parts=rest)
        yield (
            "or in place of and" if isinstance(rule, ast.AllOf) else "and in place of or",
            (ast.AnyOf(parts) if isinstance(rule, ast.AllOf) else ast.AllOf(parts)),
        )
        for at, part in enumerate(parts):
            for kind, variant in self.variants(part):
                yield kind, replace(rule, parts=(*parts[:at], variant, *parts[at + 1 :]))

    def _turned(self, rule: ast.Rule) -> ChangedRules:
        """`before` and `after` in place of each other, and the two calls of `before` exchanged."""
        match rule:
            case ast.Before(pattern, condition, partner, partner_condition):
                yield "after in place of before", ast.After(pattern, condition, partner, partner_condition)
                yield "calls exchanged", ast.Before(partner, partner_condition, pattern, condition)
            case ast.After(pattern, condition, partner, partner_condition):
                yield "before in place of after", ast.Before(pattern, condition, partner, partner_condition)

    def _patterns(self, rule: ast.Forall | ast.Exists | ast.Before | ast.After) -> ChangedRules:
        for kind, pattern in self._conditions.pattern(rule.pattern):
            yield kind, replace(rule, pattern=pattern)
        if isinstance(rule, ast.Before | ast.After):
            for kind, pattern in self._conditions.pattern(rule.partner):
                yield kind, replace(rule, partner=pattern)

    def _changed(self, rule: ast.Forall | ast.Exists | ast.Before | ast.After) -> ChangedRules:
        if isinstance(rule, ast.Forall) and rule.condition == ast.Constant(value=False):
            yield "condition dropped", replace(rule, condition=ast.TRUE)
        for kind, condition in self._conditions.dropped(rule.condition):
            yield kind, replace(rule, condition=condition)
        if isinstance(rule, ast.Before | ast.After):
            for kind, condition in self._conditions.dropped(rule.partner_condition):
                yield kind, replace(rule, partner_condition=condition)


# --- scopes

_SETS = {"roles": "role", "tenants": "tenant", "agents": "agent"}


def scope_variants(scope: Scope | None) -> Iterator[tuple[str, Scope | None, str]]:
    """Leaves out one role, tenant or agent at a time, and the exclusion."""
    if scope is None:
        return
    for attribute, word in _SETS.items():
        names = getattr(scope, attribute) or ()
        for name in sorted(names):
            changed = replace(scope, **{attribute: frozenset(names) - {name} or None})  # type: ignore[arg-type]  # a set
            yield f"{word} dropped", _or_none(changed), f"without the {word} {name}"
    if scope.excluded is not None:
        yield "exclusion dropped", _or_none(replace(scope, excluded=None)), "without 'not'"


def _or_none(scope: Scope) -> Scope | None:
    return None if scope == Scope() else scope


# --- the mutants of a policy

LIMIT = 100

Variant = tuple[str, str, str, RuleSource]  # the change, the text before and after, the changed policy


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
    if source.kind in ("request", "cedar"):
        kind = "a request in natural language" if source.kind == "request" else "in Cedar"
        return Mutants((), (f"policy {rule!r} is {kind}; only formulas and constraints have mutants",))
    generator = _Generator(policies, source)
    with shared_contexts():
        return generator.mutants(source_in_words(source, declared).text, limit)


def source_of(policies: Policies, rule: str) -> RuleSource:
    """The policy with an id, as written.

    Raises:
        InputError: no policy has the id, or the policies come from no policy file.
    """
    declarations_of(policies)
    source = (
        next((rule_source for rule_source in policies.source.rules if rule_source.id == rule), None)
        if policies.source
        else None
    )
    if source is None:
        raise InputError(f"no such policy {rule!r}{name_hint(rule, policies.ids)}")
    return source


class _Generator:
    def __init__(self, policies: Policies, source: RuleSource) -> None:
        self._policies, self._source = policies, source
        self._declared = replace(declarations_of(policies), scopes=source.scopes)

    def mutants(self, words: str, limit: int) -> Mutants:
        mutants: list[Mutant] = []
        seen, variants = {words}, self._interleaved()
        for at, (kind, before, text, source) in enumerate(variants):
            if len(mutants) >= limit:
                more = f"up to {len(variants) - at} more mutants: only {limit} were made"
                return Mutants(tuple(mutants), (more,))
            phrase = self._words(source)
            if phrase is None or phrase in seen:
                continue
            seen.add(phrase)
            alone = self._compiled(source)
            if alone is not None:
                tool = kind.partition("left out (")[2].removesuffix(")")
                change = tool or (difference(before, text, _TOKEN) if before and text else text)
                mutants.append(Mutant(_head(kind), f"{kind}: {difference(words, phrase)}", text, change, source, alone))
        return Mutants(tuple(mutants))

    def _interleaved(self) -> list[Variant]:
        """All variants: the first of each kind, then the second of each, and so on."""
        numbers: Counter[str] = Counter()
        ranked = []
        for at, variant in enumerate(self._variants()):
            kind = _head(variant[0])
            numbers[kind] += 1
            ranked.append((numbers[kind], at, variant))
        return [variant for _, _, variant in sorted(ranked, key=lambda entry: entry[:2])]

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
            yield kind, "", text, replace(source, applies_to=scope)
        yield from self._formulas() if source.solver is None else self._constraints()

    def _formulas(self) -> Iterator[Variant]:
        source, rules = self._source, RuleVariants(self._policies.tags)
        for at, statement in enumerate(source.statements):
            rest = source.statements[:at] + source.statements[at + 1 :]
            if rest:
                yield "formula dropped", "", statement.text, replace(source, statements=rest)
            rule = read_rule(statement.text, self._declared)
            before = rule_text(rule)
            for kind, changed in rules.variants(rule):
                text = rule_text(changed)
                statements = (*source.statements[:at], _text(text, statement), *source.statements[at + 1 :])
                yield kind, before, text, replace(source, statements=statements, scopes=("",))

    def _constraints(self) -> Iterator[Variant]:
        source, solver = self._source, self._source.solver
        assert solver is not None
        written = smt_text(solver)
        for kind, text in script_variants(written.text):
            smt = replace(solver, smt=_text(text, written), smt_file=None)
            yield kind, written.text, text, replace(source, solver=smt)
        for name, tool in solver.tools.items():
            permit = tool.permit.text.strip()
            whole = [("permit dropped", "true")] if permit != "true" else []
            for kind, text in (*whole, *term_variants(permit)):
                tools = {**solver.tools, name: replace(tool, permit=_text(text, tool.permit))}
                yield kind, permit, text, replace(source, solver=replace(solver, tools=tools))


def _head(kind: str) -> str:
    """The kind of a change, without what it concerns."""
    return kind.partition(" (")[0]


def _text(text: str, place: SourceText) -> SourceText:
    """A text at the place of the one that it replaces."""
    return SourceText(text, place.path, place.line)


# --- equivalence

SECONDS = 0.5  # of CPU: a mutant that is not proved to be equivalent only asks for another case
_CHECKS = (redundant_steps, redundant_data, redundant_solver)


def is_equivalent(policies: Policies, source: RuleSource, mutant: Mutant) -> bool:
    """Whether it is proved that a mutant means the same as its rule.

    Args:
        policies: the policies with the rule.
        source: the rule as written.
        mutant: one of its mutants.
    """
    rules = (source, replace(mutant.source, id=f"{source.id} (mutant)"))
    both = compiled(policies, rules)
    assert both.source is not None, "they were compiled from a file"
    target = LintTarget(both.source, both.functions, both, end=time.thread_time() + SECONDS)
    try:
        return any(finding.kind == "duplicate" for check in _CHECKS for finding in check(target))
    except SearchLimitError:
        return False
