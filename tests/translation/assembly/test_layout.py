"""The YAML of an assembled policy says what it should, whatever the strings; an earlier file keeps its lines."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardagent.errors import ContentError
from guardagent.policy.file.yaml_reader import parse
from guardagent.translation.assembly import assemble, read_policy_lines
from guardagent.translation.drafts import Draft, RuleDraft
from tests.translation.drafts import context, limit, plain

HOSTILE = [
    *("yes", "on", "null", "~", "1e3", "0x1F", "24h", "2024-01-01", "=", "<<", "-", "- a", "? a", "a: b", "a #b", "#b"),
    *("@tag", "!x", "%YAML 1.2", "&a", "*a", "'", '"', "\\", "\\d+\\.", "`", "{a}", "[a", "|", ">", "---", "...", "\t"),
    *(" a", "a ", "\n", "a\nb", "\n a\n", "a\n\n\nb\n\n", "a \n b", "#a\n#b", "\r\n", "\x85", "\u2028", "\u202e"),
    *("\ufeff", "\x1b[31m", "é", "\U0001f600", "\U000e0041", "x " * 300, "x" * 300, "a  b   " * 60 + "c"),
    ("long line " * 30 + "\n") * 3,
]
TEXTS = st.lists(st.sampled_from(HOSTILE) | st.text(max_size=8), min_size=1, max_size=4).map("".join).filter(str.strip)


def content_of(text: str) -> Any:
    node = parse(text.encode(), Path("policies.yaml"), None)
    return node and node.plain


@given(TEXTS, TEXTS, TEXTS, TEXTS)
def test_every_string_survives(message: str, words: str, value: str, formula: str) -> None:
    """In values, in constants and as the quoted words of a comment, which no text can end."""
    comment = formula.replace("\n", " ").replace("\r", " ")
    rule = {
        "temporal": f"forall(pay(to=t), t != text) # {comment}",
        "message": message,
        "remedy": f"{message}{message}",
    }
    draft = Draft((1,), (RuleDraft("a", rule, {1: words, 7: message}),), {"constants": {"text": value}})
    assembled = assemble([draft], context(), title=words)
    assert assembled.problems == ()
    assert content_of(assembled.text) == assembled.content
    assert assembled.content["policies"] == [{"id": "a", **rule}]
    assert assembled.content["constants"] == {"text": value}
    assert all(sign.isprintable() or sign == "\n" for sign in assembled.text)


def test_people_can_read_it() -> None:
    """Keys in their usual order, long rules as blocks of short lines, the words of the document above each rule."""
    formula = " && ".join(f"(a != {at} || a > {at * 7})" for at in range(20))
    rule = {"message": "No: #1", "on_violation": "escalate", "temporal": f"forall(pay(amount=a), {formula})"}
    lines = {"temporal": "forall(pay(amount=a),\n  # the least\n  a > 0)"}
    drafts = [
        Draft((12,), (RuleDraft("second", lines, {12: "Amounts are\nabove zero", 14: "x" * 150}),)),
        Draft((3,), (RuleDraft("first", rule, {3: 'Some "amounts" are odd.'}),)),
    ]
    text = assemble(drafts, context(), title="The shop").text
    assert max(map(len, text.splitlines())) < 120
    assert text.startswith("# The shop\n# Lines that begin with #> quote the document")
    assert '  #> 3: "Some "amounts" are odd."\n  - id: first\n    temporal: >-\n' in text
    assert "\n    message: 'No: #1'\n" in text
    assert '\n    on_violation: escalate\n\n  #> 12: "Amounts are"\n  #> 12: "above zero"\n' in text
    assert (
        "  - id: second\n    temporal: |-\n      forall(pay(amount=a),\n        # the least\n        a > 0)\n" in text
    )


EARLIER = """\
# Mine.
version: 1
tools: [refund, pay, get_order, open, close]  # all
# where calls fail
failed_output: "^Error"
unlisted: deny
ids: W\\d+
labels: {user: request}
constants:
    # asked Ann
    limit: 500   # dollars
    unused: 1
policies:
    # first of all
    #> 1: "old words"
    # mine
    - id: limit
      temporal: forall(refund(amount=a),
                       a <= limit)  # why

    - {id: mine, temporal: "forall(pay(), true)"}   # by hand
    # the last
# The end.
"""
RULES = EARLIER.partition("policies:\n")[2]


def earlier(tmp_path: Path, text: str = EARLIER) -> Any:
    (tmp_path / "policies.yaml").write_text(text)
    return read_policy_lines(tmp_path / "policies.yaml")


def drafts_of(lines: Any) -> list[Draft]:
    first, two = lines.drafts
    constants = {"constants": lines.content["constants"]}
    return [Draft((2,), (RuleDraft("limit", first.rule, {2: "new words"}),), constants), Draft((), (two,))]


def test_unchanged_lines_stay_as_they_are(tmp_path: Path) -> None:
    """Comments, quotes and layout; only the quotes from the document are written anew."""
    lines = earlier(tmp_path)
    assembled = assemble(drafts_of(lines), context(), previous=lines)
    expected = EARLIER.replace('    #> 1: "old words"\n    # mine\n', '    # mine\n    #> 2: "new words"\n')
    assert assembled.text == expected
    assert assemble(drafts_of(lines), context(), previous=earlier(tmp_path, expected)).text == expected


def test_new_rules_stand_between_lines_that_stay(tmp_path: Path) -> None:
    """A name that the earlier file declares keeps its meaning, used or not."""
    lines = earlier(tmp_path)
    new = limit("pay", "limit", "limit", 1, constants={"limit": 9})
    assembled = assemble([*drafts_of(lines), new], context(), previous=lines)
    assert assembled.problems == ()
    assert content_of(assembled.text) == assembled.content
    assert assembled.content["constants"] == {"limit": 500, "unused": 1, "limit_2": 9}
    assert "    # asked Ann\n    limit: 500   # dollars\n    unused: 1\n    limit_2: 9\npolicies:\n" in assembled.text
    assert [rule.id for rule in assembled.rules] == ["limit_2", "limit", "mine"]
    assert assembled.text.endswith(
        '- {id: mine, temporal: "forall(pay(), true)"}   # by hand\n    # the last\n# The end.\n'
    )
    without = assemble([new], context(), previous=lines)
    assert without.content["constants"] == {"unused": 1, "limit": 9}
    assert (without.content["labels"], without.content["ids"], without.content["unlisted"]) == (
        {"user": "request"},
        "W\\d+",
        "deny",
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (EARLIER, "{version: 1, policies: [{id: a, temporal: 'G !tool:pay'}]}", "'version' does not begin a line"),
        (EARLIER.partition("policies:")[2], " [{id: a, temporal: 'G !tool:pay'}]", "does not begin a line with '- '"),
        ("    - id: limit\n      temp", "    -\n      id: limit\n      temp", "does not begin a line with '- '"),
        ("tools: [refund", "tools: &all [refund", "anchors are not allowed"),
        ("labels:", "counters: {n: {on: pay(to=t, a=a)}}\nlabels:", "the counter 'n' has commas between braces"),
        ("version: 1\n", "version: 2\n", "expected the number 1"),
    ],
)
def test_a_file_that_cannot_be_kept_is_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    """The error has the line."""
    with pytest.raises(ContentError, match=message):
        earlier(tmp_path, EARLIER.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("\n", "\r\n"),
        ("# Mine.\n", "# Mine.\n---\n"),
        (RULES, textwrap.dedent(RULES)),
        (
            "constants:\n    # asked Ann\n    limit: 500   # dollars\n    unused: 1",
            "constants: {\n    limit: 500, unused: 1 }",
        ),
    ],
)
def test_other_styles_keep_their_lines(tmp_path: Path, old: str, new: str) -> None:
    """Line breaks of Windows, marks of documents, items without indentation, names between braces."""
    text = EARLIER.replace(old, new)
    (tmp_path / "policies.yaml").write_bytes(text.encode())
    lines = read_policy_lines(tmp_path / "policies.yaml")
    same = assemble([replace_quotes(draft) for draft in drafts_of(lines)], context(), previous=lines)
    assert same.text == "".join(line for line in text.splitlines(keepends=True) if "#>" not in line)
    more = assemble([*drafts_of(lines), limit("pay", "limit", "n", constants={"limit": 9})], context(), previous=lines)
    assert content_of(more.text) == more.content
    assert more.content["constants"] == {"limit": 500, "unused": 1, "limit_2": 9}


def replace_quotes(draft: Draft) -> Draft:
    return replace(draft, rules=tuple(replace(rule, quotes={}) for rule in draft.rules))


def test_a_comment_that_would_be_lost_is_an_error(tmp_path: Path) -> None:
    """A section between braces is written anew as a whole."""
    lines = earlier(tmp_path, EARLIER.replace("close]  # all", "close, other]  # all"))
    with pytest.raises(ContentError, match="'tools' has to change and has a comment"):
        assemble([*drafts_of(lines), plain("G !tool:pay")], context(), previous=lines)
