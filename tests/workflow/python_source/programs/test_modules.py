"""Imports are followed within the program, on demand and within a budget."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from guardagent.workflow.model.graph import END, START
from guardagent.workflow.python_source.interpreter import Interpreter
from guardagent.workflow.python_source.source_graphs import graph_of_source
from tests.workflow.python_source.programs.test_interpreter import HEAD, nodes


def write(folder: Path, **files: str) -> Path:
    """Writes files, `__` in their names standing for a folder; returns the main file."""
    for name, text in files.items():
        path = folder / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "main.py"


def test_a_graph_comes_through_packages(tmp_path: Path) -> None:
    """A re-export, a relative import, a star import, a constant and a folder without code lead to the same files."""
    main = write(
        tmp_path, main="from pkg import graph\nfrom flat.names import *\nimport flat.names as n\n",
        pkg__init="", pkg__build=HEAD + "from .names import FIRST\ngraph = wired(StateGraph(State), FIRST).compile()\n",
        pkg__names='FIRST = "a"\n', flat__names='SECOND = "b"\n',
    )  # fmt: skip
    (tmp_path / "pkg" / "__init__.py").write_text("from .build import graph\n")
    assert nodes(main) == ["a"]
    main.write_text(HEAD + "from flat.names import *\nfrom flat import names\nimport flat.names\n"
                    "graph = wired(StateGraph(State), SECOND, names.SECOND * 0 or 'c').compile()\n")  # fmt: skip
    assert nodes(main)[0] == "b"


def test_a_file_in_src_or_in_an_added_folder_is_found(tmp_path: Path) -> None:
    main = write(
        tmp_path, src__own__names='NAME = "a"\n', lib__more='NAME = "b"\n',
        main="import sys\nsys.path.insert(0, 'lib')\nfrom own.names import NAME\nfrom more import NAME as OTHER\n"
        + HEAD + "graph = wired(StateGraph(State), NAME, OTHER).compile()\n",
    )  # fmt: skip
    assert nodes(main) == ["a", "b"]


def test_only_what_decides_a_name_is_interpreted_but_all_of_that(tmp_path: Path) -> None:
    """A call through a function, another name of the object and a later loop change the graph; the rest is left out."""
    main = write(
        tmp_path, main="from built import graph\n",
        built=HEAD + "g = StateGraph(State)\nalias = g\ndef more():\n    alias.add_node('b', step)\n"
        "g.add_node('a', step)\nmore()\nfor name in ['c']:\n    alias.add_node(name, step)\n"
        "g.add_edge(START, 'a')\ngraph = g.compile()\nunrelated = StateGraph(State)\n",
    )  # fmt: skip
    assert nodes(main) == ["a", "b", "c"]


def test_files_that_import_each_other_are_read(tmp_path: Path) -> None:
    main = write(
        tmp_path, main=HEAD + "from one import A\ngraph = wired(StateGraph(State), A).compile()\n",
        one="from two import B\nA = 'a'\n", two="from one import A\nB = [A]\n",
    )  # fmt: skip
    assert nodes(main) == ["a"]


def test_a_name_that_files_only_import_from_each_other_is_unknown(tmp_path: Path) -> None:
    main = write(
        tmp_path, main=HEAD + "from one import A\ngraph = wired(StateGraph(State), A).compile()\n",
        one="from two import A\n", two="from one import A\n",
    )  # fmt: skip
    assert any("unknown" in note for note in graph_of_source(main).notes)


@pytest.mark.slow
def test_what_the_budget_leaves_out_is_unknown(tmp_path: Path) -> None:
    """The graph may have any further nodes and edges, and a note says where the budget ended."""
    calls = "".join(f"def f{at}(x):\n    o = []\n    o.append(x)\n    return f{at + 1}(o) or f{at + 1}([o])\n"
                    for at in range(40))  # fmt: skip
    rest = "def f40(x):\n    g.add_node('b', step)\ng = wired(StateGraph(State), 'a')\nf0(1)\ngraph = g.compile()\n"
    main = write(tmp_path, main=HEAD + calls + rest)
    graph = graph_of_source(main)
    assert any("not followed further: the budget ended in 'main.py' line" in note for note in graph.notes)
    assert {("a", "a"), ("a", END), (START, END)} <= {(edge.source, edge.target) for edge in graph.edges}


def test_a_registry_that_other_files_can_fill_is_not_complete(tmp_path: Path) -> None:
    main = write(
        tmp_path, registry="NAMES = ['a']\ndef register(name):\n    NAMES.append(name)\n",
        plugin="from registry import register\nregister('b')\n",
        main=HEAD + "import plugin\nfrom registry import NAMES\ngraph = wired(StateGraph(State), *NAMES).compile()\n",
    )  # fmt: skip
    assert any("unknown" in note for note in graph_of_source(main).notes)


def test_a_package_that_imports_from_itself_means_its_module(tmp_path: Path) -> None:
    main = write(tmp_path, agent=HEAD + "graph = wired(StateGraph(State), 'a').compile()\n").with_name("__init__.py")
    main.write_text("from . import agent\n")
    assert nodes(main) == ["a"]


def test_a_copy_of_a_framework_in_a_shared_package_is_not_read(tmp_path: Path) -> None:
    """The file lies within the source of its framework, which is known; other files of the package are read."""
    main = write(
        tmp_path, google__adk__agents="raise SystemExit\nclass LlmAgent:\n    pass\n", google__names='NAME = "a"\n',
        main="from google.adk.agents import LlmAgent\nfrom google.names import NAME\nagent = LlmAgent(name=NAME)\n",
    )  # fmt: skip
    assert nodes(main) == ["a"]


READERS = {
    "an import": ("import os\nfrom crewai.flow import Flow\n", ["crewai"]),
    "an import in a function": ("def build():\n    import google.adk\n    import autogen\n", ["adk", "autogen"]),
    "an import by name": ("import importlib\nimportlib.import_module('langgraph.graph')\n", ["langgraph"]),
    "an own file that is used": ("from own import Agent\nAgent()\n", ["openai_agents"]),
    "an own file that is not used": ("import own\n", []),
    "an unknown library": ("import numpy\nnumpy.array([1]) | 2\n", []),
}


@pytest.mark.parametrize(("text", "readers"), READERS.values(), ids=READERS.keys())
def test_only_readers_of_imported_frameworks_are_loaded(tmp_path: Path, text: str, readers: list[str]) -> None:
    interpreter = Interpreter(write(tmp_path, main=text, own="from agents import Agent\n"))
    interpreter.run(ast.parse(text))
    assert [reader.__name__.split(".")[2] for reader in interpreter.readers] == readers


def test_any_reader_can_combine_objects(tmp_path: Path) -> None:
    """A pipe of LangChain can consist of objects whose classes come from a library that wraps it."""
    text = "from own_models import model, prompt\nchain = prompt | model\n"
    interpreter = Interpreter(write(tmp_path, main=text))
    interpreter.run(ast.parse(text))
    assert "guardagent.frameworks.langgraph.source" in {reader.__name__ for reader in interpreter.readers}
