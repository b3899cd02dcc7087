"""The part of an earlier translation that stands for a new version of the document.

Only sentences that changed are translated again, with those that stand or fall with them. Rules that a person changed
in the policy file since are kept as they are there.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from guardagent.errors import ContentError
from guardagent.policy.documents import PolicyDocument, compare
from guardagent.policy.policies import Policies
from guardagent.policy.review import rule_hashes
from guardagent.policy.review.record import (
    NeededFact,
    Review,
    ReviewedRule,
    ReviewedSentence,
    ReviewFinding,
    read_review,
)
from guardagent.policy.words import policies_in_words
from guardagent.translation.assembly import NO_LINES, PolicyLines, read_policy_lines
from guardagent.translation.drafts import DECLARATIONS, Draft, RuleDraft
from guardagent.translation.examination.examined import holding_cases

# --- what stands

Node = tuple[Literal["sentence", "rule", "question"], int | str]
"""A sentence by its number, a rule or a question by its id."""

NO_REVIEW = Review("", "", ())


@dataclass(frozen=True, slots=True)
class Kept:
    """The part of an earlier translation that stands; nothing in a first one. Numbers are those of the new document.

    Attributes:
        translate: the numbers of the sentences to translate.
        lines: the present policy file, for `assemble(previous=…)`; without content in a first translation.
        drafts: the rules that stand, as the file has them, by groups of sentences; a rule that rests on no sentence is
            a group of its own. They come first in `assemble`.
        review: the entries of the earlier review that concern nothing else. Findings about the whole policy or document
            are not among them.
        fallen: the ids of the rules that do not stand.
    """

    translate: tuple[int, ...]
    lines: PolicyLines = NO_LINES
    drafts: tuple[Draft, ...] = ()
    review: Review = NO_REVIEW
    fallen: tuple[str, ...] = ()


def require_translation(policy: Path) -> None:
    """Requires that a translation may write a policy file: none of it gets lost, neither rules nor a review.

    Raises:
        ContentError: there is a policy without a review, or a review with answers or confirmations without its policy.
        InputError: the review cannot be read.
    """
    review = policy.with_suffix(".review.json")
    if review.exists() and not policy.exists():
        reviewed = read_review(review)
        if reviewed.answers or reviewed.confirmations:
            raise ContentError(
                f"has {len(reviewed.answers)} answers and {len(reviewed.confirmations)} confirmations, but its policy "
                f"{policy.name!r} is gone; restore the policy, or move the review away to begin anew",
                review,
            )
    if policy.exists() and not review.exists():
        raise ContentError(
            f"was not written by 'guardagent translate': there is no {review.name!r} beside it; expected the path of a "
            "new file. To use the rules of this one too, add it to the new file with 'include:'",
            policy,
        )


def require_same_document(previous: Review, document: PolicyDocument, path: str, policy: Path) -> None:
    """Requires that a document is a new version of the one that was translated, and not another one.

    It is if it has the same path, or if half of the earlier sentences stand in it.

    Args:
        previous: the review of the earlier translation.
        document: the document.
        path: its path, as a review has it.
        policy: the policy file.

    Raises:
        ContentError: it is another document.
    """
    unchanged = len(compare(previous.sentences, document.sentences).unchanged)
    if path != previous.document and 2 * unchanged < len(previous.sentences):
        raise ContentError(
            f"was translated from {previous.document!r}, of which {path!r} is not a new version: {unchanged} of "
            f"{len(previous.sentences)} sentences stand in it; expected another '-o' for another document",
            policy,
        )


def kept(previous: Review, policy: Path, document: PolicyDocument, again: Collection[str] = ()) -> Kept:
    """Returns what stands of an earlier translation.

    A sentence stands if it is unchanged, and if all that is linked with it by rules and questions is unchanged.

    Args:
        previous: the review of the earlier translation.
        policy: the present policy file. Rules that a person added to it stand; those that a person removed fall.
        document: the new version of the document.
        again: the ids of questions whose sentences are translated again, since there is an answer to them.

    Raises:
        InputError: the policy file cannot be read.
        ContentError: it is invalid, or its keys and policies do not have lines of their own.
    """
    return _DocumentChange(previous, read_policy_lines(policy), document, again).kept()


class _DocumentChange:
    """The links of an earlier translation, and what falls with the changes of its document.

    Rules rest on the sentences that they quote or that name them. Sentences without rules of their own, such as
    definitions, are grounds: a rule that falls leaves them.
    """

    def __init__(self, previous: Review, lines: PolicyLines, document: PolicyDocument, again: Collection[str]) -> None:
        self._previous, self._lines, self._document = previous, lines, document
        self._quotes = {rule.id: _numbered_quotes(rule, previous) for rule in previous.rules}
        self._grounds = {
            ("sentence", sentence.number) for sentence in previous.sentences if sentence.fate not in ("rule", "open")
        }
        self._neighbours: defaultdict[Node, set[Node]] = defaultdict(set)
        for first, second in self._links():
            self._neighbours[first].add(second)
            self._neighbours[second].add(first)
        compared = compare(previous.sentences, document.sentences)
        self._new = {old.number: new for old, new in compared.unchanged}
        changed = (*(change.old.number for change in compared.changed), *(change.number for change in compared.removed))
        self._fallen = self._falling(self._roots(changed, again))
        if any(kind == "rule" for kind, _ in self._falling(self._roots(changed, ()))):
            self._fallen |= dict.fromkeys(self._implied())

    def _links(self) -> Iterator[tuple[Node, Node]]:
        numbers: defaultdict[str, list[int]] = defaultdict(list)
        for reviewed in self._previous.sentences:
            numbers[reviewed.hash].append(reviewed.number)
            yield from ((("sentence", reviewed.number), ("rule", rule)) for rule in reviewed.rules)
        for rule, quotes in self._quotes.items():
            yield from ((("sentence", number), ("rule", rule)) for number in quotes)
        for question in self._previous.questions:
            node: Node = ("question", question.id)
            yield from ((node, ("sentence", at)) for sentence in question.sentences for at in numbers[sentence])
            yield from ((node, ("rule", rule)) for rule in question.rules)

    def _falling(self, roots: Iterable[Node]) -> dict[Node, None]:
        """The nodes that fall: the roots, and all that is linked with one."""
        fallen = dict.fromkeys(roots)
        waiting = deque(fallen)
        while waiting:
            for node in sorted(self._neighbours.get(waiting.popleft(), ()), key=str):
                if node not in fallen and node not in self._grounds:
                    fallen[node] = None
                    waiting.append(node)
        return fallen

    def _roots(self, changed: Iterable[int], again: Iterable[str]) -> Iterator[Node]:
        """Yields the sentences, questions and rules that do not stand by themselves."""
        yield from (("sentence", number) for number in changed)
        yield from (("question", question) for question in again)
        yield from (
            neighbour
            for neighbour in self._neighbours
            if neighbour[0] == "rule" and neighbour[1] not in self._lines.rules
        )
        for sentence in self._previous.sentences:
            node: Node = ("sentence", sentence.number)
            needed = {"rule": "rule", "open": "question"}.get(sentence.fate)
            if needed and needed not in {kind for kind, _ in self._neighbours.get(node, ())}:
                yield node

    def _implied(self) -> Iterator[Node]:
        """Yields the sentences that any rule may have implied."""
        for sentence in self._previous.sentences:
            node: Node = ("sentence", sentence.number)
            if sentence.fate == "implied" and not self._neighbours.get(node):
                yield node

    def kept(self) -> Kept:
        old, sentences = self._previous, self._sentences()
        numbers = {sentence.number for sentence in sentences}
        review = replace(
            old,
            sentences=tuple(sentences),
            rules=tuple(rule for rule in old.rules if self._stands("rule", rule.id) and rule.id in self._lines.rules),
            facts=tuple(self._facts()),
            questions=tuple(question for question in old.questions if self._stands("question", question.id)),
            findings=tuple(
                finding
                for finding in old.findings
                if not finding.of_policy
                and finding.sentences + finding.rules
                and self._all_stand(finding.sentences, finding.rules)
            ),
            confirmations=tuple(
                confirmation
                for confirmation in old.confirmations
                if self._all_stand(filter(None, [confirmation.sentence]), confirmation.rules)
            ),
        )
        return Kept(
            tuple(sentence.number for sentence in self._document.sentences if sentence.number not in numbers),
            self._lines,
            tuple(self._drafts()),
            review,
            tuple(str(name) for kind, name in self._fallen if kind == "rule"),
        )

    def _stands(self, kind: Literal["sentence", "rule", "question"], name: int | str) -> bool:
        return (kind, name) not in self._fallen

    @cached_property
    def _hashes(self) -> set[str]:
        return {sentence.hash for sentence in self._previous.sentences if self._stands("sentence", sentence.number)}

    def _all_stand(self, sentences: Iterable[str], rules: Iterable[str]) -> bool:
        rules_stand = all(self._stands("rule", rule) and rule in self._lines.rules for rule in rules)
        return rules_stand and self._hashes.issuperset(sentences)

    def _sentences(self) -> list[ReviewedSentence]:
        pairs = [
            (sentence, self._new[sentence.number])
            for sentence in self._previous.sentences
            if self._stands("sentence", sentence.number)
        ]
        sentences = [
            replace(old, number=new.number, text=new.text, path=new.path, context=new.context, place=new.place)
            for old, new in pairs
        ]
        return sorted(sentences, key=lambda sentence: sentence.number)

    def _drafts(self) -> Iterator[Draft]:
        declared = {key: self._lines.content[key] for key in DECLARATIONS if key in self._lines.content}
        waiting = {draft.id: draft for draft in self._lines.drafts if self._stands("rule", draft.id)}
        while waiting:
            group = self._falling([("rule", next(iter(waiting)))])
            rules = [self._rule(waiting.pop(rule_id)) for rule_id in [*waiting] if ("rule", rule_id) in group]
            sentences = sorted(self._new[int(name)].number for kind, name in group if kind == "sentence")
            yield Draft(tuple(sentences), tuple(rules), declared, tuple(_read_by(rules, self._previous.facts)))

    def _rule(self, rule: RuleDraft) -> RuleDraft:
        """A rule of the policy file with its quotes and cases."""
        quotes = {self._new[number].number: words for number, words in self._quotes.get(rule.id, {}).items()}
        cases = next((previous_rule.cases for previous_rule in self._previous.rules if previous_rule.id == rule.id), ())
        return replace(rule, quotes=quotes, cases=cases)

    def _facts(self) -> Iterator[NeededFact]:
        """Yields the facts but those that only fallen rules read."""
        drafts = self._lines.drafts
        read = set(_read_by([draft for draft in drafts if self._stands("rule", draft.id)], self._previous.facts))
        left = set(_read_by([draft for draft in drafts if not self._stands("rule", draft.id)], self._previous.facts))
        yield from (fact for fact in self._previous.facts if fact in read or fact not in left)


def _numbered_quotes(rule: ReviewedRule, review: Review) -> dict[int, str]:
    """The words that a rule quotes, by the number of their sentence: of identical ones, those that name the rule."""
    numbered_quotes: dict[int, str] = {}
    for sentence, words in rule.quotes.items():
        same = [reviewed for reviewed in review.sentences if reviewed.hash == sentence]
        naming = [reviewed for reviewed in same if rule.id in reviewed.rules]
        numbered_quotes |= {reviewed.number: words for reviewed in naming or same}
    return numbered_quotes


def _read_by(rules: Iterable[RuleDraft], facts: Iterable[NeededFact]) -> Iterator[NeededFact]:
    text = json.dumps([rule.rule for rule in rules])
    yield from (fact for fact in facts if fact.name in text)


# --- edits

Cases = tuple[Mapping[str, Any], ...]


def with_edits(kept: Kept, policies: Policies) -> Kept:
    """Returns what stands, with the edits of people.

    An edited rule has the readings `edited`, loses the findings about its former text, and keeps the cases that hold. A
    finding names the others.

    Args:
        kept: what stands.
        policies: the present policy file.

    Raises:
        InputError: a file that the policy refers to cannot be read.
    """
    review = kept.review
    changed = _changed(review, policies)
    edited = [rule for rule in review.rules if rule.id in changed or rule.readings == "edited"]
    holding = {rule.id: holding_cases(policies, rule.id, rule.cases) for rule in edited}
    rules = {rule.id: replace(rule, readings="edited", cases=holding[rule.id]) for rule in edited}
    findings = [finding for finding in review.findings if not changed.intersection(finding.rules)]
    findings += [_finding(rule, holding[rule.id]) for rule in edited if rule.cases != holding[rule.id]]
    review = replace(review, rules=tuple(rules.get(rule.id, rule) for rule in review.rules), findings=tuple(findings))
    return replace(kept, drafts=tuple(_with_cases(draft, holding) for draft in kept.drafts), review=review)


def _changed(review: Review, policies: Policies) -> set[str]:
    """The rules with another hash; if all have one, as a key such as `unlisted` changed, those with other words."""
    hashes, words = rule_hashes(policies), policies_in_words(policies)
    changed = [rule for rule in review.rules if hashes[rule.id] != rule.hash]
    if len(changed) == len(review.rules):
        changed = [rule for rule in changed if words[rule.id].text != rule.words]
    return {rule.id for rule in changed}


def _with_cases(draft: Draft, cases: Mapping[str, Cases]) -> Draft:
    return replace(draft, rules=tuple(replace(rule, cases=cases.get(rule.id, rule.cases)) for rule in draft.rules))


def _finding(rule: ReviewedRule, holding: Cases) -> ReviewFinding:
    lost = ", ".join(repr(case.get("id")) for case in rule.cases if case not in holding)
    text = f"The rule was changed by hand. These cases of its translation do not hold and are left out: {lost}."
    return ReviewFinding("edited", text, tuple(rule.quotes), (rule.id,), blocking=False)
