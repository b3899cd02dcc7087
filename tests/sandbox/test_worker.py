"""The workers: back-pressure, concurrent threads and tasks, kills at any moment, and no leftovers."""

import asyncio
import contextlib
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from guardagent import GuardAgent, Limits, Sandbox, SandboxError
from guardagent.sandbox import load_sandbox
from tests.attacks.attack import ENGINES
from tests.tiers import slow_after

INPUTS = {"agent_input": "x" * 1000, "agent_output": "y", "facts": {}}
PROGRAM = "def check(agent_input, agent_output, facts):\n    return [len(agent_input), f(2)]\n"


@pytest.fixture(params=ENGINES)
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    return load_sandbox(request.param, Limits(seconds=2))


def run_once(sandbox: Sandbox) -> object:
    return sandbox.run(PROGRAM, INPUTS, {"f": lambda x: x})


@pytest.mark.parametrize("runs", slow_after(1, [100, 400]))
def test_threads_and_tasks_leave_nothing_behind(sandbox: Sandbox, runs: int) -> None:
    """Every result of many concurrent runs is right, and memory, descriptors and processes do not grow."""
    me = psutil.Process()

    async def tasks() -> list[object]:
        return await asyncio.gather(*(asyncio.to_thread(run_once, sandbox) for _ in range(runs)))

    def storm() -> None:
        answers: list[object] = []
        threads = [
            threading.Thread(target=lambda: answers.extend(run_once(sandbox) for _ in range(runs))) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        answers += asyncio.run(tasks())
        for thread in threads:
            thread.join()
        assert answers == [[1000, 2]] * (5 * runs)

    storm()
    before = (me.num_fds(), len(me.children(recursive=True)), me.memory_info().rss)
    storm()
    after = (me.num_fds(), len(me.children(recursive=True)), me.memory_info().rss)
    assert after[0] <= before[0] + 20
    assert after[1] <= before[1] + 10
    assert after[2] <= before[2] + 20_000_000


@pytest.mark.slow
def test_workers_killed_at_any_moment_cost_no_more_than_their_run(sandbox: Sandbox) -> None:
    """Each run is right, is repeated, or ends with a cause; none hangs and none is lost."""
    stopped = threading.Event()
    answers: list[object] = []
    causes: list[str] = []
    sandbox.close()
    others = set(psutil.Process().children(recursive=True))  # a resource tracker, for example

    def kill() -> None:
        source = random.Random(1)  # noqa: S311
        while not stopped.is_set():
            children = [child for child in psutil.Process().children(recursive=True) if child not in others]
            if children:
                victim = source.choice(children)
                with contextlib.suppress(psutil.NoSuchProcess):
                    victim.kill()
            time.sleep(source.uniform(0.005, 0.05))

    def work() -> None:
        for _ in range(50):
            try:
                answers.append(run_once(sandbox))
            except SandboxError as error:
                causes.append(str(error))

    killer = threading.Thread(target=kill)
    workers = [threading.Thread(target=work) for _ in range(4)]
    for thread in (killer, *workers):
        thread.start()
    for thread in workers:
        thread.join(120)
        assert not thread.is_alive()
    stopped.set()
    killer.join()
    assert len(answers) + len(causes) == 200
    assert set(map(str, answers)) <= {"[1000, 2]"}
    assert all(causes)
    assert run_once(sandbox) == [1000, 2]


@pytest.mark.slow
@pytest.mark.parametrize(
    "end", slow_after(1, ["os._exit(0)", "import os, signal; os.kill(os.getpid(), signal.SIGTERM)", "pass"])
)
def test_no_worker_outlives_its_host(sandbox: Sandbox, end: str) -> None:
    """The host may exit normally, by SIGTERM, or at once."""
    name = type(sandbox).__module__.rpartition(".")[2]
    script = (
        "import os\nfrom guardagent.sandbox import load_sandbox\nimport psutil\n"
        f"load_sandbox({name!r}).run({PROGRAM!r}, {INPUTS!r}, {{'f': lambda x: x}})\n"
        "print(*[p.pid for p in psutil.Process().children(recursive=True)], flush=True)\n"
        f"{end}\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    pids = [int(pid) for pid in ran.stdout.split()]
    assert pids, ran.stderr
    deadline = time.monotonic() + 10
    while any(map(psutil.pid_exists, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(psutil.pid_exists, pids))


@pytest.mark.parametrize(
    "text",
    [
        "return 'x' * 10**9",
        pytest.param("for i in range(10**6): print('x' * 10**6)", marks=pytest.mark.slow),
        "x = [0] * (8 * 10**9)",
        "def f2(n): return f2(n + 1)\n    return f2(0)",
        pytest.param("while True: pass", marks=pytest.mark.slow),  # `test_limits_end_a_program` is its quick one
        "x = []\n    while True: x.append('x' * 10**6)",
        "x = 'x' * 10**7\n    while True: f(x)",
        "return [['x' * 1000] * 1000] * 1000",
    ],
)
def test_abuse_ends_within_its_limit_and_costs_the_host_little(sandbox: Sandbox, text: str) -> None:
    """Excessive time, memory, output or calls soon end in an error, and the host's memory does not grow."""
    run_once(sandbox)
    before = psutil.Process().memory_info().rss
    used = sum(os.times()[:4])
    with pytest.raises(SandboxError):
        sandbox.run(f"def check(agent_input, agent_output, facts):\n    {text}\n", INPUTS, {"f": lambda x: None})
    assert sum(os.times()[:4]) - used < 2 + 1 + 1  # of this process and its children
    assert psutil.Process().memory_info().rss - before < 50_000_000


def test_required_hardening_denies_if_a_layer_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The denial names the missing layer; with every layer the run is judged as usual."""
    from guardagent.sandbox import hardening

    guard = GuardAgent(agent="csqa", require_hardening=True)
    verdict = guard.guard("Question: x", "Answer: A")
    if any(hardening.problems().values()):
        assert "hardening is required" in verdict.errors[0]
    else:
        assert not any("hardening" in error for error in verdict.errors)


def test_the_doctor_reports_a_missing_interpreter(tmp_path: Path) -> None:
    """The message has a fix and no traceback."""
    bare = {"PATH": str(tmp_path), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    nowhere = "import sysconfig; sysconfig.get_path = lambda *_: '/none'"
    program = f"{nowhere}; from guardagent.cli.main import main; main(['doctor'])"
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=bare)
    assert (ran.returncode, "'monty' is neither beside Python nor on 'PATH'" in " ".join(ran.stdout.split())) == (
        1,
        True,
    )
