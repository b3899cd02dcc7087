"""The extractor of LlamaIndex, on programs with their expected graphs, and against runs."""

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

from guardagent.frameworks.llama_index import extractor as llama_index
from guardagent.workflow.extraction import extract
from guardagent.workflow.model.graph import END, START, Graph
from guardagent.workflow.python_source.source_graphs import graph_of_source
from tests.frameworks.program_files import Case, cases, conditions, shape, stated

events: Any = pytest.importorskip("workflows.events", reason="LlamaIndex's workflows are not installed")
agents: Any = pytest.importorskip("llama_index.core.agent.workflow", reason="llama-index-core is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")

CASES: dict[str, Case] = cases("llama_index_*.py")


@pytest.mark.parametrize("name", CASES)
def test_a_program_yields_its_expected_graph(name: str) -> None:
    """Nodes, kinds, edges, tools, gates and widened nodes are exactly those expected."""
    build, expected = CASES[name]
    graph = extract(build(), name)
    assert shape(graph) == stated(expected)
    assert {key: conditions(graph).get(key) for key in expected.get("conditions", {})} == expected.get("conditions", {})


def built(name: str) -> Graph:
    return extract(CASES[name][0](), name)


def test_a_step_has_its_location_and_events() -> None:
    """A step has the file of its function; its events and workers are in the metadata."""
    metadata = built("SendAndCollect").by_id["work"].metadata
    line = Path(metadata["file"]).read_text(encoding="utf-8").splitlines()[metadata["line"] - 1]
    assert line.strip().startswith("async def work")
    assert (metadata["takes"], metadata["num_workers"]) == (("A",), 2)
    assert built("SendAndCollect").by_id["gather"].metadata["join"]


def test_unknown_values_are_noted() -> None:
    """Notes name unknown events, unknown agents and conditional questions."""
    (note,) = built("EventThatIsNotKnown").notes
    assert note.startswith(
        "one: its edges are assumed: the event sent by \"ctx.send_event(await ctx.store.get('next'))\" is unknown"
    )
    calls = built("agent_that_is_not_known").notes[0]
    assert calls.startswith("one: may call tools that cannot be seen")
    assert built("agent_with_tools").notes == (
        "a: the tool 'may_pay' asks for approval only under a condition, so it is not gated",
    )  # fmt: skip
    assert built("StepThatLeadsNowhere").notes == ("one: no step accepts its A",)


def test_only_workflows_of_the_library_are_recognised() -> None:
    """A class of the program named `Workflow` is not recognised."""
    assert not llama_index.recognises(type("Workflow", (), {"__module__": "own"})())
    assert llama_index.recognises(CASES["OneStep"][0]())


def test_extraction_is_deterministic() -> None:
    """Nodes and edges come in the same order, the entry first."""
    assert built("Choices").to_dict() == built("Choices").to_dict()
    assert built("Choices").edges[0].source == START


HEAD = """
import random
from typing import Any
from workflows import Context, Workflow, step
from workflows.events import Event, HumanResponseEvent, InputRequiredEvent, StartEvent, StopEvent

LOG = []
RANDOM = random.Random(0)

class E0(Event): by: str
class E1(Event): by: str
class E2(Event): by: str
class E3(Event): by: str
class Last(Event): by: str
class Stop(StopEvent): by: str = ""
class Ask(InputRequiredEvent): by: str
class Told(HumanResponseEvent): by: str

def ran(event, name):
    LOG.append((getattr(event, "by", "__start__"), name))
    if len(LOG) > 25:
        raise OSError("long enough")

def pick(*some): return RANDOM.choice(some)
def made(kind, by): return kind(by=by)
def emit(ctx: Context, event: E1): ctx.send_event(event)
TABLE = {"a": E0, "b": E1, "c": E2}

class Flow(Workflow):
    @step
    async def last(self, ev: Last) -> Stop:
        ran(ev, "last")
        return Stop(by="last")

    def some(self, by, first, second):
        return first(by=by) if RANDOM.random() < 0.5 else second(by=by)

"""
KINDS = ("E0", "E1", "E2", "E3", "Stop", "Ask", "Last")


def _step(choice: random.Random, name: str, taken: str) -> str:
    """A step that emits some events, in one of many styles."""
    a, b = (choice.choice(KINDS) for _ in range(2))
    sent = choice.choice(KINDS[:4])
    by = f'by="{name}"'
    declared, body = choice.choice([
        (f"{a}", [f"return {a}({by})"]),
        (f"{a} | {b}", [f"return {a}({by}) if RANDOM.random() < 0.5 else {b}({by})"]),
        (f"{a} | {b}", ["if RANDOM.random() < 0.5:", f"    return {a}({by})", f"return pick({b}({by}), {a}({by}))"]),
        ("Event", [f"found = [{a}({by})]", f"found.append({b}({by}))", "return RANDOM.choice(found)"]),
        ("Event", [f"return self.some('{name}', {a}, {b})"]),
        ("Event", [f"return TABLE[pick('a', 'b', 'c')]({by})"]),
        ("Event", [f"return made({a}, '{name}')"]),
        (f"{a}", [f"return pick({a}({by}), {b}({by}))"]),
        (f"{sent} | None", ["for _ in range(RANDOM.randint(1, 3)):", f"    ctx.send_event({sent}({by}))"]),
        (f"{sent} | {a}", [f"ctx.send_event({sent}({by}))", f"return {a}({by})"]),
        ("E1 | None", [f"emit(ctx, E1({by}))"]),
        (f"{a} | None", [f"return {a}({by}) if RANDOM.random() < 0.8 else None"]),
        ("None", [f"ctx.write_event_to_stream(Ask({by}))"]),
    ])  # fmt: skip
    head = [
        "    @step",
        f"    async def {name}(self, ctx: Context, ev: {taken}) -> {declared}:",
        f"        ran(ev, '{name}')",
    ]
    return "\n".join([*head, *(f"        {line}" for line in body)]) + "\n\n"


def _program(seed: int, folder: Path) -> ModuleType:
    choice = random.Random(seed)  # noqa: S311 - no secret
    taken = {"s0": "StartEvent | E0", "s1": "E1", "s2": choice.choice(["E2", "E2 | E0"]), "s3": "E3", "s4": "Told"}
    path = folder / "llama_index_run_program.py"
    path.write_text(HEAD + "".join(_step(choice, name, event) for name, event in taken.items()))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def _run(module: ModuleType, flow: Any) -> str | None:
    """Runs a workflow and answers its questions; returns the step that ended it."""
    handler = flow.run()
    try:
        async for event in handler.stream_events():
            if type(event).__name__ == "Ask":
                module.LOG.append((event.by, "Ask"))
                handler.ctx.send_event(module.Told(by="Ask"))
        return str((await handler).by)
    except Exception:  # noqa: BLE001 - how a run fails is of no matter here
        return None


@pytest.mark.parametrize("seed", range(40))
def test_runs_follow_the_edges(seed: int, tmp_path: Path) -> None:
    """With random steps in many styles of Python, each has an edge from the step that emitted its event."""
    module = _program(seed, tmp_path)
    flow = module.Flow(timeout=0.5, disable_validation=True)
    graphs = extract(flow), graph_of_source(Path(str(module.__file__)), "Flow")
    for run in range(3):
        module.LOG.clear()
        module.RANDOM.seed(run)
        ended_by = asyncio.run(_run(module, flow))
        assert module.LOG
        ended = [(ended_by, END)] if ended_by else []
        for graph in graphs:
            edges = {(edge.source, edge.target) for edge in graph.edges}
            assert {*module.LOG, *ended} <= edges, Path(str(module.__file__)).read_text(encoding="utf-8")


class Chooser:
    """Makes agents with a random model, and records the agents that call it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - no secret
        self.steps: list[str] = []

    def agent(self, name: str, names: list[str], **more: Any) -> Any:
        outer = self
        mock: Any = pytest.importorskip("llama_index.core.llms.mock")

        class Agent(agents.FunctionAgent):
            async def take_step(self, *_args: Any, **_more: Any) -> Any:
                outer.steps.append(name)
                calls = outer.calls([other for other in names if other != name]) if len(outer.steps) < 25 else []
                response = outer.message("done")
                return agents.AgentOutput(response=response, tool_calls=calls, raw={}, current_agent_name=name)

        def read(text: str) -> str:
            """Reads."""
            return text

        return Agent(name=name, description=name, tools=[read], llm=mock.MockLLM(), **more)

    def message(self, text: str) -> Any:
        return pytest.importorskip("llama_index.core.llms").ChatMessage(role="assistant", content=text)

    def calls(self, names: list[str]) -> list[Any]:
        kind: Any = pytest.importorskip("llama_index.core.tools").ToolSelection
        call = self.random.choice(["handoff", "read", "handoff", None])
        arguments = {"to_agent": self.random.choice(names), "reason": "x"} if call == "handoff" else {"text": "x"}
        return [kind(tool_id=f"c{len(self.steps)}", tool_name=call, tool_kwargs=arguments)] if call else []


@pytest.mark.parametrize("seed", range(10))
def test_runs_of_teams_follow_the_edges(seed: int) -> None:
    """With random hand-offs, each change of agent is an edge, and so is the end."""
    chooser = Chooser(seed)
    names = ["a", "b", "c"]
    allowed = [chooser.random.choice([None, chooser.random.sample(names, 1), []]) for _ in names]
    team = [chooser.agent(name, names, can_handoff_to=to) for name, to in zip(names, allowed, strict=True)]
    flow = agents.AgentWorkflow(agents=team, root_agent="a", timeout=5)
    edges = {(edge.source, edge.target) for edge in extract(flow).edges}

    async def run() -> None:
        await flow.run(user_msg="x", max_iterations=60)

    asyncio.run(run())
    path = [START, *chooser.steps, END]
    changes = {(node, other) for node, other in itertools.pairwise(path) if node != other}
    assert chooser.steps
    assert changes <= edges
