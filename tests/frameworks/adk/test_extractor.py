"""The extractor of Google ADK's agents and workflows, on programs with their expected graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from guardagent.errors import InputError
from guardagent.frameworks.adk import extractor as adk
from guardagent.workflow.extraction import extract
from guardagent.workflow.model.graph import Graph
from tests.frameworks.program_files import PROGRAMS, Case, cases, conditions, load, shape, stated

pytest.importorskip("google.adk", reason="Google ADK is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")

CASES: dict[str, Case] = cases("adk_*.py")


@pytest.mark.parametrize("name", CASES)
def test_a_program_yields_its_expected_graph(name: str) -> None:
    """Nodes, kinds, edges, tools, gates and widened nodes are exactly those expected."""
    build, expected = CASES[name]
    graph = extract(build(), name)
    assert shape(graph) == stated(expected)
    assert {key: conditions(graph).get(key) for key in expected.get("conditions", {})} == expected.get("conditions", {})


def test_reference_programs_yield_their_expected_graphs(shared: Path) -> None:
    """The reference programs yield the graphs stated for them."""
    for name, (build, expected) in load(shared / "workflows" / "programs" / "adk_programs.py").CASES.items():
        actual = shape(extract(build(), name))
        assert actual["nodes"] == expected["nodes"], name
        assert {edge[:2] for edge in actual["edges"]} == set(expected["edges"]), name
        assert actual["tools"] == expected.get("tools", {}), name
        gates = [tool for tools in actual["gated"].values() for tool in tools]
        assert gates == expected.get("gates", {}).get("tool", []), name
        for edge, condition in expected.get("conditions", {}).items():
            assert conditions(extract(build(), name))[edge] == condition, name


def built(name: str) -> Graph:
    return extract(CASES[name][0](), name)


def test_an_unknown_agent_is_noted_with_its_reason() -> None:
    """A note names the node, the line of its code, and what is assumed instead."""
    (note,) = built("agents_that_run_together").notes
    assert note.startswith("own: its edges are assumed: line ")
    assert note.endswith("any agent that it holds is assumed to follow at any time")


def test_an_unknown_route_is_noted() -> None:
    """The note gives the reason for the edge to the end."""
    assert built("route_that_cannot_be_known").notes == (
        "echo: its edges are assumed: not all its routes are known; if no edge matches the route, the branch ends",
    )


def test_a_loop_without_an_exit_is_noted() -> None:
    """A loop without a visible end has no exit, and a note names what is missing."""
    graph = built("loop_without_an_end")
    assert graph.notes == ("for_ever: the loop has no max_iterations, and nothing in it is seen to escalate",)
    assert not any(edge.target == "__end__" for edge in graph.edges)


def test_conditional_questions_are_distinguished() -> None:
    """A conditional question is marked differently from an unconditional one."""
    sometimes = built("question_in_a_helper")
    assert sometimes.by_id["asks_by_a_helper"].metadata["asks"] == "sometimes"
    assert sometimes.notes == ("asks_by_a_helper: it asks a person only under a condition",)
    assert built("person_who_routes").by_id["approve"].metadata["asks"] == "always"


def test_a_function_that_decides_on_a_gate_is_named() -> None:
    """A conditionally approved tool is gated, and its node names the function that decides."""
    assert dict(built("confirmation_by_a_function").by_id["a"].metadata["gated_when"]) == {"mail": "is_large"}
    assert built("nodes_that_need_a_confirmation").by_id["two"].metadata["asked_when"] == "is_risky"


def test_tools_that_resemble_gates_are_noted() -> None:
    """A note explains why a tool that asks conditionally, or acts before the answer, is not a gate."""
    (sometimes,) = built("confirmation_asked_under_a_condition").notes
    assert sometimes == "a: the tool 'pay_much' asks a person only under a condition; it is not gated"
    (acts,) = built("long_running_tool_that_acts").notes
    assert acts.endswith("acts before it is answered; it does not count as an approval")


def test_a_node_has_the_location_of_its_definition() -> None:
    """File and line are those of the function's definition."""
    node = built("routes").by_id["grade"]
    line = Path(node.metadata["file"]).read_text(encoding="utf-8").splitlines()[node.metadata["line"] - 1]
    assert line == "def grade(node_input: str):"


def test_an_agent_has_the_location_of_its_name() -> None:
    """An agent is located at the only call with its name; one with a computed name has no location."""
    metadata = built("agent_that_is_written_out").by_id["the_only_one_of_this_name"].metadata
    lines = (PROGRAMS / "adk_agents.py").read_text(encoding="utf-8").splitlines()
    assert lines[metadata["line"] - 1].startswith("NAMED = LlmAgent(")
    assert "line" not in built("one_agent").by_id["a"].metadata


def test_a_join_lists_its_predecessors() -> None:
    """The nodes before a join, and those before what follows a parallel agent, are in the metadata."""
    joins = [node.metadata.get("join") for node in built("fork_and_join").nodes]
    assert [join for join in joins if join] == [("one", "two")]
    nested = built("workflows_side_by_side").by_id["join"]
    assert nested.metadata["join"] == ("two", "b/two")


def test_unknown_toolsets_are_reported() -> None:
    """Unknown tools of a toolset are in the metadata and in a note."""
    graph = built("set_of_tools")
    assert graph.by_id["a"].metadata["unknown_tools"] == ("box_Set.*",)
    assert graph.notes == (
        "a: may call tools that cannot be seen: the members of 'box_Set.*' are known only at run time",
    )


def test_extraction_is_deterministic() -> None:
    """Nodes and edges come in the same order, the entry first."""
    assert built("transfers_inside_a_row").to_dict() == built("transfers_inside_a_row").to_dict()
    assert built("transfers_inside_a_row").edges[0].source == "__start__"


def test_an_mcp_server_is_known_by_its_filter() -> None:
    """The tools of a server are those that its filter names, with its prefix; a confirmation gates them all."""
    stdio = pytest.importorskip("mcp", reason="MCP is not installed").StdioServerParameters
    kinds = pytest.importorskip("google.adk.tools.mcp_tool")
    where = kinds.StdioConnectionParams(server_params=stdio(command="no-such-command"))
    agent: Any = pytest.importorskip("google.adk.agents").LlmAgent
    some = kinds.McpToolset(
        connection_params=where, tool_filter=["read"], tool_name_prefix="fs", require_confirmation=True
    )
    node = extract(agent(name="a", tools=[some, kinds.McpToolset(connection_params=where)])).by_id["a"]
    assert (node.tools, node.gated_tools) == (("fs_read", "McpToolset.*"), ("fs_read",))


def test_the_graph_of_another_framework_inside_an_agent_is_inserted() -> None:
    """An agent that wraps a LangGraph becomes that graph."""
    langgraph = pytest.importorskip("langgraph.graph", reason="LangGraph is not installed")
    agents = pytest.importorskip("google.adk.agents")
    around = pytest.importorskip("google.adk.agents.langgraph_agent").LangGraphAgent
    inner = langgraph.StateGraph(dict)
    inner.add_node("one", lambda state: state)
    inner.add_edge(langgraph.START, "one")
    inner.add_edge("one", langgraph.END)
    parts = [around(name="inside", graph=inner.compile()), agents.LlmAgent(name="a", model="m")]
    graph = extract(agents.SequentialAgent(name="s", sub_agents=parts))
    assert [(edge.source, edge.target) for edge in graph.edges] == [
        ("__start__", "one"),
        ("one", "a"),
        ("a", "__end__"),
    ]


def test_a_remote_agent_is_a_model_step() -> None:
    """A remote agent is a model step with its class in the metadata."""
    pytest.importorskip("a2a", reason="A2A is not installed")
    remote = pytest.importorskip("google.adk.agents.remote_a2a_agent").RemoteA2aAgent
    agent: Any = pytest.importorskip("google.adk.agents").LlmAgent
    far = remote(name="far", agent_card="https://agents.example/card.json")
    graph = extract(agent(name="root", sub_agents=[far]))
    assert (graph.by_id["far"].kind, graph.by_id["far"].metadata["runs_as"]) == ("llm", "RemoteA2aAgent")


def test_an_unsupported_version_is_refused() -> None:
    """If a private attribute is missing, the error names the version and the remedy."""
    tools: Any = pytest.importorskip("google.adk.tools")
    agent: Any = pytest.importorskip("google.adk.agents").LlmAgent
    changed = tools.FunctionTool(len)
    del changed._require_confirmation
    with pytest.raises(
        InputError,
        match=r"google-adk \d+\.\d+.*FunctionTool.* has no attribute ._require_confirmation..*install a version",
    ):
        extract(agent(name="a", tools=[changed]))


def test_an_app_without_an_agent_is_refused() -> None:
    """Other objects are not recognised, and a tool is not a workflow."""
    assert not adk.recognises(object())
    tool = pytest.importorskip("google.adk.tools").FunctionTool(len)
    with pytest.raises(InputError, match="is not a workflow"):
        extract(tool)


def test_the_programs_are_found() -> None:
    """There are many programs of each kind."""
    assert len(CASES) > 90
    assert len(list(PROGRAMS.glob("adk_*.py"))) == 4
