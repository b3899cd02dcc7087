"""The command `review`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from guardagent.policy.review import read_review, review_path
from guardagent.translation.review.dossier import read_dossier
from guardagent.translation.review.page import review_page
from tests.conftest import CommandResult
from tests.translation.review.sample import apply_answers, edit, hold, translated

Cli = Callable[..., CommandResult]


def test_status_is_0_only_if_everything_is_confirmed(tmp_path: Path, cli: Cli) -> None:
    policies = translated(tmp_path)
    before = cli("review", policies, "--status")
    assert before.status == 1
    assert "question 'q1' is open: '500 euros exactly. Allowed?'" in before.out
    assert "0 of 6 confirmed; 1 question open" in before.out
    hold(policies, "y", "a", "y", "y", "y", "y")
    assert "1 answer not applied" in cli("review", policies, "--status").out
    apply_answers(policies)
    hold(policies, "y")
    assert cli("review", policies, "--status") == CommandResult(0, "6 of 6 confirmed\n", "")


def test_json_is_one_object(tmp_path: Path, cli: Cli) -> None:
    policies = translated(tmp_path)
    status = json.loads(cli("review", policies, "--status", "--json", "--only", "open").out)
    assert (status["complete"], status["sentences"], status["open_questions"]) == (False, 5, 1)
    assert [entry["sentence"]["text"] for entry in status["entries"]] == ["Refunds are at most 500 euros."]


def test_page_writes_a_file(tmp_path: Path, cli: Cli) -> None:
    page = tmp_path / "review.html"
    assert cli("review", translated(tmp_path), "--page", page).status == 0
    assert page.read_text().startswith("<!doctype html>")


def test_invalid_requests_say_what_to_do(tmp_path: Path, cli: Cli) -> None:
    policies = translated(tmp_path)
    for arguments, expected in (
        ((policies,), "needs a terminal"),
        ((policies, "--json"), "'--json' without '--status'"),
        ((policies, "--status", "--only", "opne"), "did you mean 'open'"),
        ((tmp_path / "other.yaml", "--status"), "no such file"),
    ):
        result = cli("review", *arguments)
        assert result.status == 2
        assert expected in result.err


def test_a_heading_needs_no_confirmation(tmp_path: Path) -> None:
    """One with a finding does."""
    path = translated(tmp_path)
    review = read_review(review_path(path))
    sentence = review.sentences[2]
    heading = replace(sentence, kind="heading")
    edit(path, sentences=tuple(heading if reviewed == sentence else reviewed for reviewed in review.sentences))
    found = {entry.name: entry for entry in read_dossier(path).entries}
    assert (found["sentence 3"].standing, found["sentence 3"].confirmation) == ("confirmed", None)
    assert "✔ needs no confirmation" in review_page(read_dossier(path))
    edit(path, findings=(replace(review.findings[0], sentences=(sentence.hash,)),))
    assert {entry.name: entry.standing for entry in read_dossier(path).entries}["sentence 3"] == "unconfirmed"
