"""An answer is right when every item of the truth is an item of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardagent.bench import answer_is_right


@pytest.mark.parametrize(
    ("truth", "answer"),
    [
        (["76"], "76.0"),
        (["0"], "False"),
        (["1"], "True"),
        (["6"], "['6']"),
        (["811.85"], "811.8500000000001"),
        (["Oral", "iv"], "misc,  IV, oral"),
        (["70", "70"], "70"),
        (["flu", "pneumonia"], "[('flu', 208), ('pneumonia', 93)]"),
        (["insulin, regular"], "insulin, regular"),
        (["insulin, regular", "iv"], "iv, insulin, regular, po"),
        (["insulin, regular"], "['insulin, regular', 'po']"),
        (["2105-12-22 02:06:00"], "2105-12-22 02:06:00"),
        (["staphylococcus"], "no growth, staphylococcus"),
        ([], "[]"),
        ([], "None"),
    ],
)
def test_right(truth: list[str], answer: str) -> None:
    """Number formats, order, nesting, case and further items do not matter."""
    assert answer_is_right(truth, answer)


@pytest.mark.parametrize(
    ("truth", "answer"),
    [
        (["2"], "178200.0"),
        (["6"], "16"),
        (["iv"], "ivory"),
        (["growth"], "no growth"),
        (["7000001"], "7000000"),
        (["insulin, regular"], "regular, insulin"),
        (["insulin"], "['insulin, regular']"),
        (["insulin", "insulin, regular"], "insulin, regular"),
        (["a", "b"], "a"),
        (["1193.31"], ""),
        ([], "anything"),
    ],
)
def test_wrong(truth: list[str], answer: str) -> None:
    """Whole items only; neighbouring identifiers differ; an item is used once."""
    assert not answer_is_right(truth, answer)


words = st.text("abcdefghij -", min_size=1).map(str.strip).filter(lambda text: any(char.isalpha() for char in text))
numbers = st.integers(-(10**9), 10**9)


@given(
    st.lists(words | numbers, min_size=1, unique=True).flatmap(
        lambda items: st.tuples(st.just(items), st.permutations(items))
    )
)
def test_form_does_not_matter(items: tuple[list[str | int], list[str | int]]) -> None:
    """The same items in any order, as a list or between commas, whole numbers as 7 or 7.0, are right."""
    truth, shuffled = items
    as_floats = [float(item) if isinstance(item, int) else item for item in shuffled]
    for answer in (
        repr(shuffled),
        repr(as_floats),
        ", ".join(map(str, as_floats)),
        repr([(item, 3) for item in shuffled]),
    ):
        assert answer_is_right([str(item) for item in truth], answer)
    assert not answer_is_right([str(item) for item in truth] + ["zebra"], repr(shuffled))


@given(st.lists(st.text()), st.text())
def test_any_text_is_answered(truth: list[str], answer: str) -> None:
    """No text of an agent makes the comparison crash."""
    assert answer_is_right(truth, answer) in (True, False)
