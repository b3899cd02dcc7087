"""The generating flow against a server, as the paper's Section 4.3 runs it, and with everything that can go wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from guardagent import GuardAgent, Verdict
from guardagent.models.backends.openai import Backend
from tests.conftest import CommandResult
from tests.models.conftest import Serve
from tests.models.server import Reply, status, text, tool_call
from tests.programs.generation.answers import CODE, MISSPELT, PLAN, block
from tests.runs import ehr_input, ehr_log
from tests.tiers import slow_after, slow_but_every

GOOD = [text(PLAN), text(CODE)]
CUT = Reply(text(PLAN).body, cut=True)
JAVASCRIPT = block("function check() { return {label: 0} }", "javascript")


def judged(rounds: int = 0) -> Verdict:
    model = Backend("test", timeout=2, retries=1)
    with GuardAgent(agent="ehragent", mode="generate", model=model, debug_rounds=rounds) as guard:
        return guard.guard(ehr_input("nursing"), ehr_log())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("replies", "rounds", "calls"),
    [
        (GOOD, 0, 2),
        ([text(PLAN), text(MISSPELT), text(CODE)], 1, 3),
        ([status(429, retry_after="0.1"), text(PLAN), status(500), text(CODE)], 0, 2),
        ([text("1. a\n2. b\n3. c"), *GOOD], 1, 3),
        ([text(""), *GOOD], 1, 3),
        ([text(PLAN), tool_call(), text("It is fine, label 0."), text(CODE * 2), text(CODE)], 3, 5),
    ],
)
def test_a_flow_that_recovers_gives_the_right_verdict(
    serve: Serve, replies: list[Reply], rounds: int, calls: int
) -> None:
    """The answer passes, and what it took is on the verdict."""
    server = serve(replies)
    verdict = judged(rounds)
    assert (verdict.label, verdict.answer, verdict.errors) == (0, "7.4", ())
    assert (verdict.model_calls, verdict.usage.prompt_tokens) == (calls, 100 * calls)
    assert len(server.requests) == len(replies)


@pytest.mark.parametrize(
    "bad",
    slow_but_every(
        2,
        [
            status(401, "wrong key"),
            status(429, retry_after="99"),
            status(500),
            text(PLAN, seconds=30),
            CUT,
            Reply(raw=True),
            Reply(b"{not json"),
            Reply(b"<html></html>", content_type="text/html"),
            text(""),
            text("The run keeps the rules. Label 0."),
            text('{"label": 0, "reasons": [], "answer": "7.4"}'),
            text(JAVASCRIPT),
            text(CODE * 2),
            tool_call(),
            text("1. a\n2. b\n3. c"),
        ],
    ),
)
@pytest.mark.parametrize("good_before", slow_after(1, [[], GOOD[:1]]))
def test_a_flow_that_does_not_recover_is_a_denial(serve: Serve, bad: Reply, good_before: list[Reply]) -> None:
    """Whether the plan or the code is what fails: label 1, with the cause, and never by accident label 0."""
    serve([*good_before, bad])
    verdict = judged(1)
    assert (verdict.label, verdict.answer) == (1, None)
    assert len(verdict.errors) == 1
    assert "Traceback" not in verdict.to_json(explain=True)


def test_half_characters_are_no_way_around_the_verdict(serve: Serve) -> None:
    """In what is judged and in what a model says, with all that is kept and counted."""
    serve([text(PLAN + "\ud800"), text(MISSPELT + "\ud800"), text(CODE)])
    model = Backend("test", prices=(1.0, 1.0))
    with GuardAgent(agent="ehragent", mode="generate", model=model, max_cost=1.0) as guard:
        verdict = guard.guard(ehr_input("nursing"), ehr_log())
        assert (verdict.label, verdict.answer) == (0, "7.4")
        assert verdict.to_json(explain=True).encode()
        assert guard.guard(ehr_input("nursing") + "\ud800", ehr_log()).errors


def test_code_that_fails_again_and_again_is_a_denial(serve: Serve) -> None:
    """After three rounds of debugging."""
    server = serve([text(PLAN), text(MISSPELT)])
    verdict = judged(3)
    assert (verdict.label, len(server.requests)) == (1, 5)
    assert "in 4 tries; the last error: the program: line 8: NameError" in verdict.errors[0]


@pytest.mark.parametrize(
    ("replies", "log", "exit_status"),
    [
        (GOOD, ehr_log(), 0),
        (GOOD, ehr_log("diagnosis", "diagnosisname"), 1),
        ([text(PLAN), text("no code")], ehr_log(), 3),
        ([status(401)], ehr_log(), 3),
    ],
)
def test_the_command_line_over_http(
    serve: Serve,
    cli: Callable[..., CommandResult],
    write: Callable[..., Path],
    replies: list[Reply],
    log: str,
    exit_status: int,
) -> None:
    """One JSON object, an exit status, and no traceback."""
    serve(replies)
    files = ("--input", write("input.txt", ehr_input("nursing")), "--output-log", write("log.txt", log))
    ran = cli("guard", "--agent", "ehragent", "--mode", "generate", "--model", "openai/test", *files, "--json")
    verdict = json.loads(ran.out)
    assert (ran.status, verdict["label"], bool(verdict["errors"])) == (
        exit_status,
        int(exit_status > 0),
        exit_status == 3,
    )
    assert verdict["usage"]["calls"] == verdict["model_calls"]
    assert ran.err == ""
