"""Requests to a model: attempts, the cost cap, the cache and simultaneous calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from guardagent.errors import AnswerError, ModelError
from guardagent.models import load_model
from guardagent.models.metering import Meter, ResponseCache
from guardagent.models.prompts import Prompts
from guardagent.translation.requests import ModelRequests, Request
from tests.models.conftest import Serve, serve
from tests.models.server import status, text

__all__ = ["serve"]


def request(number: int = 1) -> Request:
    data = {"sentences": f"[{number}] A sentence.", "facts": "", "rulings": "", "problem": "", "answer": ""}
    return Request("survey", data, {"document": "d", "tools": "t", "samples": "", "functions": ""})


def fine(answer: str) -> str:
    if answer != "fine":
        raise AnswerError(f"the answer is {answer!r}")
    return answer


def test_no_more_is_spent_than_the_cap(serve: Serve) -> None:
    """Calls of several threads count as well."""
    server = serve([text("fine")])
    model = load_model("openai/test", prices=(1000.0, 1000.0), max_tokens=100)
    asking = ModelRequests(Meter(model, max_cost=4.0), Prompts(), parallel=8)
    results: list[str] = []

    def ask(number: int) -> None:
        try:
            results.append(asking.ask(request(number), fine))
        except ModelError as error:
            results.append(str(error))

    asking.map(ask, range(40))
    spent = len(server.requests) * 0.11
    assert 0 < spent <= 4.0
    assert sum("cap" in result for result in results) == 40 - len(server.requests)


def test_a_resumed_run_counts_what_was_paid_before(serve: Serve, tmp_path: Path) -> None:
    serve([text("fine")])
    meters = [
        Meter(
            load_model("openai/test", prices=(10.0, 10.0), max_tokens=100),
            cache=ResponseCache(tmp_path),
            counts_cached=True,
        )
        for _ in range(2)
    ]
    for meter in meters:
        ModelRequests(meter, Prompts()).ask(request(), fine)
    assert meters[0].usage.cost == meters[1].usage.cost == pytest.approx(0.0011)


def test_an_endpoint_that_fails_is_an_error(serve: Serve) -> None:
    serve([status(401)])
    with pytest.raises(ModelError):
        ModelRequests(Meter(load_model("openai/test")), Prompts()).ask(request(), fine)


def test_calls_are_made_at_the_same_time_and_keep_their_order(serve: Serve) -> None:
    server = serve([text("fine", seconds=0.05)])
    meter = Meter(load_model("openai/test"))
    asking = ModelRequests(meter, Prompts(), parallel=4)
    assert asking.map(lambda number: (number, asking.ask(request(number), fine)), range(8)) == [
        (n, "fine") for n in range(8)
    ]
    assert server.most > 1
    assert meter.usage.calls == 8
