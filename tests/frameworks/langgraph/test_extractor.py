"""The extractor of LangGraph's graphs, on programs with their expected graphs."""

from __future__ import annotations

from pathlib import Path

import pytest

from guardagent import load_policies, verify
from guardagent.errors import InputError
from guardagent.workflow import graphs_of
from guardagent.workflow.extraction import extract
from guardagent.workflow.model.graph import END, START, Graph
from tests.frameworks.program_files import cases, load

pytest.importorskip("langgraph", reason="LangGraph is not installed")
pytest.importorskip("langchain", reason="LangChain is not installed")

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::PendingDeprecationWarning"),
]


CASES = cases("langgraph_*.py")


@pytest.mark.parametrize("name", CASES)
def test_a_program_yields_its_expected_graph(name: str) -> None:
    """Nodes, kinds, edges, tools, gates and widened nodes are exactly those expected."""
    build, expected = CASES[name]
    graph = extract(build(), name)
    assert kinds(graph) == expected["nodes"]
    assert {(edge.source, edge.target, edge.kind) for edge in graph.edges} == expected["edges"]
    assert lists(graph, "tools") == in_order(expected.get("tools", {}))
    assert lists(graph, "gated_tools") == in_order(expected.get("gated", {}))
    widened = {node.id for node in graph.nodes if node.metadata.get("widened")}
    assert widened == set(expected.get("widened", "").split())


def test_reference_programs_yield_their_expected_graphs(shared: Path) -> None:
    """The reference programs yield the graphs stated for them."""
    programs = load(shared / "workflows" / "programs" / "langgraph_programs.py")
    for name, (build, expected) in programs.CASES.items():
        graph = extract(build(), name)
        assert kinds(graph) == expected["nodes"], name
        assert {(edge.source, edge.target, edge.kind) for edge in graph.edges} == set(expected["edges"]), name
        assert lists(graph, "tools") == in_order(expected.get("tools", {})), name


def in_order(lists: dict[str, list[str]]) -> dict[str, list[str]]:
    return {node: sorted(names) for node, names in lists.items()}


def kinds(graph: Graph) -> dict[str, str]:
    return {node.id: node.kind for node in graph.nodes if node.id not in {START, END}}


def lists(graph: Graph, attribute: str) -> dict[str, list[str]]:
    return {node.id: sorted(getattr(node, attribute)) for node in graph.nodes if getattr(node, attribute)}


def built(name: str) -> Graph:
    return extract(CASES[name][0](), name)


def test_a_widened_node_is_noted_with_its_reason() -> None:
    """The note names the node, and the line of the unknown target."""
    (note,) = built("target_in_the_state").notes
    assert note.startswith("pick: its edges are assumed: line ")


def test_a_name_is_only_a_hint() -> None:
    """A node with a suggestive name keeps its kind; it is marked, with a note."""
    graph = built("names_alone")
    assert graph.by_id["human_review"].metadata["guess"] is True
    assert "human_review: its name suggests a human approval, but its code requests no input" in graph.notes


def test_a_node_has_the_location_of_its_definition() -> None:
    """File and line are those of the function's definition."""
    node = built("question_in_a_helper").by_id["ask"]
    line = Path(node.metadata["file"]).read_text(encoding="utf-8").splitlines()[node.metadata["line"] - 1]
    assert line.strip() == "def ask(state):"


def test_a_join_lists_its_predecessors() -> None:
    """The sources of a waiting edge are in the metadata of its target."""
    assert [list(group) for group in built("fork_and_join").by_id["d"].metadata["waits_for"]] == [["b", "c"]]


def test_the_keys_of_a_path_map_are_conditions() -> None:
    """The condition of an edge is the answer that takes it."""
    conditions = {(edge.target, edge.condition) for edge in built("map_with_the_end").edges if edge.source == "ask"}
    assert conditions == {("think", "True"), ("__end__", "False")}


def test_conditional_questions_are_distinguished() -> None:
    """A conditional question is marked differently from an unconditional one."""
    sometimes, always = built("question_by_an_exception"), built("question_in_a_helper")
    assert sometimes.by_id["ask"].metadata["asks"] == "sometimes"
    assert "ask: it asks a person only under a condition" in sometimes.notes
    assert always.by_id["ask"].metadata["asks"] == "always"


def test_middleware_lists_the_tools_that_it_gates() -> None:
    """Its node precedes all tools; the metadata list those that it asks about."""
    node = built("agent_that_asks_about_some_tools").by_id["HumanInTheLoopMiddleware.after_model"]
    assert list(node.metadata["asks_about"]) == ["delete", "mail"]


def test_a_command_without_a_parent_graph_is_noted() -> None:
    """A graph by itself has no parent for its commands."""
    inner = CASES["way_out_by_command_only"][0]().builder.nodes["sub"].runnable
    assert extract(inner, "inner").notes == ("a: its commands address a parent graph, but this graph has no parent",)


def test_a_bound_or_retried_graph_is_opened() -> None:
    """A configuration bound to a graph, or a retry around it, does not hide it."""
    graph = CASES["fork_and_join"][0]()
    plain = extract(graph, "same")
    assert extract(graph.with_retry(), "same").to_dict() == plain.to_dict()
    assert extract(graph.with_config({"tags": ["x"]}), "same").to_dict() == plain.to_dict()


def test_extraction_is_deterministic() -> None:
    """Nodes and edges come in the same order, though LangGraph keeps edges in a set."""
    assert built("commands_in_a_ring").to_dict() == built("commands_in_a_ring").to_dict()
    assert [edge.target for edge in built("fork_and_join").edges] == ["a", "b", "c", "d", "d", "__end__"]


def test_objects_that_are_not_graphs_are_refused() -> None:
    """The error for an object of LangGraph that is not a graph states what was expected."""
    send = pytest.importorskip("langgraph.types").Send
    with pytest.raises(InputError, match=r"a langgraph\.types\.Send is not a graph; expected a StateGraph"):
        extract(send("a", {}), "x")


GUARDED = """
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from guardagent import load_policies
from guardagent.enforcement import ToolGuard
from guardagent.frameworks.langgraph import GuardMiddleware, guarded_answer_node, guarded_tool_node, unless_stopped

@tool
def mail(to: str) -> str:
    "Sends."
    return "sent"

@tool
def wipe(to: str) -> str:
    "Wipes."
    return "wiped"

class Wiper(AgentMiddleware):
    async def awrap_tool_call(self, request, handler):
        wipe.invoke({"to": "x"})
        return await handler(request)

def model(state: MessagesState):
    return {"messages": []}

def by_hand(answer, tools, after_tools):
    graph = StateGraph(MessagesState)
    graph.add_node("model", model)
    graph.add_node("tools", tools)
    graph.add_node("answer", answer)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition, {"tools": "tools", END: "answer"})
    graph.add_conditional_edges("tools", after_tools)
    graph.add_edge("answer", END)
    return graph.compile()

guard = ToolGuard(load_policies(text=POLICY))
agent = create_agent(FakeListChatModel(responses=[]), [mail], middleware=[GuardMiddleware(guard)])
past = create_agent(FakeListChatModel(responses=[]), [mail], middleware=[Wiper(), GuardMiddleware(guard)])
nodes = by_hand(guarded_answer_node(guard), guarded_tool_node(guard, [mail]), unless_stopped("model"))
mixed = by_hand(guarded_answer_node(guard), ToolNode([mail]), unless_stopped("model"))
"""
POLICY = """
version: 1
policies:
  - {id: never, temporal: "forall(mail(to=name), false)", on_violation: escalate}
  - {id: warned, temporal: "G !tool:mail", on_violation: warn}
  - {id: no_wipe, temporal: "G !tool:wipe"}
"""


@pytest.mark.parametrize(
    ("name", "statuses"),
    [
        ("agent", ["undecidable", "violated", "proved"]),
        ("nodes", ["undecidable", "violated", "proved"]),
        ("mixed", ["violated", "violated", "proved"]),
        ("past", ["violated", "violated", "violated"]),
    ],
)
def test_a_guard_calls_no_tools_and_judges_those_of_its_node(tmp_path: Path, name: str, statuses: list[str]) -> None:
    """The source and the object give one graph; a rule is left to the guard if no call can pass it by."""
    file = tmp_path / "program.py"
    file.write_text(f"POLICY = {POLICY!r}\n{GUARDED}")
    policies = load_policies(text=POLICY)
    read = verify(next(flow.graph for flow in graphs_of(file).workflows if flow.name.endswith(name)), policies)
    live = verify(getattr(load(file), name), policies, sensitive_tools=["mail"])
    assert (read.graph.nodes, read.graph.edges) == (live.graph.nodes, live.graph.edges)
    assert [rule.status for rule in read.rules] == [rule.status for rule in live.rules] == statuses
    assert read.rules[2].every_run.status == statuses[2]
    assert not read.unknown
    assert not live.passed
    assert "violate 'never', which the graph cannot prove" in live.findings[0].message
