"""Groups the sentences of a document: rules connect the sentences on which they rest."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from guardagent.errors import InputError
from guardagent.translation.drafts import Draft, RuleDraft
from guardagent.translation.readings.selection import selected

_NOTHING = 0  # stands for the sentence of rules that quote none


@dataclass(frozen=True, slots=True)
class SentenceGroup:
    """Sentences that are read together.

    Attributes:
        sentences: their numbers; empty for the rules that quote no sentence.
        first, second: the drafts of these sentences; None if a side has no draft of all of them. A side without rules
            declined the sentences, or forgot them.
        problems: the reasons that drafts of these sentences cannot stand together.
        enforceable: whether the sentences need rules.
    """

    sentences: tuple[int, ...]
    first: Draft | None
    second: Draft | None
    problems: tuple[str, ...] = ()
    enforceable: bool = True

    @property
    def drafts(self) -> tuple[Draft, ...]:
        """Both drafts, as far as there are any."""
        return tuple(one for one in (self.first, self.second) if one is not None)

    @property
    def grounds(self) -> tuple[int, ...]:
        """The sentences, and those that their rules quote as well, such as definitions."""
        quoted = {number for draft in self.drafts for rule in draft.rules for number in rule.quotes}
        return tuple(sorted({*self.sentences, *quoted}))


def sentence_groups(
    first: Sequence[Draft], second: Sequence[Draft], enforceable: Collection[int]
) -> tuple[SentenceGroup, ...]:
    """Groups the sentences that the rules of either side connect, in the order of the document.

    A rule connects the enforceable sentences that it quotes; definitions do not connect. A rule that quotes no
    enforceable sentence is in the group of those that it quotes, and the rules that quote none are in one group.

    Args:
        first: the drafts of one side, of different sentences.
        second: those of the other side.
        enforceable: the sentences that need rules. Each of them is in one group.
    """
    grouping = _Grouping(first, second, frozenset(enforceable))
    return tuple(map(grouping.group, grouping.components()))


class _Grouping:
    def __init__(self, first: Sequence[Draft], second: Sequence[Draft], enforceable: frozenset[int]) -> None:
        self._sides, self._enforceable = (first, second), enforceable

    def components(self) -> list[frozenset[int]]:
        found: list[frozenset[int]] = []
        for one in self._connected():
            touching = [other for other in found if other & one]
            found = [other for other in found if not other & one] + [one.union(*touching)]
        return sorted(found, key=min)

    def _connected(self) -> Iterator[frozenset[int]]:
        yield from (frozenset({number}) for number in self._enforceable)
        rules = [rule for drafts in self._sides for draft in drafts for rule in draft.rules]
        yield from map(self._anchors, rules)
        quoted = {number for rule in rules for number in rule.quotes}
        for draft in (one for drafts in self._sides for one in drafts):
            apart = {*draft.declined, *(one.sentence for one in draft.ambiguities)} - quoted
            yield from (frozenset({number}) for number in apart)

    def _anchors(self, rule: RuleDraft) -> frozenset[int]:
        quoted = frozenset(rule.quotes)
        return quoted & self._enforceable or quoted or frozenset({_NOTHING})

    def group(self, component: frozenset[int]) -> SentenceGroup:
        problems: list[str] = []
        quoted = {number for drafts in self._sides for rule in self._rules(drafts, component) for number in rule.quotes}
        first, second = (self._side(drafts, component, quoted, problems) for drafts in self._sides)
        sentences = tuple(sorted(component - {_NOTHING}))
        return SentenceGroup(sentences, first, second, tuple(problems), bool(component & self._enforceable))

    def _rules(self, drafts: Iterable[Draft], component: frozenset[int]) -> list[RuleDraft]:
        return [rule for draft in drafts for rule in draft.rules if self._anchors(rule) <= component]

    def _side(
        self, drafts: Sequence[Draft], component: frozenset[int], quoted: Collection[int], problems: list[str]
    ) -> Draft | None:
        covered = {number for draft in drafts for number in draft.sentences}
        if not drafts or not component & self._enforceable <= covered:
            return None
        concerned = [one for one in drafts if component & _sentences(one) or self._rules([one], component)]
        rules = self._rules(concerned, component)
        ambiguities = [one for draft in drafts for one in draft.ambiguities if one.sentence in component | {*quoted}]
        try:
            return selected(concerned, tuple(sorted(component - {_NOTHING})), rules, ambiguities)
        except InputError as error:
            problems.append(str(error))
            return None


def _sentences(draft: Draft) -> set[int]:
    """The sentences that a draft is about, or says something about."""
    return {*draft.sentences, *draft.declined, *(one.sentence for one in draft.ambiguities)}
