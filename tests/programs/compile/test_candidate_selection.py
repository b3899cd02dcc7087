"""The selection of examples for a prompt."""

from __future__ import annotations

from guardagent.programs.compile.candidate import choose_examples
from guardagent.programs.compile.examples import Example


def run(name: str, words: str, label: int = 0, *clauses: int) -> Example:
    return Example(name, words, "out", label, {}, clauses)


ALIKE = [run(f"a{number}", f"the same words {number}") for number in range(5)]
DENIED = [run(f"d{number}", f"never this {number}", 1, 2) for number in range(5)]
OTHER = run("other", "nothing that another one says")
THIRD = run("third", "never this 9", 1, 3)
BOTH = run("both", "never this 8", 1, 2, 4)
EVERY = [*ALIKE, *DENIED, OTHER, THIRD, BOTH]


def names(*arguments: object) -> list[str]:
    return [example.id for example in choose_examples(*arguments)]  # type: ignore[arg-type]


def test_one_for_each_label_and_each_clause() -> None:
    """Also where these are more than the count; of several the one that breaks the fewest others."""
    assert names(EVERY, 1) == ["a0", "d0", "third", "both"]
    assert names(EVERY, 0) == []


def test_the_others_differ_most_from_those_that_are_taken() -> None:
    """Of the label that fewer have; not the first of each."""
    assert "other" in names(EVERY, 5)
    assert names([*ALIKE, OTHER, DENIED[0]], 3) == ["a0", "other", "d0"]


def test_labels_are_shown_alike_as_long_as_there_are_any() -> None:
    """And never more than there are."""
    plain = [run(f"p{number}", f"word{number}", int(number > 2)) for number in range(12)]
    assert sum(example.label for example in choose_examples(plain, 6)) == 3
    assert len(choose_examples(plain, 99)) == 12
