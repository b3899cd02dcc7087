"""What a command line names as its target, and its graph.

    graph.json        a graph
    app.py            the source alone: nothing of it is imported or run
    app.py:graph      an object of a file, which is imported
    app.flows:graph   an object of a module, which is imported

What is imported is imported in a process of its own, within a time limit: it may print, exit or never end.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from guardagent.errors import InputError
from guardagent.workflow.model.graph import Graph
from guardagent.workflow.model.read_graph import graph_of, read_graph

SECONDS = 25.0  # to import a target and extract its graph


def graph_of_target(target: str, *, seconds: float = SECONDS) -> Graph:
    """The graph that a target names.

    Raises:
        InputError: there is no such target, it is no workflow, or importing it fails or does not end.
    """
    if target.endswith(".json"):
        return read_graph(target)
    if target.endswith(".py"):
        return _of_source(target)
    place, _, attribute = target.rpartition(":")
    if not place or not attribute:
        expected = "expected file.py, file.py:attribute, module:attribute or graph.json"
        raise InputError(f"{target}: names no workflow; {expected}")
    if place.endswith(".py") and not Path(place).is_file():
        raise InputError(f"{place}: there is no such file")
    return _imported(target, seconds)


def _of_source(target: str) -> Graph:
    from guardagent.workflow.python_source.source_graph import graph_of_source

    return graph_of_source(Path(target))


def _imported(target: str, seconds: float) -> Graph:
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder, "answer.json")
        load = "guardagent.workflow.model.load_object"
        outcome = _run([sys.executable, "-m", load, target, str(answer)], target, seconds)
        if not answer.exists():
            raise InputError(f"{target}: importing it ended the process{outcome}")
        content = json.loads(answer.read_text(encoding="utf-8"))
    if "error" in content:
        raise InputError(f"{target}: {content['error']}")
    return graph_of(content["graph"], target)


def _run(command: list[str], target: str, seconds: float) -> str:
    """Runs a command, with what it prints kept apart; gives the end of it."""
    process = subprocess.Popen(  # noqa: S603 - the target is the operator's
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise InputError(f"{target}: importing it did not end within {seconds:g} seconds") from None
    finally:
        _end(process)
    lines = output.decode("utf-8", "replace").strip().splitlines()
    return f"; it said last: {lines[-1][:200]}" if lines else f" with status {process.returncode}"


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a process and all that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
