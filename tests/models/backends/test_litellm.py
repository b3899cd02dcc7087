"""The LiteLLM backend, if it is installed, over real HTTP."""

from __future__ import annotations

import asyncio
import logging

import pytest

from guardagent import GuardAgent, ModelError
from guardagent.models import Message, load_model
from tests.models.conftest import KEY, Serve, cancelled
from tests.models.server import Reply, status, text, tool_call
from tests.programs.generation.answers import CODE, PLAN
from tests.runs import ehr_input, ehr_log

pytest.importorskip("litellm")
pytestmark = pytest.mark.filterwarnings("default")  # its own, on import

NAME = "hosted_vllm/test"
ASK = [Message("user", "Hello?")]


@pytest.fixture(autouse=True)
def _names(monkeypatch: pytest.MonkeyPatch, serve: Serve) -> None:
    monkeypatch.setenv("HOSTED_VLLM_API_KEY", KEY)


def at(server_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOSTED_VLLM_API_BASE", server_url)


def test_a_check(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check plans, writes code and returns a verdict, sync and async."""
    server = serve([text(PLAN), text(CODE)] * 2)
    at(server.url, monkeypatch)
    model = load_model(NAME, prices=(1, 1))
    guard = GuardAgent(agent="ehragent", mode="generate", model=model)
    verdict = guard.guard(ehr_input("nursing"), ehr_log())
    assert (verdict.label, verdict.answer, verdict.usage.prompt_tokens) == (0, "7.4", 200)
    assert verdict.usage.cost == pytest.approx(220 / 1e6)
    assert asyncio.run(guard.aguard(ehr_input("nursing"), ehr_log())).label == 0
    assert server.requests[0]["temperature"] == 0


@pytest.mark.parametrize(
    ("replies", "requests"),
    [
        ([status(401, f"wrong {KEY}")], {1}),
        ([status(500)], {2}),
        ([status(429, retry_after="600")], {1}),
        ([Reply(b"{nonsense")], {1, 2}),  # its older releases take it for a failure that may pass
        ([text("")], {1}),
        ([tool_call()], {1}),
        ([text("late", seconds=30)], {1}),
    ],
)
def test_every_failure_is_a_model_error(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, replies: list[Reply], requests: set[int]
) -> None:
    """The error has the cause and not the key, after a useful number of attempts."""
    server = serve(replies)
    at(server.url, monkeypatch)
    with pytest.raises(ModelError, match=f"litellm/{NAME}") as raised:
        load_model(NAME, retries=1, timeout=3).complete(ASK)
    assert KEY not in str(raised.value)
    assert len(server.requests) in requests


def test_openais_own_endpoint_works_through_litellm(serve: Serve) -> None:
    """The name is `litellm/openai/…`, and LiteLLM's prices apply."""
    server = serve([text("fine")])
    assert load_model("litellm/openai/test").complete(ASK).text == "fine"
    assert server.keys == [f"Bearer {KEY}"]
    assert getattr(load_model("litellm/openai/gpt-4o"), "prices", None)
    assert getattr(load_model("litellm/openai/test"), "prices", None) is None


def test_cancellation_ends_the_request(serve: Serve) -> None:
    """It ends at the server, too."""
    server = serve([text("late", seconds=30)])
    asyncio.run(cancelled(load_model("litellm/openai/test"), server))


def test_its_logs_contain_no_key(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    """This is true at any level, although it logs requests and responses."""
    serve([status(500, f"no {KEY}", x_echo=KEY), text(f"fine, {KEY}")])
    with caplog.at_level(logging.DEBUG), caplog.at_level(logging.DEBUG, "LiteLLM"):
        assert load_model("litellm/openai/test").complete(ASK).text == "fine, [secret]"
    assert caplog.text
    assert KEY not in caplog.text
