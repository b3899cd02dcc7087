"""A draft or a policy under examination: its rules, its cases as judged, and the shapes of its tools' values.

A draft is loaded as far as it loads: as a whole, and each rule alone. Every rule and declaration that does not load is
found, not only the first, and the boundary cases of a rule are judged by that rule alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeGuard

from guardagent.batch.cases import Expectation, judge_expected, read_expected
from guardagent.batch.records import Case
from guardagent.batch.survivors import Survivors, surviving
from guardagent.enforcement.schema import declared_arguments
from guardagent.errors import InputError, error_text, name_hint
from guardagent.policy.equivalence.places import ITEMS, Place, PolicyPlaces
from guardagent.policy.lint import lint_report
from guardagent.policy.lint.target import LintTarget, subject_of
from guardagent.policy.logic.sessions import NOTHING_KNOWN, KnownCalls
from guardagent.policy.policies import Policies
from guardagent.policy.words import policy_in_words
from guardagent.translation.context import TranslationContext
from guardagent.translation.drafts import Draft, Problem, RuleDraft
from guardagent.translation.samples import ShapePath, TraceSamples
from guardagent.translation.tools import ToolSchema
from guardagent.types import Verdict

Outcome = Literal["allowed", "violating", "unknown"]
_LONGEST_RECORD = 400


@dataclass(frozen=True, slots=True)
class JudgedCase:
    """A case of a rule.

    Attributes:
        text: the record, shortened.
        case: None if the record is not a case or trace with an expectation.
        verdict: of the rule; None without a case.
        problem: why the record is not a case.
    """

    text: str
    case: Expectation | None = None
    verdict: Verdict | None = None
    problem: str = ""

    @property
    def outcome(self) -> Outcome:
        """Whether the call violates a rule, or is denied only because something is unknown."""
        if self.verdict is None or not (self.verdict.rules or self.verdict.errors):
            return "allowed"
        return "violating" if self.verdict.rules else "unknown"


def judged_cases(policies: Policies, rule: str, records: Iterable[Any]) -> Sequence[JudgedCase]:
    """Judges the cases of a rule; nothing in a record ends in an error."""
    return [_judged(policies, f"{rule}: cases[{at}]", record) for at, record in enumerate(records)]


def disagreement(rule: str, judged_case: JudgedCase) -> str:
    """The reason that a case does not hold under its rule; empty if it holds."""
    case, verdict = judged_case.case, judged_case.verdict
    if case is None or verdict is None:
        return ""
    name = f"case {case.id!r:.100}"
    if others := [other for other in case.rules or () if other != rule]:
        return f"{name} names {others[0]!r:.100}, but judges this rule alone; expected rules {[rule]} or []"
    if judged_case.outcome == "unknown" and expects_violation(case, rule):
        why = "; ".join((*verdict.errors, *verdict.reasons[len(verdict.errors) :]))  # hints follow a reason for each
        return (
            f"{name} expects a violation, but the call is denied only because something is unknown: {why:.400}; give "
            "the case the missing values, or expect rules []"
        )
    if case.label not in (None, verdict.label) or (case.rules is not None and set(case.rules) != set(verdict.rules)):
        return f"{name}: expected {_expectation(case)}, got {_shown_verdict(verdict)}; the rule or the case is wrong"
    return ""


def holding_cases(policies: Policies, rule: str, records: Iterable[Any]) -> tuple[Any, ...]:
    """The cases of a rule that it violates, or keeps, as they expect, whatever other rules decide."""
    records = tuple(records)
    return tuple(
        record
        for record, each in zip(records, judged_cases(policies, rule, records), strict=True)
        if each.case and each.verdict and (rule in each.verdict.rules) is expects_violation(each.case, rule)
    )


def is_first(case: Expectation | None) -> TypeGuard[Case]:
    """Whether a case proposes a call without earlier ones."""
    return isinstance(case, Case) and not case.history


def expects_violation(case: Expectation, rule: str) -> bool:
    """Whether a case expects that its rule is violated."""
    return case.label == 1 if case.rules is None else rule in case.rules


def _expectation(case: Expectation) -> str:
    label = [] if case.label is None else [f"label {case.label}"]
    return " with ".join([*label, *([] if case.rules is None else [f"rules {list(case.rules)}"])])


def _shown_verdict(verdict: Verdict) -> str:
    reasons = "; ".join(verdict.reasons)
    because = f", because: {reasons:.400}" if reasons else ""
    return f"label {verdict.label} with rules {list(verdict.rules)}{because}"


def _judged(policies: Policies, place: str, record: Any) -> JudgedCase:
    text = ""
    try:
        if isinstance(record, Mapping):  # a text that is cut shows the call
            record = {key: record[key] for key in sorted(record, key=lambda key: key not in ("id", "proposed"))}
        text = json.dumps(record, ensure_ascii=False, allow_nan=False)
        text.encode()  # no half of a surrogate pair
        case = read_expected(text, place, 0, policies.failed_output)
        return JudgedCase(_shortened(text), case, judge_expected(policies, case))
    except InputError as error:
        return JudgedCase(_shortened(text), problem=str(error))
    except Exception as error:  # noqa: BLE001 - a record can hold anything, also what JSON cannot
        return JudgedCase(
            _shortened(text or repr(record)), problem=f"{place}: is not a JSON record: {error_text(error):.200}"
        )


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_RECORD else f"{text[: _LONGEST_RECORD - 2]} …"


_MOST_DECLARATIONS = 40  # that are tried one by one
_LONGEST_PROBLEM = 600
_LONGEST_FORMULA, _LONGEST_RULE = 2000, 20_000  # characters; nobody confirms a longer rule, and proofs take too long
_RULE_KEYS = ("temporal", "solver", "message", "remedy", "on_violation", "applies_to")
_EMPTY_RULE = {"id": "rule", "temporal": "G true"}
_PLACE_PREFIX = re.compile(r"\Adata(?:\.policies\[0\])?(?:\.|: )")


@dataclass(frozen=True, slots=True)
class LoadedDraft:
    """The result of loading a draft.

    Attributes:
        whole: the policies; None if the draft does not load.
        problem: why it does not load as a whole although each part does.
        frame_problem: why not even the keys that no draft decides load, such as `failed_output`.
        declarations: the declarations that do not load, with the reason.
        rules: each rule alone, with the reason if it does not load.
    """

    whole: Policies | None
    problem: str = ""
    frame_problem: str = ""
    declarations: Mapping[str, str] = field(default_factory=dict)
    rules: tuple[tuple[Policies | None, str], ...] = ()


def load_draft(draft: Draft, context: TranslationContext) -> LoadedDraft:
    """Loads a draft. No file that it names is read."""
    frame = dict(context.frame)
    if frame_problem := _load({**frame, "policies": [_EMPTY_RULE]}, context)[1]:
        return LoadedDraft(None, frame_problem=frame_problem)
    wrong = _load_declarations(draft, frame, context)
    rules = tuple(
        (None, problem) if (problem := _refused(rule)) else _load({**frame, "policies": [rule.source]}, context)
        for rule in draft.rules
    )
    if not rules or wrong or any(problem for _, problem in rules):
        return LoadedDraft(None, "", "", wrong, rules)
    return LoadedDraft(*_load(draft.content(context), context), rules=rules)


def _load(content: Mapping[str, Any], context: TranslationContext) -> tuple[Policies | None, str]:
    try:
        return context.load(content), ""
    except InputError as error:
        return None, _PLACE_PREFIX.sub("", str(error))[:_LONGEST_PROBLEM]
    except Exception as error:  # noqa: BLE001 - such as a rule that is nested too deeply
        return None, f"cannot be read: {error_text(error)}"[:_LONGEST_PROBLEM]


def _refused(rule: RuleDraft) -> str:
    """The reason not even to load a rule: it names files, is too long, or needs a model; empty if there is none."""
    if other := next((key for key in rule.rule if key not in _RULE_KEYS), None):
        return f"{other[:80]!r} is not a key of a drafted rule{name_hint(other[:80], _RULE_KEYS)}"
    solver = rule.rule.get("solver")
    if isinstance(solver, Mapping) and "smt_file" in solver:
        return "'smt_file' reads a file; expected the text under 'smt'"
    formula, whole = len(str(rule.rule.get("temporal"))), len(str(rule.rule))
    if formula > _LONGEST_FORMULA or whole > _LONGEST_RULE:
        return (
            f"the formula has {formula:,} characters, and the rule {whole:,}; expected at most {_LONGEST_FORMULA:,} "
            f"and {_LONGEST_RULE:,}: split it, or declare constants and definitions"
        )
    return ""


def _load_declarations(draft: Draft, frame: dict[str, Any], context: TranslationContext) -> Mapping[str, str]:
    """Adds the declarations that load to a frame, and returns the others. One may need others that come later."""
    wrong: dict[str, str] = {}
    waiting = [(key, name, value) for key, names in draft.declarations.items() for name, value in names.items()]
    everything = {**frame, "policies": [_EMPTY_RULE]}
    for key, name, value in waiting:
        everything[key] = {**everything.get(key, {}), name: value}
    problem = _load(everything, context)[1]
    if not problem or len(waiting) > _MOST_DECLARATIONS:
        frame |= {key: content for key, content in everything.items() if key != "policies"}
        return wrong | ({"declarations": problem} if problem else {})
    while waiting:
        left = []
        for key, name, value in waiting:
            changed = {**frame, key: {**frame.get(key, {}), name: value}}
            if problem := _load({**changed, "policies": [_EMPTY_RULE]}, context)[1]:
                left.append((key, name, value))
                wrong[f"{key}.{name}"] = problem
            else:
                frame[key] = changed[key]
                wrong.pop(f"{key}.{name}", None)
        if len(left) == len(waiting):
            break
        waiting = left
    return wrong


Schema = Mapping[str, Any]
_JOINED = ("anyOf", "oneOf", "allOf")
_DEEPEST_SCHEMA = 12
_WHOLE_VALUE = "(whole)"
_MAYBE_EMPTY = frozenset(["list", "object", "null"])  # types of which a sample may just be empty


class ToolShapes:
    """The arguments and outputs of tools."""

    def __init__(self, tools: Iterable[ToolSchema], samples: TraceSamples | None) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._samples = {tool.tool: tool for tool in samples.tools} if samples is not None else {}

    def arguments(self, tool: str) -> frozenset[str] | None:
        """The names of the arguments of a tool; None if it may have any."""
        schema = self._tools.get(tool)
        names = None if schema is None else declared_arguments(schema.parameters)
        if schema is None or names is None or not (names or schema.parameters.get("additionalProperties") is False):
            return None
        shown = self._samples[tool].arguments if tool in self._samples else ()
        return names.union(*(segments(path.path)[:1] for path in shown))

    def schemas(self, place: Place) -> Sequence[Schema]:
        """The schemas of a value, any of which it may satisfy; empty if nothing is known."""
        kind, tool, *keys = place
        tool_schema = self._tools.get(tool)
        whole = None if tool_schema is None else tool_schema.parameters if kind == "args" else tool_schema.output_schema
        schemas = list(_within(whole, whole, keys)) if whole is not None else []
        return schemas or [_schema_of(path) for path in self._shown(kind, tool) if segments(path.path) == tuple(keys)]

    def missing(self, place: Place) -> Sequence[str] | None:
        """The known fields where a rule reads another field of an output; None if it is known, or nothing is."""
        kind, tool, *keys = place
        tool_schema = self._tools.get(tool)
        declared = tool_schema.output_schema if tool_schema is not None else None
        if kind != "output" or not keys or (declared is not None and any(_within(declared, declared, keys))):
            return None
        shown = {segments(path.path): path for path in self._shown("output", tool)}
        return missing_fields(shown, tuple(keys)) if shown else _declared_fields(declared, keys[:-1])

    def _shown(self, kind: str, tool: str) -> Sequence[ShapePath]:
        sample = self._samples.get(tool)
        return () if sample is None else sample.arguments if kind == "args" else sample.outputs


def segments(path: str) -> tuple[str, ...]:
    """The keys of a path such as `flights[].price`."""
    return () if path == _WHOLE_VALUE else tuple(re.findall(r"\[\]|[^.\[\]]+", path))


def missing_fields(shown: Mapping[tuple[str, ...], ShapePath], keys: tuple[str, ...]) -> Sequence[str] | None:
    """The known fields beside a place that samples do not show; None if they show it, or nothing around it."""
    keys = tuple(part for key in keys for part in segments(key))
    if len(keys) >= _DEEPEST_SCHEMA or _is_shown(shown, keys):
        return None
    parent = keys[:-1]
    if parent and not _is_shown(shown, parent):
        return None  # the place around it is the finding
    beside = sorted(
        {shown_keys[-1] for shown_keys in shown if len(shown_keys) == len(keys) and _matches(shown_keys[:-1], parent)}
    )
    types = {name for shown_keys, path in shown.items() if _matches(shown_keys, parent) for name in path.types}
    return None if not beside and (not types or types <= _MAYBE_EMPTY) else beside


def _is_shown(shown: Iterable[tuple[str, ...]], keys: tuple[str, ...]) -> bool:
    return any(_matches(shown_keys, keys) for shown_keys in shown)


def _matches(shown: tuple[str, ...], keys: tuple[str, ...]) -> bool:
    """Whether a shown path stands for a place; `*` stands for keys that are data."""
    return len(shown) == len(keys) and all(shown_key in (key, "*") for shown_key, key in zip(shown, keys, strict=True))


def _schema_of(path: ShapePath) -> Schema:
    return {"type": ["array" if type_ == "list" else type_ for type_ in path.types]}


def _declared_fields(schema: Schema | None, keys: Sequence[str]) -> Sequence[str] | None:
    """The fields that an output schema declares at a place; None if it declares none or allows others."""
    subschemas = list(_within(schema, schema, keys)) if schema is not None else []
    fields = {str(name) for subschema in subschemas for name in _mapping(subschema.get("properties"))}
    is_open = any(subschema.get("additionalProperties") not in (None, False) for subschema in subschemas)
    return None if is_open or not fields else sorted(fields)


def _within(schema: Any, root: Schema, keys: Sequence[str], depth: int = 0) -> Iterator[Schema]:
    """Yields the schemas of a place within the values of a schema: the alternatives."""
    if not isinstance(schema, Mapping) or depth > _DEEPEST_SCHEMA:
        return
    if isinstance(reference := schema.get("$ref"), str):
        yield from _within(_referenced(root, reference), root, keys, depth + 1)
    for subschema in (part for name in _JOINED for part in _list(schema.get(name))):
        yield from _within(subschema, root, keys, depth + 1)
    if not keys:
        if schema.keys() & {"type", "enum", "const", "properties", "items"} or not schema.keys() & {"$ref", *_JOINED}:
            yield schema
    elif keys[0] == ITEMS:
        yield from _within(schema.get("items"), root, keys[1:], depth + 1)
    elif keys[0] in _mapping(schema.get("properties")):
        yield from _within(schema["properties"][keys[0]], root, keys[1:], depth + 1)
    elif isinstance(schema.get("additionalProperties"), Mapping):
        yield from _within(schema["additionalProperties"], root, keys[1:], depth + 1)


def _referenced(root: Schema, reference: str) -> Any:
    schema: Any = root
    for key in reference.removeprefix("#").strip("/").split("/") if reference.startswith("#/") else [""]:
        schema = _mapping(schema).get(key.replace("~1", "/").replace("~0", "~"))
    return schema


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


# Of the mutants of one rule; their number limits the work before, so that a busy machine finds the same.
_MUTANT_SECONDS = 10.0
_MUTANTS = 60
_BAN = re.compile(r"^(?:There must never be a |A call of [^.]* is never allowed)[^.]*\.")


@dataclass
class ExaminedRule:
    """A rule that loads.

    Attributes:
        draft: the rule as drafted.
        policies: the rule alone.
    """

    draft: RuleDraft
    policies: Policies

    @cached_property
    def places(self) -> PolicyPlaces:
        """The places that it reads."""
        return PolicyPlaces([self.policies])

    @cached_property
    def cases(self) -> Sequence[JudgedCase]:
        """Its cases, judged by it alone."""
        return judged_cases(self.policies, self.draft.id, self.draft.cases)

    @cached_property
    def survivors(self) -> Survivors | None:
        """The mutants that its cases do not notice; None unless all of them hold."""
        cases = [case.case for case in self.cases if case.case is not None and not disagreement(self.draft.id, case)]
        if not cases or len(cases) < len(self.cases):
            return None
        return surviving(self.policies, self.draft.id, cases, limit=_MUTANTS, seconds=_MUTANT_SECONDS)

    @property
    def is_ban(self) -> bool:
        """Whether it never allows a call of its tools, as its words say."""
        return bool(_BAN.search(policy_in_words(self.policies, self.draft.id).text))


class ExaminedDraft:
    """A draft, with what the checks share."""

    def __init__(self, draft: Draft, context: TranslationContext) -> None:
        self.draft, self.context = draft, context

    @cached_property
    def loaded(self) -> LoadedDraft:
        """The draft and each of its rules, with the reasons why some do not load."""
        return load_draft(self.draft, self.context)

    @property
    def policies(self) -> Policies | None:
        """The policies of the whole draft; None if it does not load."""
        return self.loaded.whole

    @cached_property
    def rules(self) -> Sequence[ExaminedRule]:
        """The rules that load, each alone."""
        pairs = zip(self.draft.rules, self.loaded.rules, strict=False)
        return [self._rule(pair, alone) for pair, (alone, _) in pairs if alone is not None]

    @cached_property
    def known_calls(self) -> KnownCalls:
        """The violations that the cases show of each rule alone, and the first calls that the whole draft allows."""
        judged = [(rule, case) for rule in self.rules for case in rule.cases]
        violated = {rule.draft.id for rule, case in judged if case.verdict and rule.draft.id in case.verdict.rules}
        allowed: set[str] = set()
        for case in (judged_case.case for _, judged_case in judged if judged_case.outcome == "allowed"):
            if self.policies is not None and is_first(case) and case.proposed.tool not in allowed:
                allowed |= {case.proposed.tool} if judge_expected(self.policies, case).label == 0 else set()
        return KnownCalls.of(allowed, violated)

    def _rule(self, rule: RuleDraft, alone: Policies) -> ExaminedRule:
        """The rule; that of an earlier draft if nothing changed, such as the loaded policies."""
        key = "examined rule", repr(rule), id(alone)  # the result keeps the policies, so that the number is theirs
        return self.context.once(key, lambda: ExaminedRule(rule, alone))

    @cached_property
    def shapes(self) -> ToolShapes:
        """The arguments and outputs of the tools, as schemas and samples show them."""
        return ToolShapes(self.context.tools, self.context.samples)


def problem_of(
    rule: RuleDraft, kind: str, message: str, *, example: str = "", fatal: bool = False, case: str = ""
) -> Problem:
    """A problem of a rule, which may not load."""
    return Problem(kind, message, rule.id, rule.sentences, example, fatal, case=case)


@dataclass
class ExaminedPolicy:
    """The policy of all sentences.

    Attributes:
        policies: the policy as loaded.
        context: the inputs of the translation.
    """

    policies: Policies
    context: TranslationContext

    @cached_property
    def places(self) -> PolicyPlaces:
        """The places that its rules read."""
        return PolicyPlaces([self.policies])

    @cached_property
    def target(self) -> LintTarget:
        """The policy as lint sees it: the tools that rules name, and those that they forbid."""
        return subject_of(self.policies)

    @cached_property
    def shapes(self) -> ToolShapes:
        """The arguments and outputs of the tools."""
        return ToolShapes(self.context.tools, self.context.samples)


DRAFT_LINT_SECONDS = 2.0  # of CPU for questions about the data of a draft
_FATAL_FINDINGS = ("contradictory", "vacuous")


def lint_problems(
    policies: Policies,
    sentences: Mapping[str, tuple[int, ...]],
    *,
    seconds: float = DRAFT_LINT_SECONDS,
    known: KnownCalls = NOTHING_KNOWN,
) -> Iterator[Problem]:
    """Yields the findings about loaded policies, and the questions that lint could not decide.

    Args:
        policies: the policies.
        sentences: the sentences that each rule rests on, as far as they are known.
        seconds: the CPU seconds for questions about data.
        known: what judged cases have shown of the policies.
    """
    report = lint_report(policies, seconds=seconds, known=known)
    for finding in report.findings:
        rule = finding.policy or ""
        about = {number for name in (rule, *finding.others) for number in sentences.get(name, ())}
        is_fatal = finding.kind in _FATAL_FINDINGS and bool(rule or finding.tool)  # an unused label is harmless
        yield Problem(
            finding.kind, finding.message, rule, tuple(sorted(about)), finding.example, is_fatal, finding.others
        )
    yield from (Problem("undecided", f"not proved: {question}") for question in report.undecided)
