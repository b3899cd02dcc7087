"""An author of drafts: asks a model for the rules of some sentences, has them examined, and asks for corrections.

After the author come the draft as text for a model, its answer as a draft, the groups of sentences that are drafted in
one request, and the part of a draft that can be used in spite of its problems.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from guardagent.errors import AnswerError, ModelError, name_hint
from guardagent.policy.documents import Sentence
from guardagent.policy.review.record import NeededFact
from guardagent.translation.assembly.layout import PolicyDumper, dumped
from guardagent.translation.context import TranslationContext, sentences_text
from guardagent.translation.drafts import DECLARATIONS, Ambiguity, Draft, Problem, RuleDraft, new_facts
from guardagent.translation.reference import language_reference
from guardagent.translation.requests import ModelRequests, entry_of, read_answer

ROUNDS = 2  # in which a draft is sent back with its problems
_FOR_THE_REVIEWER = ("untested", "undecided", "failure")
Examine = Callable[[Draft, TranslationContext], Iterable[Problem]]
Answers = Callable[[Sequence[int]], Mapping[str, str]]
"""The answers of the owner that concern some sentences: their texts by the keys of their rulings."""


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

    def drafts(self, sentences: Sequence[int]) -> list[DraftResult]:
        """Returns a draft of some sentences, given by their numbers; several ones if the answer about all is cut."""
        try:
            parts = self._model.divided(lambda part: self._ask(part, {}, "", ""), sentences)
        except ModelError as error:
            return [DraftResult(tuple(sentences), None, (), str(error), not isinstance(error, AnswerError))]
        return [self._corrected(self._examined(draft), {}) for draft in parts]

    def mend(self, draft: Draft, problems: Sequence[Problem], rulings: Mapping[str, str]) -> DraftResult:
        """Returns a draft without the given problems: those that answers of a reviewer revealed.

        Args:
            draft: the draft.
            problems: the problems.
            rulings: the answers that it has to follow: their texts by the keys of their rulings.
        """
        result = DraftResult(draft.sentences, draft, tuple(problems))
        return self._corrected(result, rulings)

    def _corrected(self, result: DraftResult, rulings: Mapping[str, str]) -> DraftResult:
        refused: list[Problem] = []
        for _ in range(ROUNDS):
            found_problems, draft = correctable(result.problems), result.draft
            if not found_problems or draft is None:
                break
            if not self._model.may_correct:
                return replace(result, error=f"the limit of {self._model.limit} model calls is reached")
            try:
                answers = self._answered(draft, found_problems, rulings, refused)
            except ModelError as error:
                return replace(result, error=str(error), is_interrupted=not isinstance(error, AnswerError))
            before, after = result, self._examined(_all_merged(draft, answers))
            result = better(before, after)
            refused = [problem for problem in after.problems if problem.fatal] if result is before else []
            sound = [(part, _without(part, answer, refused)) for part, answer in answers]
            if refused:
                result = better(before, self._examined(_all_merged(draft, sound)))
            if _insists(before, after):
                break
        return result

    def _answered(
        self, draft: Draft, problems: Sequence[Problem], rulings: Mapping[str, str], refused: Iterable[Problem]
    ) -> list[tuple[Draft, Draft]]:
        """The rules that have problems, and a new answer about them, perhaps in parts. The others are not sent."""

        def answered(some: Sequence[Problem]) -> tuple[Draft, Draft]:
            part = failed_part(draft, some)
            names = {rule.id for rule in part.rules}
            problem = problems_text([*some, *(_not_taken(other) for other in refused if other.rule in names)])
            return part, self._ask(part.sentences, rulings, problem, draft_text(part, lacking(some)), part.rules)

        return self._model.divided(answered, problems)

    def _examined(self, draft: Draft) -> DraftResult:
        return DraftResult(draft.sentences, draft, tuple(self._examine(draft, self._context)))

    def _ask(
        self,
        sentences: Sequence[int],
        rulings: Mapping[str, str],
        problem: str,
        answer: str,
        rules: Sequence[RuleDraft] = (),
    ) -> Draft:
        context, rulings = self._context, {**rulings, **self._answers(sentences)}
        text = sentences_text(map(context.sentence, sentences))
        data = {"sentences": text, "problem": problem, "answer": answer}
        language = self._context.once("language", language_reference)
        request = context.request("draft", rulings, data, language=language, failed_output=context.failed_output)
        known = {fact.name for fact in context.facts}
        last = len(context.document.sentences)
        read = partial(read_draft, sentences=sentences, last=last, known=known, existing=rules)
        return replace(self._model.ask(request, read), rulings=tuple(rulings))


def lacking(problems: Iterable[Problem]) -> frozenset[str]:
    """Returns the rules that lack cases, and have no other problem."""
    problems = list(problems)
    return frozenset(problem.rule for problem in problems) - {
        other.rule for other in problems if other.kind != "mutant"
    }


def _not_taken(problem: Problem) -> Problem:
    return replace(problem, message=f"your correction of it was not taken: {problem.message}")


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


def _all_merged(draft: Draft, answers: Iterable[tuple[Draft, Draft]]) -> Draft:
    for part, answer in answers:
        draft = merged(draft, part, answer)
    return draft


def merged(draft: Draft, part: Draft, answer: Draft) -> Draft:
    """Returns a draft with an answer in place of one of its parts.

    A rule of the part stays if the answer neither has its id nor speaks of all of its sentences; so do what is declined
    and the questions. An answer that leaves a rule as it is, and adds cases, does not speak of its sentences.
    """
    old = {rule.id: (rule.rule, rule.quotes) for rule in part.rules}
    new = [rule for rule in answer.rules if old.get(rule.id) != (rule.rule, rule.quotes)]
    covered = {*answer.declined, *(number for rule in new for number in rule.quotes)}
    questioned = {ambiguity.sentence for ambiguity in answer.ambiguities}
    names = {rule.id for rule in answer.rules}
    gone = names | {rule.id for rule in part.rules if {*rule.quotes} & {*draft.sentences} <= covered}
    rules = (*(rule for rule in draft.rules if rule.id not in gone), *answer.rules)
    order = {rule.id: at for at, rule in enumerate(draft.rules)}
    return replace(
        answer,
        sentences=draft.sentences,
        rules=tuple(sorted(rules, key=lambda rule: order.get(rule.id, len(order)))),
        declarations={
            key: {**draft.declarations.get(key, {}), **answer.declarations.get(key, {})}
            for key in DECLARATIONS
            if key in draft.declarations or key in answer.declarations
        },
        facts=tuple(dict.fromkeys((*draft.facts, *answer.facts))),
        declined={
            **{number: why for number, why in draft.declined.items() if number not in covered | questioned},
            **answer.declined,
        },
        ambiguities=(
            *(ambiguity for ambiguity in draft.ambiguities if ambiguity.sentence not in covered | questioned),
            *answer.ambiguities,
        ),
        rulings=tuple(dict.fromkeys((*draft.rulings, *answer.rulings))),
    )


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
    """Returns the problems as a numbered list for the model."""
    return "\n".join(
        f"{number}. {f'rule {problem.rule}: ' if problem.rule else ''}{problem.message}"
        f"{f' ({problem.example})' if problem.example else ''}"
        for number, problem in enumerate(problems, start=1)
    )


_SHOWN_CASES = 2


def draft_text(draft: Draft, lacking: Collection[str] = ()) -> str:
    """Returns a draft in the form of an answer; of rules that only lack cases, with few of the cases they have."""
    rules = [replace(rule, cases=rule.cases[:_SHOWN_CASES]) if rule.id in lacking else rule for rule in draft.rules]
    content = {
        "facts": [{"name": fact.name, "description": fact.description} for fact in draft.facts],
        "declarations": {name: dict(declaration) for name, declaration in draft.declarations.items()},
        "rules": list(map(_rule_record, rules)),
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
class _MoreCases:
    id: str
    add_cases: tuple[Mapping[str, Any], ...]


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
    existing: Sequence[RuleDraft] = (),
) -> Draft:
    """Reads a draft.

    Args:
        answer: the text of the answer.
        sentences: the numbers of the sentences that were to be translated.
        last: the number of the last sentence of the document.
        known: the names of the facts that need no declaration.
        existing: the rules that it can add cases to.

    Raises:
        AnswerError: the answer is not a draft, or is about a sentence that the document does not have.
    """
    content = read_answer(answer, _DraftAnswer)
    if not (content.rules or content.declined or content.ambiguous):
        raise AnswerError(
            "the answer has no 'rules' and no 'declined' sentences; expected each sentence in one of them"
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
    left = {"temporal", "solver"} if {"temporal", "solver"} & other.rule.keys() else set[str]()
    kept = {key: value for key, value in own.rule.items() if key not in left}
    return replace(other, rule={**kept, **other.rule}, quotes=quotes)


def _rule_draft(content: Mapping[str, Any], place: str, existing: Sequence[RuleDraft] = ()) -> RuleDraft:
    if "add_cases" in content:
        more = entry_of(_MoreCases, content, place)
        rule = next((rule for rule in existing if rule.id == more.id), None)
        if rule is None:
            raise AnswerError(f"{place}: there is no rule {more.id!r:.80} to add cases to; expected a whole rule")
        return replace(rule, cases=(*rule.cases, *more.add_cases))
    own = [key for key in ("id", "quotes", "cases") if key in content]
    entry = entry_of(_RuleAnswer, {key: content[key] for key in own}, place)
    quotes: dict[int, str] = {}
    for quote in entry.quotes:
        words = " ".join(quote.words.split())
        quotes[quote.sentence] = f"{quotes[quote.sentence]}\n{words}" if quote.sentence in quotes else words
    return RuleDraft(entry.id, {key: content[key] for key in content if key not in own}, quotes, entry.cases)


# --- groups of sentences

MOST = 6
LONGEST = 8  # of sentences that only make sense together


def draft_batches(sentences: Sequence[Sentence]) -> tuple[tuple[int, ...], ...]:
    """Returns the numbers of sentences in batches of at most six, in their order, whatever headings they stand under.

    A sentence that only makes sense after another one, such as 'Otherwise …' or an item of its list, is in the same
    batch, which may then have up to eight.

    Args:
        sentences: the sentences to draft, in the order of the document.
    """
    batches: list[tuple[int, ...]] = []
    for unit in _units(sentences):
        numbers = tuple(sentence.number for sentence in unit)
        if batches and len(batches[-1]) + len(numbers) <= MOST:
            numbers = (*batches.pop(), *numbers)
        batches.append(numbers)
    return tuple(batches)


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
