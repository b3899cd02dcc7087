"""All workflows of a file are found, each once, in order; parts of others are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from guardagent.workflow.python_source.source_graphs import graph_of_source, graphs_of_source

HEAD = (
    "from agents import Agent, Runner\nfrom crewai import Agent as Member, Crew, Task\nfrom langgraph.graph import *\n"
)
CREW = 'Crew(agents=[m], tasks=[Task(description="d", expected_output="o", agent=m)])'
CASES = {
    "names": ('a = Agent(name="a")\nb = Agent(name="b")\n', "a b"),
    "one object under two names": ('a = Agent(name="a")\nb = a\n', "a"),
    "parts": ('a = Agent(name="a")\nb = Agent(name="b", handoffs=[a])\nc = Agent(name="c")\n', "b c"),
    "parts of each other": (
        'a = Agent(name="a")\nagent = Agent(name="b", handoffs=[a])\na.handoffs.append(agent)',
        "agent",
    ),
    "members and a crew in a function": (f'm = Member(role="m")\ndef main():\n    {CREW}.kickoff()\n', "main"),
    "two in a function": (
        (
            f'm = Member(role="m")\nx = Agent(name="x")\ndef main():\n    c = {CREW}\n    c.kickoff()\n'
            '    d = Agent(name="d")\n    Runner.run_sync(d)\n    serve(c)\nmain()\n'
        ),
        "x main.c main.d",
    ),
    "a builder and what it compiles": (
        "b = StateGraph(dict)\nc = b.compile()\nd = b.compile(interrupt_before='*')\n",
        "c d",
    ),
    "functions that share a helper": (
        'def make(name): return Agent(name=name)\ndef a(): return make("a")\ndef b(): return make("b")\n',
        "a b",
    ),
    "a function that returns one": ("def make(n):\n    def inner(): return Agent(name=n)\n    return inner\n", "make"),
    "a function whose result is bound": ('def make(): return Agent(name="a")\nb = make()\n', "b"),
    "a class": (
        "class Desk:\n    def __init__(me): me.boss = Agent(name='boss')\n    def late(me): return Agent(name='n')\n",
        "Desk.boss Desk.late",
    ),
    "an agent in a step of an object's graph": (
        (
            "class Desk:\n    def __init__(me): me.graph = StateGraph(dict).add_node('n', me.step).compile()\n"
            "    def step(me, s): return Runner.run_sync(Agent(name='n'))\n"
        ),
        "Desk.graph",
    ),
    "passed to unknown code": ('x = Agent(name="x")\ndef main():\n    serve(Agent(name="y"))\n', "x main"),
    "a loop": ('x = Agent(name="x")\nfor n in "abc": Runner.run_sync(Agent(name="y"))\n', "x line5"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_workflows_of_a_file(tmp_path: Path, name: str) -> None:
    """Each can be read by its name, with the same nodes."""
    code, expected = CASES[name]
    path = tmp_path / "app.py"
    path.write_text(HEAD + code)
    read = graphs_of_source(path)
    assert (" ".join(workflow.name for workflow in read.workflows), read.unread) == (expected, ())
    for workflow in read.workflows:
        assert graph_of_source(path, workflow.name).nodes == workflow.graph.nodes


def test_one_that_cannot_be_determined_is_unread(tmp_path: Path) -> None:
    """With its line; the others are listed."""
    path = tmp_path / "app.py"
    path.write_text(HEAD + "crew = Crew(agents=[], tasks=5)\na = Agent(name='a')\n")
    read = graphs_of_source(path)
    assert "a" in [workflow.name for workflow in read.workflows]
    assert len(read.workflows) + len(read.unread) == 2


def test_a_crew_that_an_inherited_method_of_another_file_runs(tmp_path: Path) -> None:
    """A script lists the workflow that it runs, also if another file makes it."""
    (tmp_path / "crews.py").write_text(
        HEAD + "class Base:\n    def run(self):\n        return Crew(agents=[one()], tasks=self.tasks()).kickoff()\n"
        "def one():\n    return Member(role='r', goal='g', backstory='b')\n"
        "class News(Base):\n    def tasks(self):\n        return [Task(name='fetch', description='d', agent=one())]\n"
    )
    (tmp_path / "main.py").write_text("import sys\nfrom crews import News\n{'news': News}[sys.argv[1]]().run()\n")
    (workflow,) = graphs_of_source(tmp_path / "main.py").workflows
    assert "fetch" in workflow.graph.by_id


def test_a_registry_of_another_file_has_its_known_nodes(tmp_path: Path) -> None:
    """The known elements of a collection that may have others are each read on their own."""
    (tmp_path / "registry.py").write_text(
        "NODES = {}\ndef node(name):\n    def wrap(function):\n        NODES[name] = function\n"
        "        return function\n    return wrap\n"
    )
    (tmp_path / "steps.py").write_text(
        "from registry import node\n@node('a')\ndef a(state): ...\n@node('b')\ndef b(state): ...\n"
    )
    program = (
        HEAD + "import steps\nfrom registry import NODES\ng = StateGraph(dict)\nfor name, step in NODES.items():\n"
        "    g.add_node(name, step)\ng.add_edge(START, 'a')\ng.add_edge('a', 'b')\ng.add_edge('b', END)\n"
        "graph = g.compile()\n"
    )
    (tmp_path / "main.py").write_text(program)
    edges = [(edge.source, edge.target) for edge in graph_of_source(tmp_path / "main.py").edges]
    assert {edge for edge in edges if edge[0] in {"__start__", "a", "b"}} == {
        ("__start__", "a"), ("a", "b"), ("b", "__end__"),
    }  # fmt: skip
