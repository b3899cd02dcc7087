"""The whole translation, against a scripted server."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from guardagent import load_policies
from guardagent._support.files import shared_folder_lock
from guardagent.errors import InputError
from guardagent.policy.review import read_review, review_path, rule_hashes, write_review
from guardagent.policy.review.record import Confirmation, RecordedAnswer, Review
from guardagent.translation.pipeline import Translation, translate
from tests.models.conftest import Serve, serve, until
from tests.models.server import Reply, ScriptedServer, status, text
from tests.translation.library import block, sentences_of, situation
from tests.translation.pipeline import pharmacy
from tests.translation.pipeline.pharmacy import numbered, pharmacist

__all__ = ["serve"]

LIMIT = numbered("Never dispense")
WHEN = "2026-05-01T10:00:00+00:00"
AMBIGUOUS: Mapping[int, Any] = {
    LIMIT: {
        "ambiguous": {
            "question": "Are thirty tablets still possible?",
            "readings": ["Yes, thirty are possible.", "No, only fewer."],
            "follows": 1,
            "otherwise": [
                {
                    "id": "tablet_limit",
                    "temporal": "forall(dispense(tablets=n), n < 30)",
                    "cases": [{"id": "30", "proposed": {"tool": "dispense", "args": {"tablets": 30}}, "label": 1}],
                }
            ],
        }
    }
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "POLICY.md").write_text(pharmacy.DOCUMENT)
    (tmp_path / "tools.json").write_text(json.dumps(pharmacy.TOOLS))
    return tmp_path


def translated(folder: Path, **options: Any) -> Translation:
    arguments: dict[str, Any] = {"model": "openai/test", "out": folder / "policies.yaml", **options}
    return translate(folder / "POLICY.md", str(folder / "tools.json"), **arguments)


def numbers(server: ScriptedServer, template: str) -> list[int]:
    """The sentences that requests with a template were about."""
    return sorted(
        number
        for request in server.requests
        for name, group in [sentences_of(request)]
        for number in group
        if name == template
    )


def answered(folder: Path, choice: Callable[[Any], bool]) -> None:
    """Answers all questions with the first choice that fits."""
    path = review_path(folder / "policies.yaml")
    review = read_review(path)
    answers = [
        RecordedAnswer(
            open_question.id, next(at for at, it in enumerate(open_question.choices) if choice(it)), "Ann", WHEN
        )
        for open_question in review.open_questions
    ]
    write_review(path, replace(review, answers=(*review.answers, *answers)))


def confirmed(folder: Path) -> None:
    """Confirms all sentences as they are."""
    path = folder / "policies.yaml"
    review, hashes = read_review(review_path(path)), rule_hashes(load_policies(path))
    confirmations = [
        Confirmation(sentence.hash, sentence.fate, {rule: hashes[rule] for rule in sentence.rules}, "Ann", WHEN)
        for sentence in review.sentences
    ]
    write_review(review_path(path), replace(review, confirmations=tuple(confirmations)))


def fates(review: Review) -> dict[str, int]:
    count: dict[str, int] = {}
    for sentence in review.sentences:
        count[sentence.fate] = count.get(sentence.fate, 0) + (sentence.kind != "heading")
    return count


@pytest.mark.slow
def test_all_thirty_sentences_are_accounted_for(serve: Serve, folder: Path, cli: Any) -> None:
    server = serve(pharmacist())
    result = translated(folder)
    assert fates(result.review) == {"definition": 4, "not_enforceable": 9, "rule": 14, "implied": 2, "fact": 1}
    assert all(
        sentence.reason
        for sentence in result.review.sentences
        if sentence.fate in ("not_enforceable", "fact", "implied")
    )
    assert result.outcome == 0
    assert {rule.readings for rule in result.review.rules} == {"agree"}
    assert len(server.requests) <= 3 * 14
    policy = folder / "policies.yaml"
    assert len(load_policies(policy).ids) == 14
    assert cli("test", policy, folder / "policies.cases.jsonl").status == 0
    traces = [json.loads(line) for line in (folder / "policies.traces.jsonl").read_text().splitlines()]
    assert "change_notified" in {trace["id"]: trace["rules"] for trace in traces}["change_notified/never"]
    assert not [finding for finding in result.review.findings if finding.kind == "untested"]


@pytest.mark.slow
def test_the_policy_may_be_used_once_each_sentence_is_confirmed(serve: Serve, folder: Path) -> None:
    serve(pharmacist())
    translated(folder)
    policy = folder / "policies.yaml"
    with pytest.raises(InputError, match="not confirmed"):
        load_policies(policy, require_review=True)
    confirmed(folder)
    load_policies(policy, require_review=True)
    policy.write_text(policy.read_text().replace("n <= 30", "n <= 300"))
    with pytest.raises(InputError, match="tablet_limit"):
        load_policies(policy, require_review=True)


@pytest.mark.slow
def test_no_review_is_lost(serve: Serve, folder: Path) -> None:
    """Neither with its policy gone, nor to another document."""
    serve(pharmacist())
    translated(folder)
    confirmed(folder)
    policy, review = folder / "policies.yaml", (folder / "policies.review.json").read_text()
    (folder / "OTHER.md").write_text("# Garden\n\nWater the plants. Cut the grass.\n")
    with pytest.raises(InputError, match=r"translated from 'POLICY.md', of which 'OTHER.md' is not a new version: 0"):
        translate(folder / "OTHER.md", str(folder / "tools.json"), model="openai/test", out=policy)
    (folder / "v2.md").write_text((folder / "POLICY.md").read_text())
    assert translate(folder / "v2.md", str(folder / "tools.json"), model="openai/test", out=policy).outcome == 0
    policy.unlink()
    with pytest.raises(
        InputError, match=r"has 0 answers and \d+ confirmations, but its policy 'policies.yaml' is gone"
    ):
        translated(folder)
    assert json.loads((folder / "policies.review.json").read_text())["confirmations"]
    assert json.loads(review)["confirmations"]


@pytest.mark.slow
def test_a_new_finding_voids_the_confirmation_of_its_rule(serve: Serve, folder: Path) -> None:
    """A person added a rule that contradicts a confirmed one."""
    serve(pharmacist())
    translated(folder)
    confirmed(folder)
    policy = folder / "policies.yaml"
    before = {confirmation.sentence for confirmation in read_review(review_path(policy)).confirmations}
    text = policy.read_text()
    policy.write_text(text.rstrip() + "\n  - id: none_at_all\n    temporal: forall(dispense(tablets=n), n > 40)\n")
    result = translated(folder)
    about = {rule for finding in result.review.findings if finding.blocking for rule in finding.rules}
    assert {"none_at_all"} <= about
    voided = before - {confirmation.sentence for confirmation in result.review.confirmations}
    rules = {rule for sentence in result.review.sentences if sentence.hash in voided for rule in sentence.rules}
    assert "tablet_limit" in rules


@pytest.mark.slow
def test_an_interrupted_translation_goes_on_where_it_was(serve: Serve, folder: Path) -> None:
    """It writes nothing until it is whole, and asks for no answer twice."""
    whole = serve(pharmacist())
    translated(folder)
    policy, total, left, script = folder / "policies.yaml", 0, 3, pharmacist()
    expected = policy.read_text(), len(whole.requests)
    for path in (policy, review_path(policy), folder / "policies.cases.jsonl"):
        path.unlink()

    def failing(request: dict[str, Any]) -> Reply:
        """Answers three requests of each run."""
        nonlocal left, total
        left -= 1
        total += left >= 0
        return script(request) if left >= 0 else status(401)

    serve(failing)
    while (result := translated(folder, cache=folder / "other", parallel=1)).outcome:
        assert (result.outcome, result.written, left < 0) == (3, (), True)
        left = 3
    assert (policy.read_text(), total) == expected


@pytest.mark.parametrize("answer", ["", "I cannot do that.", block("rules: []\n"), block("version: 1\npolicies: []\n")])
def test_a_model_that_gives_nothing_ends_with_status_3_and_no_policy(serve: Serve, folder: Path, answer: str) -> None:
    serve([text(answer)])
    result = translated(folder)
    assert result.outcome == 3
    assert result.written == ()
    assert {sentence.fate for sentence in result.review.sentences} == {"open"}
    assert not (folder / "policies.yaml").exists()


def test_a_draft_that_says_nothing_leaves_its_sentences_open(serve: Serve, folder: Path) -> None:
    serve(pharmacist(answered=lambda template, *_: None if template == "survey" else "I would rather not."))
    result = translated(folder)
    assert (result.outcome, result.written) == (3, ())
    assert fates(result.review)["open"] == 14


def test_a_draft_for_other_tools_is_not_used(serve: Serve, folder: Path) -> None:
    other = {number: {"temporal": "G !tool:launch_rocket"} for number in pharmacy.RULES}
    server = serve(pharmacist(first=other))
    result = translated(folder)
    assert (result.outcome, result.written) == (3, ())
    assert any("launch_rocket" in sentence.reason for sentence in result.review.sentences)
    assert len(server.requests) <= 3 * 14


@pytest.mark.slow
def test_two_readings_become_a_question_and_its_answer_decides(serve: Serve, folder: Path) -> None:
    """Without another request, also after runs without an answer: the author wrote the rules by both readings."""
    serve(pharmacist(first=AMBIGUOUS))
    result = translated(folder)
    assert result.outcome == 1
    (question,) = result.review.questions
    assert question.text.startswith('"Never dispense more than 30 tablets at once." Are thirty tablets still possible?')
    assert "tablets 30 (exactly the limit)" in question.text
    assert "reads the record with patient p1" in question.text, "the situation is one that the whole document allows"
    assert [choice.answer for choice in question.choices] == ["allowed", "not allowed"]
    assert "n < 30" in (folder / "policies.yaml").read_text(), "the stricter one stands until there is an answer"
    assert translated(folder).outcome == 1
    answered(folder, lambda choice: choice.allowed is True)
    server = serve(pharmacist(first=AMBIGUOUS))
    result = translated(folder)
    assert "n <= 30" in (folder / "policies.yaml").read_text()
    assert result.outcome == 0, [finding for finding in result.review.findings if finding.blocking]
    assert all(answer.applied for answer in result.review.answers)
    assert server.requests == []


@pytest.mark.slow
def test_two_readings_that_mean_the_same_are_no_question(serve: Serve, folder: Path) -> None:
    change = dict(AMBIGUOUS[LIMIT]["ambiguous"])
    same = {**change, "otherwise": [{"id": "tablet_limit", "temporal": "forall(dispense(tablets=n), !(n > 30))"}]}
    serve(pharmacist(first={LIMIT: {"ambiguous": same}}))
    result = translated(folder)
    assert (result.outcome, result.review.questions) == (0, ())
    assert [finding.blocking for finding in result.review.findings if finding.kind == "same_readings"] == [False]


@pytest.mark.slow
def test_readings_that_differ_only_on_calls_that_other_rules_deny_are_no_question(serve: Serve, folder: Path) -> None:
    """Whether more than sixty packs may be ordered on Sundays decides nothing: nobody orders more than fifty."""
    weekdays = numbered("Stock is ordered")
    other = [{"id": "weekdays", "temporal": "forall(order_stock(packs=n), weekday(now) <= 5 || n > 60)"}]
    readings = {"readings": ["Always.", "Not for large orders."], "follows": 1, "otherwise": other}
    serve(pharmacist(first={weekdays: {"ambiguous": {"question": "Also large orders?", **readings}}}))
    result = translated(folder)
    assert (result.outcome, result.review.questions) == (0, ())


@pytest.mark.slow
def test_a_question_with_two_texts_is_one(serve: Serve, folder: Path) -> None:
    """Although two texts of it are there."""
    twice = json.loads(pharmacy.draft_answer([LIMIT], AMBIGUOUS))["ambiguous"]
    again = {**twice[0], "question": "Is the limit inside?"}

    def doubled(template: str, group: tuple[int, ...], _: str) -> str | None:
        if template != "draft" or LIMIT not in group:
            return None
        content = json.loads(pharmacy.draft_answer(group))
        return block(json.dumps({**content, "ambiguous": [*twice, again]}) + "\n")

    serve(pharmacist(answered=doubled))
    assert len(translated(folder).review.questions) == 1
    answered(folder, lambda choice: choice.allowed is False)
    result = translated(folder)
    assert (len(result.review.questions), result.outcome) == (1, 0)


@pytest.mark.slow
def test_a_case_that_its_reader_takes_otherwise_goes_back_and_then_to_the_owner(serve: Serve, folder: Path) -> None:
    """The author gets the case and the reason once; who insists leaves it to the owner."""
    thirty = {"proposed": {"tool": "dispense", "args": {"tablets": 30}}}
    server = serve(pharmacist(read={situation(thirty): 1}))
    result = translated(folder)
    back = [request for request in server.requests if "a reader says that the case" in str(request)]
    assert [sentences_of(request) for request in back] == [("draft", (LIMIT,))]
    assert str(back).count("forall(") < str(server.requests[1]).count("forall(") + 3, "only the rule with the fault"
    (question,) = result.review.questions
    assert question.text.endswith("The agent calls dispense with tablets 30. Allowed?")
    assert [choice.answer for choice in question.choices] == ["allowed", "not allowed"]
    assert result.outcome == 1
    answered(folder, lambda choice: choice.allowed is True)
    server = serve(pharmacist())
    assert (translated(folder).outcome, server.requests) == (0, [])


@pytest.mark.slow
def test_a_request_whose_answer_is_cut_is_divided(serve: Serve, folder: Path) -> None:
    """Each kind of request; what a single sentence needs is said."""
    script = pharmacist()

    def cut(request: dict[str, Any]) -> Reply:
        return script(request) if len(sentences_of(request)[1]) <= most else text("half", finish_reason="length")

    most = 4
    server = serve(cut)
    result = translated(folder)
    assert (result.outcome, len(result.review.rules)) == (0, 14)
    assert {name for request in server.requests for name, group in [sentences_of(request)] if len(group) > most} == {
        "survey",
        "draft",
        "read_cases",
    }
    most = 0
    serve(cut)
    result = translated(folder, out=folder / "other.yaml")
    assert result.outcome == 3
    assert any("allow more with '--max-tokens'" in finding.message for finding in result.review.findings)


@pytest.mark.slow
def test_rules_whose_cases_nobody_reads_are_not_confirmed(serve: Serve, folder: Path) -> None:
    serve(pharmacist(answered=lambda template, *_: "I refuse." if template == "read_cases" else None))
    result = translated(folder)
    assert result.outcome == 1
    assert {rule.readings for rule in result.review.rules} == {"single"}
    assert {"unread_cases", "single_reading"} <= {finding.kind for finding in result.review.findings}


@pytest.mark.slow
def test_only_changed_sentences_are_translated(serve: Serve, folder: Path) -> None:
    serve(pharmacist())
    translated(folder)
    before = (folder / "policies.yaml").read_text()
    confirmed(folder)
    changed = pharmacy.DOCUMENT.replace("more than 30 tablets at once", "more than 20 tablets at once")
    (folder / "POLICY.md").write_text(changed)
    with pytest.raises(InputError, match="Never dispense"):
        load_policies(folder / "policies.yaml", require_review=True)
    server = serve(pharmacist(first=TWENTY))
    result = translated(folder)
    assert numbers(server, "draft") == [LIMIT]
    assert LIMIT in numbers(server, "survey")
    assert len(numbers(server, "survey")) < 5
    changes = result.summary["changes"]
    assert changes is not None
    assert changes["fallen"] == ["tablet_limit"]
    assert changes["replay"].endswith("policies.previous.yaml")
    assert (folder / "policies.previous.yaml").read_text() == before
    assert "n <= 20" in (folder / "policies.yaml").read_text()
    with pytest.raises(InputError, match="sentence"):
        load_policies(folder / "policies.yaml", require_review=True)
    assert len(result.review.confirmations) >= 25


TWENTY: Mapping[int, Any] = {
    LIMIT: {
        "temporal": "forall(dispense(tablets=n), n <= 20)",
        "quotes": [{"sentence": LIMIT, "words": "Never dispense more than 20 tablets at once"}],
        "cases": [
            {"id": "20", "proposed": {"tool": "dispense", "args": {"tablets": 20}}, "label": 0},
            {"id": "1", "proposed": {"tool": "dispense", "args": {"tablets": 1}}, "label": 0},
            {
                "id": "21",
                "proposed": {"tool": "dispense", "args": {"tablets": 21}},
                "label": 1,
                "rules": ["tablet_limit"],
            },
            {"id": "?", "proposed": {"tool": "dispense", "args": {}}, "label": 1, "rules": []},
        ],
    }
}


@pytest.mark.slow
def test_a_rule_that_a_person_changed_is_edited(serve: Serve, folder: Path) -> None:
    """Two drafts no longer say it, and the cases against which it was changed are left out."""
    serve(pharmacist())
    translated(folder)
    policy = folder / "policies.yaml"
    policy.write_text(policy.read_text().replace("n <= 30", "n <= 20"))
    review = translated(folder).review
    assert [rule.id for rule in review.rules if rule.readings == "edited"] == ["tablet_limit"]
    (finding,) = (finding for finding in review.findings if finding.rules == ("tablet_limit",))
    assert (finding.kind, finding.blocking) == ("edited", False)
    assert finding.message.endswith("left out: 'allowed 1', 'allowed 2'.")
    assert "n <= 20" in policy.read_text()
    policy.write_text(policy.read_text().replace("version: 1", "version: 1\nunlisted: allow"))
    review = translated(folder).review
    assert [rule.id for rule in review.rules if rule.readings == "edited"] == ["tablet_limit"], "a frame is not an edit"


@pytest.mark.slow
def test_a_contradiction_that_a_person_resolved_is_gone(serve: Serve, folder: Path) -> None:
    serve(pharmacist())
    translated(folder)
    policy = folder / "policies.yaml"
    before = policy.read_text()
    policy.write_text(before + "\n  - {id: silence, temporal: 'G !tool:notify', message: No.}\n")
    findings = [finding for finding in translated(folder).review.findings if finding.blocking]
    assert {finding.kind for finding in findings} == {"contradictory"}
    assert all("silence" in finding.rules and finding.sentences for finding in findings)
    policy.write_text(before)
    assert translated(folder).outcome == 0


@pytest.mark.slow
def test_a_run_that_is_killed_between_two_files_leaves_nothing_half(serve: Serve, folder: Path) -> None:
    """A policy without its review, or one that is newer than its review, becomes whole again."""
    serve(pharmacist())
    translated(folder)
    policy, review = folder / "policies.yaml", review_path(folder / "policies.yaml")
    old = review.read_text()
    (folder / "POLICY.md").write_text(pharmacy.DOCUMENT.replace("than 30 tablets at once", "than 20 tablets at once"))
    serve(pharmacist(first=TWENTY))
    translated(folder)
    whole = policy.read_text()
    review.write_text(old)
    translated(folder)
    assert policy.read_text() == whole
    policy.unlink()
    translated(folder)
    assert policy.read_text() == whole


@pytest.mark.slow
def test_rules_of_people_survive(serve: Serve, folder: Path) -> None:
    serve(pharmacist())
    translated(folder)
    policy = folder / "policies.yaml"
    policy.write_text(policy.read_text() + "\n  # by hand\n  - {id: mine, temporal: 'G !tool:notify', message: No.}\n")
    (folder / "POLICY.md").write_text(pharmacy.DOCUMENT + "\nBe quick.\n")
    last = {len(pharmacy.SENTENCES) + 2: {"fate": "not_enforceable", "reason": "No call shows it."}}
    serve(pharmacist(survey=last))
    translated(folder)
    assert "# by hand" in policy.read_text()
    assert "mine" in load_policies(policy).ids


def test_a_policy_that_people_wrote_is_not_overwritten(serve: Serve, folder: Path) -> None:
    server = serve(pharmacist())
    (folder / "policies.yaml").write_text("version: 1\npolicies: [{id: a, temporal: 'G !tool:x'}]\n")
    with pytest.raises(InputError, match="was not written by"):
        translated(folder)
    assert not server.requests


@pytest.mark.slow
def test_the_cap_on_the_cost_holds_over_all_runs(serve: Serve, folder: Path) -> None:
    from guardagent.models import load_model

    server = serve(pharmacist())
    for _ in range(3):
        model = load_model("openai/test", prices=(10.0, 1000.0), max_tokens=100)
        result = translated(folder, model=model, max_cost=0.17)
    assert result.outcome == 3
    assert 0 < len(server.requests) * 0.011 <= 0.17
    assert result.written == ()
    assert any("cap" in finding.message for finding in result.review.findings)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"out": "nowhere/policies.yaml"}, "no such folder"),
        ({"out": "policies.json"}, "expected a policy file that ends in"),
        ({"traces": "none.jsonl"}, "none.jsonl"),
        ({"facts": "tools.json"}, "tools.json"),
        ({"toolbox": ["/etc/hosts.py"]}, "is outside of"),
        ({"prompts": "nowhere"}, "no templates"),
        ({"max_cost": float("nan")}, "expected an amount"),
        ({"max_cost": -1.0}, "expected an amount"),
    ],
)
def test_wrong_inputs_are_errors_before_any_call(
    serve: Serve, folder: Path, options: dict[str, Any], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(pharmacist())
    monkeypatch.chdir(folder)
    with pytest.raises(InputError, match=problem):
        translated(folder, **options)
    assert not server.requests


@pytest.mark.slow
def test_a_review_during_the_translation_is_not_overwritten(serve: Serve, folder: Path) -> None:
    serve(pharmacist(first=AMBIGUOUS))
    translated(folder)
    (folder / "POLICY.md").write_text(pharmacy.DOCUMENT + "\nBe quick.\n")
    last = {len(pharmacy.SENTENCES) + 2: {"fate": "not_enforceable", "reason": "No call shows it."}}

    def reviewing(*_: object) -> None:
        if not read_review(review_path(folder / "policies.yaml")).answers:
            answered(folder, lambda choice: choice.allowed is True)

    serve(pharmacist(survey=last, answered=reviewing))
    with pytest.raises(InputError, match="changed during the translation"):
        translated(folder)
    assert read_review(review_path(folder / "policies.yaml")).answers


@pytest.mark.slow
def test_nobody_answers_while_the_files_are_written(serve: Serve, folder: Path) -> None:
    """The translation waits for a reviewer who saves, and then sees the answer."""
    serve(pharmacist(first=AMBIGUOUS))
    translated(folder)
    (folder / "POLICY.md").write_text(pharmacy.DOCUMENT + "\nBe quick.\n")
    last = {len(pharmacy.SENTENCES) + 2: {"fate": "not_enforceable", "reason": "No call shows it."}}
    serve(pharmacist(survey=last))
    drafts = folder / "policies.answers" / "open-groups.json"
    drafts.unlink()
    with ThreadPoolExecutor(1) as pool, shared_folder_lock(folder):
        running = pool.submit(translated, folder)
        until(drafts.exists)  # the last file before the policy
        answered(folder, lambda choice: choice.allowed is True)
        saved = read_review(review_path(folder / "policies.yaml")).answers
    with pytest.raises(InputError, match="changed during the translation"):
        running.result()
    assert read_review(review_path(folder / "policies.yaml")).answers == saved


@pytest.mark.slow
def test_an_answer_about_old_words_is_named(serve: Serve, folder: Path) -> None:
    """It decides nothing about the new ones; the note stays with their sentence."""
    serve(pharmacist(first=AMBIGUOUS))
    translated(folder)
    answered(folder, lambda choice: choice.allowed is True)
    assert translated(folder).outcome == 0
    (folder / "POLICY.md").write_text(pharmacy.DOCUMENT.replace("than 30 tablets at once", "than 20 tablets at once"))
    serve(pharmacist(first=TWENTY))
    for result in (translated(folder), translated(folder)):
        (finding,) = (finding for finding in result.review.findings if finding.kind == "outdated_answer")
        assert "answer of Ann" in finding.message
        assert "was about the old words" in finding.message
        assert [sentence.number for sentence in result.review.sentences if sentence.hash in finding.sentences] == [
            LIMIT
        ]
        assert (result.review.answers, result.review.open_questions, result.outcome) == ((), (), 0)


def test_an_interrupted_translation_compares_nothing(serve: Serve, folder: Path) -> None:
    script, left, lines = pharmacist(), iter(range(2)), list[str]()
    serve(lambda request: script(request) if next(left, None) is not None else status(401))
    result = translated(folder, parallel=1, progress=lines.append)
    assert (result.outcome, result.written) == (3, ())
    assert any(line.startswith("Drafts") for line in lines)
    assert not any(line.startswith("Reading") for line in lines)


def test_a_server_of_tools_that_ends_at_once_is_a_wrong_input(serve: Serve, folder: Path, cli: Any) -> None:
    serve(pharmacist())
    out = folder / "policies.yaml"
    result = cli("translate", folder / "POLICY.md", "--tools", "mcp:false", "--model", "openai/test", "-o", out)
    assert result.status == 2
    assert "tools 'mcp:false': the MCP server does not list its tools" in result.err
    assert "expected a server that lists its tools" in result.err


def test_a_folder_of_answers_says_how_many_are_missing(folder: Path, cli: Any) -> None:
    """One line, in place of a report that repeats it for each sentence; the report has the sentences."""
    arguments = ["--tools", folder / "tools.json", "--model", f"folder/{folder / 'queue'}"]
    command = ["translate", folder / "POLICY.md", *arguments, "-o", folder / "policies.yaml"]
    result = cli(*command, "--report", folder / "report.md")
    prompt = next((folder / "queue").glob("*.prompt.md"))
    assert result.status == 3
    answer = prompt.with_name(prompt.name.replace(".prompt.", ".answer."))
    assert result.out == f"0 of 1 answered, next: {prompt}; write the answer to {answer} and run again\n"
    assert "INCOMPLETE" in (folder / "report.md").read_text()
    assert json.loads(cli(*command, "--json").out)["outcome"] == 3
