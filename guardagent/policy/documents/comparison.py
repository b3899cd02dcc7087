"""Compares two versions of a document, so that only changed sentences need a new translation."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from guardagent.policy.documents.sentences import Sentence, normalized

_CELLS = 4_000_000  # pairs of sentences scored at a time


@dataclass(frozen=True, slots=True)
class SentenceChange:
    """A sentence whose text or context changed. `similarity` is that of the texts, from 0 to 1."""

    old: Sentence
    new: Sentence
    similarity: float


@dataclass(frozen=True, slots=True)
class DocumentComparison:
    """Each sentence of both versions, once. A sentence that only moved is unchanged."""

    unchanged: tuple[tuple[Sentence, Sentence], ...]
    changed: tuple[SentenceChange, ...]
    added: tuple[Sentence, ...]
    removed: tuple[Sentence, ...]


def compare(old: Sequence[Sentence], new: Sequence[Sentence], similarity: float = 0.6) -> DocumentComparison:
    """Compares two versions.

    Args:
        old: the sentences of the earlier version.
        new: those of the later one.
        similarity: sentences of less similar texts are not the same sentence.
    """
    unchanged, left, there = _same(old, new, lambda one: one.hash)
    texts, left, there = _same(left, there, lambda one: f"{one.kind} {normalized(one.text)}")
    changed = [SentenceChange(before, after, 1.0) for before, after in texts]
    changed += _similar(left, there, similarity)
    gone = {one.old.number for one in changed}
    come = {one.new.number for one in changed}
    return DocumentComparison(
        tuple(unchanged),
        tuple(sorted(changed, key=lambda one: one.new.number)),
        tuple(one for one in there if one.number not in come),
        tuple(one for one in left if one.number not in gone),
    )


_Pairs = list[tuple[Sentence, Sentence]]


def _same(
    old: Sequence[Sentence], new: Sequence[Sentence], key: Callable[[Sentence], str]
) -> tuple[_Pairs, list[Sentence], list[Sentence]]:
    """Returns the pairs with the same key, in order, and the other sentences of both versions."""
    waiting: defaultdict[str, deque[Sentence]] = defaultdict(deque)
    for one in old:
        waiting[key(one)].append(one)
    pairs, added = [], []
    for one in new:
        if same := waiting[key(one)]:
            pairs.append((same.popleft(), one))
        else:
            added.append(one)
    paired = {one.number for one, _ in pairs}
    return pairs, [one for one in old if one.number not in paired], added


def _similar(old: Sequence[Sentence], new: Sequence[Sentence], least: float) -> list[SentenceChange]:
    """Pairs the most similar sentences first."""
    scored = sorted(_scores(old, new, least), key=lambda one: (-one[0], one[1], one[2]))
    gone: set[int] = set()
    come: set[int] = set()
    found = []
    for score, before, after in scored:
        if before not in gone and after not in come:
            gone.add(before)
            come.add(after)
            found.append(SentenceChange(old[before], new[after], round(score, 3)))
    return found


def _scores(old: Sequence[Sentence], new: Sequence[Sentence], least: float) -> Iterator[tuple[float, int, int]]:
    """Yields (similarity, place in old, place in new) of sentences that are similar enough."""
    if not old or not new:
        return
    import numpy as np
    from rapidfuzz import fuzz
    from rapidfuzz.process import cdist

    texts = [normalized(one.text) for one in new]
    step = max(1, _CELLS // len(texts))
    for start in range(0, len(old), step):
        rows = [normalized(one.text) for one in old[start : start + step]]
        scores = cdist(rows, texts, scorer=fuzz.ratio, score_cutoff=max(least * 100, 1e-9), dtype=np.float32)
        for before, after in np.argwhere(scores > 0):
            yield float(scores[before, after]) / 100, start + int(before), int(after)
