"""Groups of sentences that are drafted in one request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from guardagent.policy.documents import Sentence

MOST = 4
LONGEST = 8  # of sentences that only make sense together


def draft_batches(sentences: Sequence[Sentence], first: int = MOST) -> tuple[tuple[int, ...], ...]:
    """Returns the numbers of sentences in batches of at most four that stand under the same headings.

    A sentence that only makes sense after another one, such as 'Otherwise …' or an item of its list, is in the same
    batch, which may then have up to eight.

    Args:
        sentences: the sentences to draft, in the order of the document.
        first: the size of the first batch under each heading. With another size, the same sentences have other
            neighbours, so that a second draft does not inherit what one neighbour suggests.
    """
    return tuple(_batches(sentences, first))


def _batches(sentences: Sequence[Sentence], first: int) -> Iterator[tuple[int, ...]]:
    batch: list[int] = []
    path: tuple[str, ...] | None = None
    limit = first
    for unit in _units(sentences):
        if batch and (unit[0].path != path or len(batch) + len(unit) > limit):
            yield tuple(batch)
            batch, limit = [], MOST if unit[0].path == path else first
        path = unit[0].path
        batch += [one.number for one in unit]
    if batch:
        yield tuple(batch)


def _units(sentences: Sequence[Sentence]) -> Iterator[list[Sentence]]:
    """Yields runs of sentences of which each needs an earlier one of its run to be understood."""
    unit: list[Sentence] = []
    for one in sentences:
        if unit and not (one.path == unit[0].path and _needs(one, unit) and len(unit) < LONGEST):
            yield unit
            unit = []
        unit.append(one)
    if unit:
        yield unit


def _needs(one: Sentence, others: Sequence[Sentence]) -> bool:
    return any(each.text in one.context for each in others)
