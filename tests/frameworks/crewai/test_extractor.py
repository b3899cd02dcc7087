"""The extractor of CrewAI's crews and flows, on programs with the graph that is expected of each."""

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
def test_a_program_gives_the_graph_expected(name: str) -> None:
    """Nodes, kinds, edges with kinds, tools, gates, joins and what is widened are exactly as written down."""
    build, expected = CASES[name]
    graph = extract(build(), name)
    assert shape(graph) == stated(expected)
    assert joins(graph) == {node: set(before) for node, before in expected.get("joins", {}).items()}
    assert {key: conditions(graph).get(key) for key in expected.get("conditions", {})} == expected.get("conditions", {})


def joins(graph: Graph) -> dict[str, set[str]]:
    return {node.id: set(node.metadata["join"]) for node in graph.nodes if "join" in node.metadata}


def test_the_reference_programs_give_the_graphs_expected(shared: Path) -> None:
    """The programs beside the checkout give what is stated of them."""
    for name, (build, expected) in load(shared / "workflows" / "programs" / "crewai_programs.py").CASES.items():
        graph = extract(build(), name)
        assert shape(graph)["nodes"] == expected["nodes"], name
        assert shape(graph)["tools"] == expected.get("tools", {}), name
        assert {(edge.source, edge.target) for edge in graph.edges} == set(expected["edges"]), name
        assert joins(graph) == {node: set(before) for node, before in expected.get("join", {}).items()}, name


def built(name: str) -> Graph:
    return extract(CASES[name][0](), name)


def test_who_does_the_work_of_a_task_is_said() -> None:
    """The agent, the manager, to whom work can be left, and the tasks whose results it is given."""
    managed = built("a_manager_who_chooses_the_agent").by_id["a"].metadata
    assert (managed["manager"], managed["delegates_to"]) == ("boss", ("x", "y"))
    assert built("a_manager_that_is_made").by_id["a"].metadata["manager"] == "Crew Manager"
    assert built("work_that_can_be_delegated").by_id["b"].metadata["delegates_to"] == ("x",)
    assert built("context_changes_no_order").by_id["c"].metadata["context"] == ("a",)


def test_a_guardrail_is_said() -> None:
    """Why a task is carried out again stands at its edge."""
    edge = next(one for one in built("guardrails_in_words").edges if one.kind == "loop")
    assert edge.condition == "It is short. and It is true. fails, at most 3 times"


def test_what_is_not_known_is_said() -> None:
    """A note tells what is taken to be possible instead."""
    assert built("ARouterThatCannotBeKnown").notes == (
        "what r returns cannot be known: any label is taken to be possible",
    )
    crew, calls = sorted(built("ACrewThatCannotBeKnown").notes, reverse=True)
    assert crew == "which crew a runs cannot be known: verify it by itself"
    assert calls.startswith("a may call tools that cannot be seen")
    assert built("only_tools_of_a_server").notes == (
        "tools of a come from MCP servers: they are known only when it runs",
    )


def test_that_a_listener_runs_once_is_said() -> None:
    """Who waits for any of several starts runs for the first of them only."""
    assert built("TwoStartsAndWhoeverIsFirst").notes == (
        "c runs once for whichever of a, b comes first, and not for the others",
    )


def test_a_method_says_where_it_is_defined_and_what_it_waits_for() -> None:
    """File and line are those of the method; the condition is told as one would write it."""
    node = built("ForkAndJoin").by_id["d"]
    line = (PROGRAMS / "crewai_flows.py").read_text(encoding="utf-8").splitlines()[node.metadata["line"] - 1 :][:2]
    assert "def d(self):" in " ".join(line)
    assert node.metadata["waits_for"] == "and_(b, c)"
    assert built("APersonByFeedback").by_id["a"].metadata["asks_for"] == "well?"


def test_a_flow_that_was_declared_is_read_like_one_of_code() -> None:
    """What YAML says of a flow's steps is what a class would say."""
    told = """
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
        flow = framework.flow.flow.Flow.from_declaration(contents=told)
    except (AttributeError, TypeError, ValueError) as refused:
        pytest.skip(f"this version declares flows otherwise: {refused}")
    graph = extract(flow)
    assert {node.id: node.kind for node in graph.nodes if node.id in "ab"} == {"a": "passthrough", "b": "tool"}


def test_the_graph_is_the_same_every_time() -> None:
    """Nodes and edges come in the same order, those of the entry first."""
    assert built("ACrewInside").to_dict() == built("ACrewInside").to_dict()
    assert built("ForkAndJoin").edges[0].source == "__start__"


def test_a_method_whose_code_is_not_seen_through_is_marked_itself() -> None:
    """The mark stands on the method's own node, and on none of those that its body runs."""
    graph = built("AClassOfACrewInside")
    assert {node.id for node in graph.nodes if node.metadata.get("tools_unknown")} == {"a"}


def test_a_class_without_a_crew_is_refused() -> None:
    """A class with `@CrewBase` that makes no crew has a message that says what was expected."""
    project = pytest.importorskip("crewai.project")
    with pytest.raises(InputError, match="Empty: expected a method `crew` marked with @crew"):
        extract(project.CrewBase(type("Empty", (), {"__module__": __name__, "agents_config": {}, "tasks_config": {}})))


def test_what_is_no_workflow_is_refused() -> None:
    """An object that is nothing of the framework is not recognised; a tool of it is no workflow."""
    assert not crewai.recognises(object())
    tools = pytest.importorskip("crewai.tools")
    with pytest.raises(InputError, match="is no workflow; expected a Crew, a Flow, an Agent or a Task"):
        extract(tools.tool("t")(test_the_programs_are_found))


def test_the_programs_are_found() -> None:
    """There are many of them, of each kind."""
    assert len(CASES) > 50
    assert len(list(PROGRAMS.glob("crewai_*.py"))) == 2
