"""The extractor of LangGraph's graphs, on programs with the graph that is expected of each."""

from __future__ import annotations

from pathlib import Path

import pytest

from guardagent.errors import InputError
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
def test_a_program_gives_the_graph_expected(name: str) -> None:
    """Nodes, kinds, edges with kinds, tools, gates and what is widened are exactly as written down."""
    build, expected = CASES[name]
    graph = extract(build(), name)
    assert kinds(graph) == expected["nodes"]
    assert {(edge.source, edge.target, edge.kind) for edge in graph.edges} == expected["edges"]
    assert lists(graph, "tools") == in_order(expected.get("tools", {}))
    assert lists(graph, "gated_tools") == in_order(expected.get("gated", {}))
    widened = {node.id for node in graph.nodes if node.metadata.get("widened")}
    assert widened == set(expected.get("widened", "").split())


def test_the_reference_programs_give_the_graphs_expected(shared: Path) -> None:
    """The programs beside the checkout give what is stated of them."""
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


def test_what_is_widened_is_said_with_its_reason() -> None:
    """The note names the node, and where in its code the target cannot be known."""
    (note,) = built("target_in_the_state").notes
    assert note.startswith("pick: where it leads to cannot be known (line ")


def test_a_name_is_a_hint_and_no_more() -> None:
    """A node that is called like a person stays what it is; it is marked, and the report says so."""
    graph = built("names_alone")
    assert graph.by_id["human_review"].metadata["guess"] is True
    assert "human_review: its name suggests that a person is asked, but nothing in it asks one" in graph.notes


def test_a_node_says_where_it_is_defined() -> None:
    """File and line are those of the function's definition, so that a finding can be shown there."""
    node = built("question_in_a_helper").by_id["ask"]
    line = Path(node.metadata["file"]).read_text(encoding="utf-8").splitlines()[node.metadata["line"] - 1]
    assert line.strip() == "def ask(state):"


def test_a_join_says_what_it_waits_for() -> None:
    """The sources of a waiting edge are in the metadata of its target."""
    assert [list(one) for one in built("fork_and_join").by_id["d"].metadata["waits_for"]] == [["b", "c"]]


def test_a_path_map_gives_its_keys_as_conditions() -> None:
    """An edge says under which answer it is taken."""
    conditions = {(edge.target, edge.condition) for edge in built("map_with_the_end").edges if edge.source == "ask"}
    assert conditions == {("think", "True"), ("__end__", "False")}


def test_a_person_who_is_asked_now_and_then_is_said_to_be() -> None:
    """A question under a condition is told apart from one that is always asked."""
    sometimes, always = built("question_by_an_exception"), built("question_in_a_helper")
    assert sometimes.by_id["ask"].metadata["asks"] == "sometimes"
    assert "ask: a person is asked there under a condition only" in sometimes.notes
    assert always.by_id["ask"].metadata["asks"] == "always"


def test_middleware_that_asks_about_some_tools_says_which() -> None:
    """Its node stands on the way to all tools; that it asks about some only is in its metadata."""
    node = built("agent_that_asks_about_some_tools").by_id["HumanInTheLoopMiddleware.after_model"]
    assert list(node.metadata["asks_about"]) == ["delete", "mail"]


def test_a_command_for_no_graph_around_is_said() -> None:
    """A graph by itself has no graph around it that its commands could be for."""
    inner = CASES["way_out_by_command_only"][0]().builder.nodes["sub"].runnable
    assert extract(inner, "inner").notes == ("a: its commands are for a graph around this one, and there is none",)


def test_a_graph_that_is_bound_or_retried_is_opened() -> None:
    """A configuration bound to a graph, or a retry around it, does not hide it."""
    graph = CASES["fork_and_join"][0]()
    plain = extract(graph, "same")
    assert extract(graph.with_retry(), "same").to_dict() == plain.to_dict()
    assert extract(graph.with_config({"tags": ["x"]}), "same").to_dict() == plain.to_dict()


def test_the_graph_is_the_same_every_time() -> None:
    """Nodes and edges come in the same order, though LangGraph keeps edges in a set."""
    assert built("commands_in_a_ring").to_dict() == built("commands_in_a_ring").to_dict()
    assert [edge.target for edge in built("fork_and_join").edges] == ["a", "b", "c", "d", "d", "__end__"]


def test_what_is_no_graph_is_refused() -> None:
    """An object of LangGraph that is no graph gives an error that says what was expected."""
    send = pytest.importorskip("langgraph.types").Send
    with pytest.raises(InputError, match=r"a langgraph\.types\.Send is no graph; expected a StateGraph"):
        extract(send("a", {}), "x")
