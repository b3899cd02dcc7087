"""The inputs of a translation, read, and its review: the fate of every sentence, the rules, questions and findings."""

from __future__ import annotations

import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from guardagent.errors import GuardError, InputError
from guardagent.policy.documents import compare, read_document
from guardagent.policy.review import rule_hashes
from guardagent.policy.review.record import (
    Fate,
    ModelCost,
    NeededFact,
    Readings,
    RecordedAnswer,
    Review,
    ReviewedRule,
    ReviewedSentence,
    ReviewFinding,
    ReviewQuestion,
)
from guardagent.policy.review.requirement import reviewed_sentences
from guardagent.policy.words import policies_in_words
from guardagent.translation.assembly import PolicyAssembly
from guardagent.translation.change import Kept
from guardagent.translation.context import TranslationContext
from guardagent.translation.drafts import Draft, Problem
from guardagent.translation.readings import GroupReading, ambiguity_questions
from guardagent.translation.samples import read_fact_descriptions, read_samples
from guardagent.translation.stages import StageResults
from guardagent.translation.survey import SurveyedSentence
from guardagent.translation.tools import ToolSchema, read_tools
from guardagent.types import Usage

# --- inputs


@dataclass(frozen=True, slots=True)
class TranslationInputs:
    """The inputs as read.

    Attributes:
        path: the document.
        digest: the SHA-256 of its bytes.
        traces: the file of recorded calls, if there is one.
    """

    context: TranslationContext
    path: Path
    digest: str
    traces: Path | None


def read_inputs(
    document: Path | str,
    tools: Any,
    folder: Path,
    *,
    traces: Path | str | None = None,
    facts: Path | str | None = None,
    toolbox: Sequence[Path | str] = (),
    document_format: str | None = None,
) -> TranslationInputs:
    """Reads everything that a translation is given.

    Args:
        document: the file of the policy document.
        tools: as for `read_tools`.
        folder: the folder of the policy file.
        traces: a file of recorded calls.
        facts: a file with descriptions of facts.
        toolbox: Python files with functions for rules; inside the folder of the policy file.
        document_format: the format of the document.

    Raises:
        InputError: a file is missing or invalid; the message says which.
    """
    path = Path(document)
    if str(document) == "-":
        raise InputError("the document is '-'; expected a file, since its hash is kept for the review")
    digest = _digest(path)
    context = TranslationContext(
        document=read_document(path, document_format),
        tools=_tools(tools),
        samples=read_samples(traces) if traces is not None else None,
        facts=read_fact_descriptions(facts) if facts is not None else (),
        toolbox=tuple(_inside(Path(one), folder) for one in toolbox),
        folder=folder.absolute(),
    )
    if _digest(path) != digest:
        raise InputError(f"{path}: changed while it was read; run the translation again")
    return TranslationInputs(context, path, digest, Path(traces) if traces is not None else None)


def _tools(source: Any) -> tuple[ToolSchema, ...]:
    """The tools of the agent.

    Raises:
        InputError: they cannot be read. A server that lists none is a wrong input, as is one that does not start.
    """
    try:
        return read_tools(source)
    except InputError:
        raise
    except GuardError as error:
        reason = str(error).removesuffix("; nothing is guarded")  # a translation guards nothing anyway
        raise InputError(f"tools {source!r}: {reason}; expected a server that lists its tools") from None


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}; expected a policy document") from None


def _inside(path: Path, folder: Path) -> Path:
    """The path of a toolbox file relative to the folder of the policy file.

    Raises:
        InputError: it lies elsewhere; a policy file names only files beside it.
    """
    try:
        return path.absolute().relative_to(folder.absolute())
    except ValueError:
        raise InputError(f"{path}: is outside of {folder}; expected a file in the folder of the policy file") from None


# --- the review

_WORST_LAST: tuple[Readings, ...] = ("agree", "answered", "edited", "single", "open")


@dataclass
class Recording:
    """The parts from which a review is made.

    Attributes:
        inputs: the inputs as read.
        stages: the results of the stages.
        assembly: the assembled policy.
        problems: the problems of the assembled policy.
        kept: the part of an earlier translation that stands; None in a first translation.
        previous: the earlier review, or None.
        usage: the model usage.
    """

    inputs: TranslationInputs
    stages: StageResults
    assembly: PolicyAssembly
    problems: Sequence[Problem]
    kept: Kept | None
    previous: Review | None
    usage: Usage

    def review(self, folder: Path) -> Review:
        """Returns the review; `folder` is that of the policy file."""
        questions = tuple({one.id: one for one in self._questions()}.values())
        rules = tuple(self._rules())
        return Review(
            document=os.path.relpath(self.inputs.path, folder),
            document_hash=self.inputs.digest,
            sentences=tuple(self._sentences()),
            rules=rules,
            facts=tuple(self._facts()),
            questions=questions,
            answers=tuple(self._answers({one.id for one in questions})),
            findings=tuple(self._different_findings()),
            confirmations=self.kept.confirmations if self.kept else (),
            cost=ModelCost(
                self.usage.calls,
                self.usage.prompt_tokens or 0,
                self.usage.completion_tokens or 0,
                self.usage.cost,
            ),
        )

    # --- sentences

    def _sentences(self) -> Iterator[ReviewedSentence]:
        kept = {one.number: one for one in self.kept.sentences} if self.kept else {}
        for one in self.inputs.context.document.sentences:
            rules = tuple(self._rules_of[one.hash])
            if one.number in kept:
                yield replace(kept[one.number], rules=rules)
                continue
            fate, reason = self._fate(self.inputs.context.first_number(one.number), rules)
            yield ReviewedSentence(
                one.number, one.text, one.kind, one.path, one.context, one.place, one.hash, fate, reason, rules
            )

    @cached_property
    def _rules_of(self) -> Mapping[str, list[str]]:
        """The ids of the rules that quote a sentence, by its hash."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        for rule in self.assembly.rules:
            for sentence in dict.fromkeys(map(self._hash, rule.quotes)):
                found[sentence].append(rule.id)
        return found

    def _fate(self, number: int, rules: Sequence[str]) -> tuple[Fate, str]:
        """The fate of a sentence: that of the survey, unless the drafts know better."""
        found = self.stages.survey.sentences.get(number) or self._drafted_before(number)
        if found.fate != "rule":
            return found.fate, found.reason
        if rules:
            return "rule", found.reason
        reading = self._reading_of.get(number)
        if reason := self._declined(number, reading):
            return "not_enforceable", reason
        if reading is not None and reading.readings == "open":
            return "open", "a question decides whether it has a rule"
        return "open", self._error(number)

    def _drafted_before(self, number: int) -> SurveyedSentence:
        """A sentence whose drafts are kept from an earlier run."""
        if number not in self._reading_of or self.previous is None:
            return SurveyedSentence(number, "open", "it was not surveyed")
        reasons = [
            one.reason for one in self.previous.sentences if one.hash == self._hash(number) and one.fate == "rule"
        ]
        return SurveyedSentence(number, "rule", next(iter(reasons), ""))

    def _declined(self, number: int, reading: GroupReading | None) -> str:
        return reading.draft.declined.get(number, "") if reading is not None and reading.readings != "open" else ""

    @cached_property
    def _reading_of(self) -> Mapping[int, GroupReading]:
        return {number: one for one in self.stages.readings for number in one.draft.sentences}

    def _error(self, number: int) -> str:
        """The reason why a sentence has no draft."""
        about = [one for one in self.stages.drafts if number in one.sentences]
        problems = [problem.message for one in about for problem in one.problems if problem.fatal]
        errors = [one.error for one in about if one.error]
        return next(
            iter((*errors, *problems)), "it was not drafted" if not self.stages.drafts else "no draft has a rule"
        )

    # --- rules

    def _rules(self) -> Iterator[ReviewedRule]:
        policies = self.assembly.policies
        if policies is None:
            return
        hashes, words = rule_hashes(policies), policies_in_words(policies)
        for one in self.assembly.rules:
            quotes = {self._hash(number): text for number, text in one.quotes.items()}
            yield ReviewedRule(one.id, hashes[one.id], quotes, words[one.id].text, one.cases, self._readings_of[one.id])

    @cached_property
    def _readings_of(self) -> Mapping[str, Readings]:
        """The readings of rules by their ids in the file. Of the readings of a rule of several sentences, the worst."""
        pairs = [(one.id, one.readings) for one in (self.kept.rules if self.kept else ())]
        for reading, renamed in zip(self.stages.readings, self._renamed, strict=True):
            pairs += [(renamed.get(rule.id, rule.id), reading.readings) for rule in reading.draft.rules]
        found: defaultdict[str, Readings] = defaultdict(lambda: "edited")
        found.update(sorted(pairs, key=lambda one: _WORST_LAST.index(one[1])))
        return found

    def _hash(self, number: int) -> str:
        return self.inputs.context.sentence(number).hash

    def _facts(self) -> Iterator[NeededFact]:
        """Yields the facts that rules read, and those that the survey found."""
        known = {one.name: NeededFact(one.name, one.description) for one in self.stages.context.facts}
        known |= {fact.name: fact for one in self.stages.readings for fact in one.draft.facts}
        known |= {one.name: one for one in (self.kept.facts if self.kept else ())}
        text = json.dumps([one.rule for one in self.assembly.rules])
        found = {one.name for one in self.stages.survey.facts}
        yield from (one for name, one in known.items() if name in text or name in found)

    # --- questions and findings

    def _questions(self) -> Iterator[ReviewQuestion]:
        yield from self.kept.questions if self.kept else ()
        for reading, renamed in zip(self.stages.readings, self._renamed, strict=True):
            for one in reading.questions:
                yield replace(one, rules=tuple(renamed.get(rule, rule) for rule in one.rules))
        others = [one for one in self.stages.survey.ambiguities if one.sentence not in self._reading_of]
        yield from ambiguity_questions(others, self.inputs.context)
        yield from self._answered_elsewhere()

    def _answered_elsewhere(self) -> Iterator[ReviewQuestion]:
        """Yields the answered questions about sentences that are in no group, such as definitions."""
        there = self.inputs.context.document.first_numbers
        answered = {one.question for one in self.previous.answers} if self.previous else set()
        answered -= {one.id for one in self.kept.questions} if self.kept else set()
        for one in self.previous.questions if self.previous else ():
            numbers = {there.get(name) for name in one.sentences}
            if one.id in answered and None not in numbers and not numbers & self._reading_of.keys():
                yield replace(one, rules=())

    @property
    def _renamed(self) -> Sequence[Mapping[str, str]]:
        """The new ids of the rules of each reading. Without a policy, the rules keep their ids."""
        count = len(self.stages.readings)
        return self.assembly.renamed[-count:] if self.assembly.renamed and count else [{}] * count

    def _answers(self, questions: Iterable[str]) -> Iterator[RecordedAnswer]:
        known = {*questions}
        for one in self.previous.answers if self.previous else ():
            if one.question in known:
                yield replace(one, applied=one.applied or self._is_applied(one.question))

    def _is_applied(self, question: str) -> bool:
        """Whether the drafts that it is about follow it, and those that it concerns know it."""
        if any(one.question.id == question for _, one in self.stages.unreached):
            return False
        for reading in self.stages.readings:
            if any(one.id == question for one in reading.questions):
                return not any(one.kind == "unapplied_answer" for one in reading.findings)
        return any(one.id == question for one in self._answered_elsewhere())

    def _different_findings(self) -> Iterable[ReviewFinding]:
        """Those of the whole policy come first: a draft may have the same one."""
        found: dict[tuple[str, str, tuple[str, ...]], ReviewFinding] = {}
        for one in sorted(self._findings(), key=lambda one: not one.of_policy):
            found.setdefault((one.kind, one.message, one.rules), one)
        return found.values()

    def _findings(self) -> Iterator[ReviewFinding]:
        yield from self.kept.findings if self.kept else ()
        for one in self.inputs.context.document.findings:
            yield ReviewFinding(f"document_{one.kind}", f"{one.place}: {one.message}", example=one.text, blocking=False)
        for group, error in self.stages.survey.errors.items():
            yield ReviewFinding("no_survey", error, tuple(map(self._hash, group)))
        for reading, renamed in zip(self.stages.readings, self._renamed, strict=True):
            for found in reading.findings:
                yield replace(found, rules=tuple(renamed.get(rule, rule) for rule in found.rules))
        yield from self._unreached()
        yield from self._outdated_answers()
        for result in self.stages.drafts:
            if result.error:
                yield ReviewFinding("draft", result.error, tuple(map(self._hash, result.sentences)), blocking=False)
        for problem in (*self.assembly.problems, *self.problems):
            yield replace(self._finding(problem), of_policy=True)
        yield from map(self._finding, self._remaining())

    def _unreached(self) -> Iterator[ReviewFinding]:
        for group, ruling in self.stages.unreached:
            text = f"An answer concerns these rules, and no draft that knows it could be used: {ruling.text}"
            rules = tuple(dict.fromkeys(rule.id for draft in group.drafts for rule in draft.rules))
            yield ReviewFinding("unapplied_answer", text, tuple(map(self._hash, group.sentences)), rules)

    def _outdated_answers(self) -> Iterator[ReviewFinding]:
        """Yields a note for each answer about words that the document no longer has: it decides nothing any more."""
        document, previous = self.inputs.context.document, self.previous
        if previous is None:
            return
        compared = compare(reviewed_sentences(previous), document.sentences)
        now = {one.old.hash: one.new.hash for one in compared.changed}
        questions = {one.id: one for one in previous.questions}
        for answer in previous.answers:
            question = questions[answer.question]
            if gone := [one for one in question.sentences if one not in document.first_numbers]:
                choice = answer.words if answer.choice is None else question.choices[answer.choice].answer
                text = (
                    f"The answer of {answer.by} to {question.text!r:.300} was {choice!r:.200}. It was about the old "
                    "words, and is not applied to the new ones. What they leave open is asked again."
                )
                sentences = dict.fromkeys(now[one] for one in gone if one in now)
                yield ReviewFinding("outdated_answer", text, tuple(sentences), blocking=False)

    def _remaining(self) -> Iterator[Problem]:
        """Yields the problems of drafts that concern rules in the policy, but those of several rules."""
        there = {one.id for one in self.assembly.rules}
        for reading in self.stages.readings:
            for result in self.stages.drafts:
                for one in result.problems:
                    if (
                        one.rule in there
                        and not one.others
                        and any(one.rule == rule.id for rule in reading.draft.rules)
                    ):
                        yield one

    def _finding(self, one: Problem) -> ReviewFinding:
        rules = tuple(filter(None, (one.rule, *one.others)))
        resting = {number for rule in self.assembly.rules if rule.id in rules for number in rule.quotes}
        sentences = one.sentences or sorted(resting)
        return ReviewFinding(one.kind, one.message, tuple(map(self._hash, sentences)), rules, one.example, one.fatal)


def parts_of(kept: Kept | None, readings: Sequence[GroupReading]) -> tuple[Draft, ...]:
    """The drafts that are assembled: those that stand, then those of this run."""
    return (*(kept.drafts if kept else ()), *(one.draft for one in readings))
