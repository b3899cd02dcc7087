"""Runs of CrewAI's flows compared with their graphs: every step is in the graph. No model is used."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from guardagent.workflow.extraction import extract
from guardagent.workflow.model.graph import END, START, Graph
from guardagent.workflow.python_source.source_graphs import graph_of_source
from tests.frameworks.program_files import load, shape

pytest.importorskip("crewai", reason="CrewAI is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")

HEAD = """
import random
from crewai.flow import Flow, and_, listen, or_, router, start
RAN = []

class TooLong(Exception):
    pass

def ran(name):
    RAN.append(name)
    if len(RAN) > 40:
        raise TooLong

class Random(Flow):
"""


def program(draw: random.Random) -> str:
    """A flow of some methods, each of which waits for earlier ones, or for labels."""
    names = [f"m{number}" for number in range(draw.randint(2, 7))]
    labels = ["x", "y", "z"][: draw.randint(1, 3)]
    routers = {name for name in names if draw.random() < 0.35}
    return HEAD + "".join(method(draw, names[:place], name, labels, routers) for place, name in enumerate(names))


def method(draw: random.Random, before: list[str], name: str, labels: list[str], routers: set[str]) -> str:
    """One method, in the words of a program."""
    waits = condition(draw, before, labels) if before else ""
    is_start = not before or draw.random() < 0.1
    mark = "@start()" if is_start else f"@{'router' if name in routers else 'listen'}({waits})"
    results = draw.sample(labels, draw.randint(1, len(labels))) if name in routers and not is_start else [""]
    return f"    {mark}\n    def {name}(self):\n        ran({name!r})\n        return random.choice({results})\n"


def condition(draw: random.Random, before: list[str], labels: list[str]) -> str:
    """A random condition: one event, all or any of several, or nested."""
    if len(before) < 2 or draw.random() < 0.5:
        return repr(draw.choice([*before, *before, *labels]))
    several = draw.sample([*before, *labels[:1]], 2)
    inner = f"{draw.choice(['and_', 'or_'])}({several[0]!r}, {several[1]!r})"
    return inner if draw.random() < 0.7 else f"{draw.choice(['and_', 'or_'])}({inner}, {draw.choice(before)!r})"


def runs(module: Any, times: int) -> Iterator[tuple[list[str], bool]]:
    """The methods that ran, and whether the run ended."""
    for _ in range(times):
        module.RAN.clear()
        try:
            module.Random(suppress_flow_events=True).kickoff()
        except module.TooLong:
            yield list(module.RAN), False
        else:
            yield list(module.RAN), True


@pytest.mark.parametrize("seed", range(25))
def test_flows_run_along_their_edges(seed: int, tmp_path: Path) -> None:
    """Each method that runs follows an earlier one by an edge, and where a run ends an edge leads to the end.

    The source alone gives the same graph.
    """
    random.seed(seed)
    path = tmp_path / f"flow_{seed}.py"
    path.write_text(program(random.Random(seed)))  # noqa: S311 - no secret
    module = load(path)
    graph = extract(module.Random)
    assert shape(graph_of_source(path, "Random")) == shape(graph)
    for ran, ended in runs(module, 6):
        assert follows_something(graph, ran), ran
        assert not ended or may_end(graph, ran[-1]), ran


def follows_something(graph: Graph, ran: list[str]) -> bool:
    before = {START}
    for name in ran:
        if not any(edge(graph, earlier, name) for earlier in before):
            return False
        before.add(name)
    return True


def may_end(graph: Graph, name: str) -> bool:
    """Whether an edge leads to the end, or a note tells that who listens has run already for another event."""
    return edge(graph, name, END) or any("runs once" in note and name in note for note in graph.notes)


def edge(graph: Graph, source: str, target: str) -> bool:
    return any((edge.source, edge.target) == (source, target) for edge in graph.edges)
