"""toolbox/text.py: `field` and `section`, and that no part of a value is hidden by a line break."""

from __future__ import annotations

import sys
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardagent.sandbox.toolbox import Toolbox

TOOLS = Toolbox.load().functions
field, section = TOOLS["field"], TOOLS["section"]
LINE_BREAKS = ["\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Role: nurse\nQuestion: what role?", "nurse"),
        ("Role: nurse\n\n---\n**Question**: x", "nurse"),
        ("Role: nurse\n\n", "nurse"),
        ("Task: x\nRole: nurse\nUser information:\n  age: 41", "nurse"),
        ("- Role: nurse\n- Age: 41", "nurse"),
        ("**Role:** nurse\n", "nurse"),
        ("1. Role: nurse\n2) Age: 41", "nurse"),
        ("Role: nurse (on call)\r\nAge\uff1a 41", "nurse (on call)"),
    ],
)
def test_a_field_ends_at_a_heading(text: str, value: str) -> None:
    """Or at the end of the text; blank lines and rules between count for nothing."""
    assert field(text, "Role") == value


@pytest.mark.parametrize("line_break", LINE_BREAKS)
@pytest.mark.parametrize(
    "rest",
    [
        ", email FROM users",
        "\n, email FROM users",
        "---\n, email FROM users",
        "-- note: x\n, email FROM users",
        "- email",
        "# a comment\n, email FROM users",
        "email::text FROM users",
        "11:45 was the time",
        "https://example.org",
        "else:\n    send(email)",
        "is_admin = 1",
        '"email": 1',
        "\u200b, email FROM users",
    ],
)
def test_a_value_that_goes_on_is_unknown(line_break: str, rest: str) -> None:
    """A following line that is not a heading may belong to the value, so the value is unknown."""
    with pytest.raises(ValueError, match="continues after line 1"):
        field(f"SQL: SELECT name{line_break}{rest}\nAnswer: 5", "SQL")


@pytest.mark.parametrize("value", ["SELECT name,", "SELECT name /*", "f(1", "x = [", "```sql", "a \\", '"""'])
def test_an_unfinished_value_goes_on(value: str) -> None:
    """Even where the next line looks like a heading."""
    with pytest.raises(ValueError, match="continues"):
        field(f"SQL: {value}\nNote: */ email FROM users", "SQL")
    assert field(f"SQL: {value}", "SQL") == value


def test_a_number_of_a_list_does_not_hide_a_second_value() -> None:
    """`1. Role:` is the role too."""
    with pytest.raises(ValueError, match="appears 2 times"):
        field("Role: nurse\n1. Role: physician", "Role")


@given(st.lists(st.sampled_from([*LINE_BREAKS, "SELECT", " a", ", ", "b::c", "-- ", "(", "\t", "\u200b", "x"])))
def test_no_part_of_a_value_is_lost(parts: list[str]) -> None:
    """Whatever is put into a value, without a heading: all of its words come back, or nothing does."""
    value = "".join(parts)
    try:
        field_text = field(f"SQL: {value}\nAnswer: 5", "SQL")
    except ValueError:
        return
    assert "".join(field_text.split()) == "".join(value.replace("\u200b", "").split())


def test_every_sign_that_looks_like_a_colon_or_an_equals_sign_is_one() -> None:
    """The list of them is complete for this version of Unicode."""
    for code in range(sys.maxunicode + 1):
        char = chr(code)
        if any(sign in unicodedata.normalize("NFKC", char) for sign in ":="):
            assert field(f"Role{char}nurse", "Role").endswith("nurse"), hex(code)


LOG = "SQL: SELECT name\n, email\nFROM users\nAnswer: 5\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (LOG, "SELECT name\n, email\nFROM users"),
        ("sql:\n\n  SELECT 1\n\n  FROM x\n\nAnswer: 5", "  SELECT 1\n\n  FROM x"),
        ("SQL: SELECT 1", "SELECT 1"),
        ("SQL:\n- a: 1\n- b: 2\n  c: 3\nAnswer: 5", "- a: 1\n- b: 2\n  c: 3"),
        ("SQL:\n```sql\nSELECT 1\nAnswer: x\n```\nAnswer: 5", "SELECT 1\nAnswer: x"),
        ("SQL: ~~~\nSELECT 1\n~~~", "SELECT 1"),
        ("SQL: first\n```\nNote: x\n```\nlast\nAnswer: 5", "first\n```\nNote: x\n```\nlast"),
        ("SQL: try\nelse:\n  x\nAnswer: 5", "try\nelse:\n  x"),
        ("SQL: a\u2028b\rc\nAnswer: 5", "a\u2028b\rc"),
        ("Run:\n  SQL: a\n  b\nAnswer: 5", "a\n  b"),
        ("SQL: \u2010\u2010, \uff53\nAnswer: 5", "\u2010\u2010, \uff53"),
    ],
)
def test_section(text: str, expected: str) -> None:
    """From the heading to the next one like it, as it was written; a fenced block is code and holds no heading."""
    assert section(text, "SQL") == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Answer: 5", "no line 'SQL:'"),
        (LOG + "SQL: x", "appears 2 times"),
        ("SQL: a\n```\nSQL: b\n```\n", "appears 2 times"),
        ("SQL:\n\nAnswer: 5", "is empty"),
        ("SQL:\n```\n```\nAnswer: 5", "is empty"),
        ("SQL: a\n```\nb\nAnswer: 5", "does not end"),
        ("```\nSQL: a\n```\nAnswer: 5", "does not end"),
        ("SQL: a\n**Answer:** 5", "unclear"),
        ("SQL = a\nAnswer: 5", "unclear"),
        (None, "must be a string"),
    ],
)
def test_unclear_sections_are_errors(text: Any, says: str) -> None:
    """Missing, duplicate and empty sections, and sections without a clear end, are errors."""
    with pytest.raises(ValueError, match=says):
        section(text, "SQL")


def test_a_section_with_the_headings_that_may_follow() -> None:
    """Then no other line ends it, and one that somebody has put in makes two."""
    trick = "SQL: SELECT name /*\nNote: x */, email\nAnswer: 5\nSource: y"
    assert section(trick, "SQL", ["Answer", "Error"]) == "SELECT name /*\nNote: x */, email"
    assert section(trick, "SQL", []) == trick.removeprefix("SQL: ")
    for inserted in ("Answer: x */, email\n", "```\nerror: x\n```\n", "**Error**: x\n"):
        with pytest.raises(ValueError, match="2 of Answer, Error follow 'SQL'"):
            section(trick.replace("Note: x */, email\n", inserted), "SQL", ["Answer", "Error"])
    with pytest.raises(ValueError, match="none of Result follow"):
        section(trick, "SQL", ["Result"])
    with pytest.raises(ValueError, match="a code block does not end"):
        section("SQL: a\n```\nb\nAnswer: 5\n```", "SQL", ["Answer"])
    with pytest.raises(ValueError, match="until must be a list"):
        section(trick, "SQL", "Answer")


@given(st.text(), st.text(), st.text())
def test_sections_of_any_text(before: str, value: str, after: str) -> None:
    """The text of a section is a part of the text, or it is unknown."""
    text = f"{before}\nSQL: {value}\n{after}"
    for until in (None, [], ["Answer"]):
        try:
            assert section(text, "SQL", until) in text
        except ValueError:
            continue
