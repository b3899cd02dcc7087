"""One draft: the rules that a model wrote for some sentences; its parts, each with the declarations that it needs."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from guardagent.errors import AnswerError, InputError
from guardagent.policy.policies import Policies
from guardagent.policy.review.record import NeededFact
from guardagent.translation.context import TranslationContext
from guardagent.types import format_value

DECLARATIONS = ("tags", "labels", "counters", "constants", "define")


@dataclass(frozen=True, slots=True)
class RuleDraft:
    """A rule with its grounds and its boundary cases.

    Attributes:
        id: the id in the policy file.
        rule: the keys of the policy without its id, as in a policy file: `temporal` or `solver`, `message`, ….
        quotes: the words of the document that it rests on, by the number of their sentence.
        cases: records of `check` with `id`, `label` and, for a violation, `rules`; or those of `audit`, which have
            `events` and are judged to their end. They judge this rule alone.
    """

    id: str
    rule: Mapping[str, Any]
    quotes: Mapping[int, str]
    cases: tuple[Mapping[str, Any], ...] = ()

    @property
    def sentences(self) -> tuple[int, ...]:
        """The numbers of the sentences that it rests on."""
        return tuple(sorted(self.quotes))

    @property
    def source(self) -> dict[str, Any]:
        """The policy as in a policy file."""
        return {"id": self.id, **self.rule}


def with_cases(rule: RuleDraft, cases: Iterable[Mapping[str, Any]], gone: Collection[str] = ()) -> RuleDraft:
    """Returns a rule with further cases, in place of its own with the same ids, and without some others.

    A case with an id alone takes out the one of that id.
    """
    cases = tuple(cases)
    names = {*gone, *(str(case.get("id")) for case in cases)}
    others = (case for case in rule.cases if str(case.get("id")) not in names)
    return replace(rule, cases=(*others, *(case for case in cases if case.keys() != {"id"})))


def new_facts(facts: Iterable[NeededFact], known: Collection[str]) -> tuple[NeededFact, ...]:
    """Returns the facts of an answer that are not known.

    Raises:
        AnswerError: the name of a fact is blank, or has several lines.
    """
    facts = tuple(facts)
    if bad := [fact.name for fact in facts if not fact.name.strip() or not fact.name.isprintable()]:
        raise AnswerError(f"the name of a fact is {bad[0]!r:.60}; expected a name such as user_confirmed")
    return tuple(fact for fact in facts if fact.name not in known)


@dataclass(frozen=True, slots=True)
class Ambiguity:
    """A sentence that can be read in several ways.

    Attributes:
        sentence: its number.
        question: the question to the owner of the document.
        readings: at least two readings in natural language.
        follows: the one of them that the rules of the draft follow; empty if its author does not say.
        otherwise: the rules by the other reading. Each replaces the rule of its id, or stands beside the others. Empty
            if the author does not say them.
    """

    sentence: int
    question: str
    readings: tuple[str, ...]
    follows: str = ""
    otherwise: tuple[RuleDraft, ...] = ()

    @property
    def other(self) -> str:
        """The first reading that the rules do not follow."""
        return next((reading for reading in self.readings if reading != self.follows), "")


@dataclass(frozen=True, slots=True)
class Draft:
    """One translation of some sentences.

    Attributes:
        sentences: the numbers of the sentences that were to be translated.
        rules: the rules.
        declarations: the keys `tags`, `labels`, `counters`, `constants` and `define` that the rules need.
        facts: facts that the host has to give and that are not in the context.
        declined: the sentences for which no rule can be written, with the reason.
        ambiguities: what the author of the draft could not decide.
        rulings: the answers that its author knew, by the keys of their rulings.
    """

    sentences: tuple[int, ...]
    rules: tuple[RuleDraft, ...] = ()
    declarations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    facts: tuple[NeededFact, ...] = ()
    declined: Mapping[int, str] = field(default_factory=dict)
    ambiguities: tuple[Ambiguity, ...] = ()
    rulings: tuple[str, ...] = ()

    @property
    def mentioned(self) -> set[int]:
        """The numbers of the sentences that it says something about."""
        others = (rule for ambiguity in self.ambiguities for rule in ambiguity.otherwise)
        quoted = {number for rule in (*self.rules, *others) for number in rule.quotes}
        return quoted | {*self.declined, *(ambiguity.sentence for ambiguity in self.ambiguities)}

    def renumbered(self, numbers: Mapping[str, int]) -> Draft:
        """This draft with other numbers of its sentences, by the old ones."""

        def quoting(rules: Iterable[RuleDraft]) -> tuple[RuleDraft, ...]:
            return tuple(
                replace(rule, quotes={numbers[str(at)]: text for at, text in rule.quotes.items()}) for rule in rules
            )

        return replace(
            self,
            sentences=tuple(numbers[str(at)] for at in self.sentences),
            rules=quoting(self.rules),
            declined={numbers[str(at)]: reason for at, reason in self.declined.items()},
            ambiguities=tuple(
                replace(each, sentence=numbers[str(each.sentence)], otherwise=quoting(each.otherwise))
                for each in self.ambiguities
            ),
        )

    def switched(self, ambiguity: Ambiguity) -> Draft:
        """This draft by the other reading of one of its ambiguities; the rules so far become its `otherwise`.

        A rule has its cases by both readings, of which not all hold.
        """
        others = {rule.id: rule for rule in ambiguity.otherwise}
        own = {rule.id: rule for rule in self.rules}
        both = {name: with_cases(own[name], rule.cases).cases for name, rule in others.items() if name in own}
        rules = {**own, **{name: replace(rule, cases=both.get(name, rule.cases)) for name, rule in others.items()}}
        rules = {name: rule for name, rule in rules.items() if rule.rule}
        back = tuple(own.get(name, RuleDraft(name, {}, rule.quotes)) for name, rule in others.items())
        switched = replace(ambiguity, follows=ambiguity.other, otherwise=back)
        ambiguities = tuple(switched if each == ambiguity else each for each in self.ambiguities)
        return replace(self, rules=tuple(rules.values()), ambiguities=ambiguities)

    def content(self, context: TranslationContext, only: Iterable[str] | None = None) -> dict[str, Any]:
        """The content of a policy file with the rules of this draft, or only those with the given ids.

        Declarations other than `DECLARATIONS`, such as `toolbox`, are not part of it.
        """
        wanted = None if only is None else set(only)
        rules = [rule.source for rule in self.rules if wanted is None or rule.id in wanted]
        return {
            **context.frame,
            **{name: dict(self.declarations[name]) for name in DECLARATIONS if self.declarations.get(name)},
            "policies": rules,
        }

    def policies(self, context: TranslationContext, only: Iterable[str] | None = None) -> Policies:
        """Loads the rules.

        Raises:
            InputError: a rule or a declaration is invalid; the message has the path of keys.
        """
        return context.load(self.content(context, only))


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is wrong with a draft, for its author and then for the reviewer.

    Attributes:
        kind: a short name, such as `syntax`, `case`, `mutant`.
        message: what is wrong and what was expected, in one or two sentences that a model can act on.
        rule: the id of the rule; empty if it concerns none.
        sentences: the numbers of the sentences concerned.
        example: a call or case that shows it.
        fatal: whether the draft cannot be used with it.
        others: the ids of other rules that are part of it.
        case: the id of the case of the rule that shows it, if one does.
    """

    kind: str
    message: str
    rule: str = ""
    sentences: tuple[int, ...] = ()
    example: str = ""
    fatal: bool = False
    others: tuple[str, ...] = ()
    case: str = ""


# --- parts of drafts


def selected(
    drafts: Sequence[Draft], sentences: tuple[int, ...], rules: Sequence[RuleDraft], ambiguities: Collection[Ambiguity]
) -> Draft:
    """One draft of some sentences.

    Args:
        drafts: the drafts that concern these sentences.
        sentences: the sentences.
        rules: those of their rules that rest on them.
        ambiguities: those of their ambiguities that concern them.

    Raises:
        InputError: two of the drafts have rules of one id, or different declarations of one name.
    """
    ids = [rule.id for rule in rules]
    if twice := sorted({id_ for id_ in ids if ids.count(id_) > 1}):
        raise InputError(f"two drafts have a rule {twice[0]!r}; expected another id for each rule")
    others = [rule.source for ambiguity in ambiguities for rule in ambiguity.otherwise]
    text = _text([*(rule.source for rule in rules), *others])
    declarations = _needed(text, [draft.declarations for draft in drafts])
    text += _text(declarations)
    seen = [set(draft.rulings) for draft in drafts]
    return Draft(
        sentences,
        tuple(rules),
        declarations,
        tuple(dict.fromkeys(fact for draft in drafts for fact in draft.facts if _mentions(text, fact.name))),
        {number: why for draft in drafts for number, why in draft.declined.items() if number in sentences},
        tuple(ambiguities),
        tuple(sorted(set.intersection(*seen))) if seen else (),
    )


Declared = Mapping[str, Mapping[str, Any]]


def with_declarations(draft: Draft, newer: Declared) -> Draft:
    """Returns a draft with other declarations in place of those with the same names, and without those it does not use.

    A definition is the same with other parameters, and any declaration is under another key.
    """
    names = {_base(name) for of_key in newer.values() for name in of_key}
    older = {
        key: {name: value for name, value in of_key.items() if _base(name) not in names}
        for key, of_key in draft.declarations.items()
    }
    rules = (*draft.rules, *(rule for ambiguity in draft.ambiguities for rule in ambiguity.otherwise))
    return replace(draft, declarations=_needed(_text([rule.source for rule in rules]), [older, newer]))


def _base(name: str) -> str:
    return name.partition("(")[0]


def _needed(text: str, declared_by: Iterable[Declared]) -> Declared:
    """The declarations that a text mentions, and those that these mention."""
    declarations: dict[str, dict[str, Any]] = {}
    declared = [(key, *pair) for each in declared_by for key, names in each.items() for pair in names.items()]
    waiting = [text]
    while waiting:
        mentioned = waiting.pop()
        for key, name, value in declared:
            if not _mentions(mentioned, _base(name)):
                continue
            known = declarations.setdefault(key, {})
            if name not in known:
                waiting.append(_text(value))
            if known.setdefault(name, value) != value:
                raise InputError(f"two drafts declare {name!r} in '{key}' differently; expected another name")
    return declarations


def _text(value: Any) -> str:
    return json.dumps(value, default=str, ensure_ascii=False)


def _mentions(text: str, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None


def distinct(drafts: Iterable[Draft]) -> list[Draft]:
    """Returns drafts with each id in one of them.

    Where several have a rule of one id, one that quotes all that the others quote, such as the rule with the sentence
    of its exception, stands for them. Others are different rules, and get names of their own.
    """
    drafts = list(drafts)
    for name in {rule.id for draft in drafts for rule in draft.rules}:
        having = [(at, rule) for at, draft in enumerate(drafts) for rule in draft.rules if rule.id == name]
        quoted = {number for _, rule in having for number in rule.quotes}
        whole = next((at for at, rule in having if quoted <= {*rule.quotes}), None)
        for count, (at, _) in enumerate(having[1:] if whole is None else having, start=2):
            if whole is None:
                drafts[at] = _renamed(drafts[at], name, f"{name}_{count}")
            elif at != whole:
                rules = tuple(rule for rule in drafts[at].rules if rule.id != name)
                drafts[at] = with_declarations(replace(drafts[at], rules=rules), {})
    return drafts


def _renamed(draft: Draft, name: str, new: str) -> Draft:
    def renamed(rules: Iterable[RuleDraft]) -> tuple[RuleDraft, ...]:
        return tuple(
            replace(rule, id=new, cases=tuple(map(case_of, rule.cases))) if rule.id == name else rule for rule in rules
        )

    def case_of(case: Mapping[str, Any]) -> Mapping[str, Any]:
        rules = case.get("rules")
        return {**case, "rules": [new if each == name else each for each in rules]} if isinstance(rules, list) else case

    ambiguities = (replace(each, otherwise=renamed(each.otherwise)) for each in draft.ambiguities)
    return replace(draft, rules=renamed(draft.rules), ambiguities=tuple(ambiguities))


def joined(drafts: Sequence[Draft]) -> Draft:
    """One draft of the sentences of several, with all that they say. Errors as for `selected`."""
    if len(drafts) == 1:
        return drafts[0]
    sentences = tuple(sorted({number for draft in drafts for number in draft.sentences}))
    rules = [rule for draft in drafts for rule in draft.rules]
    return selected(drafts, sentences, rules, [doubt for draft in drafts for doubt in draft.ambiguities])


# --- cases as text

_KNOWN = ("user_confirmed", "context", "facts", "state", "principal", "messages", "now")
_OF_CALLS = ("tool", "args", "output", "failed")


@dataclass(frozen=True, slots=True)
class CaseRow:
    """A case.

    Attributes:
        call: the proposed call; for a trace, its end.
        before: the earlier calls, and what else is known.
        expected: the expected verdict.
    """

    call: str
    before: str
    expected: str


def case_row(record: Mapping[str, Any], longest: int = 60) -> CaseRow:
    """Returns the row of a record of `check` or `audit`, whose values may be anything; `longest` cuts each of them."""
    is_trace = "proposed" not in record
    calls = _list(record.get("events" if is_trace else "history"))
    parts = [*(_call(call, longest) for call in calls), *_known(record, longest)]
    call = "the end of the conversation" if is_trace else _call(record["proposed"], longest)
    return CaseRow(call, "; ".join(parts) or "nothing", _expected(record))


def _list(value: Any) -> list[Any] | tuple[Any, ...]:
    return value if isinstance(value, list | tuple) else []


def _call(value: Any, longest: int) -> str:
    if not isinstance(value, Mapping) or not isinstance(value.get("args", {}), Mapping):
        return format_value(value, longest)
    arguments = ", ".join(f"{name}={format_value(each, longest)}" for name, each in value.get("args", {}).items())
    failed = " failed" if value.get("failed") is True else ""
    output = f" → {format_value(value['output'], longest)}" if value.get("output") is not None else ""
    others = "".join(f" {key} {format_value(part, longest)}" for key, part in value.items() if key not in _OF_CALLS)
    return f"{value.get('tool')}({arguments}){failed}{output}{others}"


def _known(record: Mapping[str, Any], longest: int) -> Iterator[str]:
    for name in _KNOWN:
        value = record.get(name)
        if isinstance(value, Mapping) and name not in ("state", "principal"):
            yield from (f"{key}: {format_value(part, longest)}" for key, part in value.items())
        elif value is not None:
            yield f"{name}: {format_value(value, max(longest, _LONGEST_KNOWN))}"


_LONGEST_KNOWN = 400


def _expected(record: Mapping[str, Any]) -> str:
    label, rules = record.get("label"), record.get("rules")
    if type(label) is not int or label not in (0, 1):
        return "missing"
    is_unknown = label == 1 and rules is not None and not _list(rules)
    return "denied: unknown" if is_unknown else ("allowed", "denied")[label]
