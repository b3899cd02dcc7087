"""The extractor of pydantic-graph and Pydantic AI, on programs with their expected graphs, and against runs."""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import random
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from guardagent.errors import InputError
from guardagent.frameworks.pydantic_graph import extractor as pydantic_graph
from guardagent.workflow.extraction import extract
from guardagent.workflow.model.graph import END, START, Graph
from guardagent.workflow.python_source.source_graphs import graph_of_source
from tests.frameworks.program_files import Case, cases, conditions, shape, stated

builders: Any = pytest.importorskip("pydantic_graph.graph_builder", reason="pydantic-graph is not installed")
ai: Any = pytest.importorskip("pydantic_ai", reason="Pydantic AI is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")

CASES: dict[str, Case] = cases("pydantic_graph_*.py")


@pytest.mark.parametrize("name", CASES)
def test_a_program_yields_its_expected_graph(name: str) -> None:
    """Nodes, kinds, edges, tools, gates and widened nodes are exactly those expected."""
    build, expected = CASES[name]
    graph = extract(build(), name)
    assert shape(graph) == stated(expected)
    assert {key: conditions(graph).get(key) for key in expected.get("conditions", {})} == expected.get("conditions", {})


def built(name: str) -> Graph:
    return extract(CASES[name][0](), name)


def test_a_step_has_its_location() -> None:
    """Steps and classes have the file and line of their function or method."""
    for name, node, first in (("one_step", "a", "async def plain"), ("one_node", "Only", "async def run")):
        metadata = built(name).by_id[node].metadata
        line = Path(metadata["file"]).read_text(encoding="utf-8").splitlines()[metadata["line"] - 1]
        assert line.strip().startswith(first)


def test_unknown_values_are_noted() -> None:
    """Notes name unknown agents, unknown tools and conditional questions."""
    calls = built("agent_that_is_not_known").notes[0]
    assert calls.startswith("unknown: may call tools that cannot be seen")
    assert "what 'ctx.deps.agent' runs is known only at run time" in calls
    assert built("agent_that_is_not_known").by_id["unknown"].metadata["unknown_tools"] == ("agent.*",)
    assert "a: the tool 'danger' asks for approval only under a condition; it is not gated" in built(
        "tools_that_raise_for_approval"
    ).notes  # fmt: skip


def test_the_function_that_decides_on_approval_is_named() -> None:
    """A conditionally approved tool is gated, and its node names the function."""
    assert dict(built("toolsets").by_id["a"].metadata["gated_when"]) == {"asked_fetch": "only_mail"}


def test_approval_by_a_function_is_not_a_gate() -> None:
    """Nothing is gated if the program approves calls without asking a person."""
    capabilities: Any = pytest.importorskip("pydantic_ai.capabilities", reason="this version has no capabilities")

    def approve(_context: Any, requests: Any) -> Any:
        return requests.build_results(approve_all=True)

    def ask(_context: Any, requests: Any) -> Any:
        return requests.build_results(approve_all=input("?") == "y")

    def mail(to: str) -> str:
        return to

    for handler, gated in ((approve, ()), (ask, ("mail",))):
        tool = ai.Tool(mail, requires_approval=True)
        agent = ai.Agent("test", tools=[tool], capabilities=[capabilities.HandleDeferredToolCalls(handler=handler)])
        assert extract(agent).by_id["agent"].gated_tools == gated


def test_a_builder_is_refused() -> None:
    """A graph that is not built is refused, with the remedy."""
    with pytest.raises(InputError, match="a GraphBuilder is not a graph yet; expected the result of its 'build"):
        extract(builders.GraphBuilder())


def test_only_objects_of_the_library_are_recognised() -> None:
    """A class of the program named `Graph` is not recognised."""
    assert not pydantic_graph.recognises(type("Graph", (), {"__module__": "own"})())


def test_extraction_is_deterministic() -> None:
    """Nodes and edges come in the same order, the entry first."""
    assert built("node_that_chooses").to_dict() == built("node_that_chooses").to_dict()
    assert built("node_that_chooses").edges[0].source == START


HEAD = """
from dataclasses import dataclass
from typing import Any
from pydantic_graph import BaseNode, End, GraphRunContext
from pydantic_graph.graph_builder import GraphBuilder
from pydantic_graph.join import reduce_list_append

def pick(random, *some):
    return random.choice(some)

def made(kind):
    return kind()

class Maker:
    def of(self, name): return {"N0": N0, "N1": N1, "N2": N2, "N3": N3, "End": done}[name]()

def done(): return End(0)
MAKER = Maker()
"""
NAMES = ["N0", "N1", "N2", "N3"]


def _node(choice: random.Random, name: str) -> str:
    """A class whose `run` returns one of some others, in one of many styles."""
    targets = [choice.choice([*NAMES, "End"]) for _ in range(3)]
    a, b, c = (f"{target}()" if target != "End" else "End(0)" for target in targets)
    body = choice.choice([
        [f"return {a}"],
        [f"return {a} if ctx.state.random.random() < 0.5 else {b}"],
        [f"if ctx.state.random.random() < 0.5: return {a}", f"return pick(ctx.state.random, {b}, {c})"],
        [f"some = [{a}, {b}]", f"some.append({c})", "return ctx.state.random.choice(some)"],
        [f"found = {{'x': {a}, 'y': {b}}}", "return found['xy'[int(ctx.state.random.random() * 2)]]"],
        [f"return MAKER.of({targets[0]!r})"],
        [f"kind = {targets[0]}" if targets[0] != "End" else "kind = done", "return made(kind)"],
        ["match int(ctx.state.random.random() * 3):", f"    case 0: return {a}", f"    case _: return {b}"],
    ])  # fmt: skip
    declared = " | ".join("End[int]" if target == "End" else target for target in dict.fromkeys([*targets, "End"]))
    head = ["@dataclass", f"class {name}(BaseNode):", f'    async def run(self, ctx: GraphRunContext) -> "{declared}":']
    return "\n".join([*head, *(f"        {line}" for line in body)]) + "\n"


CLASSES = """
g = GraphBuilder(input_type=N0)
g.add(g.edge_from(g.start_node).to(N0), *(g.node(kind) for kind in (N0, N1, N2, N3)))
graph = g.build(validate_graph_structure=False)
"""


def _program(source: str, folder: Path) -> ModuleType:
    path = folder / "pydantic_graph_run_program.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class State:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - no secret


async def batches(graph: Any, seed: int) -> list[list[str]]:
    """The tasks that start after each task of a run, until it ends, fails or exceeds a limit."""
    batches: list[list[str]] = []
    try:
        async with graph.iter(state=State(seed), inputs=graph.input_type() if graph.input_type else 0) as run:
            async for event in run:
                is_end = type(event).__name__ == "EndMarker"
                batches.append([END] if is_end else [str(task.node_id) for task in event])
                if len(batches) > 60:
                    break
    except Exception:  # noqa: BLE001, S110 - how a run fails is of no matter here
        pass
    return batches


@pytest.mark.parametrize("seed", range(25))
def test_runs_of_classes_follow_the_edges(seed: int, tmp_path: Path) -> None:
    """With random nodes in many styles of Python, each has an edge from its predecessor."""
    choice = random.Random(seed)  # noqa: S311 - no secret
    source = HEAD + "\n".join(_node(choice, name) for name in NAMES) + CLASSES
    module = _program(source, tmp_path)
    graphs = extract(module.graph), graph_of_source(Path(str(module.__file__)))
    for run in range(6):
        path = [START, *(node for batch in asyncio.run(batches(module.graph, run)) for node in batch)]
        assert len(path) > 1
        for graph in graphs:
            assert set(itertools.pairwise(path)) <= {(edge.source, edge.target) for edge in graph.edges}, source


def random_steps(seed: int) -> Any:
    """A random graph of steps, decisions, forks, maps and joins that lead forward."""
    choice = random.Random(seed)  # noqa: S311 - no secret
    joins: Any = pytest.importorskip("pydantic_graph.join")
    g = builders.GraphBuilder(input_type=int)
    last: Any = g.start_node
    for place in range(4):
        steps = [_step(g, f"s{place}{letter}") for letter in "abc"]
        join = g.join(joins.reduce_list_append, initial_factory=list, node_id=f"join{place}")
        kind = choice.choice(["line", "fork", "map", "decision", "race", "back"])
        if kind == "line":
            g.add(g.edge_from(last).to(steps[0]))
            last = steps[0]
        elif kind in {"fork", "race"}:
            reduce = joins.ReduceFirstValue() if kind == "race" else joins.reduce_list_append
            join = g.join(reduce, initial_factory=list, node_id=f"join{place}")
            g.add(g.edge_from(last).to(*steps[:2]), g.edge_from(steps[0]).to(steps[2]))
            g.add(g.edge_from(steps[1], steps[2]).to(join))
            last = join
        elif kind == "map":
            many = _step(g, f"many{place}", value=lambda: list(range(choice.randint(0, 3))))
            g.add(g.edge_from(last).to(many), g.edge_from(many).map(downstream_join_id=join.id).to(steps[0]))
            g.add(g.edge_from(steps[0]).to(join))
            last = join
        else:
            test = _step(g, f"test{place}", value=choice.random)
            back = steps[1] if kind == "decision" else test
            chosen = g.decision(node_id=f"decision{place}")
            chosen = chosen.branch(g.match(float, matches=lambda value: value < 0.5).to(back))
            chosen = chosen.branch(g.match(object).to(steps[0]))
            g.add(g.edge_from(last).to(test), g.edge_from(test).to(chosen))
            g.add(*([g.edge_from(steps[1]).to(steps[0])] if kind == "decision" else []))
            last = steps[0]
    g.add(g.edge_from(last).to(g.end_node))
    return g.build()


def _step(g: Any, name: str, value: Any = lambda: 1) -> Any:
    async def call(_context: Any) -> Any:
        await asyncio.sleep(0)
        return value()

    return g.step(call, node_id=name)


@pytest.mark.parametrize("seed", range(40))
def test_runs_of_steps_follow_the_edges(seed: int) -> None:
    """Each set of tasks that starts together follows one earlier node; successors of joins are not checked."""
    graph = random_steps(seed)
    after: dict[str, set[str]] = {}
    for edge in extract(graph).edges:
        after.setdefault(edge.source, set()).add(edge.target)
    ran = [START]
    for batch in asyncio.run(batches(graph, seed)):
        assert any(set(batch) <= after.get(node, set()) for node in ran), (batch, after)
        joins = [
            join_node for node in batch for join_node in (node, *after.get(node, ())) if join_node.startswith("join")
        ]
        ran += [*batch, *joins, *(target for join in joins for target in after[join])]
    assert ran[-1] == END
