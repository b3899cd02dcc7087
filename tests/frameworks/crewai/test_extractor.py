"""The extractor of CrewAI's crews and flows, on programs with their expected graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from guardagent.errors import InputError
from guardagent.frameworks.crewai import extractor as crewai
from guardagent.workflow.extraction import extract
from guardagent.workflow.model.graph import Graph
from tests.frameworks.program_files import PROGRAMS, Case, cases, conditions, load, shape, stated

framework: Any = pytest.importorskip("crewai", reason="CrewAI is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")

CASES: dict[str, Case] = cases("crewai_*.py")


@pytest.mark.parametrize("name", CASES)
def test_a_program_yields_its_expected_graph(name: str) -> None:
    """Nodes, kinds, edges, tools, gates, joins and widened nodes are exactly those expected."""
    build, expected = CASES[name]
    graph = extract(build(), name)
    assert shape(graph) == stated(expected)
    assert joins(graph) == {node: set(before) for node, before in expected.get("joins", {}).items()}
    assert {key: conditions(graph).get(key) for key in expected.get("conditions", {})} == expected.get("conditions", {})


def joins(graph: Graph) -> dict[str, set[str]]:
    return {node.id: set(node.metadata["join"]) for node in graph.nodes if "join" in node.metadata}


def test_reference_programs_yield_their_expected_graphs(shared: Path) -> None:
    """The reference programs yield the graphs stated for them."""
    for name, (build, expected) in load(shared / "workflows" / "programs" / "crewai_programs.py").CASES.items():
        graph = extract(build(), name)
        assert shape(graph)["nodes"] == expected["nodes"], name
        assert shape(graph)["tools"] == expected.get("tools", {}), name
        assert {(edge.source, edge.target) for edge in graph.edges} == set(expected["edges"]), name
        assert joins(graph) == {node: set(before) for node, before in expected.get("join", {}).items()}, name


def built(name: str) -> Graph:
    return extract(CASES[name][0](), name)


def test_the_agents_of_a_task_are_in_its_metadata() -> None:
    """The metadata name the agent, the manager, the possible delegates, and the context tasks."""
    managed = built("a_manager_who_chooses_the_agent").by_id["a"].metadata
    assert (managed["manager"], managed["delegates_to"]) == ("boss", ("x", "y"))
    assert built("a_manager_that_is_made").by_id["a"].metadata["manager"] == "Crew Manager"
    assert built("work_that_can_be_delegated").by_id["b"].metadata["delegates_to"] == ("x",)
    assert built("context_changes_no_order").by_id["c"].metadata["context"] == ("a",)


def test_a_guardrail_is_an_edge_condition() -> None:
    """The edge back names the guardrail."""
    edge = next(edge for edge in built("guardrails_in_words").edges if edge.kind == "loop")
    assert edge.condition == "It is short. and It is true. fails, at most 3 times"


def test_unknown_values_are_noted() -> None:
    """A note names the assumption."""
    assert built("ARouterThatCannotBeKnown").notes == (
        "r: its edges are assumed: the result of 'r' is unknown; any label is assumed",
    )
    calls, _ = built("ACrewThatCannotBeKnown").notes
    assert calls.startswith("a: may call tools that cannot be seen: the crew that 'a' runs is unknown")
    assert built("only_tools_of_a_server").notes == (
        "a: may call tools that cannot be seen: its tools come from MCP servers",
    )


def test_listeners_that_run_once_are_noted() -> None:
    """A listener for any of several starts runs for the first only."""
    assert built("TwoStartsAndWhoeverIsFirst").notes == ("'c' runs once, for the first of 'a', 'b' only",)


def test_a_method_has_its_location_and_condition() -> None:
    """File and line are those of the method; the condition is shown as source."""
    node = built("ForkAndJoin").by_id["d"]
    line = (PROGRAMS / "crewai_flows.py").read_text(encoding="utf-8").splitlines()[node.metadata["line"] - 1 :][:2]
    assert "def d(self):" in " ".join(line)
    assert node.metadata["waits_for"] == "and_(b, c)"
    assert built("APersonByFeedback").by_id["a"].metadata["asks_for"] == "well?"


def test_a_declared_flow_is_read_like_code() -> None:
    """A flow declared in YAML yields the same graph as a class."""
    definition = """
        schema: crewai.flow/v1
        name: told
        methods:
          a: {do: {call: expression, expr: "1"}, start: true}
          b:
            listen: a
            do:
              call: agent
              with: {role: clerk, goal: g, backstory: b, tools: [crewai_tools:FileReadTool], input: x}
    """
    try:
        flow = framework.flow.flow.Flow.from_declaration(contents=definition)
    except (AttributeError, TypeError, ValueError) as refused:
        pytest.skip(f"this version declares flows otherwise: {refused}")
    graph = extract(flow)
    assert {node.id: node.kind for node in graph.nodes if node.id in "ab"} == {"a": "passthrough", "b": "tool"}


def test_extraction_is_deterministic() -> None:
    """Nodes and edges come in the same order, the entry first."""
    assert built("ACrewInside").to_dict() == built("ACrewInside").to_dict()
    assert built("ForkAndJoin").edges[0].source == "__start__"


def test_unseen_calls_mark_the_node_of_the_method() -> None:
    """Only the method's own node is marked, not those that its body runs."""
    graph = built("AClassOfACrewInside")
    assert {node.id for node in graph.nodes if node.metadata.get("tools_unknown")} == {"a"}


def test_a_class_without_a_crew_is_refused() -> None:
    """The message for a class with `@CrewBase` but no crew states what was expected."""
    project = pytest.importorskip("crewai.project")
    with pytest.raises(InputError, match="Empty: expected a method 'crew' with the decorator '@crew'"):
        extract(project.CrewBase(type("Empty", (), {"__module__": __name__, "agents_config": {}, "tasks_config": {}})))


def test_other_objects_are_refused() -> None:
    """Other objects are not recognised, and a tool is not a workflow."""
    assert not crewai.recognises(object())
    tools = pytest.importorskip("crewai.tools")
    with pytest.raises(InputError, match="is not a workflow; expected a Crew, a Flow, an Agent or a Task"):
        extract(tools.tool("t")(test_the_programs_are_found))


def test_the_programs_are_found() -> None:
    """There are many programs of each kind."""
    assert len(CASES) > 50
    assert len(list(PROGRAMS.glob("crewai_*.py"))) == 2
