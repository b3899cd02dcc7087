"""Groups of sentences that are drafted in one request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from guardagent.documents import Sentence

MOST = 4


def draft_batches(sentences: Sequence[Sentence], first: int = MOST) -> tuple[tuple[int, ...], ...]:
    """Returns the numbers of sentences in batches of at most four that stand under the same headings.

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
    for one in sentences:
        if batch and (one.path != path or len(batch) == limit):
            yield tuple(batch)
            batch, limit = [], MOST if one.path == path else first
        path = one.path
        batch.append(one.number)
    if batch:
        yield tuple(batch)
