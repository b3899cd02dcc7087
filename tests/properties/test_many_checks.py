"""Many concurrent checks, from event loops and threads, against a slow server."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psutil
import pytest

from guardagent import GuardAgent, Verdict
from guardagent.models.backends.openai import Backend
from guardagent.sandbox import Limits, load_sandbox
from guardagent.testing import ScriptedModel
from tests.models.conftest import Serve, until
from tests.models.server import Reply, text
from tests.programs.generation.answers import CODE, PLAN
from tests.runs import ehr_input, ehr_log

CHECKS = 200
CONNECTIONS = 8


def slow(request: dict[str, Any]) -> Reply:
    """Plans and writes code with the run's own answer, so that a mix-up is visible."""
    user = request["messages"][-1]["content"]
    value = re.findall(r"Answer:\n(value-\d+)", user)[-1]
    if "The plan:" not in user:
        return text(f"{PLAN}\n(for {value})", seconds=0.02)
    assert f"(for {value})" in user
    literal = CODE.replace('agent_output.split("Answer:")[-1].strip()', f'"{value}"')
    return text(literal, seconds=0.02)


def guard() -> GuardAgent:
    model = Backend("test", max_connections=CONNECTIONS)
    patient = load_sandbox(limits=Limits(seconds=60))  # 400 checks share this machine with other tests
    return GuardAgent(agent="ehragent", mode="generate", model=model, sandbox=patient, debug_rounds=0, shots=1)


def run(number: int) -> tuple[str, str]:
    return ehr_input("nursing"), ehr_log(answer=f"value-{number}")


def wrong(verdicts: list[Verdict]) -> list[Verdict]:
    """Returns the verdicts that deny their own run's answer."""
    return [
        verdict for number, verdict in enumerate(verdicts) if (verdict.label, verdict.answer) != (0, f"value-{number}")
    ]


@pytest.mark.slow
def test_concurrent_checks_from_a_loop_and_from_threads(serve: Serve) -> None:
    """Each gets its own verdict, within the model's connection limit."""
    server = serve(slow)

    async def from_loop(guard: GuardAgent) -> list[Verdict]:
        return list(await asyncio.gather(*(guard.aguard(*run(number)) for number in range(CHECKS))))

    with guard() as shared, ThreadPoolExecutor(8) as pool:
        in_threads = [pool.submit(shared.guard, *run(number)) for number in range(CHECKS)]
        assert wrong(asyncio.run(from_loop(shared))) == []
        assert wrong([verdict.result() for verdict in in_threads]) == []
    assert len(server.requests) == 2 * 2 * CHECKS
    assert 1 < server.most <= CONNECTIONS
    assert server.most_connections <= CONNECTIONS


@pytest.mark.slow
def test_cancelled_checks_leave_nothing_running(serve: Serve) -> None:
    """The server has no request and the process no task or descriptor left; the guard still works."""
    server = serve(lambda _: text(PLAN, seconds=20))
    me = psutil.Process()

    async def cancel_half_way(guard: GuardAgent) -> None:
        tasks = [asyncio.create_task(guard.aguard(*run(number))) for number in range(50)]
        await asyncio.to_thread(until, lambda: server.open == CONNECTIONS)
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(result, asyncio.CancelledError) for result in results)
        assert len(asyncio.all_tasks()) == 1

    with guard() as shared:
        asyncio.run(cancel_half_way(shared))
        until(lambda: server.open == 0)
        before, threads = me.num_fds(), clients()
        asyncio.run(cancel_half_way(shared))
        until(lambda: server.open == 0 and me.num_fds() <= before)
        until(lambda: clients() <= threads)
        serve(slow)
        assert shared.guard(*run(1)).answer == "value-1"


def test_an_interrupted_check_ends_its_request(serve: Serve) -> None:
    """Ctrl-C reaches the waiting caller as a KeyboardInterrupt."""
    server = serve(lambda _: text(PLAN, seconds=20))

    def interrupt() -> None:
        until(lambda: server.open == 1)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        guard().guard(*run(1))
    thread.join()
    until(lambda: server.open == 0)


def test_a_check_that_is_cancelled_twice_ends_as_cancelled() -> None:
    """It ends after its work in a thread; a time limit and a task group may both cancel it."""
    began, over = threading.Event(), threading.Event()

    class Slow:
        def run(self, program: str, inputs: Any, functions: Any, now: Any = None) -> Any:
            began.set()
            time.sleep(0.3)
            over.set()

        def close(self) -> None:
            pass

    async def cancel_twice() -> None:
        guard = GuardAgent(agent="ehragent", mode="generate", model=ScriptedModel([PLAN, CODE]), sandbox=Slow())
        check = asyncio.create_task(guard.aguard(*run(1)))
        assert await asyncio.to_thread(began.wait, 5)
        for _ in range(2):
            check.cancel()
            await asyncio.sleep(0.05)
        with pytest.raises(asyncio.CancelledError):
            await check

    asyncio.run(cancel_twice())
    assert over.is_set()


def clients() -> set[str]:
    """Returns the threads that do not belong to the server."""
    return {thread.name for thread in threading.enumerate() if "process_request" not in thread.name}
