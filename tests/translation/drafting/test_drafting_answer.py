"""Reading drafts in answers of a model."""

from __future__ import annotations

import pytest

from guardagent.errors import AnswerError
from guardagent.translation.drafting import draft_text, read_draft
from guardagent.translation.drafts import Ambiguity
from tests.translation.library import DRAFT, block

RULE = 'rules:\n  - id: r\n    quotes: [{sentence: 4, words: "w"}]\n    temporal: "G !tool:x"\n'


def test_a_draft_is_read() -> None:
    draft = read_draft(block(DRAFT), (4, 5))
    assert [rule.id for rule in draft.rules] == ["loan_limit", "card_checked"]
    assert draft.rules[0].quotes == {4: "at most five books on loan"}
    assert draft.rules[0].rule["temporal"] == "forall(lend(loans=n), n < 5)"
    assert len(draft.rules[1].cases) == 5


def test_a_draft_in_the_form_of_an_answer_is_read_as_itself() -> None:
    draft = read_draft(block(DRAFT), (4, 5))
    assert read_draft(draft_text(draft), (4, 5)) == draft


DOUBTS = (Ambiguity(4, "a?", ("x", "y")), Ambiguity(5, "b?", ("x", "y")))
OWN = "ambiguous: [{sentence: 4, question: 'c?', readings: ['v', 'w'], follows: 2}]\n"


def test_an_author_says_which_reading_the_rules_follow() -> None:
    """Of an own ambiguity, and of a known one: but not of a sentence that has no rule and no reason."""
    followed = "followed: [{doubt: 1, reading: 2}, {doubt: 2, reading: 1}]\n"
    draft = read_draft(block(RULE + OWN + followed), (4, 5), doubts=DOUBTS)
    assert [(ambiguity.question, ambiguity.follows) for ambiguity in draft.ambiguities] == [("c?", "w"), ("a?", "y")]
    assert read_draft(draft_text(draft), (4, 5)) == draft


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("", "no ```yaml block"),
        ("I cannot help with that.", "no ```yaml block"),
        (block(RULE) + block(RULE), "2 blocks"),
        ("```python\nprint()\n```", "no ```yaml block"),
        (block("rules: []\n"), "no 'rules' and no 'declined'"),
        (block("{}\n"), "no 'rules' and no 'declined'"),
        (block("- rules\n"), "expected a mapping"),
        (block(RULE + "    on_violations: block\n"), "on_violation"),
        (block(RULE + "    request: no x\n"), "unknown key 'request'"),
        (block(RULE + "    program: x.py\n"), "unknown key 'program'"),
        (block(RULE + "    id: s\n"), "appears twice"),
        (block(RULE + "    cases: [1]\n"), "expected a case"),
        (block(RULE.replace("sentence: 4", "sentence: true")), "expected the number of a sentence"),
        (block(RULE + "declarations: {policies: []}\n"), "unknown key 'policies'"),
        (block(RULE + "declarations: {constants: 5}\n"), "expected names with their values"),
        (block("declined: [{sentence: 4}]\n"), "key 'reason' is missing"),
        (block("ambiguous: [{sentence: 4, question: 'a?', readings: ['x', 'x']}]\n"), "two different"),
        (block(RULE + OWN.replace("follows: 2", "follows: 3")), "the reading 3 is followed; there are 2"),
        (block(RULE + OWN.replace("follows: 2", "follows: 0")), "expected the position of a reading"),
        (block(RULE + "followed: [{doubt: 1, reading: 1}]\n"), "there are 0 of them"),
        ("x" * 300_000, "at most 200,000"),
        ('rules: "\ud800"\n', "'rules' is"),
    ],
)
def test_an_unusable_answer_is_an_error(answer: str, problem: str) -> None:
    with pytest.raises(AnswerError, match=problem.replace("(", r"\(")):
        read_draft(answer, (4,))
