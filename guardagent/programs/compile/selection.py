"""Which examples a model is shown: some of each kind, and of one kind such as differ most."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from guardagent.programs.compile.examples import Example


def choose_examples(examples: Sequence[Example], count: int, clauses: Collection[int] | None = None) -> list[Example]:
    """Examples that differ, in the order of the file.

    Args:
        examples: all of them.
        count: how many; more where it takes more to have each label and each sentence that examples name. 0 for none.
        clauses: the sentences that the program is for, where it is for some of them only.
    """
    if count <= 0:
        return []
    chosen = {one.id: one for one in _one_of_each(examples, clauses)}
    words = {one.id: set(re.findall(r"\w+", f"{one.agent_input} {one.agent_output}")) for one in examples}
    while len(chosen) < min(count, len(examples)):
        left = [one for one in examples if one.id not in chosen]
        rarer = int(2 * sum(one.label for one in chosen.values()) <= len(chosen))
        pool = [one for one in left if one.label == rarer] or left
        known = [words[name] for name in chosen]
        best = max(
            pool, key=lambda one: (-_rank(one, clauses), min(_distance(words[one.id], other) for other in known))
        )
        chosen[best.id] = best
    return [one for one in examples if one.id in chosen]


def _one_of_each(examples: Sequence[Example], clauses: Collection[int] | None) -> Iterator[Example]:
    """One that is allowed, one that is denied, and one for each sentence that examples break."""
    yield from [one for one in examples if one.label == 0][:1]
    denied = sorted((one for one in examples if one.label == 1), key=lambda one: len(one.clauses))  # the clearest first
    covered: set[int] = set()
    for number in sorted({number for one in denied for number in one.clauses if clauses is None or number in clauses}):
        if number not in covered:
            best = next(one for one in denied if number in one.clauses)
            covered |= set(best.clauses)
            yield best
    if not covered:
        yield from sorted((one for one in examples if one.label == 1), key=lambda one: _rank(one, clauses))[:1]


def _rank(example: Example, clauses: Collection[int] | None) -> int:
    """How little an example tells of a part: least where it breaks the sentences of another one."""
    if clauses is None or example.label == 0 or set(example.clauses) & set(clauses):
        return 0
    return 2 if example.clauses else 1


def _distance(words: set[str], others: set[str]) -> float:
    """The share of their words that only one of two examples has."""
    return len(words ^ others) / max(1, len(words | others))
