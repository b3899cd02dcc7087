"""Runs of LangGraph compared with extracted graphs: no step is missing from the graph."""

from __future__ import annotations

import importlib.util
import itertools
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from guardagent.workflow.extraction import extract
from guardagent.workflow.model.graph import END, START, Graph
from guardagent.workflow.python_source.source_graphs import graph_of_source
from tests.tiers import examples

pytest.importorskip("langgraph", reason="LangGraph is not installed")

NAMES = ("n0", "n1", "n2", "n3")
HEAD = """
import functools, operator
from typing import Annotated, Literal, TypedDict
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send

class State(TypedDict, total=False):
    n: Annotated[int, operator.add]
    word: Literal["n0", "n1", "n2", "n3"]

TABLE = {0: "n0", 1: "n1", 2: "n2", 3: END}

def choose(s, first, second="n3"):
    return first if s["n"] % 2 else second

class Chooser:
    def __init__(self, *targets): self.targets = targets
    def __call__(self, s): return self.targets[s["n"] % len(self.targets)]

@functools.cache
def command(to): return Command(goto=to, update={"n": 1})

def again(s, deep, first, second):
    return first if deep == 0 else again(s, deep - 1, second, first)

"""

targets = st.sampled_from([*map(repr, NAMES), "END"])
expressions = st.recursive(
    targets,
    lambda inner: st.one_of(
        st.builds("({} if s['n'] % 3 else {})".format, inner, inner),
        st.builds("[{}, {}][s['n'] % 2]".format, inner, inner),
        st.builds("{{'a': {}, 'b': {}}}.get('ab'[s['n'] % 2], {})".format, inner, inner, inner),
        st.builds("choose(s, {})".format, inner),
        st.builds("choose(s, second={}, first={})".format, inner, inner),
        st.builds("(lambda t, u={}: t if s['n'] % 2 else u)({})".format, inner, inner),
        st.builds("Chooser({}, {})(s)".format, inner, inner),
        st.builds("next(x for x in ({}, {}) if x)".format, inner, inner),
        st.builds("again(s, s['n'] % 3, {}, {})".format, inner, inner),
        st.builds("(s['n'] % 2 and {} or {})".format, inner, inner),
        st.builds("str({}).strip()".format, inner),
        st.just("TABLE[s['n'] % 4]"),
        st.just("f\"n{s['n'] % 4}\""),
        st.just("s['word']"),
        st.just("min('n1', 'n2')"),
    ),
    max_leaves=4,
)


def body(expression: str, other: str, shape: int) -> list[str]:
    """Returns lines of code that set `t` to the next node."""
    return [
        [f"t = {expression}"],
        [f"t = {expression}", "if s['n'] % 2:", f"    t = {other}"],
        ["for t in (" + expression + ", " + other + "):", "    if s['n'] % 2: break"],
        ["try:", f"    t = {expression}", "    if s['n'] % 2: raise OSError", "except OSError:", f"    t = {other}"],
        ["match s['n'] % 3:", f"    case 0: t = {expression}", f"    case _: t = {other}"],
        ["def inner(k):", f"    return {expression} if k else {other}", "t = inner(s['n'] % 2)"],
        ["found = {}", f"found['x'] = {expression}", f"found.update(y={other})", "t = found['xy'[s['n'] % 2]]"],
        [f"t, u = {expression}, {other}", "if s['n'] % 2: t, u = u, t"],
        [f"several = [{expression}]", f"several += [{other}]", "t = several[s['n'] % 2]"],
        [f"if (t := {expression}) == END:", f"    t = {other}"],
    ][shape]


@st.composite
def programs(draw: st.DrawFn) -> str:
    """A program of four nodes whose transitions are written in many kinds of Python."""
    lines = [HEAD, "g = StateGraph(State)"]
    for name in NAMES:
        ways = draw(st.sampled_from(["edge", "route", "command", "sends", "list", "kept", "join"]))
        lines += list(_node(draw, name, ways))
    lines = sorted(lines, key=lambda line: line.startswith("g.add_edge(["))  # joins need all nodes
    lines += ["g.add_edge(START, 'n0')", "graph = g.compile()"]
    return "\n".join(lines) + "\n"


def _node(draw: st.DrawFn, name: str, ways: str) -> Iterator[str]:
    lines = body(draw(expressions), draw(expressions), draw(st.integers(0, 9)))
    own = [f"    {line}" for line in lines]
    added = f"g.add_node('{name}', f_{name})"
    if ways == "command":
        yield from [f"def f_{name}(s):", *own, "    return Command(goto=t, update={'n': 1})", added]
    elif ways == "kept":
        yield from [f"def f_{name}(s):", *own, "    return command(t)", added]
    elif ways == "list":
        yield from [f"def f_{name}(s):", *own, "    return Command(goto=[t, 'n1'], update={'n': 1})", added]
    else:
        yield f"g.add_node('{name}', lambda s: {{'n': 1, 'word': 'n{draw(st.integers(0, 3))}'}})"
    if ways == "edge":
        yield f"g.add_edge('{name}', {draw(targets)})"
    elif ways == "join":
        yield f"g.add_edge(['{name}', 'n0'], {draw(targets)})"
    elif ways == "route":
        yield from [f"def r_{name}(s):", *own, "    return t", f"g.add_conditional_edges('{name}', r_{name})"]
    elif ways == "sends":
        sent = "    return [] if t == END else [Send(t, {'n': s['n']}), 'n2']"
        yield from [f"def r_{name}(s):", *own, sent, f"g.add_conditional_edges('{name}', r_{name})"]


def load(source: str, folder: str) -> Any:
    path = Path(folder, "program.py")
    path.write_text(source)
    spec = importlib.util.spec_from_file_location("langgraph_run_program", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["langgraph_run_program"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.graph


def steps(graph: Any, begin: int) -> list[list[str]]:
    """Returns the nodes of each step, until the run ends, fails or exceeds the recursion limit."""
    by_step: dict[int, list[str]] = {}
    try:
        for event in graph.stream({"n": begin, "word": "n1"}, {"recursion_limit": 12}, stream_mode="debug"):
            if event["type"] == "task":
                by_step.setdefault(event["step"], []).append(event["payload"]["name"])
    except Exception:  # noqa: BLE001, S110 - a failed run has its steps, too
        pass
    return [by_step[step] for step in sorted(by_step)]


@settings(max_examples=examples(60), suppress_health_check=list(HealthCheck))
@given(programs(), st.integers(0, 5))
def test_every_step_of_a_run_has_an_edge(source: str, begin: int) -> None:
    """Each node of a step has an edge from a node of the previous step, or waits for several nodes."""
    with tempfile.TemporaryDirectory() as folder:
        compiled = load(source, folder)
        of_object, of_source = extract(compiled, "program"), graph_of_source(Path(folder, "program.py"))
        run = steps(compiled, begin)
    for graph in (of_object, of_source):
        assert set(run[0]) <= after(graph, [START])
        for earlier, later in itertools.pairwise(run):
            joins = {node.id for node in graph.nodes if "waits_for" in node.metadata}
            assert set(later) <= after(graph, earlier) | joins, source


def after(graph: Graph, nodes: list[str]) -> set[str]:
    return {edge.target for edge in graph.edges if edge.source in nodes} - {END}
