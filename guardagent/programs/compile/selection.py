"""Selection of the examples for a prompt: some of each kind, and within a kind those that differ most."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from guardagent.programs.compile.examples import Example


def choose_examples(examples: Sequence[Example], count: int, clauses: Collection[int] | None = None) -> list[Example]:
    """Selects diverse examples, in the order of the file.

    Args:
        examples: all examples.
        count: how many; more if needed to cover both labels and each annotated sentence. 0 for none.
        clauses: the sentences that the program covers; None for all.
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
    """Yields an allowed example, a denied one, and one for each sentence that examples violate."""
    yield from [one for one in examples if one.label == 0][:1]
    denied = sorted(
        (one for one in examples if one.label == 1), key=lambda one: len(one.clauses)
    )  # fewest violated sentences first
    covered: set[int] = set()
    for number in sorted({number for one in denied for number in one.clauses if clauses is None or number in clauses}):
        if number not in covered:
            best = next(one for one in denied if number in one.clauses)
            covered |= set(best.clauses)
            yield best
    if not covered:
        yield from sorted((one for one in examples if one.label == 1), key=lambda one: _rank(one, clauses))[:1]


def _rank(example: Example, clauses: Collection[int] | None) -> int:
    """Ranks an example by relevance to the clauses, 0 first; last if it violates only other clauses."""
    if clauses is None or example.label == 0 or set(example.clauses) & set(clauses):
        return 0
    return 2 if example.clauses else 1


def _distance(words: set[str], others: set[str]) -> float:
    """Returns the Jaccard distance of two sets of words."""
    return len(words ^ others) / max(1, len(words | others))
