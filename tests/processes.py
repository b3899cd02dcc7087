"""Processes of the tests: several that begin at the same time, forked children, and one that stops itself."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence

_CODE = """
import sys
from {module} import {name} as prepare
work = prepare(*sys.argv[1:])
print("ready", flush=True)
sys.stdin.readline()
work()
"""


def at_once(prepare: Callable[..., Callable[[], None]], arguments: Sequence[Sequence[str]]) -> None:
    """Calls `prepare` in one process per list of arguments; once all are ready, each calls what it returned."""
    code = _CODE.format(module=prepare.__module__, name=prepare.__name__)
    started = [_python(code, *values) for values in arguments]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in started:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in started:
        process.communicate(timeout=60)
    assert [process.returncode for process in started] == [0] * len(started)


def is_true_in_child(work: Callable[[], object]) -> bool:
    """Whether a forked child gets a true result from this work; an exception there is not one."""
    if (child := os.fork()) == 0:
        code = 1
        try:
            code = 0 if work() else 1
        finally:  # the child must not run the remaining tests
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def stop() -> None:
    """Stops this process."""
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(0.5)  # the signal may reach another thread first


@contextlib.contextmanager
def stopped(work: Callable[[str], None], address: str) -> Iterator[subprocess.Popen[str]]:
    """Does work with an address in a process until that stops itself; continues it at the end."""
    name = work.__name__
    process = _python(f"import sys; from {work.__module__} import {name}; {name}(sys.argv[1])", address)
    assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
    try:
        yield process
    finally:
        process.send_signal(signal.SIGCONT)


def _python(code: str, *arguments: str) -> subprocess.Popen[str]:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", code, *arguments], env=env, stdin=pipe, stdout=pipe, text=True)
