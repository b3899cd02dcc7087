"""The strings that a session has seen, each with its origin: a hash index, bounded by bytes."""

from __future__ import annotations

from collections.abc import Iterable

ENTRY = 170  # bytes of an entry besides its string
WIDE = 4  # bytes of a character, unless all are ASCII


class Origin:
    """The places where a string was recorded.

    Attributes:
        labels: its labels.
        possible: labels that it may have.
        places: (labels, the place) for each place that added some.
    """

    __slots__ = ("labels", "places", "possible")

    def __init__(self, labels: int, places: tuple[tuple[int, str], ...], possible: int = 0) -> None:
        self.labels, self.places, self.possible = labels, places, possible

    def adds_to(self, other: Origin) -> bool:
        """Whether it has a label that the other one lacks."""
        return bool(self.labels & ~other.labels or self.possible & ~(other.possible | other.labels))

    def merged(self, other: Origin) -> Origin:
        added = (other.labels | other.possible) & ~self.labels
        new = tuple((labels & added, place) for labels, place in other.places if labels & added)
        return Origin(self.labels | other.labels, self.places + new, self.possible | other.possible)


class SourceIndex:
    """The seen strings of one session. Copies share their content until one of them changes.

    Args:
        limit: the maximum number of bytes.

    Attributes:
        labels: all labels that its strings have, or may have.
    """

    __slots__ = ("_bytes", "_limit", "_origins", "_shared", "labels")

    def __init__(self, limit: int) -> None:
        self._limit, self._bytes, self._shared, self.labels = limit, 0, False, 0
        self._origins: dict[str, Origin] = {}

    def copied(self) -> SourceIndex:
        copy = SourceIndex(self._limit)
        copy._origins, copy._bytes, copy.labels = self._origins, self._bytes, self.labels
        copy._shared = self._shared = True
        return copy

    def find(self, key: str) -> Origin | None:
        return self._origins.get(key)

    def has_room(self, characters: int) -> bool:
        """Whether that many characters may still fit."""
        return self._bytes + characters <= self._limit

    def add(self, keys: set[str], origin: Origin) -> bool:
        """Adds strings with an origin; returns whether they fit. Otherwise only known ones get the new labels."""
        if self._shared:
            self._origins, self._shared = dict(self._origins), False
        self.labels |= origin.labels | origin.possible
        origins = self._origins
        known = origins.keys() & keys
        new = keys - known if known else keys
        text = "".join(new)
        size = len(text) * (1 if text.isascii() else WIDE) + ENTRY * len(new)
        fits = self._bytes + size <= self._limit
        if fits:
            self._bytes += size
            origins.update(dict.fromkeys(new, origin))
        self._merge(known, origin)
        return fits

    def _merge(self, known: Iterable[str], origin: Origin) -> None:
        origins = self._origins
        merged: dict[Origin, Origin] = {}
        for key in known:
            before = origins[key]
            if origin.adds_to(before):
                if before not in merged:
                    merged[before] = before.merged(origin)
                origins[key] = merged[before]
