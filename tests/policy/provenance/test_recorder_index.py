"""The index of a session: labels add up, copies are independent, and its size is bounded."""

from __future__ import annotations

from guardagent.policy.provenance.recorder import Origin, SourceIndex

RED, BLUE = Origin(1, ((1, "a"),)), Origin(2, ((2, "b"),))


def labels(index: SourceIndex, key: str) -> int | None:
    entry = index.find(key)
    return None if entry is None else entry.labels


def test_labels_and_places_add_up() -> None:
    index = SourceIndex(10_000)
    assert index.add({"x", "y"}, RED)
    assert index.add({"y", "z"}, BLUE)
    assert index.add({"y"}, Origin(1, ((1, "c"),)))
    assert [labels(index, key) for key in "xyz"] == [1, 3, 2]
    both = index.find("y")
    assert both is not None
    assert both.places == ((1, "a"), (2, "b"))


def test_copies_are_independent() -> None:
    index = SourceIndex(10_000)
    index.add({"x"}, RED)
    copy = index.copied()
    copy.add({"y"}, RED)
    index.add({"x", "z"}, BLUE)
    assert [labels(index, key) for key in "xyz"] == [3, None, 2]
    assert [labels(copy, key) for key in "xyz"] == [1, 1, None]


def test_the_size_is_bounded() -> None:
    """A known string still gets new labels."""
    index = SourceIndex(1000)
    assert index.add({"x"}, RED)
    assert not index.add({"x", *(f"key {number}" for number in range(10))}, BLUE)
    assert labels(index, "x") == 3
    assert labels(index, "key 1") is None
