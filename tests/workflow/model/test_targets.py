"""Targets are read, or imported in a separate process that may print, exit or never end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from guardagent import InputError
from guardagent.workflow.model.graph import START, GraphBuilder
from guardagent.workflow.model.targets import graphs_of

GRAPH = """
from guardagent.workflow.model.graph import END, START, GraphBuilder

builder = GraphBuilder("mine", "test")
builder.node("ask", "human")
builder.edge(START, "ask")
builder.edge("ask", END)
builder.note("made by hand")


class flows:
    graph = builder.graph()


number = 5
"""


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "app.py").write_text(GRAPH)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("target", ["app.py:flows.graph", "app:flows.graph", "{folder}/app.py:flows.graph"])
def test_an_object_of_a_file_or_module(app: Path, target: str) -> None:
    """The graph comes back from the other process with its notes."""
    graph = graphs_of(target.format(folder=app)).single()
    assert [node.id for node in graph.nodes] == [START, "__end__", "ask"]
    assert graph.notes == ("made by hand",)


def test_a_graph_of_a_file(app: Path) -> None:
    """The file is the output of `graph --format json`."""
    builder = GraphBuilder("mine", "test")
    (app / "graph.json").write_text(json.dumps(builder.graph().to_dict()))
    assert graphs_of("graph.json").single() == builder.graph()


@pytest.mark.parametrize(
    ("source", "target", "problem"),
    [
        ("def broken(:", "bad.py:x", r"bad.py:1: not Python"),
        ("import no_such_module", "bad.py:x", r"bad.py:1: ModuleNotFoundError: No module named 'no_such_module'"),
        ("1 / 0", "bad.py:x", "importing it failed: .*ZeroDivisionError"),
        ("import sys; sys.exit(3)", "bad.py:x", r"calls sys.exit\(3\)"),
        ("import os; print('bye', flush=True); os._exit(1)", "bad.py:x", "ended the process; its last output: bye"),
        pytest.param("while True: pass", "bad.py:x", "took longer than 3 seconds", marks=pytest.mark.slow),
        ("graph = 5", "bad.py:graf", "has no attribute 'graf'; did you mean 'graph'?"),
        ("graph = 5", "bad.py:graph", "'builtins.int' is not a workflow"),
        ("", "none.py:graph", "no such file"),
        ("", "no_such_package:graph", "No module named 'no_such_package'"),
        ("", "bad", "is not a target"),
        ("", ":graph", "is not a target"),
        ("", "missing.json", "cannot be read"),
    ],
)
def test_an_invalid_target_is_an_error(app: Path, source: str, target: str, problem: str) -> None:
    """The message has the cause, and comes in bounded time."""
    (app / "bad.py").write_text(source)
    with pytest.raises(InputError, match=problem):
        graphs_of(target, seconds=3)


def test_the_output_of_a_target_is_not_its_graph(app: Path) -> None:
    """Threads that a target leaves running do not block the result."""
    noise = "import threading, time\nprint('{\"graph\": 1}')\nthreading.Thread(target=time.sleep, args=(60,)).start()\n"
    (app / "noisy.py").write_text(noise + GRAPH)
    assert graphs_of("noisy.py:flows.graph", seconds=10).single().name == "mine"
