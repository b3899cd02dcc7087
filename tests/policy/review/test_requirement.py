"""A policy loads with `require_review` only if people confirmed it as it stands."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from guardagent import load_policies
from guardagent.errors import InputError
from guardagent.policy.load import read_policies
from guardagent.policy.review import read_review, review_path, rule_problems, sentence_status, write_review
from guardagent.policy.review.record import (
    Confirmation,
    RecordedAnswer,
    Review,
    ReviewChoice,
    ReviewFinding,
    ReviewQuestion,
)
from guardagent.policy.watch import PolicyWatch
from tests.conftest import CommandResult
from tests.policy.review.reviews import AT, DOCUMENT, POLICY, confirmed, later, shop

Cli = Callable[..., CommandResult]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return shop(tmp_path)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def change(path: Path, **changes: Any) -> None:
    write_review(review_path(path), replace(read_review(review_path(path)), **changes))


def problem(path: Path) -> str:
    with pytest.raises(InputError) as error:
        load_policies(path, require_review=True)
    return str(error.value)


def test_a_confirmed_policy_loads(path: Path, tmp_path: Path) -> None:
    assert load_policies(path, require_review=True).session().check("refund", {"amount": 101}).label == 1
    (tmp_path / "b").mkdir()
    other = tmp_path / "b" / "r.json"
    review_path(path).rename(other)
    change_document = json.loads(other.read_text()) | {"document": "../shop.md"}
    other.write_text(json.dumps(change_document))
    load_policies(path, require_review=other)
    assert "no such file; expected the review of the policy" in problem(path)


EDITS = [
    ("refund(", "repay(", "100 euros.') changed since it was confirmed: rule 'refunds' changed"),
    ("limit: 100", "limit: 900", "rule 'refunds' changed"),
    ("a <= limit", "a >= limit", "rule 'refunds' changed"),
    ("[close_account]", "[close_account, wait]", "sentence 4 (line 5: 'Only a manager closes an account.') changed"),
    ("id: refunds", "id: repaid", "rule 'refunds' is no longer in the policy\n- rule 'repaid' rests on no sentence"),
    ("tool:shout", "tool:scream", "rule 'own' changed since it was confirmed"),
    ('- {id: own, temporal: "G !tool:shout"}\n', "", "rule 'own' was confirmed and is no longer in the policy"),
    ("policies:\n", "policies:\n- {id: new, temporal: G !tool:a}\n", "rule 'new' rests on no sentence and is not conf"),
    ("version: 1", "version: 1\nunlisted: deny", "every confirmed rule changed, perhaps with a key that concerns all"),
]


@pytest.mark.parametrize(("old", "new", "expected"), EDITS)
def test_an_edited_policy_is_refused(path: Path, old: str, new: str, expected: str) -> None:
    edit(path, old, new)
    assert expected in problem(path)
    assert confirmed(path, {}).exists()
    load_policies(path, require_review=True)


def test_a_constant_in_an_included_file_is_confirmed_too(path: Path) -> None:
    pack = path.with_name("pack.yaml")
    pack.write_text("version: 1\nconstants: {most: 3}\npolicies: [{id: r, temporal: 'forall(a(n=n), n < most)'}]\n")
    edit(path, "version: 1", "version: 1\ninclude: pack.yaml")
    assert "rule 'pack.r' rests on no sentence and is not confirmed" in problem(path)
    confirmed(path)
    load_policies(path, require_review=True)
    edit(pack, "most: 3", "most: 4")
    assert problem(path).endswith("\n- rule 'pack.r' changed since it was confirmed")


DOCUMENTS = [
    ("at most 100", "at most 200", "euros.') changed in the document: now 'A refund is at most 200 euros.'"),
    (" Staff are polite.", "", "sentence 3 (line 3: 'Staff are polite.') is no longer in the document"),
    ("account.", "account.\n- Nobody opens a window.", "'Nobody opens a window.') of the document is new"),
    ("account.\n", "account.\n\n", "shop.md' changed, but none of its sentences"),
    (DOCUMENT, "\0", "shop.md' changed since it was translated"),
]


@pytest.mark.parametrize(("old", "new", "expected"), DOCUMENTS)
def test_an_edited_document_is_refused(path: Path, old: str, new: str, expected: str) -> None:
    edit(path.with_name("shop.md"), old, new)
    assert expected in problem(path)


def test_the_document_has_to_be_a_file_that_ends(path: Path) -> None:
    document = path.with_name("shop.md")
    moved = document.rename(path.with_name("moved.md"))
    assert "cannot be read: No such file or directory" in problem(path)
    document.symlink_to(moved)
    load_policies(path, require_review=True)
    document.unlink()
    os.mkfifo(document)
    assert "cannot be read: it is not a regular file" in problem(path)
    for name, reason in (("a\0b", "null"), ("a" * 300, "too long"), ("", "not a regular file")):
        change(path, document=name)
        assert reason in problem(path)


def test_the_review_has_to_be_a_file_that_ends(path: Path) -> None:
    review = review_path(path)
    moved = review.rename(path.with_name("moved.json"))
    review.symlink_to(moved)
    load_policies(path, require_review=True)
    review.unlink()
    os.mkfifo(review)
    assert "is not a regular file; expected a review file" in problem(path)


def test_the_last_confirmation_of_a_sentence_counts(path: Path) -> None:
    review = read_review(review_path(path))
    right = next(confirmation for confirmation in review.confirmations if "refunds" in confirmation.rules)
    wrong = (later(right, rules={"refunds": "0"}), later(right, fate="not_enforceable", rules={}))
    for confirmation in wrong:
        change(path, confirmations=(confirmation, *review.confirmations))
        assert "sentence 2" in problem(path)
        change(path, confirmations=(*review.confirmations, confirmation, replace(right, at="2026-02-03T00:00:00Z")))
        load_policies(path, require_review=True)


def test_status_of_sentences_and_rules(path: Path) -> None:
    edit(path, "limit: 100", "limit: 900")
    edit(path, "G !tool:shout", "G !tool:cry")
    review = read_review(review_path(path))
    left = tuple(
        confirmation for confirmation in review.confirmations if confirmation.sentence != review.sentences[2].hash
    )
    review = replace(review, confirmations=left)
    policies = read_policies(path)
    assert sentence_status(policies, review) == ("confirmed", "changed", "unconfirmed", "confirmed")
    assert rule_problems(policies, review) == ("rule 'own' changed since it was confirmed",)


CHOICES = (ReviewChoice("yes", allowed=True, words=""), ReviewChoice("no", allowed=False, words=""))
QUESTION = ReviewQuestion("q1", (), ("refunds",), "100 euros, exactly. Allowed?", CHOICES)


def undecided(review: Review, fate: Any, **changes: Any) -> dict[str, Any]:
    """A review whose second sentence was confirmed with a fate that leaves it undecided."""
    second = replace(review.sentences[1], fate=fate, **changes)
    kept = [confirmation for confirmation in review.confirmations if confirmation.sentence != second.hash]
    own = Confirmation(second.hash, fate, {}, "Ada", AT)
    sentences = (review.sentences[0], second, *review.sentences[2:])
    return {"sentences": sentences, "confirmations": (*kept, own)}


OPEN: list[tuple[Callable[[Review], dict[str, Any]], str]] = [
    (lambda _: {"questions": (QUESTION,)}, "question 'q1' is open: '100 euros, exactly. Allowed?'"),
    (
        lambda _: {"questions": (QUESTION,), "answers": (RecordedAnswer("q1", 0, "Ada", AT),)},
        "the answer to question 'q1' is not applied",
    ),
    (lambda _: {"findings": (ReviewFinding("unread", "A picture."),)}, "finding 'unread' concerns the whole document"),
    (
        lambda review: {"confirmations": (*review.confirmations[:2], *review.confirmations[3:])},
        "sentence 3 (line 3: 'Staff are polite.') is not confirmed",
    ),
    (
        lambda review: {
            "confirmations": review.confirmations[1:],
            "findings": (ReviewFinding("hidden", "Text.", (review.sentences[0].hash,)),),
        },
        "sentence 1 (line 1: 'Refunds') is not confirmed",
    ),
    (
        lambda review: {
            "confirmations": review.confirmations[1:],
            "sentences": (replace(review.sentences[0], fate="open"), *review.sentences[1:]),
        },
        "sentence 1 (line 1: 'Refunds') is not decided",
    ),
    (lambda review: undecided(review, "open", rules=()), "100 euros.') is not decided"),
    (lambda review: undecided(review, "rule", rules=()), "is not decided"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "expected"), OPEN)
def test_what_is_open_is_refused(path: Path, changes: Callable[[Review], dict[str, Any]], expected: str) -> None:
    change(path, **changes(read_review(review_path(path))))
    assert expected in problem(path)


def test_nobody_has_to_confirm_a_heading(path: Path) -> None:
    change(path, confirmations=read_review(review_path(path)).confirmations[1:])
    load_policies(path, require_review=True)


def test_what_people_saw_is_accepted(path: Path) -> None:
    """An applied answer, and a finding about a sentence or rule that they confirmed."""
    change(
        path,
        questions=(QUESTION,),
        answers=(RecordedAnswer("q1", 0, "Ada", AT, applied=True),),
        findings=(ReviewFinding("loose", "…", rules=("refunds",)), ReviewFinding("long", "…", blocking=False)),
    )
    load_policies(path, require_review=True)


def test_the_message_shows_ten_problems(path: Path) -> None:
    rules = "".join(f"- {{id: r{at}, temporal: G !tool:a}}\n" for at in range(15))
    path.write_text(POLICY + rules)
    shown = problem(path).splitlines()
    assert len(shown) == 12
    assert shown[-1] == "- and 5 more"


def test_the_review_of_another_policy_confirms_nothing(path: Path, tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    other = shop(tmp_path / "b", POLICY.replace("limit: 100", "limit: 900"))
    review_path(path).write_bytes(review_path(other).read_bytes())
    assert "rule 'refunds' changed" in problem(path)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"text": POLICY, "require_review": True}, "'require_review=' only applies to files"),
        ({"path": ["a.yaml", "b.yaml"], "require_review": True}, "2 policy files have no common review"),
        ({"path": "a.yaml", "require_review": ""}, "'require_review=' is ''; expected True, False or the path"),
        ({"path": "a.yaml", "require_review": None}, "'require_review=' is None"),
        ({"path": "a.yaml", "require_review": 1}, "'require_review=' is 1"),
    ],
)
def test_options_that_name_no_review_are_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], expected: str
) -> None:
    monkeypatch.chdir(path.parent)
    for name in ("a.yaml", "b.yaml"):
        Path(name).write_text(f"version: 1\npolicies: [{{id: {name}, temporal: G !tool:a}}]\n")
    with pytest.raises(InputError) as error:
        load_policies(**options)
    assert expected in str(error.value)


def test_no_code_of_a_policy_runs_before_it_is_confirmed(path: Path) -> None:
    path.with_name("tools.py").write_text('import sys\n\nsys.ran = True\n\n\ndef f(state):\n    """F."""\n')
    edit(path, "version: 1", "version: 1\ntoolbox: tools.py")
    edit(path, "G !tool:shout", "forall(shout(), state(f()))")
    assert "rule 'own' changed" in problem(path)
    assert not hasattr(sys, "ran")


def test_a_new_version_has_to_be_confirmed(path: Path) -> None:
    policies = load_policies(path, require_review=True)
    edit(path, "limit: 100", "limit: 900")
    with pytest.raises(InputError, match="rule 'refunds' changed"):
        policies.reload()
    assert policies.current is policies
    confirmed(path)
    assert policies.reload() is not policies


def test_a_watch_reloads_when_a_version_is_confirmed_later(path: Path) -> None:
    policies = load_policies(path, require_review=True)
    watch = PolicyWatch(policies)
    edit(path, "limit: 100", "limit: 9000")
    watch.look()
    watch.look()
    assert policies.current is policies
    confirmed(path)
    watch.look()
    watch.look()
    assert policies.current is not policies


# --- the lock


def test_a_lock_pins_the_review(path: Path, cli: Cli, tmp_path: Path) -> None:
    lock = tmp_path / "lock.json"
    assert cli("lock", "-o", lock, "-p", path, "--require-review").status == 0
    load_policies(path, locked=lock, require_review=True)
    review = review_path(path).read_bytes()
    review_path(path).write_bytes(review + b"\n")
    with pytest.raises(InputError, match="has changed since it was locked"):
        load_policies(path, locked=lock)
    review_path(path).unlink()
    with pytest.raises(InputError, match=r"policies\.review\.json: cannot be read"):
        load_policies(path, locked=lock)
    review_path(path).write_bytes(review)
    load_policies(path, locked=lock)


def test_a_lock_needs_a_complete_review_or_none(path: Path, cli: Cli, tmp_path: Path) -> None:
    lock = tmp_path / "lock.json"
    edit(path, "limit: 100", "limit: 900")
    result = cli("lock", "-o", lock, "-p", path)
    assert (result.status, lock.exists()) == (2, False)
    assert "rule 'refunds' changed" in result.err
    review = review_path(path).read_bytes()
    review_path(path).unlink()
    assert cli("lock", "-o", lock, "-p", path, "--require-review").status == 2
    assert cli("lock", "-o", lock, "--require-review").status == 2
    assert cli("lock", "-o", lock, "-p", path).status == 0
    load_policies(path, locked=lock)
    review_path(path).write_bytes(review)
    with pytest.raises(InputError, match="is not in the lock file"):
        load_policies(path, locked=lock)


def test_commands_require_the_review(path: Path, cli: Cli, tmp_path: Path) -> None:
    cases, traces = tmp_path / "cases.jsonl", tmp_path / "traces.jsonl"
    call = {"tool": "refund", "args": {"amount": 1}}
    cases.write_text(json.dumps({"id": "1", "history": [], "proposed": call}))
    traces.write_text(json.dumps({"id": "1", "events": [call]}))
    runs: list[tuple[object, ...]] = [("check", cases), ("audit", traces)]
    for run in runs:
        assert cli(*run, "-p", path, "--require-review").status == 0
    edit(path, "limit: 100", "limit: 900")
    for run in (*runs, ("mcp-proxy", "server")):
        result = cli(*run, "-p", path, "--require-review")
        assert result.status == 2
        assert "rule 'refunds' changed" in result.err
    for run in runs:
        assert cli(*run, "-p", path).status == 0
