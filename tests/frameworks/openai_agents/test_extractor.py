"""The extractor of the OpenAI Agents SDK, on programs with their expected graphs, and against runs."""

from __future__ import annotations

import asyncio
import itertools
import random
from pathlib import Path
from typing import Any

import pytest

from guardagent import load_policies
from guardagent.enforcement import ToolGuard
from guardagent.errors import InputError
from guardagent.frameworks.openai_agents import extractor as openai_agents
from guardagent.workflow.extraction import extract
from guardagent.workflow.model.graph import END, START, Graph
from tests.frameworks.program_files import Case, cases, conditions, shape, stated

sdk: Any = pytest.importorskip("agents", reason="the OpenAI Agents SDK is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")

CASES: dict[str, Case] = cases("openai_*.py")


@pytest.mark.parametrize("name", CASES)
def test_a_program_yields_its_expected_graph(name: str) -> None:
    """Nodes, kinds, edges, tools, gates and widened nodes are exactly those expected."""
    build, expected = CASES[name]
    graph = extract(build(), name)
    assert shape(graph) == stated(expected)
    assert {key: conditions(graph).get(key) for key in expected.get("conditions", {})} == expected.get("conditions", {})


def built(name: str) -> Graph:
    return extract(CASES[name][0](), name)


GUARDED = ["handoffs_in_a_ring", "handoff_of_the_programs_own", "agent_with_tools_as_a_tool", "agent_run_inside_a_tool",
           "functions_as_tools", "mcp_servers", "tools_that_end_the_run"]  # fmt: skip


@pytest.mark.parametrize("name", GUARDED)
def test_a_guard_changes_no_graph(name: str) -> None:
    """It runs no tool, and asks a person only where a rule says so; gates and unseen calls are those of the program."""
    from guardagent.frameworks.openai_agents import guarded

    guard = ToolGuard(load_policies(text="version: 1\npolicies: [{id: a, temporal: 'G !tool:wipe'}]"))
    assert extract(guarded(CASES[name][0](), guard), name) == built(name)


def test_guardrails_and_output_type_are_metadata() -> None:
    """Guardrails are metadata rather than steps, and one that never runs is noted."""
    graph = built("guardrails")
    metadata = graph.by_id["a"].metadata
    assert (metadata["input_guardrails"], metadata["output_guardrails"]) == (("on_topic",), ("polite",))
    assert metadata["output_type"] == "Answer"
    assert graph.notes == ("b: no run starts with it; its input guardrails never run",)


def test_the_function_that_decides_on_approval_is_named() -> None:
    """A conditionally approved tool is gated and names the function; a note names functions that ask nobody."""
    graph = built("functions_as_tools")
    assert dict(graph.by_id["a"].metadata["gated_when"]) == {"pay": "is_large"}
    assert graph.notes == ("a: the tool 'ask_perhaps' asks a person only under a condition; it is not gated",)
    (approved,) = built("tools_that_are_approved").notes
    assert approved == "a: apply_patch: a function approves it, and does not visibly ask a person each time"


def test_unknown_values_are_noted() -> None:
    """A hand-off to an unknown agent is noted, with the assumption."""
    first, *_ = built("handoff_to_whom_cannot_be_known").notes
    assert first.startswith("a: its edges are assumed: the target of 'ask' is unknown; an agent 'someone'")


def test_unknown_toolsets_are_reported() -> None:
    """Unknown tools of a server are in the metadata and in a note."""
    graph = built("mcp_servers")
    assert graph.by_id["a"].metadata["unknown_tools"] == ("files.*",)
    assert graph.notes == (
        "a: may call tools that cannot be seen: the members of 'files.*' are known only at run time",
    )


def test_a_sandbox_adds_unknown_tools() -> None:
    """The capabilities of a sandboxed agent create their tools at run time."""
    sandbox: Any = pytest.importorskip("agents.sandbox", reason="this version has no sandboxed agents")
    assert set(extract(sandbox.SandboxAgent(name="a")).by_id["a"].tools) == {"filesystem.*", "shell.*"}


def test_an_unsupported_version_is_refused() -> None:
    """If a private attribute is missing, the error names the version and the remedy."""
    handoff = sdk.handoff(sdk.Agent(name="b"))
    del handoff._agent_ref
    del type(handoff)._agent_ref
    try:
        with pytest.raises(
            InputError, match=r"openai-agents \d+\.\d+.*Handoff.* has no attribute ._agent_ref..*install a version"
        ):
            extract(sdk.Agent(name="a", handoffs=[handoff]))
    finally:
        type(handoff)._agent_ref = None


def test_only_agents_of_the_sdk_are_recognised() -> None:
    """A module of the program with the name of the SDK is not recognised."""
    impostor = type("Agent", (), {"__module__": "agents.billing"})
    assert not openai_agents.recognises(impostor())
    assert openai_agents.recognises(type("Own", (sdk.Agent,), {})(name="a"))


def test_an_agent_has_the_location_of_its_name() -> None:
    """An agent is located at the only call with its name."""
    agent = sdk.Agent(name="written in this file alone")
    metadata = extract(agent).by_id["written in this file alone"].metadata
    assert Path(metadata["file"]) == Path(__file__)
    assert "written in this file alone" in Path(__file__).read_text(encoding="utf-8").splitlines()[metadata["line"] - 1]


def test_extraction_is_deterministic() -> None:
    """Nodes and edges come in the same order, the entry first."""
    assert built("handoffs_in_a_ring").to_dict() == built("handoffs_in_a_ring").to_dict()
    assert built("handoffs_in_a_ring").edges[0].source == START


class Chooser(sdk.models.interface.Model):
    """A model that hands off, calls a tool or answers at random, and records the calling agent."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - no secret
        self.steps: list[str] = []

    async def get_response(self, *_args: Any, **options: Any) -> Any:
        self.steps.append(options["system_instructions"])
        calls = [tool.name for tool in options["tools"]] + [handoff.tool_name for handoff in options["handoffs"]]
        call = self.random.choice([*calls, None, None]) if len(self.steps) < 25 else None
        output = self._call(call) if call else self._answer()
        return sdk.ModelResponse(output=[output], usage=sdk.Usage(), response_id=None)

    def _call(self, name: str) -> Any:
        kind = pytest.importorskip("openai.types.responses").ResponseFunctionToolCall
        return kind(type="function_call", name=name, call_id=f"c{len(self.steps)}", arguments='{"input": "x"}')

    def _answer(self) -> Any:
        types = pytest.importorskip("openai.types.responses")
        text = types.ResponseOutputText(type="output_text", text="done", annotations=[])
        return types.ResponseOutputMessage(
            id="m", type="message", role="assistant", status="completed", content=[text]
        )  # fmt: skip

    def stream_response(self, *_args: Any, **more: Any) -> Any:
        raise NotImplementedError


def random_agents(model: Chooser) -> Any:
    """Agents with random hand-offs and agents as tools; each has a tool."""

    def read(input: str) -> str:  # noqa: A002 - the argument name of all tools here
        return input

    tool = sdk.function_tool(read)
    every = [sdk.Agent(name=f"n{place}", instructions=f"n{place}", model=model) for place in range(5)]
    for place, agent in enumerate(every):
        inner = model.random.sample(every[place + 1 :], 1 if place < 3 else 0)
        agent.tools = [tool, *(other.as_tool(f"use_{other.name}", "uses") for other in inner)]
        agent.handoffs = model.random.sample(every, model.random.randint(0, 2))
    return every[0]


@pytest.mark.parametrize("seed", range(20))
def test_runs_follow_the_edges(seed: int) -> None:
    """With a random model, each change of agent is an edge, and so is the end."""
    model = Chooser(seed)
    first = random_agents(model)
    edges = {(edge.source, edge.target) for edge in extract(first).edges}
    for _ in range(6):
        model.steps.clear()
        asyncio.run(sdk.Runner.run(first, "x", max_turns=60, run_config=sdk.RunConfig(tracing_disabled=True)))
        changes = [pair for pair in itertools.pairwise([START, *model.steps, END]) if pair[0] != pair[1]]
        assert set(changes) <= edges, changes
