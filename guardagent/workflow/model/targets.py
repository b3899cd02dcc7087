"""Targets of the command line, and their graphs.

    graph.json        a graph
    app.py            the source alone: nothing is imported or run
    app.py:graph      an object of a file, which is imported; with `source_only`, its source alone
    app.flows:graph   an object of a module, which is imported
    folder            the source of all its Python files: nothing is imported or run

Imports run in a separate process with a time limit, since a target may print, exit or never end.
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
from guardagent.workflow.model.graph_json import graph_of, read_graph
from guardagent.workflow.model.listing import GraphListing, WorkflowGraph

SECONDS = 25.0  # to import a target and extract its graph


def graph_of_target(target: str, *, source_only: bool = False, seconds: float = SECONDS) -> Graph:
    """Returns the graph of a target with one workflow.

    Raises:
        InputError: as `graphs_of`, or the target has several workflows.
    """
    return graphs_of(target, source_only=source_only, seconds=seconds).single()


def graphs_of(target: str | Path, *, source_only: bool = False, seconds: float = SECONDS) -> GraphListing:
    """Returns the graphs of all workflows of a target, with the places that could not be read.

    Args:
        target: a file, a folder, an object of a file or module, or a graph.
        source_only: import nothing, not even for an object of a file.
        seconds: to import a target, or to read one file of a folder.

    Raises:
        InputError: the target does not exist or is not a workflow, or its import fails or takes too long.
    """
    target = str(target)
    if target.endswith(".json"):
        return _one(target, read_graph(target))
    if Path(target).is_dir():
        from guardagent.workflow.python_source.folder import graphs_of_folder

        return graphs_of_folder(Path(target), seconds=seconds)
    if target.endswith(".py"):
        from guardagent.workflow.python_source.source_graphs import graphs_of_source

        return graphs_of_source(Path(target))
    return _one(target, _object_graph(target, seconds, source_only=source_only))


def _one(target: str, graph: Graph) -> GraphListing:
    return GraphListing(target, (WorkflowGraph("", target, 1, graph),))


def _object_graph(target: str, seconds: float, *, source_only: bool) -> Graph:
    place, _, attribute = target.rpartition(":")
    if not place or not attribute:
        expected = "expected 'FILE.py', 'FILE.py:ATTRIBUTE', 'MODULE:ATTRIBUTE', 'GRAPH.json' or a folder"
        raise InputError(f"{target}: is not a target; {expected}")
    if place.endswith(".py") and not Path(place).is_file():
        raise InputError(f"{place}: no such file")
    if not source_only:
        return _imported_graph(target, seconds)
    if not place.endswith(".py"):
        raise InputError(f"{target}: names a module, which has to be imported; expected 'FILE.py:NAME' to read source")
    from guardagent.workflow.python_source.source_graphs import graph_of_source

    return graph_of_source(Path(place), attribute)


def _imported_graph(target: str, seconds: float) -> Graph:
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder, "answer.json")
        load = "guardagent.workflow.model.object_loader"
        outcome = _run([sys.executable, "-m", load, target, str(answer)], target, seconds)
        if not answer.exists():
            raise InputError(f"{target}: importing it ended the process{outcome}")
        content = json.loads(answer.read_text(encoding="utf-8"))
    if "error" in content:
        raise InputError(f"{target}: {content['error']}")
    return graph_of(content["graph"], target)


def _run(command: list[str], target: str, seconds: float) -> str:
    """Runs a command and returns the last line of its output, or its exit status, for a message."""
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
        raise InputError(f"{target}: importing it took longer than {seconds:g} seconds") from None
    finally:
        _end(process)
    lines = output.decode("utf-8", "replace").strip().splitlines()
    return f"; its last output: {lines[-1][:200]}" if lines else f" with status {process.returncode}"


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kills a process and its children."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()
