"""The checks of a draft and of the assembled policy, each a generator of problems with a name.

Every check in `CHECKS` is run. Another package registers a module with `check`, and
`WHOLE_POLICY = True` for a check of the assembled policy.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from guardagent._support.plugins import Plugins
from guardagent.batch.cases import calls_of
from guardagent.batch.records import Case
from guardagent.batch.survivors import Survivors, concerns_the_end
from guardagent.errors import name_hint
from guardagent.policy.documents import Sentence
from guardagent.policy.documents.sentences import find_quote, word_count
from guardagent.policy.equivalence.phrases import schema_of
from guardagent.policy.equivalence.places import ITEMS, Place, PlaceComparison
from guardagent.policy.language import ast
from guardagent.policy.language.parser import unknown_arguments
from guardagent.policy.logic.lowering import as_json
from guardagent.policy.logic.search import choices, schema_allows
from guardagent.policy.monitors.rule import Rule
from guardagent.policy.solver.monitor import SolverMonitor
from guardagent.policy.solver.sources import ExpressionSource
from guardagent.translation.drafts import Draft, Problem, RuleDraft
from guardagent.translation.examination.examined import (
    ExaminedDraft,
    ExaminedPolicy,
    ExaminedRule,
    Schema,
    ToolShapes,
    disagreement,
    judged_cases,
    lint_problems,
    missing_fields,
    problem_of,
    segments,
)
from guardagent.translation.samples import ShapePath, ToolSamples
from guardagent.translation.tools import ToolSchema, writing_tools

Check = Callable[[Any], Iterator[Problem]]


@dataclass(frozen=True, slots=True)
class DraftCheck:
    """A check.

    Attributes:
        find: yields the problems of an `ExaminedDraft`, or of an `ExaminedPolicy` if `whole_policy`.
        whole_policy: whether it is of the assembled policy: no draft is checked.
    """

    find: Check
    whole_policy: bool = False


def check_syntax(examined: ExaminedDraft) -> Iterator[Problem]:
    """Finds every rule and declaration that does not load, not only the first. All of them are fatal."""
    loaded, everywhere = examined.loaded, examined.draft.sentences
    if loaded.frame_problem:
        text = f"no rule can load, since the rest of the policy file is wrong: {loaded.frame_problem}"
        yield Problem("syntax", text, sentences=everywhere, fatal=True)
        return
    for name, problem in loaded.declarations.items():
        users = [rule for rule in examined.draft.rules if _uses_broken(rule, {name: problem})]
        about = {number for rule in users for number in rule.quotes}
        sentences = tuple(sorted(about & {*everywhere} or about or everywhere))
        yield Problem("syntax", f"a declaration does not load: {problem}", sentences=sentences, fatal=True)
    wrong = [(rule, problem) for rule, (_, problem) in zip(examined.draft.rules, loaded.rules, strict=True) if problem]
    for rule, problem in wrong:
        if not _uses_broken(rule, loaded.declarations):
            yield problem_of(rule, "syntax", f"the rule does not load: {problem}", fatal=True)
    ids = {rule.id for rule in examined.draft.rules}
    if loaded.problem and len(ids) == len(examined.draft.rules):  # `sentences` reports an id of two rules
        text = f"each rule loads, but not all of them together: {loaded.problem}"
        yield Problem("syntax", text, sentences=everywhere, fatal=True)


def _uses_broken(rule: RuleDraft, declarations: Mapping[str, str]) -> bool:
    """Whether a rule names a declaration that does not load, so that its own error says nothing."""
    names = [re.split(r"\W", key.partition(".")[2], maxsplit=1)[0] for key in declarations]
    text = str(rule.rule)
    return any(re.search(rf"\b{name}\b", text) for name in names if name)


_RULE_ID = re.compile(r"[a-z][a-z0-9_]*")


def check_sentences(examined: ExaminedDraft) -> Iterator[Problem]:
    """Finds sentences without a rule, a reason or an ambiguity, and rules without an id of their own or a message.

    Ids that are unusable are fatal.
    """
    draft = examined.draft
    ids = Counter(rule.id for rule in draft.rules)
    for name in (name for name, count in ids.items() if count > 1):
        yield Problem("id", f"{ids[name]} rules have the id {name!r:.100}; expected each id once", name, fatal=True)
    for rule in draft.rules:
        yield from _malformed(rule, draft)
    yield from _uncovered_sentences(draft)


def _malformed(rule: RuleDraft, draft: Draft) -> Iterator[Problem]:
    if not _RULE_ID.fullmatch(str(rule.id)):
        text = f"the id {rule.id!r:.100} is unusable; expected small letters, digits and '_', such as 'refund_limit'"
        yield problem_of(rule, "id", text, fatal=True)
    if rule.quotes and not set(rule.quotes) & set(draft.sentences):
        numbers = ", ".join(map(str, draft.sentences))
        text = f"the rule rests on none of the sentences to translate, which are {numbers}"
        yield problem_of(rule, "sentence", text)
    if not str(rule.rule.get("message") or "").strip():
        yield problem_of(rule, "message", "the rule has no 'message'; expected what people read when it is violated")


def _uncovered_sentences(draft: Draft) -> Iterator[Problem]:
    covered = {number for rule in draft.rules for number in rule.quotes}
    covered |= {number for number, reason in draft.declined.items() if reason.strip()}
    covered |= {ambiguity.sentence for ambiguity in draft.ambiguities}
    for number in draft.sentences:
        if number not in covered:
            text = f"sentence {number} has no rule, no reason why it has none, and no ambiguity; expected one of them"
            yield Problem("sentence", text, sentences=(number,))


_SHORTEST = 3  # words of a quote


def check_grounding(examined: ExaminedDraft) -> Iterator[Problem]:
    """Finds rules without a quote of the document, and quotes that do not stand in their sentence.

    Fatal for a rule without any quote that is found.
    """
    sentences = examined.context.document.sentences
    texts = ["\n".join((*sentence.path, *sentence.context, sentence.text)) for sentence in sentences]
    for rule in examined.draft.rules:
        problems = [
            text for number, quote in rule.quotes.items() if (text := _quote_problem(number, quote, sentences, texts))
        ]
        is_lost = not any(_is_quoted_from(quote, number, texts) for number, quote in rule.quotes.items())
        if not rule.quotes:
            problems = ["the rule quotes no sentence; expected the words of the document that it rests on"]
        for text in problems:
            yield problem_of(rule, "grounding", text, fatal=is_lost)


def _quote_problem(number: int, quote: str, sentences: Sequence[Sentence], texts: Sequence[str]) -> str:
    """The problem with a quote; empty if there is none."""
    if not _is_quoted_from(quote, number, texts):
        others = [at for at in range(1, len(texts) + 1) if _is_quoted_from(quote, at, texts)]
        if others:
            return f"the quote {quote!r:.200} stands in sentence {others[0]}, not in sentence {number}"
        words = sentences[number - 1].text
        return f"the quote {quote!r:.200} is not in sentence {number}; expected words of {words!r:.300}"
    sentence = sentences[number - 1]
    if word_count(quote) < min(_SHORTEST, word_count(sentence.text)) and not _is_of_cells(quote, sentence):
        return f"the quote {quote!r:.200} of sentence {number} is too short; expected at least {_SHORTEST} of its words"
    return ""


def _is_of_cells(quote: str, row: Sentence) -> bool:
    """Whether a quote consists of whole cells of a row, which are short by themselves."""
    cells = {tuple(cell.casefold().split()) for cell in row.text.split("|")} if row.kind == "row" else set()
    return {tuple(part.casefold().split()) for part in re.split(r"[|\n]", quote)} <= cells


def _is_quoted_from(quote: str, number: int, texts: Sequence[str]) -> bool:
    """Whether the parts of a quote stand in a sentence."""
    return bool(find_quote(texts[number - 1], quote))


_OF_SORTS = {"Int": 0, "Real": 0, "Bool": True}  # a value of each sort; all others have strings


def check_arguments(examined: ExaminedDraft) -> Iterator[Problem]:
    """Finds arguments that a tool does not have, which are fatal, and values that contradict its schema."""
    shapes = examined.shapes
    signatures = {tool.name: shapes.arguments(tool.name) for tool in examined.context.tools}
    for rule in examined.rules:
        reads = [read for rule in rule.policies.rules for read in rule.rules]
        problems = [
            argument.problem for read in reads for argument in unknown_arguments(read, rule.policies.tags, signatures)
        ]
        for text in dict.fromkeys([*problems, *_unknown_in_cases(rule, shapes)]):
            yield problem_of(rule.draft, "argument", text, fatal=True)
        for text in dict.fromkeys([*_contradictions(rule, shapes), *_sort_contradictions(rule, shapes)]):
            yield problem_of(rule.draft, "type", text)


def _unknown_in_cases(rule: ExaminedRule, shapes: ToolShapes) -> Iterator[str]:
    for case in rule.cases:
        for call in calls_of(case.case) if case.case is not None else ():
            known = shapes.arguments(call.tool) if call.tool else None
            for name in call.args if known is not None else ():
                if known is not None and name not in known:
                    yield f"a case has an unknown argument {name!r} of {call.tool!r}{name_hint(name, known)}"


def _contradictions(rule: ExaminedRule, shapes: ToolShapes) -> Iterator[str]:
    for comparison in rule.places.comparisons:
        if comparison.place[0] in ("args", "output"):
            schemas = shapes.schemas(comparison.place)
            if schemas and not any(_may_hold(comparison, schema) for schema in schemas):
                known = f"{_place_name(comparison.place)} {_described(schemas)}"
                yield f"{_comparison(comparison)}, but {known}; compare it with one of its values"


def _may_hold(place_comparison: PlaceComparison, schema: Schema) -> bool:
    """Whether a comparison does not contradict a schema; an ordered one only has to be of its type."""
    if place_comparison.operator in ("==", "!="):
        return schema_allows(schema, as_json(place_comparison.constant)) is not False
    return _has_type(schema, "" if place_comparison.operator == "matches" else as_json(place_comparison.constant))


def _has_type(schema: Schema, value: Any) -> bool:
    of_choices = choices(schema)
    if of_choices is not None:
        return any(isinstance(choice, str) is isinstance(value, str) for choice in of_choices)
    return schema_allows({"type": schema["type"]} if "type" in schema else {}, value) is not False


def _sort_contradictions(rule: ExaminedRule, shapes: ToolShapes) -> Iterator[str]:
    """Variables of a solver rule whose sort contradicts the schema of their argument."""
    monitors = [monitor for monitor in rule.policies.monitors if isinstance(monitor, SolverMonitor)]
    for tool, permit in (pair for monitor in monitors for pair in monitor.checks.items()):
        for variable in permit.variables:
            if isinstance(variable.source, ExpressionSource) and variable.source.argument is not None:
                place = ("args", tool, variable.source.argument)
                schemas, value = shapes.schemas(place), _OF_SORTS.get(variable.sort.name, "")
                if schemas and not any(_has_type(schema, value) for schema in schemas):
                    yield (
                        f"the variable {variable.name!r} has the sort {variable.sort.name}, but {_place_name(place)} "
                        f"{_described(schemas)}; expected a sort of such values"
                    )


def _place_name(place: Place) -> str:
    return f"{'the argument' if place[0] == 'args' else 'the output'} {'.'.join(place[2:])!r} of {place[1]!r}"


def _comparison(comparison: PlaceComparison) -> str:
    constant = comparison.constant if comparison.operator == "matches" else as_json(comparison.constant)
    return f"{'.'.join(comparison.place[2:])} {comparison.operator} {constant!r:.100}"


def _described(schemas: Sequence[Schema]) -> str:
    """The allowed values or types of a place."""
    values = [value for schema in schemas for value in choices(schema) or ()]
    if values:
        return f"is one of {', '.join(map(repr, values[:20]))}"
    types = {str(kind) for schema in schemas for kind in _listed(schema.get("type"))}
    return f"is of the type {' or '.join(sorted(types))}" if types else "has a schema without such values"


def _listed(kind: Any) -> Sequence[Any]:
    return kind if isinstance(kind, list | tuple) else [kind] if kind else []


_Keys = tuple[str, ...]


def check_facts(examined: ExaminedDraft) -> Iterator[Problem]:
    """Finds facts and state that nobody declares: the host would not give them, and every call would be denied.

    All of them are fatal.
    """
    known = {"fact": _KnownFacts(examined, "fact"), "state": _KnownFacts(examined, "state")}
    for rule in examined.rules:
        places = [read_place for read_place in rule.places.reads if read_place[0] in known and len(read_place) > 1]
        for place in places:
            if not _is_outer(place, places) and not known[place[0]].has(place[1:]):
                name = ".".join(part for part in place[1:] if part != ITEMS)
                name = f"state.{name}" if place[0] == "state" else name
                text = (
                    f"the rule reads {'the fact' if place[0] == 'fact' else 'the state'} {name!r}, which is not "
                    f"declared; declare it under 'facts', with a description, or use another one"
                    f"{name_hint(name, known[place[0]].names)}"
                )
                yield problem_of(rule.draft, "fact", text, fatal=True)


class _KnownFacts:
    """The declared and recorded facts, or the state."""

    def __init__(self, examined: ExaminedDraft, kind: str) -> None:
        declared = [*(fact.name for fact in examined.context.facts), *(fact.name for fact in examined.draft.facts)]
        samples = examined.context.samples
        paths = () if samples is None else samples.facts if kind == "fact" else samples.state
        self._declared = [segments(name.removeprefix("state.") if kind == "state" else name) for name in declared]
        self._shown = _with_values(paths)
        self.names = {*declared, *(".".join(shown_keys) for shown_keys in self._shown if ITEMS not in shown_keys)}

    def has(self, keys: _Keys) -> bool:
        """Whether a path, one within it or one around it is known."""
        if any(keys[: len(known_keys)] == known_keys[: len(keys)] for known_keys in self._declared if known_keys):
            return True
        is_begun = any(shown_keys[0] in (keys[0], "*") for shown_keys in self._shown)
        return is_begun and all(missing_fields(self._shown, keys[:at]) is None for at in range(1, len(keys) + 1))


def _with_values(paths: tuple[ShapePath, ...]) -> Mapping[_Keys, ShapePath]:
    """The paths that have a value somewhere; every case has an empty `context` and an unknown `user_confirmed`."""
    shown = {segments(path.path): path for path in paths if path.types != ("null",)}
    if not any(shown_keys[0] == "context" and len(shown_keys) > 1 for shown_keys in shown if shown_keys):
        shown.pop(("context",), None)
    return {keys: path for keys, path in shown.items() if keys}


def _is_outer(place: Place, places: list[Place]) -> bool:
    """Whether the rule also reads a place within this one."""
    return any(len(other_place) > len(place) and other_place[: len(place)] == place for other_place in places)


def check_outputs(examined: ExaminedDraft) -> Iterator[Problem]:
    """Finds fields that neither an output schema nor the samples show. Without either there is no problem.

    For nested fields, it reports the outermost one that is missing.
    """
    for rule in examined.rules:
        for place in (read_place for read_place in rule.places.reads if read_place[0] == "output"):
            known = examined.shapes.missing(place)
            if known is not None:
                around = repr(".".join(place[2:-1])) if place[2:-1] else "the output"
                hint = name_hint(place[-1], known) if known else "; the value there is not an object"
                text = f"the rule reads {place[-1]!r} in {around} of {place[1]!r}, which no output shows{hint}"
                yield problem_of(rule.draft, "output", text)


_FEWEST_CASES = 4
_CASE_KEYS = ("now", "principal", "messages", "user_confirmed", "state", "facts", "context")


def check_cases(examined: ExaminedDraft) -> Iterator[Problem]:
    """Finds rules that lack boundary cases of a kind, or that do not give what their cases expect.

    A wrong case is fatal: either the rule or the case is wrong. A missing one is not.
    """
    for rule in examined.rules:
        for case in rule.cases:
            if problem := case.problem or disagreement(rule.draft.id, case):
                named = str(case.case.id) if case.case else ""
                yield problem_of(rule.draft, "case", problem, example=case.text, fatal=True, case=named)
        yield from _missing_cases(rule)
    for draft in examined.draft.rules:
        ids = Counter(repr(case.get("id")) for case in draft.cases)
        for name in (name for name, count in ids.items() if count > 1):
            yield problem_of(draft, "case", f"two cases have the id {name:.100}; expected each id once", fatal=True)


def _missing_cases(rule: ExaminedRule) -> Iterator[Problem]:
    """The kinds of cases that a rule lacks. One that reads no value has no limit."""
    kinds = {} if rule.is_ban else {"allowed": "is allowed (label 0)"}
    is_late = concerns_the_end(rule.policies, rule.draft.id)
    how = "violates it at the end: the calls of a conversation under 'events'" if is_late else "violates it"
    kinds["violating"] = f"{how} (rules {[rule.draft.id]})"
    outcomes = {case.outcome for case in rule.cases if case.verdict is not None}
    lacking = [text for kind, text in kinds.items() if kind not in outcomes]
    reads_values = bool(rule.places.reads) or rule.places.reads_time
    fewest = _FEWEST_CASES if reads_values and not is_late else len(kinds)
    if len(rule.cases) < fewest:
        lacking.append(f"stands on either side of each limit; expected at least {fewest} cases, got {len(rule.cases)}")
    if lacking:
        yield problem_of(rule.draft, "case", f"the cases lack one that {', one that '.join(lacking)}")
    if "unknown" not in outcomes and (unknown := next(_unknown_cases(rule), None)) is not None:
        text = "the cases lack one that is denied because a value is unknown (label 1 with rules []), such as"
        yield problem_of(rule.draft, "case", f"{text} {unknown}")


def check_earlier_calls(examined: ExaminedDraft) -> Iterator[Problem]:
    """Finds rules that do not say whether an earlier call counts that failed, or has another id, and have no such case.

    A rule that says so has a mutant that does not. Nothing is fatal.
    """
    several = Counter(name for tool in examined.context.tools for name in _free_strings(tool))
    ids = {tool.name: {name for name in _free_strings(tool) if several[name] > 1} for tool in examined.context.tools}
    for rule in examined.rules:
        cases = [each.case for each in rule.cases if isinstance(each.case, Case) and each.case.proposed is not None]
        lacking = list(dict.fromkeys(_unseen_calls(rule, cases, ids))) if cases else []
        if lacking:
            text = f"the cases lack one in which an earlier call {', and one in which a call '.join(lacking)}"
            yield problem_of(rule.draft, "case", f"{text}; add cases that show whether it counts by the document")


def _free_strings(tool: ToolSchema) -> list[str]:
    properties = (tool.parameters.get("properties") or {}).items()
    return [name for name, schema in properties if schema_of(schema).get("type") == "string" and not choices(schema)]


def _unseen_calls(rule: ExaminedRule, cases: Sequence[Case], ids: Mapping[str, set[str]]) -> Iterator[str]:
    tags = rule.policies.tags
    failed = {event.tool for case in cases for event in case.history if event.status == "failed"}
    for node, pattern in _past(rule):
        tools = {tool for name in pattern.tools for tool in (tags[name[1:]] if name[0] == "@" else (name,))}
        says_failed = any(isinstance(each, ast.OfCall) and each.what == "failed" for each in ast.walk(node))
        if isinstance(node, _SEES_FAILED) and not says_failed and not tools & {*failed, "*"}:
            yield f"of {' or '.join(map(repr, sorted(tools)))} failed"
        bound = {argument.name for argument in pattern.arguments}
        for tool in sorted(tools & ids.keys()):
            free = [name for name in ids[tool] - bound if not _differs(cases, tool, name, ids)]
            if free:
                yield f"of {tool!r} has another {' and another '.join(map(repr, sorted(free)))} than the call"


_SEES_FAILED = ast.CountCalls | ast.SumCalls | ast.Selected | ast.CallFold


def _past(rule: ExaminedRule) -> Iterator[tuple[Any, ast.Pattern]]:
    """Yields the parts of a rule about earlier calls."""
    for node in (node for read in rule.policies.rules for each in read.rules for node in ast.walk(each)):
        pattern = node.partner if isinstance(node, ast.Before) else getattr(node, "pattern", None)
        if isinstance(pattern, ast.Pattern) and not isinstance(node, ast.Forall | ast.After | ast.Exists):
            yield node, pattern


def _differs(cases: Sequence[Case], tool: str, name: str, ids: Mapping[str, set[str]]) -> bool:
    """Whether a case has a call of a tool with another id than the proposed one, or no proposed call has such an id."""
    about = [case for case in cases if name in ids.get(case.proposed.tool, ())]
    calls = [(case, event) for case in about for event in case.history if event.tool == tool]
    return not about or any(event.args.get(name) != case.proposed.args.get(name) for case, event in calls)


def _unknown_cases(rule: ExaminedRule) -> Iterator[str]:
    """Yields the cases that become unknown without one of their values."""
    for record in rule.draft.cases:
        reduced = list(_reduced(record))
        unknown = [{**each, "id": "something is unknown", "label": 1, "rules": []} for _, each in reduced]
        judged = judged_cases(rule.policies, rule.draft.id, unknown)
        for (gone, _), judged_case in zip(reduced, judged, strict=True):
            if judged_case.outcome == "unknown":
                yield f"the case {record.get('id')!r:.100} without {gone}"


def _reduced(record: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields a case without one of its values, each with what it lacks."""
    proposed = record.get("proposed")
    if isinstance(proposed, Mapping):
        for (gone,), left in _without_a_key(proposed.get("args"), 1):
            yield f"the argument {gone!r}", {**record, "proposed": {**proposed, "args": left}}
    for place in _OMITTED_FROM:
        yield from (
            (f"{gone!r} of {place}", {**record, place: left}) for (gone,), left in _without_a_key(record.get(place), 1)
        )
    for gone in _CASE_KEYS:
        if gone in record:
            yield repr(gone), {key: value for key, value in record.items() if key != gone}


_OMITTED_FROM = ("state", "facts", "context")
_DEEPEST_KEY = 3  # keys within keys
_MOST_VARIANTS = 20  # variants of one case
_KNOWN_TEST = "known"  # the only function that tells an unknown value from another one


def check_missing_value(examined: ExaminedDraft) -> Iterator[Problem]:
    """Finds rules that allow a forbidden call as soon as a fact or a part of the state is missing: one problem each.

    Whoever leaves the value out gets around the rule.
    """
    for rule in examined.rules:
        variants = _allowed_variants(rule) if _KNOWN_TEST in str(rule.draft.rule) else iter(())
        for name, example in islice(variants, 1):
            text = (
                f"the rule denies a call, and allows it if {name} is missing; a missing value has to deny, "
                "unless the document says otherwise"
            )
            yield problem_of(rule.draft, "missing_value", text, example=example)


def _allowed_variants(rule: ExaminedRule) -> Iterator[tuple[str, str]]:
    """Yields the values without which a case that violates the rule is allowed, with the case."""
    for case, record in zip(rule.cases, rule.draft.cases, strict=False):
        if case.outcome == "violating":
            variants = list(_missing_variants(record))
            judged = judged_cases(rule.policies, rule.draft.id, [variant for _, variant in variants])
            for (name, _), judged_case in zip(variants, judged, strict=True):
                if judged_case.verdict is not None and judged_case.outcome == "allowed":
                    yield name, judged_case.text


def _missing_variants(record: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for place in _OMITTED_FROM:
        for path, left in islice(_without_a_key(record.get(place), _DEEPEST_KEY), _MOST_VARIANTS):
            name = ".".join(map(str, path))
            shown = f"'state.{name}'" if place == "state" else f"the fact {name!r}"
            yield shown, {**record, "id": f"without {name}", place: left, "label": 1, "rules": []}


def _without_a_key(values: Any, depth: int) -> Iterator[tuple[tuple[Any, ...], dict[Any, Any]]]:
    """Yields the paths of keys in mappings, each with a copy of the values that lacks it."""
    for gone, inner in values.items() if isinstance(values, Mapping) and depth else ():
        yield (gone,), {key: value for key, value in values.items() if key != gone}
        yield from (((gone, *path), {**values, gone: left}) for path, left in _without_a_key(inner, depth - 1))


_LEFT_OUT = "tool left out"
_SHOWN_MUTANTS = 12  # what is not shown costs another request


def check_mutants(examined: ExaminedDraft) -> Iterator[Problem]:
    """Finds small changes of a rule that no case notices. Each asks for another case.

    Only rules whose cases hold are tried; others have a problem already.
    """
    for rule in examined.rules:
        if rule.survivors is not None:
            yield from _unnoticed_changes(rule, rule.survivors)


def _unnoticed_changes(rule: ExaminedRule, survivors: Survivors) -> Iterator[Problem]:
    if survivors.left_out:
        yield problem_of(rule.draft, "untested", f"the cases were not tested in full: {'; '.join(survivors.left_out)}")
    if survivors.found:
        changes = [f"{mutant.kind}: {mutant.change}" for mutant in survivors.found if mutant.kind != _LEFT_OUT]
        tools = dict.fromkeys(mutant.change for mutant in survivors.found if mutant.kind == _LEFT_OUT)
        changes = [*([f"{_LEFT_OUT}: {', '.join(tools)}"] if tools else []), *changes]
        shown = "; ".join(f"({at}) {change}" for at, change in enumerate(changes[:_SHOWN_MUTANTS], 1))
        text = f"no case notices these changes of the rule: {shown}; add a case for each whose verdict they change"
        yield problem_of(rule.draft, "mutant", text)


_OF_WHOLE_POLICIES = ("uncovered", "unlisted")  # a draft is only a part
_CONTRADICTION_HINT = (
    "if the sentences contradict each other, leave each rule as its sentence says, and put the contradiction under "
    "'ambiguous'"
)


def check_lint(examined: ExaminedDraft) -> Iterator[Problem]:
    """Lints the draft alone: contradictory and vacuous rules are fatal. Nothing if the draft does not load as a whole.

    Sentences can contradict each other. Then each rule is right, and only the owner of the document can say what holds.
    The examples of the solver are left out: they differ from run to run, and so would the request for a correction.
    """
    if examined.policies is not None:
        sentences = {rule.id: rule.sentences for rule in examined.draft.rules}
        problems = lint_problems(examined.policies, sentences, known=examined.known_calls)
        for problem in problems:
            if problem.kind not in _OF_WHOLE_POLICIES:
                yield _of_document(replace(problem, example=""), sentences)


def _of_document(problem: Problem, sentences: Mapping[str, tuple[int, ...]]) -> Problem:
    """A problem of rules that rest on different sentences, which may be one of the document."""
    if not problem.fatal or len({sentences.get(rule) for rule in (problem.rule, *problem.others)}) == 1:
        return problem
    return replace(problem, message=f"{problem.message}; {_CONTRADICTION_HINT}", fatal=False)


def check_failure(examined: ExaminedDraft) -> Iterator[Problem]:
    """Finds rules that allow nothing: they need a successful call, but the policy does not define which calls fail.

    One problem for the draft: the beginnings of outputs that look like failures, or that none is known.
    """
    context = examined.context
    if context.failed_output or context.samples is None:
        return
    sought = {rule.draft.id: rule.places.sought for rule in examined.rules if rule.places.sought}
    tools = {tool for sought_tools in sought.values() for tool in sought_tools}
    samples = [tool for tool in context.samples.tools if tool.tool in tools and _is_unclear(tool)]
    rules = [name for name, sought_tools in sought.items() if any(sample.tool in sought_tools for sample in samples)]
    if not rules:
        return
    prefixes = dict.fromkeys(failure.prefix for sample in samples for failure in sample.failures)
    shown = f"outputs begin with {', '.join(map(repr, prefixes))}" if prefixes else "no sample says which call failed"
    text = (
        f"the rules {', '.join(map(repr, rules))} need a successful call of "
        f"{', '.join(sample.tool for sample in samples)}, but 'failed_output' is unknown: {shown}; "
        "give the pattern of the outputs of failed calls"
    )
    numbers = {number for rule in examined.rules if rule.draft.id in rules for number in rule.draft.sentences}
    yield Problem("failure", text, sentences=tuple(sorted(numbers)))


def _is_unclear(samples: ToolSamples) -> bool:
    """Whether outputs look like failures, or no call is recorded as failed or not."""
    return bool(samples.failures) or all(example.failed is None for example in samples.examples.values())


_SEVERAL_TOOLS = 2  # a rule about one tool is about that kind of call
_ANY = re.compile(
    r"\b(?:any|all|each|every|no)\b(?:\s+\w+){0,3}?\s+"
    r"(?:actions?|calls?|changes?|edits?|modifications?|operations?|steps?|tools?|updates?|writes?)\b",
    re.IGNORECASE,
)


def check_any_tool(examined: ExaminedDraft) -> Iterator[Problem]:
    """Finds rules about "any change" that name some of the tools that change something, but not all of them.

    Each is for the author first: the words may mean fewer tools, and then it stays for the reviewer.
    """
    writing = [writing_tool.name for writing_tool in writing_tools(examined.context.tools)]
    for rule in examined.rules:
        words = next((match for text in rule.draft.quotes.values() if (match := _ANY.search(text))), None)
        judged = _judged_tools(rule) if words else None
        missing = [tool_name for tool_name in writing if judged is not None and tool_name not in judged]
        if words and judged and missing and len({*writing} & judged) >= _SEVERAL_TOOLS:
            text = (
                f"the quote says {words[0]!r}, and the rule judges {', '.join(sorted(judged))}, but not "
                f"{', '.join(missing)}, which may change something too; add what the words mean, in a tag if it helps"
            )
            yield problem_of(rule.draft, "any_tool", text)


def _judged_tools(rule: ExaminedRule) -> frozenset[str] | None:
    """The tools whose calls the rule judges; None if it judges any."""
    patterns = [node for read in rule.policies.rules for each in read.rules for node in ast.walk(each)]
    if any(isinstance(pattern, ast.Pattern) and "*" in pattern.tools for pattern in patterns):
        return None
    return frozenset(tool for rule in rule.policies.rules for tool in rule.tools)


_TARGET_NAME = re.compile(
    r"(?:^|_)(?:ids?|uuid|accounts?|addresse?s?|customers?|destinations?|emails?|iban|members?|orders?|owners?|patients?|"
    r"payees?|phone|recipients?|targets?|to|users?)(?:_ids?|_numbers?)?$"
)
_FREE_TEXT_NAME = re.compile(
    r"(?:^|_)(?:body|comments?|content|descriptions?|details|messages?|notes?|prompt|query|reasons?|subject|summary|text|"
    r"thought|title)$"
)


def check_unread_argument(examined: ExaminedPolicy) -> Iterator[Problem]:
    """Finds ids, lists and amounts of writing tools that no rule of the whole policy reads.

    The document may mean them to be free. But nobody sees a limit that is missing: a list of items can have one twice.
    Nothing is fatal. A tool that no rule names is a finding of lint, and one that may never run needs no limit.
    """
    target = examined.target
    limited = set(target.named_tools) - target.forbidden_tools
    for tool in writing_tools(examined.context.tools):
        if tool.name in limited:
            for name in _unread_arguments(tool, examined):
                if meaning := _missing_limit(name, examined.shapes.schemas(("args", tool.name, name))):
                    yield Problem("unread_argument", f"no rule reads `{name}` of `{tool.name}`; {meaning}")


def _unread_arguments(tool: ToolSchema, examined: ExaminedPolicy) -> list[str]:
    """The arguments that no rule and no counter reads."""
    if any(tool.name in rule.tools and _reads_all_arguments(rule) for rule in examined.target.rules):
        return []
    read = {place[2] for place in examined.places.reads if place[:2] == ("args", tool.name) and len(place) > 2}
    for source in examined.target.file.counters.values():
        read |= {*re.findall(r"(\w+)\s*=", source.on.text)}
    return [name for name in tool.parameters.get("properties", {}) if name not in read]


def _reads_all_arguments(rule: Rule) -> bool:
    """Whether a rule reads the arguments of a call as a whole, as `mentions(args(f), "x")` does."""
    nodes = [node for read in rule.rules for node in ast.walk(read)]
    return any(
        isinstance(child, ast.OfCall) and child.what == "args"
        for node in nodes
        if not isinstance(node, ast.Field | ast.Item)
        for child in ast.children(node)
    )


def _missing_limit(name: str, schemas: Sequence[Schema]) -> str:
    """The limit that is missing; empty for an argument that rules cannot matter for, such as free text."""
    free = (schema for schema in schemas if not schema.keys() & {"enum", "const"})
    types = {str(kind) for schema in free for kind in _listed(schema.get("type"))}
    word = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).casefold()
    if _FREE_TEXT_NAME.search(word):
        return ""
    if "array" in types:
        return "nothing limits how many it has, and how often an item may be in it"
    if types & {"number", "integer"} and not _TARGET_NAME.search(word):
        return "nothing limits its amount"
    return (
        "nothing limits which ones it may name" if _TARGET_NAME.search(word) and types & {"string", "integer"} else ""
    )


# --- all checks


def _check_of_module(module: Any) -> DraftCheck:
    """The check of another package's module."""
    return DraftCheck(module.check, getattr(module, "WHOLE_POLICY", False))


CHECKS = Plugins(
    "translation check",
    "",
    ("check",),
    "guardagent.translation_checks",
    members={
        "syntax": DraftCheck(check_syntax),
        "sentences": DraftCheck(check_sentences),
        "grounding": DraftCheck(check_grounding),
        "arguments": DraftCheck(check_arguments),
        "facts": DraftCheck(check_facts),
        "outputs": DraftCheck(check_outputs),
        "cases": DraftCheck(check_cases),
        "earlier_calls": DraftCheck(check_earlier_calls),
        "missing_value": DraftCheck(check_missing_value),
        "mutants": DraftCheck(check_mutants),
        "lint": DraftCheck(check_lint),
        "failure": DraftCheck(check_failure),
        "any_tool": DraftCheck(check_any_tool),
        "unread_argument": DraftCheck(check_unread_argument, whole_policy=True),
    },
    adapt=_check_of_module,
)
