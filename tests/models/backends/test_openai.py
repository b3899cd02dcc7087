"""The OpenAI-compatible backend, over real HTTP: its requests, and every kind of failure."""

from __future__ import annotations

import asyncio
import email.utils
import json
import math
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from guardagent import GuardAgent, InputError, ModelError, guard
from guardagent.errors import AnswerError, CutAnswerError
from guardagent.models import Message, load_model
from guardagent.models.backends.openai import Backend
from guardagent.testing import ScriptedModel
from guardagent.types import Usage
from tests.conftest import Cli, Write
from tests.models.conftest import KEY, Serve, cancelled
from tests.models.server import Reply, status, text, tool_call
from tests.processes import is_true_in_child
from tests.runs import ehr_input, ehr_log
from tests.tiers import slow_but_every

ASK = [Message("system", "Be brief."), Message("user", "Hello?")]


def test_the_request_and_the_answer(serve: Serve) -> None:
    """The request has messages, temperature 0 and a limit; the answer has text, tokens and cost."""
    server = serve([text("Hello.")])
    answer = Backend("test", prices=(2.0, 8.0), max_tokens=50).complete(ASK)
    assert (answer.text, answer.usage.prompt_tokens, answer.usage.completion_tokens) == ("Hello.", 100, 10)
    assert answer.usage.cost == pytest.approx((2 * 100 + 8 * 10) / 1e6)
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello?"}]
    assert server.requests == [{"model": "test", "messages": messages, "temperature": 0.0, "max_tokens": 50}]
    assert server.keys == [f"Bearer {KEY}"]


def test_a_name_selects_the_backend(serve: Serve, tmp_path: Path) -> None:
    """`openai/` and no prefix use the endpoint of the environment; a custom base URL overrides it."""
    server = serve([text("a")])
    for name, wanted in (("openai/x", "x"), ("x", "x"), ("openai/meta/x-70b", "meta/x-70b")):
        load_model(name).complete(ASK)
        assert server.requests[-1]["model"] == wanted
    with pytest.raises(InputError, match=r"'\.\[litellm\]' in the checkout.*, or use 'openai/meta/x"):
        load_model("meta/x")
    for empty in ("", " ", "openai/", "openai/ /"):
        with pytest.raises(InputError, match="has no model name"):
            load_model(empty)
    with pytest.raises(InputError, match="unexpected keyword"):
        load_model("openai/x", colour="red")
    script = tmp_path / "script.jsonl"
    script.write_text('{"answer": "one"}\n{"error": "two"}\n')
    scripted = load_model(f"scripted/{script}")
    assert scripted.complete(ASK).text == "one"
    for problem in ("two", "no further answer"):
        with pytest.raises(ModelError, match=problem):
            scripted.complete(ASK)


@pytest.mark.parametrize(
    ("replies", "requests", "least"),
    [
        pytest.param([status(500), status(500), text("fine")], 3, 0.9, marks=pytest.mark.slow),
        ([status(429, retry_after="0.7"), text("fine")], 2, 0.7),
        pytest.param([status(429, retry_after="RFC"), text("fine")], 2, 0.2, marks=pytest.mark.slow),
        ([Reply(text("x").body, cut=True), text("fine")], 2, 0.3),
        pytest.param([status(503, retry_after="nonsense"), text("fine")], 2, 0.3, marks=pytest.mark.slow),
        ([status(429, retry_after="-1"), status(429, retry_after="nan"), text("fine")], 3, 0),
        ([status(429, retry_after="Fri, 01 Jan 1999 00:00:00 GMT"), text("fine")], 2, 0),
        pytest.param([Reply(raw=True), text("fine")], 2, 0.3, marks=pytest.mark.slow),
    ],
)
def test_a_transient_failure_is_retried(serve: Serve, replies: list[Reply], requests: int, least: float) -> None:
    """The pause grows, or is the one that the endpoint requests."""
    if replies[0].headers.get("retry-after") == "RFC":
        replies[0] = status(429, retry_after=email.utils.formatdate(time.time() + 2, usegmt=True))
    server = serve(replies)
    started = time.monotonic()
    assert Backend("test").complete(ASK).text == "fine"
    assert len(server.requests) == requests
    assert time.monotonic() - started >= least  # a pause, which a busy machine only prolongs


@pytest.mark.parametrize(
    ("reply", "requests", "problem"),
    slow_but_every(
        2,
        [
            (status(401, "wrong key"), 1, "HTTP 401; expected a valid key.*wrong key"),
            (status(403), 1, "HTTP 403"),
            (status(404), 1, "HTTP 404; expected a model of this endpoint"),
            (status(400, "too long"), 1, "HTTP 400: too long"),
            (status(500, "broken"), 2, "HTTP 500 after 2 attempts: broken"),
            (
                status(429, retry_after="600"),
                1,
                "HTTP 429.*the next attempt would be in 600 seconds, after the timeout",
            ),
            (status(429, retry_after="inf"), 1, "after the timeout"),
            (status(307, location="http://127.0.0.1:9/"), 1, "HTTP 307"),
            (Reply(b"{not json"), 1, "an unreadable answer"),
            (Reply(b"[" * 100_000), 1, "an unreadable answer"),
            (Reply(b'{"error": {"message": "overloaded"}}'), 1, "not a chat completion.*overloaded"),
            (Reply(b"plain", headers={"Content-Encoding": "gzip"}), 2, "could not be reached after 2 attempts"),
            (Reply(b"SSH-2.0\r\n", raw=True), 2, "could not be reached after 2 attempts"),
            (Reply(b"<html>Welcome</html>", content_type="text/html"), 1, "not a chat completion"),
            (Reply(b"[]"), 1, "not a chat completion"),
            (Reply(b"{}"), 1, "not a chat completion"),
            (Reply(b'{"choices": []}'), 1, "not a chat completion"),
            (Reply(b'{"choices": [{"message": null}]}'), 1, "not a chat completion"),
            (Reply(b""), 1, "an unreadable answer|not a chat completion"),
            (Reply(text("x").body, cut=True), 2, "could not be reached after 2 attempts"),
            (Reply(b"\xff\xfe", content_type="text/plain"), 1, "not a chat completion"),
        ],
    ),
)
def test_a_permanent_failure_is_an_error_with_its_cause(
    serve: Serve, reply: Reply, requests: int, problem: str
) -> None:
    """It is one line that names the model, after a useful number of attempts."""
    server = serve([reply])
    with pytest.raises(ModelError, match=f"^model 'openai/test' .*{problem}") as raised:
        Backend("test", retries=1, timeout=20).complete(ASK)
    assert len(server.requests) == requests
    assert "\n" not in str(raised.value)
    assert not isinstance(raised.value, AnswerError)


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (text(""), "empty answer"),
        (text(None), "empty answer"),
        (text(" \n"), "empty answer"),
        (tool_call(), "called a tool"),
        (text("half an ans", finish_reason="length"), "cut off"),
        (text("", finish_reason="content_filter"), "content filter"),
        (text(None, refusal="I will not\nwrite rules."), "the model refused: 'I will not write rules.'"),
        (text("x" * 300_000), "300,000 characters"),
    ],
)
def test_an_incomplete_answer_is_an_error(serve: Serve, reply: Reply, problem: str) -> None:
    """It has its own error class, with its usage."""
    serve([reply])
    with pytest.raises(AnswerError, match=problem) as raised:
        Backend("test").complete(ASK)
    assert isinstance(raised.value.usage, Usage)
    assert raised.value.usage.completion_tokens == 10


def test_a_cut_answer_has_its_own_error(serve: Serve) -> None:
    serve([text("half an ans", finish_reason="length")])
    with pytest.raises(CutAnswerError, match="'--max-tokens'"):
        Backend("test").complete(ASK)


def test_content_in_parts_is_joined(serve: Serve) -> None:
    parts: list[dict[str, str]] = [{"type": "text", "text": "an answer "}, {"type": "text", "text": "in parts"}]
    plain = text("whole")
    serve([replace(plain, body=plain.body.replace(b'"whole"', json.dumps(parts).encode()))])
    assert Backend("test").complete(ASK).text == "an answer in parts"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("replies", "problem"),
    slow_but_every(
        2,
        [
            ([text("late", seconds=30)], r"no answer within 0\.6 seconds"),
            ([Reply(text("slow").body, drip=True)], r"no answer within 0\.6 seconds"),
            ([status(500, retry_after="0.05"), text("late", seconds=30)], r"no answer within 0\.6 seconds"),
            ([status(500, retry_after="0.25")], "after the timeout|no answer within"),
        ],
    ),
)
def test_the_timeout_covers_the_whole_answer(serve: Serve, replies: list[Reply], problem: str) -> None:
    """It covers all attempts and pauses of a server that is silent, slow, or keeps failing."""
    server = serve(replies)
    with pytest.raises(ModelError, match=problem):
        Backend("test", timeout=0.6, retries=99).complete(ASK)
    time.sleep(0.3)
    assert server.open == 0, "the request is ended, too"


def test_cancellation_ends_the_request(serve: Serve) -> None:
    """It ends at the server, too, and at once."""
    server = serve([text("late", seconds=30)])
    asyncio.run(cancelled(Backend("test"), server))


def test_an_unreachable_endpoint_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused connections are retried and then reported."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{free.getsockname()[1]}/v1")
    with pytest.raises(ModelError, match="could not be reached after 2 attempts"):
        Backend("test", retries=1).complete(ASK)


def test_rejected_options_are_omitted_from_then_on(serve: Serve) -> None:
    """The token limit gets its newer name, and the temperature is omitted."""
    refused = [status(400, "Unsupported 'max_tokens'", "max_tokens"), status(400, "Unsupported", "temperature")]
    server = serve([*refused, text("fine")])
    model = Backend("test", max_tokens=9)
    assert [model.complete(ASK).text for _ in range(2)] == ["fine", "fine"]
    assert [sorted(request.keys() - {"model", "messages"}) for request in server.requests] == [
        ["max_tokens", "temperature"],
        ["max_completion_tokens", "temperature"],
        ["max_completion_tokens"],
        ["max_completion_tokens"],
    ]


def test_concurrent_requests_omit_a_rejected_option(serve: Serve) -> None:
    """Several concurrent checks notice it independently."""

    def refuse(request: dict[str, Any]) -> Reply:
        refused = [option for option in ("max_tokens", "temperature") if option in request]
        return status(400, "Unsupported", refused[0], seconds=0.1) if refused else text("fine")

    serve(refuse)
    model = Backend("test")
    with ThreadPoolExecutor(8) as pool:
        assert {answer.text for answer in pool.map(model.complete, [ASK] * 8)} == {"fine"}


@pytest.mark.parametrize(
    ("reported", "cost"),
    [(0.25, 0.25), (0, 0.0), (math.nan, 0.00011), (math.inf, 0.00011), (-5, 0.00011), ("1", 0.00011)],
)
def test_a_valid_cost_of_the_endpoint_is_used(serve: Serve, reported: object, cost: float) -> None:
    """Otherwise the prices count: no endpoint can bypass a cap on the cost."""
    completion = json.loads(text("fine").body)
    completion["usage"]["cost"] = reported
    serve([Reply(json.dumps(completion).encode())])
    assert Backend("test", prices=(1, 1)).complete(ASK).usage.cost == pytest.approx(cost)


def test_a_lone_surrogate_is_replaced(serve: Serve) -> None:
    """JSON can contain one, but no file and no later request can."""
    serve([text("so \ud83d, or \ud83d\ude00")])
    assert Backend("test").complete(ASK).text == "so \N{REPLACEMENT CHARACTER}, or \N{GRINNING FACE}"


def test_a_custom_endpoint_may_need_no_key(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenAI's own needs one, and the error comes before anything is sent."""
    server = serve([text("fine")])
    monkeypatch.delenv("OPENAI_API_KEY")
    assert Backend("test", base_url=server.url).complete(ASK).text == "fine"
    monkeypatch.delenv("OPENAI_BASE_URL")
    with pytest.raises(ModelError, match="needs a key; set the environment variable 'OPENAI_API_KEY'"):
        Backend("test").complete(ASK)


@pytest.mark.parametrize(
    "options", [{"timeout": 0}, {"retries": -1}, {"max_connections": 0}, {"prices": (1,)}, {"prices": "ab"}]
)
def test_a_wrong_option_is_refused(options: dict[str, object]) -> None:
    """The error comes when the model is created."""
    with pytest.raises(InputError, match="expected"):
        load_model("openai/test", **options)


def test_a_model_works_after_close_and_in_other_loops(serve: Serve) -> None:
    """It works sync, async in several event loops, and after a close."""
    serve([text("fine")])
    model = Backend("test")
    for _ in range(2):
        assert model.complete(ASK).text == "fine"
        assert asyncio.run(model.acomplete(ASK)).text == "fine"
        model.close()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # Python 3.12 advises against it
def test_a_model_works_in_a_forked_child(serve: Serve) -> None:
    """Its requests have a separate thread there."""
    serve([text("fine")])
    model = Backend("test", timeout=5)
    assert model.complete(ASK).text == "fine"
    assert is_true_in_child(lambda: model.complete(ASK).text == "fine")
    assert model.complete(ASK).text == "fine"


# --- `timeout` bounds the time of one answer, from the command line and from Python; and a missing key is reported


LATE = [text("late", seconds=30)]
MODEL = ["--model", "openai/t", "--timeout", 0.4]
TIMED_OUT = "gave no answer within 0.4 seconds"


@pytest.fixture
def files(write: Write) -> list[object]:
    return ["--input", write("in.txt", ehr_input("nursing")), "--output-log", write("out.txt", ehr_log())]


def test_a_guard_stops_at_the_timeout(cli: Cli, serve: Serve, files: list[object]) -> None:
    """It bounds one answer with its retries, from the command line and from Python."""
    serve(LATE)
    ran = cli("guard", "--agent", "ehragent", "--mode", "generate", *files, *MODEL, "--json")
    assert (ran.status, TIMED_OUT in json.loads(ran.out)["errors"][0]) == (3, True)
    run = ehr_input("nursing"), ehr_log()
    verdict = guard(None, *run, agent="ehragent", mode="generate", model="openai/t", timeout=0.4)
    assert TIMED_OUT in verdict.errors[0]


@pytest.mark.slow
def test_compile_stops_at_the_timeout(cli: Cli, serve: Serve, write: Write, tmp_path: Path) -> None:
    """Its message has the timeout."""
    serve(LATE)
    runs = [{"id": str(n), "agent_input": f"Q: {n}", "agent_output": "A", "label": n} for n in (0, 1)]
    examples = write("e.jsonl", "\n".join(map(json.dumps, runs)))
    request = write("r.md", "Nobody may do anything.")
    ran = cli("compile", "--request", request, "--examples", examples, *MODEL, "-o", tmp_path / "p.py")
    assert TIMED_OUT in ran.out + ran.err


@pytest.mark.slow
def test_bench_stops_at_the_timeout(cli: Cli, serve: Serve, write: Write, tmp_path: Path) -> None:
    """The row of the results has the timeout."""
    serve(LATE)
    run = {"id": "1", "agent_input": ehr_input("nursing"), "agent_output": ehr_log(), "label": 0}
    truth = {"role": "nursing", "question": "?", "required": {"lab": ["labname"]}, "inaccessible": {}, "answer": ["7"]}
    data = write("d.jsonl", json.dumps({**run, **truth}))
    ran = cli("bench", "eicu-ac", "--data", data, "--out", tmp_path / "o", "--mode", "generate", *MODEL)
    assert TIMED_OUT in (tmp_path / "o" / "results.jsonl").read_text(), ran.err


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), True, "5"])
def test_an_invalid_timeout_is_rejected(timeout: float) -> None:
    """An infinite number of seconds would be no limit."""
    with pytest.raises(InputError, match=r"'timeout' is .*; expected a finite"):
        GuardAgent(agent="ehragent", model="openai/t", timeout=timeout)


def test_a_timeout_without_a_named_model(cli: Cli, files: list[object]) -> None:
    """It would have no effect."""
    with pytest.raises(InputError, match="a model given by name"):
        GuardAgent(agent="ehragent", model=ScriptedModel([]), timeout=5)
    ran = cli("guard", "--agent", "ehragent", *files, "--timeout", 5)
    assert (ran.status, "'--timeout' needs a model" in ran.err) == (2, True)


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("OPENAI_API_KEY", "", "needs a key"),
        ("OPENAI_API_KEY", "caf\xe9", "cannot be sent"),
        ("OPENAI_BASE_URL", "x", "URL"),
    ],
)
def test_an_unsent_request_does_not_count_as_a_model_call(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, message: str
) -> None:
    """Without a valid key and address no request is sent."""
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789")
    monkeypatch.setenv(variable, value)
    verdict = GuardAgent(agent="ehragent", mode="generate", model="openai/t").guard(ehr_input("nursing"), ehr_log())
    assert message in verdict.errors[0]
    assert (verdict.label, verdict.model_calls, verdict.to_dict()["model_calls"]) == (1, 0, 0)
