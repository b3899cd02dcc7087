"""A reviewer answers and confirms at the terminal, and everything is saved at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from guardagent import load_policies
from guardagent.policy.review import read_review, review_path
from guardagent.policy.review.record import Review
from guardagent.translation.review.dossier import read_dossier
from tests.conftest import Cli
from tests.translation.review.sample import POLICIES, apply_answers, edit, hold, translated


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    return translated(tmp_path)


def review_of(policies: Path) -> Review:
    return read_review(review_path(policies))


def confirmed(policies: Path) -> list[str]:
    """The names of the confirmed entries."""
    return [entry.name for entry in read_dossier(policies).entries if entry.standing == "confirmed"]


def test_a_review_ends_with_a_policy_that_people_confirmed(policies: Path) -> None:
    out = hold(policies, "y", "a", "y", "y", "y", "y")
    assert "1 answer not applied" in out
    assert confirmed(policies) == ["sentence 1", "sentence 3", "sentence 4", "sentence 5", "rule 'extra'"]
    apply_answers(policies)
    hold(policies, "y")
    assert read_dossier(policies).is_complete
    assert load_policies(policies, require_review=True).ids == ("lookup", "limit", "once", "extra")


def test_answers_and_confirmations_say_who_and_when(policies: Path) -> None:
    hold(policies, "y", "b", by="Bo")
    review = review_of(policies)
    assert [(answer.choice, answer.by, answer.applied) for answer in review.answers] == [(1, "Bo", False)]
    assert [(confirmation.by, list(confirmation.rules)) for confirmation in review.confirmations] == [
        ("Bo", ["lookup"])
    ]


def test_a_sentence_shows_its_rule_cases_findings_and_questions(policies: Path) -> None:
    out = hold(policies, "s")
    for text in (
        "2 · line 1",
        "A call of `refund` is allowed only if its `amount` is at most 500.",
        "refund(amount=501)",
        "get_customer()",
        "unnoticed_mutant",
        "500 euros exactly. Allowed?",
        "a  allowed: Up to 500.",
        "b  not allowed: Less than 500.",
    ):
        assert text in out


def test_an_open_question_has_no_default_and_prevents_a_confirmation(policies: Path) -> None:
    out = hold(policies, "y", "", "y", "maybe", "q", only="open")
    assert "sentence 2 cannot be confirmed: 1 open question" in out
    assert not review_of(policies).answers
    assert not review_of(policies).confirmations


def test_an_answer_can_be_changed_and_waits_for_a_translation_again(policies: Path) -> None:
    hold(policies, "a", only="open")
    apply_answers(policies)
    hold(policies, "s", "y", "q")
    assert confirmed(policies) == ["sentence 2"]
    out = hold(policies, "s", "b", "<", "y", "q", only="all")
    assert [answer.choice for answer in review_of(policies).answers] == [1]
    assert "the answer is not applied yet" in out
    assert confirmed(policies) == []


def test_back_and_a_later_dialogue_continue(policies: Path) -> None:
    hold(policies, "y", "<", "s", "s", "y", "q")
    assert confirmed(policies) == ["sentence 1", "sentence 3"]
    out = hold(policies)
    assert "sentence 1" not in out
    assert "1 of 4" in out


def test_help_and_unknown_keys_change_nothing(policies: Path) -> None:
    out = hold(policies, "?", "nonsense")
    assert "go back" in out
    assert "not a key" in out
    assert not review_of(policies).confirmations


def test_two_reviewers_do_not_overwrite_each_other(policies: Path) -> None:
    out = hold(policies, lambda: hold(policies, "y", "a", by="Bo"), "y", "s", "s", "y", "q")
    assert "Bo has confirmed it meanwhile" in out
    assert [confirmation.by for confirmation in review_of(policies).confirmations] == ["Bo", "Ann"]
    assert [answer.by for answer in review_of(policies).answers] == ["Bo"]


def test_a_second_answer_does_not_replace_one_that_was_not_shown(policies: Path) -> None:
    out = hold(policies, lambda: hold(policies, "b", by="Bo", only="open"), "a", "q", only="open")
    assert "Bo has answered meanwhile" in out
    assert [(answer.by, answer.choice) for answer in review_of(policies).answers] == [("Bo", 1)]


def test_a_rule_that_changes_while_it_is_shown_is_not_confirmed(policies: Path) -> None:
    out = hold(policies, lambda: policies.write_text(POLICIES.replace("customer()", "client()")), "y", "q")
    assert "it has changed since it was shown" in out
    assert "get_client" in out
    assert confirmed(policies) == []


def test_an_edited_rule_is_confirmed_anew_and_says_so(policies: Path) -> None:
    hold(policies, "s", "s", "s", "y", "q")
    policies.write_text(POLICIES.replace("p)) == 0", "p)) < 2"))
    out = hold(policies, "s", "s", "s", "y", "q")
    assert "changed since the translation" in out
    assert "at the translation: A call of `refund`" in out
    assert "no longer confirmed: Ann confirmed other content" in out
    assert confirmed(policies) == ["sentence 4"]
    assert {rule.id: rule.readings for rule in review_of(policies).rules}["once"] == "edited"


def test_an_edit_that_no_words_show_is_shown_as_written(policies: Path) -> None:
    policies.write_text(POLICIES.replace("At most 500 euros.", "Ask a colleague."))
    out = hold(policies, "s")
    assert "changed since the translation, but not its words" in out
    assert "message: Ask a colleague." in out


def test_a_rule_that_is_gone_holds_its_sentence_back(policies: Path) -> None:
    policies.write_text(POLICIES[: POLICIES.index("  - id: once")])
    out = hold(policies, "s", "s", "s", "y", "q")
    assert "sentence 4 cannot be confirmed: the policy file has no rule 'once' any more" in out


def test_a_confirmed_rule_of_no_sentence_can_go(policies: Path) -> None:
    hold(policies, "s", "s", "s", "s", "s", "y")
    policies.write_text(POLICIES[: POLICIES.index("  - id: extra")])
    assert "rule 'extra' is gone from the policy" in hold(policies, "s", "s", "s", "s", "s", "y")
    assert not review_of(policies).confirmations


def test_stored_words_that_differ_are_shown(policies: Path) -> None:
    rules = review_of(policies).rules
    edit(policies, rules=(replace(rules[0], words="Anything goes."), *rules[1:]))
    out = hold(policies)
    assert "the same rule in other words than at the translation" in out
    assert "at the translation: Anything goes." in out


def test_a_changed_document_comes_first(policies: Path) -> None:
    (policies.parent / "rules.txt").write_text("Refunds are at most 5 euros.")
    assert "changed in the document: now 'Refunds are at most 5 euros.'" in hold(policies).split("1 · line 1")[0]


def test_hostile_text_is_shown_as_text(policies: Path) -> None:
    review = review_of(policies)
    hostile = "\x1b[2J[red]stop[/red]\u202egnp.exe " + "long " * 20_000
    question = replace(review.questions[0], text=hostile, choices=review.questions[0].choices * 14)
    edit(policies, questions=(question,), findings=(replace(review.findings[0], message=hostile, example=hostile),))
    out = hold(policies, "s", "e2", "q")
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert "[red]stop[/red]" in out
    assert "more characters" in out
    assert len(out) < 60_000
    assert [answer.choice for answer in review_of(policies).answers] == [27]


def test_own_words_are_an_answer(policies: Path) -> None:
    out = hold(policies, "s", "neither:", "Neither A: Up to 450,  and only once.", "q")
    assert "there are no words after 'neither:'" in out
    assert "answered by Ann in own words: Up to 450, and only once." in out
    assert [(answer.choice, answer.words, answer.applied) for answer in review_of(policies).answers] == [
        (None, "Up to 450, and only once.", False)
    ]
    out = hold(policies, "s", "neither: 400", "<", "a", "q", only="all")
    assert "in own words: Up to 450, and only once." in out
    assert "cannot be confirmed: the answer is not applied yet" in out
    assert [(answer.choice, answer.words) for answer in review_of(policies).answers] == [(0, "")]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("neither q: x", "'q' is not the key of a choice"),
        ("neither: " + "long " * 500, "expected at most 2,000"),
        ("neither: \x07", "cannot be shown"),
    ],
)
def test_unusable_words_are_not_saved(policies: Path, line: str, problem: str) -> None:
    assert problem in hold(policies, "s", line, "q")
    assert not review_of(policies).answers


def test_of_several_questions_own_words_name_one(policies: Path) -> None:
    question = review_of(policies).questions[0]
    edit(policies, questions=(question, replace(question, id="q2")))
    out = hold(policies, "s", "neither: x", "neither c: only 400", "q")
    assert "there are several questions" in out
    assert [(answer.question, answer.words) for answer in review_of(policies).answers] == [("q2", "only 400")]


def test_a_question_is_answered_by_its_number(policies: Path, cli: Cli) -> None:
    """By one of its answers or in own words; `--status` lists the numbers."""
    assert "Answers: 'allowed', 'not allowed', or own words" in cli("review", policies, "--status").out
    for words, choice, own in (("Not Allowed", 1, ""), ("only on  Mondays", None, "only on Mondays")):
        assert cli("review", policies, "--by", "Bo", "--answer", "1", words).status == 0
        (answer,) = review_of(policies).answers
        assert (answer.choice, answer.words, answer.by, answer.applied) == (choice, own, "Bo", False)
    for number, text in (("2", "allowed"), ("0", "allowed"), ("1", " "), ("1", "alowed")):
        assert cli("review", policies, "--answer", number, text).status == 2
