"""The review of a translation: the fate of every sentence, the rules, the questions and the findings."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cached_property
from pathlib import Path

from guardagent.policy.documents import compare
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
from guardagent.policy.words import policies_in_words
from guardagent.translation.drafts import Problem
from guardagent.translation.readings.group_reading import GroupReading
from guardagent.translation.stages import TranslationState
from guardagent.types import Usage

_WORST_LAST: tuple[Readings, ...] = ("agree", "answered", "edited", "single", "open")


class Recording:
    """The review of a translation that has ended, from its inputs and the results of all stages."""

    def __init__(self, state: TranslationState) -> None:
        self._state, self._context, self._assembly = state, state.context, state.assembly
        self._standing, self._previous = state.standing.review, state.previous
        # The new ids of the rules of each reading. Without a policy, the rules keep their ids.
        names = self._assembly.renamed[len(state.standing.drafts) :] or ({},) * len(state.readings)
        self._readings = list(zip(state.readings, names, strict=True))

    def review(self, usage: Usage, folder: Path) -> Review:
        """Returns the review, with the model usage; `folder` is that of the policy file."""
        questions = tuple({question.id: question for question in self._questions()}.values())
        return Review(
            document=os.path.relpath(self._context.path, folder),
            document_hash=self._context.digest,
            sentences=tuple(self._sentences()),
            rules=tuple(self._rules()),
            facts=tuple(self._facts()),
            questions=questions,
            answers=tuple(self._answers({question.id for question in questions})),
            findings=tuple(self._different_findings()),
            confirmations=self._standing.confirmations,
            cost=ModelCost(usage.calls, usage.prompt_tokens or 0, usage.completion_tokens or 0, usage.cost),
        )

    # --- sentences

    def _sentences(self) -> Iterator[ReviewedSentence]:
        kept = {sentence.number: sentence for sentence in self._standing.sentences}
        for sentence in self._context.document.sentences:
            rules = tuple(self._rules_of[sentence.hash])
            if sentence.number in kept:
                yield replace(kept[sentence.number], rules=rules)
                continue
            fate, reason = self._fate(self._context.first_number(sentence.number), rules)
            copied = {field.name: getattr(sentence, field.name) for field in fields(sentence)}
            yield ReviewedSentence(**copied, fate=fate, reason=reason, rules=rules)

    @cached_property
    def _rules_of(self) -> Mapping[str, list[str]]:
        """The ids of the rules that quote a sentence, by its hash."""
        rules: defaultdict[str, list[str]] = defaultdict(list)
        for rule in self._assembly.rules:
            for sentence in dict.fromkeys(map(self._hash, rule.quotes)):
                rules[sentence].append(rule.id)
        return rules

    def _fate(self, number: int, rules: Sequence[str]) -> tuple[Fate, str]:
        """The fate of a sentence: that of the survey, unless the drafts know better."""
        fate, reason = self._state.survey.sentences.get(number) or self._drafted_before(number)
        if fate != "rule" or rules:
            return fate, reason
        reading = self._reading_of.get(number)
        if reason := self._declined(number, reading):
            return "not_enforceable", reason
        if reading is not None and reading.readings == "open":
            return "open", "a question decides whether it has a rule"
        return "open", self._error(number)

    def _drafted_before(self, number: int) -> tuple[Fate, str]:
        """The fate of a sentence whose drafts are kept from an earlier run."""
        if number not in self._reading_of:
            return "open", "it was not surveyed"
        same = (
            sentence
            for sentence in self._previous.sentences
            if sentence.hash == self._hash(number) and sentence.fate == "rule"
        )
        return "rule", next((reviewed.reason for reviewed in same), "")

    def _declined(self, number: int, reading: GroupReading | None) -> str:
        return reading.draft.declined.get(number, "") if reading is not None and reading.readings != "open" else ""

    @cached_property
    def _reading_of(self) -> Mapping[int, GroupReading]:
        return {number: reading for reading in self._state.readings for number in reading.draft.sentences}

    def _error(self, number: int) -> str:
        """The reason why a sentence has no draft."""
        about = [draft for draft in self._state.drafts if number in draft.sentences]
        problems = [problem.message for draft_result in about for problem in draft_result.problems if problem.fatal]
        errors = [draft_result.error for draft_result in about if draft_result.error]
        return next(
            iter((*errors, *problems)), "it was not drafted" if not self._state.drafts else "no draft has a rule"
        )

    # --- rules

    def _rules(self) -> Iterator[ReviewedRule]:
        policies = self._assembly.policies
        if policies is None:
            return
        hashes, words = rule_hashes(policies), policies_in_words(policies)
        for rule in self._assembly.rules:
            quotes = {self._hash(number): text for number, text in rule.quotes.items()}
            yield ReviewedRule(
                rule.id, hashes[rule.id], quotes, words[rule.id].text, rule.cases, self._readings_of[rule.id]
            )

    @cached_property
    def _readings_of(self) -> Mapping[str, Readings]:
        """The readings of rules by their ids in the file. Of the readings of a rule of several sentences, the worst."""
        pairs = [(rule.id, rule.readings) for rule in self._standing.rules]
        for reading, renamed in self._readings:
            pairs += [(renamed.get(rule.id, rule.id), reading.readings) for rule in reading.draft.rules]
        readings: defaultdict[str, Readings] = defaultdict(lambda: "edited")
        readings.update(sorted(pairs, key=lambda pair: _WORST_LAST.index(pair[1])))
        return readings

    def _hash(self, number: int) -> str:
        return self._context.sentence(number).hash

    def _facts(self) -> Iterator[NeededFact]:
        """Yields the facts that rules read, and those that the survey found."""
        known = {fact.name: NeededFact(fact.name, fact.description) for fact in self._context.facts}
        known |= {fact.name: fact for reading in self._state.readings for fact in reading.draft.facts}
        known |= {fact.name: fact for fact in self._standing.facts}
        text = json.dumps([rule.rule for rule in self._assembly.rules])
        names = {fact.name for fact in self._state.survey.facts}
        yield from (fact for name, fact in known.items() if name in text or name in names)

    # --- questions and findings

    def _questions(self) -> Iterator[ReviewQuestion]:
        yield from self._standing.questions
        for reading, renamed in self._readings:
            for question in reading.questions:
                yield replace(question, rules=tuple(renamed.get(rule, rule) for rule in question.rules))
        yield from self._answered_elsewhere()

    def _answered_elsewhere(self) -> Iterator[ReviewQuestion]:
        """Yields the answered questions about sentences that are in no group, such as definitions."""
        there = self._context.document.first_numbers
        answered = {answer.question for answer in self._previous.answers} - {
            question.id for question in self._standing.questions
        }
        for question in self._previous.questions:
            numbers = {there.get(name) for name in question.sentences}
            if question.id in answered and None not in numbers and not numbers & self._reading_of.keys():
                yield replace(question, rules=())

    def _answers(self, questions: Iterable[str]) -> Iterator[RecordedAnswer]:
        known = {*questions}
        for answer in self._previous.answers:
            if answer.question in known:
                yield replace(answer, applied=answer.applied or self._is_applied(answer.question))

    def _is_applied(self, question: str) -> bool:
        """Whether the drafts that it is about follow it, and those that it concerns know it."""
        about = [reading for reading in self._state.readings if any(each.id == question for each in reading.questions)]
        if about:
            findings = (finding for reading in about for finding in reading.findings)
            return not any(finding.kind == "unapplied_answer" for finding in findings)
        return any(review_question.id == question for review_question in self._answered_elsewhere())

    def _different_findings(self) -> Iterable[ReviewFinding]:
        """Those of the whole policy come first: a draft may have the same one."""
        findings: dict[tuple[str, str, tuple[str, ...]], ReviewFinding] = {}
        for review_finding in sorted(self._findings(), key=lambda finding: not finding.of_policy):
            findings.setdefault((review_finding.kind, review_finding.message, review_finding.rules), review_finding)
        return findings.values()

    def _findings(self) -> Iterator[ReviewFinding]:
        yield from self._standing.findings
        for document_finding in self._context.document.findings:
            yield ReviewFinding(
                f"document_{document_finding.kind}",
                f"{document_finding.place}: {document_finding.message}",
                example=document_finding.text,
                blocking=False,
            )
        for group, error in self._state.survey.errors.items():
            yield ReviewFinding("no_survey", error, tuple(map(self._hash, group)))
        for reading, renamed in self._readings:
            for finding in reading.findings:
                yield replace(finding, rules=tuple(renamed.get(rule, rule) for rule in finding.rules))
        if self._state.unread:
            yield ReviewFinding("unread_cases", self._state.unread)
        yield from self._outdated_answers()
        for result in self._state.drafts:
            if result.error:
                yield ReviewFinding("draft", result.error, tuple(map(self._hash, result.sentences)), blocking=False)
        for problem in (*self._assembly.problems, *self._state.problems):
            yield replace(self._finding(problem), of_policy=True)
        yield from map(self._finding, self._remaining())

    def _outdated_answers(self) -> Iterator[ReviewFinding]:
        """Yields a note for each answer about words that the document no longer has: it decides nothing any more."""
        document, previous = self._context.document, self._previous
        compared = compare(previous.sentences, document.sentences)
        now = {change.old.hash: change.new.hash for change in compared.changed}
        questions = {question.id: question for question in previous.questions}
        for answer in previous.answers:
            question = questions[answer.question]
            if gone := [sentence for sentence in question.sentences if sentence not in document.first_numbers]:
                choice = answer.words if answer.choice is None else question.choices[answer.choice].answer
                text = (
                    f"The answer of {answer.by} to {question.text!r:.300} was {choice!r:.200}. It was about the old "
                    "words, and is not applied to the new ones. What they leave open is asked again."
                )
                sentences = dict.fromkeys(now[old_hash] for old_hash in gone if old_hash in now)
                yield ReviewFinding("outdated_answer", text, tuple(sentences), blocking=False)

    def _remaining(self) -> Iterator[Problem]:
        """Yields the problems of drafts that concern rules in the policy, but those of several rules."""
        drafted = {rule.id for reading in self._state.readings for rule in reading.draft.rules}
        there = drafted & {rule.id for rule in self._assembly.rules}
        problems = (problem for result in self._state.drafts for problem in result.problems)
        yield from (problem for problem in problems if problem.rule in there and not problem.others)

    def _finding(self, problem: Problem) -> ReviewFinding:
        rules = tuple(filter(None, (problem.rule, *problem.others)))
        resting = {number for rule in self._assembly.rules if rule.id in rules for number in rule.quotes}
        sentences = problem.sentences or sorted(resting)
        return ReviewFinding(
            problem.kind, problem.message, tuple(map(self._hash, sentences)), rules, problem.example, problem.fatal
        )
