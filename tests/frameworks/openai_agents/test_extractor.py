"""The extractor of the OpenAI Agents SDK, on programs with the graph that is expected of each, and against runs."""

from __future__ import annotations

import asyncio
import itertools
import random
from pathlib import Path
from typing import Any

import pytest

from guardagent.errors import InputError
from guardagent.frameworks.openai_agents import extractor as openai_agents
from guardagent.workflow.extraction import extract
from guardagent.workflow.model.graph import END, START, Graph
from tests.frameworks.program_files import Case, cases, conditions, shape, stated

sdk: Any = pytest.importorskip("agents", reason="the OpenAI Agents SDK is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")

CASES: dict[str, Case] = cases("openai_*.py")


@pytest.mark.parametrize("name", CASES)
def test_a_program_gives_the_graph_expected(name: str) -> None:
    """Nodes, kinds, edges with kinds, tools, gates and what is widened are exactly as written down."""
    build, expected = CASES[name]
    graph = extract(build(), name)
    assert shape(graph) == stated(expected)
    assert {key: conditions(graph).get(key) for key in expected.get("conditions", {})} == expected.get("conditions", {})


def built(name: str) -> Graph:
    return extract(CASES[name][0](), name)


def test_guardrails_and_the_type_of_the_output_are_told() -> None:
    """They are no steps: they stand in the metadata, and one that is never checked is said to be."""
    graph = built("guardrails")
    said = graph.by_id["a"].metadata
    assert (said["input_guardrails"], said["output_guardrails"]) == (("on_topic",), ("polite",))
    assert said["output_type"] == "Answer"
    assert graph.notes == ("b: no run begins with it, so that its input guardrails are never checked",)


def test_what_decides_on_an_approval_is_named() -> None:
    """A tool that does not always wait is gated, and its node names the function; a note tells who never asks."""
    graph = built("functions_as_tools")
    assert dict(graph.by_id["a"].metadata["gated_when"]) == {"pay": "is_large"}
    assert graph.notes == ("a: the tool ask_perhaps asks a person under a condition, and so is not gated",)
    (approved,) = built("tools_that_are_approved").notes
    assert approved == "a: apply_patch: its approval is given by a function that is not seen to ask a person each time"


def test_what_is_not_known_is_said() -> None:
    """A hand-off to an agent that cannot be known is told, with what is assumed instead."""
    first, *_ = built("handoff_to_whom_cannot_be_known").notes
    assert first.startswith("a: which agent ask leads to could not be known; one that is called someone is assumed")


def test_sets_of_unknown_tools_are_told() -> None:
    """What is not known of a server stands in the metadata, and in a note."""
    graph = built("mcp_servers")
    assert graph.by_id["a"].metadata["unknown_tools"] == ("files.*",)
    assert graph.notes == ("a: which tools files.* has is known only when the agent runs",)


def test_a_sandbox_gives_tools_that_are_not_known() -> None:
    """The capabilities of a sandboxed agent make their tools when it runs."""
    sandbox: Any = pytest.importorskip("agents.sandbox", reason="this version has no sandboxed agents")
    assert set(extract(sandbox.SandboxAgent(name="a")).by_id["a"].tools) == {"filesystem.*", "shell.*"}


def test_a_version_that_keeps_things_elsewhere_is_refused() -> None:
    """Where an attribute without a public name is gone, the error names the version and what to do."""
    one = sdk.handoff(sdk.Agent(name="b"))
    del one._agent_ref
    del type(one)._agent_ref
    try:
        with pytest.raises(InputError, match=r"openai-agents \d+\.\d+.*Handoff has no _agent_ref.*install a version"):
            extract(sdk.Agent(name="a", handoffs=[one]))
    finally:
        type(one)._agent_ref = None


def test_only_agents_of_the_sdk_are_recognised() -> None:
    """A module of the program's own that is called like the SDK does not make its objects agents."""
    impostor = type("Agent", (), {"__module__": "agents.billing"})
    assert not openai_agents.recognises(impostor())
    assert openai_agents.recognises(type("Own", (sdk.Agent,), {})(name="a"))


def test_an_agent_says_where_its_name_is_written() -> None:
    """Where just one call in the program gives the name, that is the agent's place."""
    one = sdk.Agent(name="written in this file alone")
    said = extract(one).by_id["written in this file alone"].metadata
    assert Path(said["file"]) == Path(__file__)
    assert "written in this file alone" in Path(__file__).read_text(encoding="utf-8").splitlines()[said["line"] - 1]


def test_the_graph_is_the_same_every_time() -> None:
    """Nodes and edges come in the same order, those of the entry first."""
    assert built("handoffs_in_a_ring").to_dict() == built("handoffs_in_a_ring").to_dict()
    assert built("handoffs_in_a_ring").edges[0].source == START


class Chooser(sdk.models.interface.Model):  # type: ignore[misc]
    """A model that hands off, calls a tool or answers, at random, and notes which agent asked it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - no secret
        self.steps: list[str] = []

    async def get_response(self, *_given: Any, **given: Any) -> Any:
        self.steps.append(given["system_instructions"])
        calls = [one.name for one in given["tools"]] + [one.tool_name for one in given["handoffs"]]
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

    def stream_response(self, *given: Any, **more: Any) -> Any:
        raise NotImplementedError


def random_agents(model: Chooser) -> Any:
    """Agents that hand off to each other and have each other as tools, at random; each has a tool."""

    def read(input: str) -> str:  # noqa: A002 - the argument that all tools here take
        return input

    tool = sdk.function_tool(read)
    every = [sdk.Agent(name=f"n{place}", instructions=f"n{place}", model=model) for place in range(5)]
    for place, one in enumerate(every):
        inner = model.random.sample(every[place + 1 :], 1 if place < 3 else 0)
        one.tools = [tool, *(other.as_tool(f"use_{other.name}", "uses") for other in inner)]
        one.handoffs = model.random.sample(every, model.random.randint(0, 2))
    return every[0]


@pytest.mark.parametrize("seed", range(20))
def test_runs_go_along_the_edges(seed: int) -> None:
    """With a model that chooses at random, each change from one agent to another is an edge, and so is the end."""
    model = Chooser(seed)
    first = random_agents(model)
    edges = {(edge.source, edge.target) for edge in extract(first).edges}
    for _ in range(6):
        model.steps.clear()
        asyncio.run(sdk.Runner.run(first, "x", max_turns=60, run_config=sdk.RunConfig(tracing_disabled=True)))
        changes = [pair for pair in itertools.pairwise([START, *model.steps, END]) if pair[0] != pair[1]]
        assert set(changes) <= edges, changes
