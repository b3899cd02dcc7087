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
