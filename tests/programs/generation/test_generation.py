"""The generating flow: plan, code, run, debug, with a scripted model."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardagent import Decision, GuardAgent, GuardError, InputError, ModelError, Verdict
from guardagent.errors import AnswerError, SandboxError
from guardagent.models import Completion
from guardagent.models.backends.openai import Backend
from guardagent.programs.generation import representative
from guardagent.testing import ScriptedModel
from guardagent.types import unchecked_verdict
from tests.conftest import Cli, CommandResult, Write
from tests.models.conftest import Serve
from tests.models.server import Reply, status, text, tool_call
from tests.programs.generation.answers import CODE, MISSPELT, PLAN, PROGRAM, block
from tests.runs import ehr_input, ehr_log
from tests.tiers import slow_after, slow_but_every

WORDS = """
def check_words(text: str) -> tuple[bool, dict[str, str]]:
    '''Whether a text says nothing secret.'''
    return ("secret" in text), ({"secret": "it is said"} if "secret" in text else {})
"""
ALLOWS_ALL = "def check(agent_input, agent_output, facts):\n    return {'label': 0, 'answer': agent_output}"


def judged(*answers: str | GuardError, log: str | None = None, **options: Any) -> tuple[Verdict, ScriptedModel]:
    """The verdict over a nurse's run, from a model that gives these answers."""
    model = ScriptedModel(answers)
    guard = GuardAgent(agent="ehragent", mode="generate", model=model, **options)
    return guard.guard(ehr_input("nursing"), log or ehr_log()), model


def test_plan_code_verdict() -> None:
    """Two questions to the model, and the host's verdict."""
    verdict, model = judged(PLAN, CODE)
    assert (verdict.label, verdict.answer, verdict.checked_by) == (0, "7.4", "generated")
    assert (verdict.model_calls, len(model.requests)) == (2, 2)
    assert [step.name for step in verdict.story] == ["retrieve", "plan", "code", "run"]
    denied, _ = judged(PLAN, CODE, log=ehr_log("diagnosis", "diagnosisname"))
    assert (denied.label, denied.answer) == (1, None)
    assert "may not read diagnosis" in denied.reasons[0]


def test_code_that_fails_goes_back_to_the_model() -> None:
    """With its text and its error, once; the mended one decides."""
    verdict, model = judged(PLAN, MISSPELT, CODE)
    assert (verdict.label, verdict.model_calls) == (0, 3)
    question = model.requests[2][-1].content
    assert "name 'check_acess' is not defined; did you mean 'check_access'?" in question
    assert "check_acess(ALLOWED" in question
    assert [step.error is None for step in verdict.story if step.name == "run"] == [False, True]


@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_code_that_never_runs_is_a_denial(rounds: int) -> None:
    """After as many rounds as the operator allows."""
    verdict, model = judged(PLAN, *[MISSPELT] * 9, debug_rounds=rounds)
    assert (verdict.label, len(model.requests)) == (1, 2 + rounds)
    assert f"in {1 + rounds} tries; the last error: the program: line 8: NameError" in verdict.errors[0]


@pytest.mark.parametrize(
    "bad",
    [
        "The run keeps the rules, label 0.",
        block("function check() { return {label: 0} }", "javascript"),
        AnswerError("the model called a tool"),
        block(ALLOWS_ALL),
        block("import os\n" + PROGRAM),
        block("def check(agent_input, agent_output, facts):\n    return 0"),
        pytest.param(
            block("def check(agent_input, agent_output, facts):\n    while True:\n        pass"), marks=pytest.mark.slow
        ),
        block(PROGRAM.replace("def check", "def chuck")),
        block(PROGRAM + "\n  x"),
        block("def check_access(*a):\n    return False, {}\n\n" + PROGRAM),
    ],
)
def test_an_answer_that_is_no_program_never_allows(bad: str | GuardError) -> None:
    """Without rounds it is a denial with the cause; with rounds left, the model may repair it."""
    denied, _ = judged(PLAN, bad, debug_rounds=0)
    assert (denied.label, len(denied.errors)) == (1, 1)
    mended, model = judged(PLAN, bad, CODE)
    assert (mended.label, mended.errors, len(model.requests)) == (0, (), 3)


@pytest.mark.parametrize("bad", ["1. a\n2. b\n3. c", f"{PLAN}\nEngine: docker", AnswerError("an empty answer")])
def test_an_invalid_plan_is_requested_again(bad: str | GuardError) -> None:
    """With what was wrong; and without rounds left it is a denial."""
    denied, _ = judged(bad, debug_rounds=0)
    assert denied.label == 1
    assert "the model gave no usable plan" in denied.errors[0]
    verdict, model = judged(bad, PLAN, CODE)
    assert verdict.label == 0
    assert "Your last answer was of no use" in model.requests[1][-1].content


def test_a_model_that_fails_is_a_denial_with_the_cause() -> None:
    """Wherever it happens; the story until then is kept."""
    for answers in ([ModelError("refused")], [PLAN, ModelError("refused")], [PLAN, MISSPELT, ModelError("refused")]):
        verdict, _ = judged(*answers)
        assert (verdict.label, verdict.errors) == (1, ("refused",))
        assert verdict.story[-1].error == "refused"


def test_a_model_of_ones_own_may_fail_in_any_way() -> None:
    """It is no traceback."""

    class Broken:
        def __init__(self, answer: Any) -> None:
            self.answer = answer

        def complete(self, messages: Any) -> Any:
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer

    for answer in (ZeroDivisionError("x"), None, "text", Completion(b"bytes"), KeyError()):  # type: ignore[arg-type]
        verdict = GuardAgent("Nothing secret.", model=Broken(answer)).guard("a", "b")
        assert verdict.label == 1
        assert verdict.errors[0].startswith("the model ")


def test_what_a_check_denied_stays_denied_when_the_code_is_mended() -> None:
    """A debugging round cannot turn a check's denial into an allowance."""
    strict = PROGRAM.replace('"lab": ["patientunitstayid", "labresult"]', '"lab": []').replace(
        "return {", "return 1 / 0, {"
    )
    verdict, _ = judged(PLAN, block(strict), CODE)
    assert verdict.label == 1
    assert "a check denied the run in an earlier version of the code" in verdict.errors[0]


def test_the_required_checks_stand_above_what_a_model_writes() -> None:
    """Here the model lets a nurse read diagnoses; the agent's specification does not."""
    lenient = PROGRAM.replace("ALLOWED = {", 'ALLOWED = {"diagnosis": ["diagnosisname", "patientunitstayid"], ')
    verdict, _ = judged(PLAN, block(lenient), log=ehr_log("diagnosis", "diagnosisname"))
    assert (verdict.label, verdict.answer) == (1, None)
    assert verdict.violations


def test_the_operator_chooses_the_engine_before_the_plan_does() -> None:
    """A plan may choose where the operator did not."""
    with_class = "import textwrap\n\n" + PROGRAM  # which Monty does not have
    monty = PLAN.replace("Engine: auto", "Engine: monty")
    assert judged(PLAN, block(with_class), debug_rounds=0)[0].label == 0
    assert "monty" in judged(monty, block(with_class), debug_rounds=0)[0].errors[0]
    assert judged(monty, block(with_class), debug_rounds=0, sandbox="restricted")[0].label == 0


def test_async_gives_the_same_and_cancels() -> None:
    """`aguard` with a model that has only `complete`."""
    guard = GuardAgent(agent="ehragent", mode="generate", model=ScriptedModel([PLAN, MISSPELT, CODE]))
    verdict = asyncio.run(guard.aguard(ehr_input("nursing"), ehr_log()))
    assert (verdict.label, verdict.answer, verdict.model_calls) == (0, "7.4", 3)


def test_usage_is_on_the_verdict_and_the_cap_holds() -> None:
    """A call that could exceed the cap is not made."""
    free = ScriptedModel([PLAN, CODE], prices=(1.0, 1.0))
    guard = GuardAgent(agent="ehragent", mode="generate", model=free, max_cost=1.0)
    usage = guard.guard(ehr_input("nursing"), ehr_log()).usage
    assert usage.prompt_tokens
    assert usage.completion_tokens == len((PLAN + " " + CODE).split())
    assert usage.cost == pytest.approx((usage.prompt_tokens + usage.completion_tokens) / 1e6)
    dear = ScriptedModel([PLAN, CODE], prices=(1.0, 1000.0))
    verdict = GuardAgent(agent="ehragent", mode="generate", model=dear, max_cost=0.5).guard(ehr_input("x"), ehr_log())
    assert (verdict.label, dear.requests, verdict.model_calls) == (1, [], 0)
    assert "the cap is $0.5" in verdict.errors[0]
    unknown = GuardAgent(agent="ehragent", mode="generate", model=ScriptedModel([PLAN]), max_cost=1.0)
    assert "is unknown; set its prices" in unknown.guard("a", "b").errors[0]


def test_a_request_without_a_program_is_judged_by_the_model(write: Write) -> None:
    """Mode auto: a fresh program, else the model, else a denial that says what to configure."""
    tools = write("tools/words.py", WORDS).parent
    code = PROGRAM.replace("check_access(ALLOWED, columns_read(agent_output))", "check_words(agent_output)")
    guard = GuardAgent("Say nothing secret.", model=ScriptedModel([PLAN, block(code)] * 2), toolbox=tools)
    assert guard.guard("hello", "Answer: world").answer == "world"
    assert guard.guard("hello", "a secret").label == 1
    assert "no model is configured" in GuardAgent("Say nothing secret.").guard("a", "b").errors[0]
    program = GuardAgent(agent="ehragent", model=ScriptedModel([]))
    assert program.guard(ehr_input("nursing"), ehr_log()).checked_by == "program"


@pytest.mark.parametrize(
    "options",
    [
        {"votes": 0},
        {"shots": -1},
        {"debug_rounds": "3"},
        {"remember": "yes"},
        {"redact": ["("]},
        {"max_cost": float("nan")},
        {"max_cost": "1"},
        {"max_cost": -1},
    ],
)
def test_a_wrong_option_is_refused_at_once(options: dict[str, Any]) -> None:
    """With what was expected."""
    with pytest.raises(InputError):
        GuardAgent(agent="ehragent", **options)


def test_the_command_line_generates_and_explains(cli: Cli, write: Write) -> None:
    """`scripted/FILE` is a model, so that all of it can be tried without one."""
    run = ["--input", write("in", ehr_input("nursing")), "--output-log", write("log", ehr_log())]

    def guard(*answers: str, more: tuple[str, ...] = ()) -> CommandResult:
        script = write("script.jsonl", "".join(json.dumps({"answer": answer}) + "\n" for answer in answers))
        return cli("guard", "--agent", "ehragent", "--mode", "generate", "--model", f"scripted/{script}", *run, *more)

    allowed = guard(PLAN, MISSPELT, CODE, more=("--json", "--explain"))
    verdict = json.loads(allowed.out)
    assert (allowed.status, verdict["label"], verdict["model_calls"]) == (0, 0, 3)
    assert [step["name"] for step in verdict["story"]] == ["retrieve", "plan", "code", "run", "debug", "run"]
    assert guard(PLAN).status == 3
    shown = guard(PLAN, CODE, more=("--explain", "--show-code"))
    assert "Here is the program." in shown.out
    assert "2 calls (0 from the cache)" in shown.out
    assert guard(PLAN, CODE, more=("--max-cost", "1")).status == 3
    assert guard(PLAN, CODE, more=("--redact", "(")).status == 2


def test_errors_of_the_host_do_not_go_to_the_model() -> None:
    """An invalid clock fails before any call; a sandbox that does not work fails after the first code."""

    class Broken:
        def run(self, *_: Any) -> Any:
            raise SandboxError("no worker starts here")

        def close(self) -> None:
            pass

    verdict, model = judged(PLAN, CODE, CODE, sandbox=Broken())
    assert (verdict.label, verdict.errors, len(model.requests)) == (1, ("no worker starts here",), 2)
    model = ScriptedModel([PLAN, CODE])
    guard = GuardAgent(agent="ehragent", mode="generate", model=model)
    assert "expected a date and time" in guard.guard("a", "b", {"now": "yesterday"}).errors[0]
    assert model.requests == []


def test_a_verdict_over_half_a_character_can_be_written() -> None:
    """With its story, as JSON in UTF-8."""
    guard = GuardAgent(agent="ehragent", mode="generate", model=ScriptedModel([PLAN, CODE]))
    verdict = guard.guard(ehr_input("nursing"), ehr_log(answer="7.4 \ud800"))
    written = json.loads(verdict.to_json(explain=True).encode())
    assert (written["label"], written["story"][1]["prompt"][1]["content"].count("\ud800")) == (1, 1)


def test_an_answer_without_code_does_not_lose_the_error_before_it() -> None:
    """The prompt has both: the last failure, and that the last answer had no program."""
    verdict, model = judged(PLAN, MISSPELT, "It is fixed.", CODE)
    assert verdict.label == 0
    question = model.requests[3][-1].content
    assert "name 'check_acess' is not defined" in question
    assert "has no code block" in question


# --- the generating flow against a server, as the paper's Section 4.3 runs it, and with everything that can go wrong


GOOD = [text(PLAN), text(CODE)]
CUT = Reply(text(PLAN).body, cut=True)
JAVASCRIPT = block("function check() { return {label: 0} }", "javascript")


def judged_over_http(rounds: int = 0) -> Verdict:
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
        ([text(PLAN), tool_call(), text("It is fine, label 0."), text(CODE * 2)], 2, 4),
    ],
)
def test_a_flow_that_recovers_gives_the_right_verdict(
    serve: Serve, replies: list[Reply], rounds: int, calls: int
) -> None:
    """The answer passes, and what it took is on the verdict."""
    server = serve(replies)
    verdict = judged_over_http(rounds)
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
            tool_call(),
            text("1. a\n2. b\n3. c"),
        ],
    ),
)
@pytest.mark.parametrize("good_before", slow_after(1, [[], GOOD[:1]]))
def test_a_flow_that_does_not_recover_is_a_denial(serve: Serve, bad: Reply, good_before: list[Reply]) -> None:
    """Whether the plan or the code is what fails: label 1, with the cause, and never by accident label 0."""
    serve([*good_before, bad])
    verdict = judged_over_http(1)
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
    verdict = judged_over_http(3)
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
    serve: Serve, cli: Cli, write: Write, replies: list[Reply], log: str, exit_status: int
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


# --- self-consistency: several plans, the most severe decision that at least half of them reach


STRICT = block(PROGRAM.replace('"lab": ["patientunitstayid", "labresult"]', '"lab": []'))


@pytest.mark.parametrize(
    ("codes", "label"),
    [
        ([CODE, CODE, STRICT], 0),
        ([CODE, STRICT, STRICT], 1),
        ([CODE, STRICT], 1),
        ([CODE, CODE, "prose"], 0),
        (["prose", STRICT, CODE], 1),
    ],
)
def test_most_plans_decide(codes: list[str], label: int) -> None:
    """Half are enough to deny; a vote that could not be checked denies."""
    model = ScriptedModel([answer for code in codes for answer in (PLAN, code)])
    guard = GuardAgent(agent="ehragent", mode="generate", model=model, votes=len(codes), debug_rounds=0)
    verdict = guard.guard(ehr_input("nursing"), ehr_log())
    assert (verdict.label, verdict.errors) == (label, ())
    assert len(verdict.details["votes"]) == len(codes)
    assert {step.vote for step in verdict.story} == set(range(len(codes)))
    assert verdict.model_calls == 2 * len(codes)


@given(st.lists(st.sampled_from(Decision), min_size=1, max_size=7))
def test_the_agreed_decision_is_never_milder_than_the_median(decisions: list[Decision]) -> None:
    """And a decision that more than half reach or exceed is never passed over."""
    chosen = decisions[representative([Verdict(decision) for decision in decisions])]
    exceeding = sum(decision > chosen for decision in decisions)
    assert sum(decision >= chosen for decision in decisions) * 2 >= len(decisions)
    assert exceeding * 2 < len(decisions)


@given(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=9))
def test_the_commonest_answer_stands(answers: list[str]) -> None:
    """Among votes that allow alike."""
    verdicts = [Verdict(Decision.ALLOW, answer=answer) for answer in answers]
    assert Counter(answers)[answers[representative(verdicts)]] == max(Counter(answers).values())


def test_a_checked_vote_speaks_for_those_that_agree() -> None:
    """Its reasons are better than a failure's."""
    assert representative([unchecked_verdict("lost"), Verdict(Decision.DENY, reasons=("rule",))]) == 1
