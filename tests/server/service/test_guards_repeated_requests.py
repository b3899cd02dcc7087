"""A request with a key runs once, on whatever server."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from guardagent.errors import InputError
from guardagent.server.service import RUNNING_SECONDS, RepeatedKeyError, RepeatedRequests, RequestRunningError
from guardagent.server.state import open_state
from tests.server.servers import TOOLS, local_server


@pytest.fixture
def requests(tmp_path: Path) -> Callable[[], RepeatedRequests]:
    times = [0.0]

    def new() -> RepeatedRequests:
        times[0] += 1
        return RepeatedRequests(open_state(f"sqlite:{tmp_path}/state.db"), lambda: times[0])

    return new


def test_the_first_answer_is_repeated(requests: Callable[[], RepeatedRequests]) -> None:
    ran: list[int] = []

    def run() -> dict[str, Any]:
        ran.append(1)
        return {"answer": len(ran)}

    answers = [requests().once("shop", "bot", "k", ["x"], run) for _ in range(3)]
    assert (answers, len(ran)) == ([{"answer": 1}] * 3, 1)
    with pytest.raises(RepeatedKeyError):
        requests().once("shop", "bot", "k", ["y"], run)
    for tenant, caller in (("shop", "other"), ("bank", "bot")):
        requests().once(tenant, caller, "k", ["y"], run)
    requests().once("shop", "bot", None, ["x"], run)
    assert len(ran) == 4


def test_a_running_request_is_waited_for_until_its_server_counts_as_gone(
    requests: Callable[[], RepeatedRequests], tmp_path: Path
) -> None:
    def second() -> Any:
        return requests().once("shop", "bot", "k", ["x"], lambda: "late")

    def run() -> str:
        with pytest.raises(RequestRunningError):
            second()
        for _ in range(int(RUNNING_SECONDS)):
            requests()  # a second passes
        assert second() == "late"
        return "slow"

    requests().once("shop", "bot", "k", ["x"], run)


def test_a_request_that_failed_may_be_sent_again(requests: Callable[[], RepeatedRequests]) -> None:
    def fail() -> None:
        raise InputError("no")

    with pytest.raises(InputError):
        requests().once("shop", "bot", "k", ["x"], fail)
    assert requests().once("shop", "bot", "k", ["x"], lambda: "yes") == "yes"


def test_what_may_run_twice_takes_over_at_once(requests: Callable[[], RepeatedRequests]) -> None:
    def run() -> str:
        assert requests().once("shop", "bot", "k", ["x"], lambda: "second", takes_over=True) == "second"
        return "first"

    assert requests().once("shop", "bot", "k", ["x"], run, takes_over=True) == "first"
    assert requests().once("shop", "bot", "k", ["x"], lambda: "third", takes_over=True) == "second"
    with pytest.raises(RepeatedKeyError):
        requests().once("shop", "bot", "k", ["y"], run, takes_over=True)


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/attachments", {"tools": TOOLS}, 201),
        ("/v1/sessions/{id}/turn", {}, 200),
        ("/v1/sessions/{id}/refuse", {"call": {"id": "c", "tool": "x", "args": {}}, "problem": "no such tool"}, 200),
        ("/v1/sessions/{id}/finish", {}, 200),
        ("/v1/sessions/{id}/answer", {"input": "x", "output": "y"}, 409),  # judging may be slow, and takes a place
    ],
)
def test_a_request_whose_server_was_killed_is_taken_over(path: str, body: Any, status: int, tmp_path: Path) -> None:
    with local_server(tmp_path) as server:
        server.client().session()
        parts = {"id": "s1"} if "{id}" in path else {}
        if (child := os.fork()) == 0:
            identity = ["POST", path, parts, body]
            server.service.repeated.once("shop", "agent-1", "k", identity, lambda: os._exit(9))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
        answer = server.client().request("POST", path.format(**parts), body, idempotency_key="k")
        assert (answer.status_code, answer.headers.get("retry-after")) == (status, "1" if status == 409 else None)
