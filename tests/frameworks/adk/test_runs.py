"""Runs of Google ADK's agents compared with their graphs: every step is an edge. No model is used."""
# mypy: disable-error-code="misc,name-defined"

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

from guardagent.workflow.extraction import extract
from guardagent.workflow.model.graph import END, START, Graph
from tests.frameworks.program_files import PROGRAMS, load

pytest.importorskip("google.adk", reason="Google ADK is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")

agents: Any = pytest.importorskip("google.adk.agents")
events = pytest.importorskip("google.adk.events")
runners = pytest.importorskip("google.adk.runners")
workflow = pytest.importorskip("google.adk.workflow")
types = pytest.importorskip("google.genai.types")
CUSTOM = load(PROGRAMS / "adk_custom.py")

WORDS = {"done": (True, False), "skip": (True, False), "first": (True, False), "next": ("a", "b", "c")}


class Draw:
    """Random choices, and the steps that a run takes."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - no secret
        self.steps: list[str] = []


class ScriptedAgent(agents.BaseAgent):
    """An agent that only records its run; it may escalate, or change the state of decisions."""

    draw: Any
    fails: bool = False

    async def _run_async_impl(self, ctx: Any) -> AsyncIterator[Any]:
        self.draw.steps.append(self.name)
        for word, values in WORDS.items():
            ctx.session.state[word] = self.draw.random.choice(values)
        if self.fails and self.draw.random.random() < 0.5:
            raise ValueError(self.name)
        escalates = self.draw.random.random() < 0.3
        yield events.Event(author=self.name, actions=events.EventActions(escalate=escalates))


def tree(draw: Draw, depth: int, names: Iterator[str], kinds: list[str]) -> Any:
    """A random tree of agents."""
    kind, name = draw.random.choice(kinds), next(names)
    if depth == 0 or kind == "step":
        return ScriptedAgent(name=name, draw=draw)
    inside = [tree(draw, depth - 1, names, kinds) for _ in range(draw.random.randint(1, 3))]
    if kind == "loop":
        return agents.LoopAgent(name=name, sub_agents=inside, max_iterations=draw.random.randint(1, 3))
    return {"row": agents.SequentialAgent, "fork": agents.ParallelAgent}[kind](name=name, sub_agents=inside)


def run(root: Any, draw: Draw) -> list[str]:
    """The steps of one run."""
    draw.steps.clear()
    asyncio.run(_run(root))
    return list(draw.steps)


async def _run(root: Any) -> None:
    options = {"agent": root} if isinstance(root, agents.BaseAgent) else {"node": root}
    runner = runners.InMemoryRunner(app_name="app", **options)
    session = await runner.session_service.create_session(app_name="app", user_id="u", state={"next": "b"})
    message = types.Content(role="user", parts=[types.Part(text="x")])
    async for _ in runner.run_async(user_id="u", session_id=session.id, new_message=message):
        pass


def is_path(graph: Graph, steps: list[str], own: str = "") -> bool:
    """Whether each step of a run follows the one before it by an edge, or through a custom agent's own code."""
    edges = {(edge.source, edge.target) for edge in graph.edges}
    whole = [START, *([own] if own else []), *steps, END]
    return all(
        (node, then) in edges or bool(own and {(node, own), (own, then)} <= edges) for node, then in pairwise(whole)
    )


def follows_something(graph: Graph, steps: list[str]) -> bool:
    """Whether each step follows an earlier one by an edge, as parallel branches interleave."""
    before = {START}
    for step in steps:
        if not any(edge.source in before and edge.target == step for edge in graph.edges):
            return False
        before.add(step)
    return True


@pytest.mark.parametrize("seed", range(25))
def test_rows_and_loops_run_along_their_edges(seed: int) -> None:
    """Sequential agents and loops, in each other, with escalations anywhere: each run is a path of the graph."""
    draw = Draw(seed)
    root = tree(draw, 3, (f"n{number}" for number in range(999)), ["row", "loop", "loop", "step"])
    graph = extract(root, "random")
    for _ in range(4):
        steps = run(root, draw)
        assert is_path(graph, steps), steps


@pytest.mark.parametrize("seed", range(12))
def test_forks_run_along_their_edges(seed: int) -> None:
    """With parallel agents among them, each step follows an earlier one."""
    draw = Draw(seed)
    root = tree(draw, 3, (f"n{number}" for number in range(999)), ["row", "loop", "fork", "fork", "step"])
    graph = extract(root, "random")
    for _ in range(3):
        steps = run(root, draw)
        assert follows_something(graph, steps), steps


@pytest.mark.parametrize(
    "kind", "Each Backwards Until Rounds Endless Careful Choice Collects ByName InEachOther Twice".split()
)
def test_custom_agents_run_as_their_code_says(kind: str) -> None:
    """A custom agent runs as its code was read."""
    for seed in range(6):
        draw = Draw(seed)
        parts = [ScriptedAgent(name=name, draw=draw, fails=kind == "Careful" and name == "b") for name in "abcd"]
        root = getattr(CUSTOM, kind)(name="own", sub_agents=parts)
        steps = run(root, draw)
        assert is_path(extract(root, kind), steps, "own"), steps


def routed(draw: Draw, name: str, routes: list[str]) -> Callable[..., Any]:
    """A node of a workflow that takes one of some routes."""

    def step(node_input: Any) -> Any:
        draw.steps.append(name)
        return events.Event(output="x", route=random.choice(routes))  # noqa: S311 - no secret

    step.__name__ = name
    return step


def plain(draw: Draw, name: str) -> Callable[..., Any]:
    """A node of a workflow that takes no route."""

    def step(node_input: Any) -> Any:
        draw.steps.append(name)
        return "x"

    step.__name__ = name
    return step


@pytest.mark.parametrize("seed", range(10))
def test_workflows_run_along_their_edges(seed: int) -> None:
    """Workflow graphs with routes, defaults and back edges: all edges are taken by some run, and no others."""
    draw = Draw(seed)
    random.seed(seed)
    root = random_workflow(draw)
    graph = extract(root, "random")
    taken = {pair for _ in range(40) for pair in itertools.pairwise([START, *run(root, draw), END])}
    assert taken == {(edge.source, edge.target) for edge in graph.edges}


def random_workflow(draw: Draw) -> Any:
    """Nodes in a row; each leads on by an edge, or by routes to anywhere, the first of which no edge names."""
    names = [f"n{number}" for number in range(draw.random.randint(2, 6))]
    chosen = [draw.random.sample(["x", "y", "z"], draw.random.randint(0, 3)) for _ in names]
    functions = [routed(draw, *pair) if pair[1] else plain(draw, pair[0]) for pair in zip(names, chosen, strict=True)]
    nodes = [workflow.FunctionNode(func=function) for function in functions]
    edges: list[Any] = [(workflow.START, nodes[0])]
    for node, onward, routes in zip(nodes, [*nodes[1:], None], chosen, strict=True):
        named = {route: draw.random.choice(nodes) for route in routes[1:]}
        if named:
            edges.append((node, {**named, **({workflow.DEFAULT_ROUTE: onward} if onward else {})}))
        elif onward:
            edges.append((node, onward))
    return workflow.Workflow(name="random", edges=edges)
