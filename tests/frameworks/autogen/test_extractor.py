"""The extractor of AutoGen's agents and teams, on programs with their expected graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from guardagent import load_policies
from guardagent.enforcement import ToolGuard
from guardagent.errors import InputError
from guardagent.frameworks.autogen import extractor as autogen
from guardagent.workflow.extraction import extract
from guardagent.workflow.model.graph import Graph
from tests.frameworks.program_files import PROGRAMS, Case, cases, load, shape, stated

pytest.importorskip("autogen_agentchat", reason="AutoGen AgentChat is not installed")
pytest.importorskip("autogen_ext", reason="AutoGen's extensions are not installed")
pytestmark = pytest.mark.filterwarnings("ignore")

teams: Any = pytest.importorskip("autogen_agentchat.teams")
agents: Any = pytest.importorskip("autogen_agentchat.agents")
CASES: dict[str, Case] = cases("autogen_*.py")


@pytest.mark.parametrize("name", CASES)
def test_a_program_yields_its_expected_graph(name: str) -> None:
    """Nodes, kinds, edges, tools, gates, joins and widened nodes are exactly those expected."""
    build, expected = CASES[name]
    graph = extract(build(), name)
    assert shape(graph) == stated(expected)
    joins = {node.id: list(node.metadata["join"]) for node in graph.nodes if "join" in node.metadata}
    assert joins == expected.get("joins", {})


def test_reference_programs_yield_their_expected_graphs(shared: Path) -> None:
    """The reference programs yield the graphs stated for them."""
    for name, (build, expected) in load(shared / "workflows" / "programs" / "autogen_programs.py").CASES.items():
        graph = extract(build(), name)
        assert shape(graph)["nodes"] == expected["nodes"], name
        assert shape(graph)["tools"] == expected.get("tools", {}), name
        assert {(edge.source, edge.target) for edge in graph.edges} == set(expected["edges"]), name
        conditional = {(edge.source, edge.target) for edge in graph.edges if edge.kind == "conditional"}
        assert set(expected.get("conditional", ())) <= conditional, name


def built(name: str) -> Graph:
    return extract(CASES[name][0](), name)


@pytest.mark.parametrize("name", ["functions_as_tools", "tools_of_a_workbench_under_other_names", "an_agent_as_a_tool"])
def test_a_guard_changes_no_graph_of_an_agent(name: str) -> None:
    """It runs no tool; calls that cannot be seen are those of the program's own tools."""
    from guardagent.frameworks.autogen import guarded

    guard = ToolGuard(load_policies(text="version: 1\npolicies: [{id: a, temporal: 'G !tool:wipe'}]"))
    assert extract(guarded(CASES[name][0](), guard), name) == built(name)


def condition(name: str, source: str, target: str) -> str:
    return next(edge.condition for edge in built(name).edges if (edge.source, edge.target) == (source, target))


def test_termination_conditions_label_the_edges() -> None:
    """Conditions are shown with their parameters and operators."""
    condition_text = condition("round_with_two_conditions", "a", "__end__")
    assert condition_text.startswith(
        "((MaxMessageTermination(max_messages=9) & SourceMatchTermination(sources=['b'])) | Func"
    )
    assert condition("round_with_a_limit_of_turns", "b", "__end__") == "max_turns=4"


def test_edge_conditions_are_labels() -> None:
    """A string to be mentioned, and the source of a function."""
    assert condition("branches_by_texts", "a", "b") == "yes"
    assert condition("branches_by_functions", "a", "b") == "is_long"
    assert condition("branches_by_functions", "a", "c") == "not is_long(m)"


def test_early_stops_of_a_flow_are_noted() -> None:
    """A flow by itself has no edges for early stops; a note names the nodes and the reason."""
    graph = built("branches_by_texts")
    assert any("can also stop early: no condition holds (after a)" in note for note in graph.notes)
    assert graph.by_id["a"].metadata["may_stop"] is True


def test_choices_of_model_and_function_are_distinguished() -> None:
    """Edge conditions name the model or the function."""
    assert condition("selector", "a", "b").startswith("the model chooses it")
    assert condition("selector_with_one_candidate", "a", "b").startswith("the model chooses it")


def test_unknown_values_are_noted() -> None:
    """Notes name the assumed hand-off targets, and the sources of tools known only at run time."""
    assert built("swarm_with_an_agent_of_its_own").notes == (
        "c: its edges are assumed: the hand-off targets of 'c' are unknown; they are assumed to be all participants",
    )
    assert built("only_tools_that_are_known_later").notes == (
        "a: may call tools that cannot be seen: its tools come from a Remote",
    )


def test_a_hand_off_to_an_unknown_target_is_noted() -> None:
    """It ends in an error; a person is assumed because of the name, with a note."""
    graph = built("swarm_that_fails_at_a_hand_off")
    assert "'user' is assumed to be a person because of the name" in graph.notes
    assert graph.by_id["user"].metadata["guess"] is True


def test_the_approver_of_code_is_noted() -> None:
    """A note names the approver if it is not always a person."""
    (by_model,) = built("code_that_a_model_approves").notes
    assert by_model == "the approval function of 'a' asks a model; the code counts as not approved"
    (guess,) = built("code_that_somebody_approves_somewhere").notes
    assert guess.endswith("is assumed to ask a person; its code does not determine it")


def test_a_custom_class_has_the_location_of_its_definition() -> None:
    """File and line are those of the agent's class, or of the function that asks the person."""
    node = built("an_agent_of_its_own").by_id["a"]
    lines = (PROGRAMS / "autogen_agents.py").read_text(encoding="utf-8").splitlines()
    assert lines[node.metadata["line"] - 1] == "class Counter(BaseChatAgent):"
    person = agents.UserProxyAgent("a", input_func=load)
    assert extract(person).by_id["a"].metadata["file"] == str(PROGRAMS.parent / "program_files.py")


def test_extraction_is_deterministic() -> None:
    """Nodes and edges come in the same order, the entry first."""
    assert built("swarm").to_dict() == built("swarm").to_dict()
    assert built("swarm").edges[0].source == "__start__"


def test_a_graph_with_an_unknown_participant_is_refused() -> None:
    """The message suggests the name that was probably meant."""
    flow = CASES["in_a_line"][0]()
    flow._graph.nodes["aa"] = flow._graph.nodes.pop("a")  # AutoGen itself would refuse it later
    with pytest.raises(InputError, match="names 'aa', which is not a participant; did you mean 'a'"):
        extract(flow)


def test_an_unsupported_version_is_refused() -> None:
    """If a private attribute is missing, the error names the version and the remedy."""
    team = CASES["round_without_an_end"][0]()
    del team._participants  # as if this version had none
    with pytest.raises(
        InputError, match=r"autogen-agentchat \d+\.\d+.*has no attribute ._participants..*install a version"
    ):
        extract(team)


def test_other_objects_are_refused() -> None:
    """Other objects are not recognised, and a condition is not a workflow."""
    assert not autogen.recognises(object())
    condition: Any = pytest.importorskip("autogen_agentchat.conditions").MaxMessageTermination(1)
    with pytest.raises(InputError, match="a MaxMessageTermination of AutoGen is not a workflow"):
        extract(condition)


def test_the_programs_are_found() -> None:
    """There are many programs of each kind."""
    assert len(CASES) >= 60
    assert len(list(PROGRAMS.glob("autogen_*.py"))) == 3
