"""Sentences, rules and questions that stand or fall with each other."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from guardagent.policy.review.record import Review

Node = tuple[Literal["sentence", "rule", "question"], int | str]
"""A sentence by its number, a rule or a question by its id."""
_LINKED = "it shares sentences or questions with another rule, and "


@dataclass(frozen=True, slots=True)
class Links:
    """The links of an earlier translation.

    Attributes:
        neighbours: what each node rests on, or what rests on it.
        quotes: for each rule, the quoted words by the numbers of their sentences.
        grounds: the sentences that have no rules of their own, such as definitions: a rule that falls leaves them.
    """

    neighbours: Mapping[Node, set[Node]]
    quotes: Mapping[str, Mapping[int, str]]
    grounds: frozenset[Node]

    @classmethod
    def of(cls, review: Review) -> Links:
        """Reads the links of a review: rules rest on the sentences that they quote or that name them."""
        numbers = _numbers(review)
        quotes = {
            rule.id: {number: words for one, words in rule.quotes.items() for number in _of_rule(review, rule.id, one)}
            for rule in review.rules
        }
        pairs: list[tuple[Node, Node]] = [
            *((("sentence", one.number), ("rule", rule)) for one in review.sentences for rule in one.rules),
            *((("sentence", number), ("rule", rule)) for rule, found in quotes.items() for number in found),
        ]
        for one in review.questions:
            pairs += [(("question", one.id), ("sentence", at)) for each in one.sentences for at in numbers[each]]
            pairs += [(("question", one.id), ("rule", rule)) for rule in one.rules]
        neighbours: defaultdict[Node, set[Node]] = defaultdict(set)
        for first, second in pairs:
            neighbours[first].add(second)
            neighbours[second].add(first)
        grounds: list[Node] = [("sentence", one.number) for one in review.sentences if one.fate not in ("rule", "open")]
        return cls(neighbours, quotes, frozenset(grounds))

    def falling(self, roots: Mapping[Node, str]) -> dict[Node, str]:
        """Returns the nodes that fall, with their reasons: the roots, and all that is linked with one."""
        found = dict(roots)
        waiting = deque(roots)
        while waiting:
            there = waiting.popleft()
            reason = found[there] if there in roots else f"{_LINKED}{found[there].removeprefix(_LINKED)}"
            for one in sorted(self.neighbours.get(there, ()), key=str):
                if one not in found and one not in self.grounds:
                    found[one] = reason
                    waiting.append(one)
        return found


def _numbers(review: Review) -> defaultdict[str, list[int]]:
    found: defaultdict[str, list[int]] = defaultdict(list)
    for one in review.sentences:
        found[one.hash].append(one.number)
    return found


def _of_rule(review: Review, rule: str, sentence: str) -> list[int]:
    """The sentences with a hash that a rule rests on: of identical sentences, those that name the rule."""
    same = [one for one in review.sentences if one.hash == sentence]
    return [one.number for one in [one for one in same if rule in one.rules] or same]
