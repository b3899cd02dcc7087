"""An author of drafts: asks a model for the rules of some sentences, has them examined, and asks for corrections.

After the author come the draft as text for a model, its answer as a draft, the groups of sentences that are drafted in
one request, and the part of a draft that can be used in spite of its problems.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from guardagent.errors import AnswerError, InputError, ModelError, name_hint
from guardagent.policy.documents import Sentence
from guardagent.policy.review.record import NeededFact
from guardagent.translation.assembly.layout import PolicyDumper, dumped
from guardagent.translation.context import TranslationContext, sentences_text
from guardagent.translation.drafts import (
    DECLARATIONS,
    Ambiguity,
    Draft,
    Problem,
    RuleDraft,
    joined,
    new_facts,
    selected,
    with_cases,
    with_declarations,
)
from guardagent.translation.reference import language_reference
from guardagent.translation.requests import ModelRequests, entry_of, read_answer

T = TypeVar("T")
ROUNDS = 2  # in which a draft is sent back with its problems
_FOR_THE_REVIEWER = ("untested", "undecided", "failure")
Examine = Callable[[Draft, TranslationContext], Iterable[Problem]]
Answers = Callable[[Sequence[int]], Mapping[str, str]]
"""The answers of the owner that concern some sentences: their texts by the keys of their rulings."""
Existing = Mapping[str, tuple[RuleDraft, RuleDraft]]
"""Rules by their ids, and the same with the cases that their author was shown."""
NOTHING: Existing = {}


@dataclass(frozen=True, slots=True)
class DraftResult:
    """A draft after its examination.

    Attributes:
        draft: the best draft; None if the model gave none.
        problems: the remaining problems.
        error: the reason why there is no draft, or why it was not corrected further; empty if there is none.
        is_interrupted: whether the model did not answer at all, so that another run goes on here.
    """

    sentences: tuple[int, ...]
    draft: Draft | None
    problems: tuple[Problem, ...] = ()
    error: str = ""
    is_interrupted: bool = False


class DraftAuthor:
    """Writes drafts.

    Args:
        context: the inputs of the translation, with the facts and the failed output of the survey.
        model: makes the requests.
        examine: finds the problems of a draft.
        answers: returns the answers that are part of each request.
    """

    def __init__(
        self, context: TranslationContext, model: ModelRequests, examine: Examine, answers: Answers = lambda _: {}
    ) -> None:
        self._context, self._model = context, model
        self._examine, self._answers = examine, answers

    def drafts(self, batches: Sequence[Sequence[int]]) -> list[DraftResult]:
        """Returns drafts of batches of sentences, given by their numbers; several of a batch whose answer is cut."""
        results = [result for results in self._model.map(self._drafted, batches) for result in results]
        return self._corrected([_Correction(self._examined(result)) for result in results])

    def mend(self, drafts: Iterable[tuple[Draft, Sequence[Problem], Mapping[str, str]]]) -> list[DraftResult]:
        """Returns drafts without problems that others than their examination revealed.

        Args:
            drafts: each with its problems, and the answers that it has to follow: their texts by the keys of their
                rulings.
        """
        results = ((DraftResult(draft.sentences, draft, tuple(each)), rulings) for draft, each, rulings in drafts)
        return self._corrected([_Correction(*pair) for pair in results])

    def _drafted(self, sentences: Sequence[int]) -> list[DraftResult]:
        def draft(part: Sequence[int]) -> DraftResult:
            rulings = self._answers(part)
            text = sentences_text(map(self._context.sentence, part))
            answer = self._ask(rulings, {"sentences": text}, self._read(part))
            return DraftResult(tuple(part), with_declarations(replace(answer, rulings=tuple(rulings)), {}))

        try:
            return self._model.divided(draft, sentences)
        except ModelError as error:
            return [DraftResult(tuple(sentences), None, (), str(error), not isinstance(error, AnswerError))]

    def _corrected(self, corrections: Sequence[_Correction]) -> list[DraftResult]:
        """Corrects drafts in rounds. The rules of all drafts that have problems share the requests of a round.

        Where a model does not answer, the next run goes on here: it makes the same requests if none is made early.
        """
        for _ in range(ROUNDS):
            if any(correction.result.is_interrupted for correction in corrections):
                break
            batches = packed(correction for correction in corrections if correction.problems)
            for batch, answers in zip(batches, self._model.map(self._answered, batches), strict=True):
                for correction in dict.fromkeys(correction for correction, _ in batch):
                    if isinstance(answers, ModelError):
                        correction.fail(str(answers), is_interrupted=not isinstance(answers, AnswerError))
                    else:
                        self._take(correction, [pair for about, *pair in answers if about is correction])
        return [correction.result for correction in corrections]

    def _take(self, correction: _Correction, answers: Sequence[Sequence[Draft]]) -> None:
        """Puts the better one of a draft and its correction in its place; what a correction breaks stays as it was."""
        before, draft = correction.result, correction.result.draft
        assert draft is not None, "it has problems"
        after = self._merged(draft, answers)
        correction.result = better(before, after)
        correction.refused = []
        if correction.result is before:
            correction.refused = [problem for problem in after.problems if problem.fatal]
        if correction.refused:
            sound = [(part, _without(part, answer, correction.refused)) for part, answer in answers]
            correction.result = better(before, self._merged(draft, sound))
        correction.insists = _insists(before, after)

    def _answered(self, batch: Sequence[tuple[_Correction, Problem]]) -> list[_Answer] | ModelError:
        """The parts of drafts that have problems, each with a new answer about it. The other rules are not sent."""
        try:
            return [answer for answers in self._model.divided(self._answered_once, batch) for answer in answers]
        except ModelError as error:
            return error

    def _answered_once(self, batch: Sequence[tuple[_Correction, Problem]]) -> list[_Answer]:
        problems = {correction: [each for about, each in batch if about is correction] for correction, _ in batch}
        parts = [correction.part(some) for correction, some in problems.items()]
        whole = joined(parts)
        shown = replace(whole, rules=tuple(with_shown_cases(rule, [each for _, each in batch]) for rule in whole.rules))
        faults = (each for correction, some in problems.items() for each in (*some, *correction.not_taken(some)))
        own = [self._answers(part.sentences) for part in parts]
        rulings = [{**correction.rulings, **shown_too} for correction, shown_too in zip(problems, own, strict=True)]
        numbers = ", ".join(map(str, whole.sentences))
        data = {"sentences": numbers, "faults": problems_text(faults), "rules": draft_text(shown)}
        pairs = zip(whole.rules, shown.rules, strict=True)
        read = self._read(whole.sentences, {rule.id: (rule, shown_rule) for rule, shown_rule in pairs})
        answers = self._ask(dict(ChainMap(*rulings)), data, lambda text: shares(read(text), parts))
        answers = [replace(answer, rulings=tuple(keys)) for answer, keys in zip(answers, rulings, strict=True)]
        return list(zip(problems, parts, answers, strict=True))

    def _merged(self, draft: Draft, answers: Iterable[Sequence[Draft]]) -> DraftResult:
        for part, answer in answers:
            draft = merged(draft, part, answer)
        return self._examined(DraftResult(draft.sentences, draft))

    def _examined(self, result: DraftResult) -> DraftResult:
        if result.draft is None:
            return result
        return replace(result, problems=tuple(self._examine(result.draft, self._context)))

    def _read(self, sentences: Sequence[int], existing: Existing = NOTHING) -> Callable[[str], Draft]:
        known = {fact.name for fact in self._context.facts}
        last = len(self._context.document.sentences)
        return partial(read_draft, sentences=sentences, last=last, known=known, existing=existing)

    def _ask(self, rulings: Mapping[str, str], data: Mapping[str, str], read: Callable[[str], T]) -> T:
        context, data = self._context, {"faults": "", "rules": "", **data}
        language = context.once("language", language_reference)
        return self._model.ask(
            context.request("draft", rulings, data, language=language, failed_output=context.failed_output), read
        )


@dataclass(eq=False, slots=True)
class _Correction:
    """A draft on its way through the rounds.

    Attributes:
        result: the draft so far.
        rulings: the answers that it has to follow.
        refused: the problems of a correction that was not taken.
        insists: whether its author left its problems as they were.
    """

    result: DraftResult
    rulings: Mapping[str, str] = field(default_factory=dict)
    refused: Sequence[Problem] = ()
    insists: bool = False

    @property
    def problems(self) -> list[Problem]:
        """The problems to correct."""
        result = self.result
        return [] if self.insists or result.error or result.draft is None else correctable(result.problems)

    def part(self, problems: Sequence[Problem]) -> Draft:
        """The rules that have some problems."""
        assert self.result.draft is not None, "it has problems"
        return failed_part(self.result.draft, problems)

    def not_taken(self, problems: Sequence[Problem]) -> Iterator[Problem]:
        """Yields why the last correction of the rules that have some problems does not count."""
        names = {rule.id for rule in self.part(problems).rules}
        for problem in self.refused:
            if problem.rule in names or not problem.rule:
                yield replace(problem, message=f"your correction of it was not taken: {problem.message}")

    def fail(self, error: str, *, is_interrupted: bool = False) -> None:
        """Ends the corrections."""
        self.result = replace(self.result, error=error, is_interrupted=is_interrupted)


_Answer = tuple[_Correction, Draft, Draft]
"""A draft, its part that has problems, and the new answer about this part."""
MOST_CORRECTED = 12  # rules in one request


def packed(corrections: Iterable[_Correction]) -> list[list[tuple[_Correction, Problem]]]:
    """Returns the problems of drafts in as few requests as possible. Drafts whose names clash do not share one."""
    batches: list[list[tuple[_Correction, Problem]]] = []
    parts: list[list[Draft]] = []
    for correction in corrections:
        part = correction.part(correction.problems)
        at = next((at for at, others in enumerate(parts) if _fits(part, others)), len(parts))
        if at == len(parts):
            batches.append([])
            parts.append([])
        batches[at] += [(correction, problem) for problem in correction.problems]
        parts[at].append(part)
    return batches


def _fits(part: Draft, others: Sequence[Draft]) -> bool:
    try:
        return len(joined([*others, part]).rules) <= MOST_CORRECTED
    except InputError:
        return False


def shares(answer: Draft, parts: Sequence[Draft]) -> list[Draft]:
    """Divides an answer about parts of several drafts: a rule belongs to the part with its id, or else its sentences.

    Each has all declarations and facts, also for the rules that stay as they are.

    Raises:
        AnswerError: two rules have the same id.
    """
    if len(parts) == 1:
        return [answer]

    def owner(numbers: Iterable[int], name: str = "") -> int:
        named = (at for at, part in enumerate(parts) if name in {rule.id for rule in part.rules})
        about = (at for at, part in enumerate(parts) if {*numbers} & part.mentioned.union(part.sentences))
        return next(named, next(about, 0))

    rules: list[list[RuleDraft]] = [[] for _ in parts]
    doubts: list[list[Ambiguity]] = [[] for _ in parts]
    for rule in answer.rules:
        rules[owner(rule.quotes, rule.id)].append(rule)
    for doubt in answer.ambiguities:
        doubts[owner([doubt.sentence], next((rule.id for rule in doubt.otherwise), ""))].append(doubt)
    try:
        pairs = zip(parts, rules, doubts, strict=True)
        own_answers = (selected([answer], part.sentences, own, own_doubts) for part, own, own_doubts in pairs)
        return [replace(each, declarations=answer.declarations, facts=answer.facts) for each in own_answers]
    except InputError as error:
        raise AnswerError(str(error)) from None


def correctable(problems: Iterable[Problem]) -> list[Problem]:
    """Returns the problems that the author of a draft can correct; the others are for the reviewer."""
    return [problem for problem in problems if problem.kind not in _FOR_THE_REVIEWER]


def failed_part(draft: Draft, problems: Iterable[Problem]) -> Draft:
    """Returns the rules of a draft that have problems, with what is said of their sentences and all declarations.

    A problem of no rule is one of its sentences, or of all. So are their rules.
    """
    problems = list(problems)
    names = {name for problem in problems for name in (problem.rule, *problem.others)}
    loose = [problem for problem in problems if not problem.rule]
    if any(not problem.sentences for problem in loose):
        return draft
    about = {number for problem in loose for number in problem.sentences}
    rules = tuple(rule for rule in draft.rules if rule.id in names or about & {*rule.quotes})
    sentences = about | {number for rule in rules for number in rule.quotes}
    own = tuple(number for number in draft.sentences if number in sentences)
    return replace(
        draft,
        sentences=own or draft.sentences,
        rules=rules,
        declined={number: reason for number, reason in draft.declined.items() if number in sentences},
        ambiguities=tuple(ambiguity for ambiguity in draft.ambiguities if ambiguity.sentence in sentences),
    )


def merged(draft: Draft, part: Draft, answer: Draft) -> Draft:
    """Returns a draft with an answer in place of one of its parts.

    A rule of the part stays unless the answer has its id, or declines all of its sentences, or has rules with other ids
    for them. What is declined stays unless the answer changes a rule of its sentence; a question stays unless the
    answer asks another one, declines its sentence, or changes the rule after an owner's answer.
    """
    old = {rule.id: (rule.rule, rule.quotes) for rule in part.rules}
    new = [rule for rule in answer.rules if old.get(rule.id) != (rule.rule, rule.quotes)]
    covered = {*answer.declined, *(number for rule in new for number in rule.quotes)}
    questioned = {ambiguity.sentence for ambiguity in answer.ambiguities}
    settled = covered if answer.rulings else {*answer.declined}
    names = {rule.id for rule in answer.rules}
    others = {*answer.declined, *(number for rule in new if rule.id not in old for number in rule.quotes)}
    gone = names | {rule.id for rule in part.rules if {*rule.quotes} & {*draft.sentences} <= others}
    rules = (*(rule for rule in draft.rules if rule.id not in gone), *answer.rules)
    order = {rule.id: at for at, rule in enumerate(draft.rules)}
    result = replace(
        answer,
        sentences=draft.sentences,
        rules=tuple(sorted(rules, key=lambda rule: order.get(rule.id, len(order)))),
        declarations=draft.declarations,
        facts=tuple(dict.fromkeys((*draft.facts, *answer.facts))),
        declined={
            **{number: why for number, why in draft.declined.items() if number not in covered | questioned},
            **answer.declined,
        },
        ambiguities=(
            *(ambiguity for ambiguity in draft.ambiguities if ambiguity.sentence not in settled | questioned),
            *answer.ambiguities,
        ),
        rulings=tuple(dict.fromkeys((*draft.rulings, *answer.rulings))),
    )
    return with_declarations(result, answer.declarations)


def _insists(first: DraftResult, second: DraftResult) -> bool:
    """Whether an author left problems that are not fatal exactly as they were: the reviewer decides about them."""
    same = {*correctable(first.problems)} == {*correctable(second.problems)}
    return same and not any(problem.fatal for problem in second.problems)


def _without(part: Draft, answer: Draft, problems: Iterable[Problem]) -> Draft:
    """A correction with the earlier rules in place of those that have problems, so that it counts for the others."""
    names = {problem.rule for problem in problems}
    taken = tuple(rule for rule in answer.rules if rule.id not in names)
    return replace(answer, rules=(*taken, *(rule for rule in part.rules if rule.id in names)))


def better(first: DraftResult, second: DraftResult) -> DraftResult:
    """Returns the result with fewer fatal problems, or else with fewer problems; the second of equal ones."""
    return min((second, first), key=lambda result: (sum(p.fatal for p in result.problems), len(result.problems)))


# --- drafts as text


def problems_text(problems: Iterable[Problem]) -> str:
    """Returns the problems as a numbered list for the model, which sees the cases that they name with the rules."""
    return "\n".join(
        f"{number}. {f'rule {problem.rule}: ' if problem.rule else ''}{problem.message}"
        f"{f' ({problem.example})' if problem.example and not problem.case else ''}"
        for number, problem in enumerate(problems, start=1)
    )


_ABOUT_CASES = ("case", "mutant", "reading")
_ABOUT_WORDS = ("syntax", "grounding", "id", "message", "sentence")
_SHOWN_CASES = 2


def with_shown_cases(rule: RuleDraft, problems: Iterable[Problem]) -> RuleDraft:
    """Returns a rule with the cases that problems name, and two others; with all cases if what it means is wrong."""
    own = [problem for problem in problems if problem.rule == rule.id and problem.kind not in _ABOUT_WORDS]
    if any(each.kind not in _ABOUT_CASES or (each.fatal and not each.case) for each in own):
        return rule
    named = {problem.case for problem in own}
    others = [case for case in rule.cases if str(case.get("id")) not in named][:_SHOWN_CASES]
    return replace(rule, cases=tuple(case for case in rule.cases if case in others or str(case.get("id")) in named))


def draft_text(draft: Draft) -> str:
    """Returns a draft in the form of an answer."""
    content = {
        "facts": [{"name": fact.name, "description": fact.description} for fact in draft.facts],
        "declarations": {name: dict(declaration) for name, declaration in draft.declarations.items()},
        "rules": list(map(_rule_record, draft.rules)),
        "declined": [{"sentence": number, "reason": reason} for number, reason in draft.declined.items()],
        "ambiguous": [
            _filled(
                sentence=ambiguity.sentence,
                question=ambiguity.question,
                readings=list(ambiguity.readings),
                follows=ambiguity.readings.index(ambiguity.follows) + 1 if ambiguity.follows else 0,
                otherwise=list(map(_rule_record, ambiguity.otherwise)),
            )
            for ambiguity in draft.ambiguities
        ],
    }
    return dumped(_filled(**content), _DraftDumper, width=1_000)


def _filled(**values: Any) -> dict[str, Any]:
    """A mapping without what is empty."""
    return {key: value for key, value in values.items() if value}


def _rule_record(rule: RuleDraft) -> dict[str, Any]:
    quotes = [_OneLine(sentence=at, words=line) for at, words in rule.quotes.items() for line in words.splitlines()]
    cases = list(map(_OneLine, rule.cases))
    return {"id": rule.id, "quotes": quotes, **rule.rule, **({"cases": cases} if cases else {})}


class _OneLine(dict[str, Any]):
    """A mapping that is written in one line."""


class _DraftDumper(PolicyDumper):
    """Writes cases in one line each."""


_DraftDumper.add_representer(
    _OneLine, lambda dumper, mapping: dumper.represent_mapping("tag:yaml.org,2002:map", mapping, flow_style=True)
)


# --- an answer as a draft


@dataclass(frozen=True, slots=True)
class _QuoteEntry:
    sentence: int
    words: str


@dataclass(frozen=True, slots=True)
class _RuleAnswer:
    """The keys of a rule that are not those of a policy, which the examination reads."""

    id: str
    quotes: tuple[_QuoteEntry, ...]
    cases: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class _DeclinedEntry:
    sentence: int
    reason: str


@dataclass(frozen=True, slots=True)
class _AmbiguousEntry:
    sentence: int
    question: str
    readings: tuple[str, ...] = ()
    follows: int | None = None
    otherwise: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class _DraftAnswer:
    facts: tuple[NeededFact, ...] = ()
    declarations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    rules: tuple[Mapping[str, Any], ...] = ()
    declined: tuple[_DeclinedEntry, ...] = ()
    ambiguous: tuple[_AmbiguousEntry, ...] = ()


def read_draft(
    answer: str,
    sentences: Collection[int],
    last: int,
    known: Collection[str] = (),
    existing: Existing = NOTHING,
) -> Draft:
    """Reads a draft.

    Args:
        answer: the text of the answer.
        sentences: the numbers of the sentences that were to be translated.
        last: the number of the last sentence of the document.
        known: the names of the facts that need no declaration.
        existing: the rules that it can change.

    Raises:
        AnswerError: the answer is not a draft, or is about a sentence that the document does not have.
    """
    content = read_answer(answer, _DraftAnswer)
    if not (content.rules or content.declined or content.ambiguous or (existing and content.declarations)):
        changes = ", or the 'declarations' that change" if existing else ""
        raise AnswerError(
            f"the answer has no 'rules' and no 'declined' sentences; expected each sentence in one of them{changes}"
        )
    if unknown := [key for key in content.declarations if key not in DECLARATIONS]:
        raise AnswerError(f"declarations: unknown key {unknown[0]!r:.80}{name_hint(unknown[0], DECLARATIONS)}")
    rules = tuple(_rule_draft(entry, f"rules[{at}]", existing) for at, entry in enumerate(content.rules))
    draft = Draft(
        tuple(sentences),
        rules,
        {key: names for key, names in content.declarations.items() if names},
        new_facts(content.facts, known),
        {entry.sentence: " ".join(entry.reason.split()) for entry in content.declined},
        tuple(_ambiguous(entry, rules) for entry in content.ambiguous),
    )
    if wrong := sorted(number for number in draft.mentioned if not 1 <= number <= last):
        raise AnswerError(f"there is no sentence {wrong[0]}; expected the numbers 1 to {last}")
    return draft


def _ambiguous(entry: _AmbiguousEntry, rules: Sequence[RuleDraft]) -> Ambiguity:
    question, readings = entry.question.strip(), tuple(dict.fromkeys(filter(None, entry.readings)))
    place, follows = f"sentence {entry.sentence}", ""
    if not question or len(readings) < 2:
        raise AnswerError(f"{place}: a question needs its text and at least two different 'readings'")
    if entry.follows is not None:
        if not 1 <= entry.follows <= len(readings):
            raise AnswerError(f"{place}: the reading {entry.follows} is followed; there are {len(readings)}")
        follows = readings[entry.follows - 1]
    if entry.otherwise and (len(readings) != 2 or not follows):
        raise AnswerError(
            f"{place}: 'otherwise' has the rules of the reading that is not followed; expected 'follows', and two "
            "'readings'"
        )
    ambiguity = Ambiguity(entry.sentence, question, readings, follows)
    return replace(ambiguity, otherwise=tuple(_other_rule(other, ambiguity, rules) for other in entry.otherwise))


def _other_rule(content: Mapping[str, Any], ambiguity: Ambiguity, rules: Sequence[RuleDraft]) -> RuleDraft:
    """A rule by the other reading: what it does not say is as in the rule of its id. One with an id alone is none."""
    other = _rule_draft({"quotes": [], **content}, f"the rules of sentence {ambiguity.sentence} under 'otherwise'")
    own = next((rule for rule in rules if rule.id == other.id), None)
    quotes = other.quotes or (own.quotes if own else {ambiguity.sentence: ambiguity.question})
    if own is None or not other.rule:
        return replace(other, quotes=quotes)
    return replace(other, rule=_changed(own.rule, other.rule), quotes=quotes)


def _changed(rule: Mapping[str, Any], keys: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a rule with others in their place; a rule is either temporal or of the solver."""
    left = {"temporal", "solver"} if {"temporal", "solver"} & keys.keys() else set[str]()
    return {**{key: value for key, value in rule.items() if key not in left}, **keys}


def _rule_draft(content: Mapping[str, Any], place: str, existing: Existing = NOTHING) -> RuleDraft:
    """A rule; with the cases of one of its id that its author was not shown.

    Without quotes, or without the rule itself, it changes that one.
    """
    before, shown = existing.get(str(content.get("id")), (None, None))
    is_change = before is not None and not ("quotes" in content and {"temporal", "solver"} & content.keys())
    own = [key for key in ("id", "quotes", "cases") if key in content]
    keys = {key: content[key] for key in own}
    entry = entry_of(_RuleAnswer, {"quotes": [], **keys} if is_change else keys, place)
    quotes: dict[int, str] = {}
    for quote in entry.quotes:
        words = " ".join(quote.words.split())
        quotes[quote.sentence] = f"{quotes[quote.sentence]}\n{words}" if quote.sentence in quotes else words
    rule = RuleDraft(entry.id, {key: content[key] for key in content if key not in own}, quotes, entry.cases)
    if before is None or shown is None:
        return rule
    cases = with_cases(before, entry.cases, () if is_change else [str(case.get("id")) for case in shown.cases]).cases
    if is_change:
        return replace(before, rule=_changed(before.rule, rule.rule), quotes=quotes or before.quotes, cases=cases)
    return replace(rule, cases=cases)


# --- groups of sentences

NO_OTHERS: Mapping[int, Collection[int]] = {}
MOST = 6
LONGEST = 8  # of sentences that only make sense together


def draft_batches(
    sentences: Sequence[Sentence], belongs_to: Mapping[int, Collection[int]] = NO_OTHERS
) -> tuple[tuple[int, ...], ...]:
    """Returns the numbers of sentences in batches of at most six, in their order, whatever headings they stand under.

    A sentence that only makes sense after another one, such as 'Otherwise …' or an item of its list, is in the same
    batch, which may then have up to eight. So is one that only makes an exception to the rule of another sentence.

    Args:
        sentences: the sentences to draft, in the order of the document.
        belongs_to: the sentences to whose rules a sentence belongs, by its number.
    """
    units = [{sentence.number for sentence in unit} for unit in _units(sentences)]
    for number, other in ((number, other) for number, others in belongs_to.items() for other in others):
        own, theirs = ([unit for unit in units if at in unit] for at in (number, other))
        if own and theirs and own != theirs and len(own[0] | theirs[0]) <= LONGEST:
            theirs[0].update(own[0])
            units.remove(own[0])
    batches: list[set[int]] = []
    for unit in units:
        if batches and len(batches[-1]) + len(unit) <= MOST:
            batches[-1] |= unit
        else:
            batches.append(unit)
    return tuple(tuple(sorted(batch)) for batch in batches)


def _units(sentences: Sequence[Sentence]) -> Iterator[list[Sentence]]:
    """Yields runs of sentences of which each needs an earlier one of its run to be understood."""
    unit: list[Sentence] = []
    for sentence in sentences:
        is_next = bool(unit) and sentence.path == unit[0].path and len(unit) < LONGEST
        if unit and not (is_next and any(each.text in sentence.context for each in unit)):
            yield unit
            unit = []
        unit.append(sentence)
    if unit:
        yield unit


# --- usable parts


def usable_part(result: DraftResult) -> Draft | None:
    """Returns a draft without the rules that have fatal problems; None if nothing of it can be used.

    A sentence that such a rule rests on is not part of it, nor are the other rules of that sentence: a sentence is
    translated as a whole or not at all.
    """
    draft = result.draft
    fatal = [problem for problem in result.problems if problem.fatal]
    if draft is None or any(not problem.rule and not problem.sentences for problem in fatal):
        return None
    failed = {problem.rule for problem in fatal if problem.rule}
    left_out = {number for problem in fatal for number in problem.sentences if not problem.rule}
    while True:
        before = len(failed), len(left_out)
        left_out |= {number for rule in draft.rules if rule.id in failed for number in rule.sentences} & {
            *draft.sentences
        }
        failed |= {rule.id for rule in draft.rules if left_out & {*rule.sentences}}
        if before == (len(failed), len(left_out)):
            break
    rules = tuple(rule for rule in draft.rules if rule.id not in failed)
    sentences = tuple(sentence for sentence in draft.sentences if sentence not in left_out)
    return replace(draft, sentences=sentences, rules=rules) if sentences else None
