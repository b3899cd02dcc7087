"""Starts several processes that begin their work at the same time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence

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
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    pipe = subprocess.PIPE
    started = [
        subprocess.Popen([sys.executable, "-c", code, *one], env=env, stdin=pipe, stdout=pipe, text=True)
        for one in arguments
    ]
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
