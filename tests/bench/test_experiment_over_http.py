"""Every mode of an evaluation through the command line, against a server, interrupted and resumed."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from guardagent.models import Message
from tests.bench.scripted_guard import data, guarding
from tests.conftest import CommandResult
from tests.models.conftest import Serve, serve  # noqa: F401 - a fixture
from tests.models.server import Reply, text
from tests.tiers import slow_after


def answer(request: dict[str, Any]) -> Reply:
    return text(guarding([Message(message["role"], message["content"]) for message in request["messages"]]))


@pytest.mark.parametrize("workers", slow_after(1, [3, 1]))
@pytest.mark.parametrize(
    ("options", "wanted", "requests"),
    slow_after(
        2,
        [
            (["--mode", "generate", "--debug-rounds", "1"], {"LPA": 60.0, "EA": 66.67}, 12),
            (["--mode", "model-only"], {"LPA": 80.0, "EA": 66.67}, 5),
            (["--mode", "generate", "--debug-rounds", "1", "--k", "2", "--least-similar"], {"LPA": 60.0}, 12),
            (["--mode", "generate", "--debug-rounds", "1", "--without-memory", "--votes", "2"], {"LPA": 60.0}, 24),
            (["--mode", "generate", "--debug-rounds", "1", "--required-checks"], {"LPA": 80.0}, 12),
            (["--mode", "model-only", "--without-code-instructions"], {"LPA": 80.0}, 5),
        ],
    ),
)
def test_a_mode_runs_is_interrupted_and_goes_on(
    serve: Serve,  # noqa: F811
    cli: Callable[..., CommandResult],
    tmp_path: Path,
    options: list[str],
    wanted: dict[str, float],
    requests: int,
    workers: int,
) -> None:
    """Ctrl-C at the third request; the same command then asks for no more than what is missing."""
    stopped = []

    def stopping(request: dict[str, Any]) -> Reply:
        stopped.append(request)
        if len(stopped) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return answer(request)

    files = ("--data", data(tmp_path), "--out", tmp_path / "out")
    command = ("bench", "eicu-ac", *files, "--model", "openai/test", *options, "--workers", workers, "--json")
    serve(stopping)
    first = cli(*command)
    assert (first.status, first.out) == (130, "")
    assert "run the same command again to resume" in first.err
    kept = [json.loads(line) for line in (tmp_path / "out" / "results.jsonl").read_text().splitlines()]
    server = serve(answer)
    ran = cli(*command)
    summary = json.loads(ran.out)
    assert ran.status == 0
    assert {name: summary[name] for name in wanted} == wanted
    judged = [re.findall(r"run-\d", request["messages"][-1]["content"])[-1] for request in server.requests]
    again = {row["id"] for row in kept if not row["errors"]}
    assert not again.intersection(judged), "what was kept is not judged again"
    assert len(judged) <= requests - len(again)
