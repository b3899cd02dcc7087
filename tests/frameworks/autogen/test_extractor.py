"""The extractor of AutoGen's agents and teams, on programs with the graph that is expected of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

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
def test_a_program_gives_the_graph_expected(name: str) -> None:
    """Nodes, kinds, edges with kinds, tools, gates, joins and what is widened are exactly as written down."""
    build, expected = CASES[name]
    graph = extract(build(), name)
    assert shape(graph) == stated(expected)
    joins = {node.id: list(node.metadata["join"]) for node in graph.nodes if "join" in node.metadata}
    assert joins == expected.get("joins", {})


def test_the_reference_programs_give_the_graphs_expected(shared: Path) -> None:
    """The programs beside the checkout give what is stated of them."""
    for name, (build, expected) in load(shared / "workflows" / "programs" / "autogen_programs.py").CASES.items():
        graph = extract(build(), name)
        assert shape(graph)["nodes"] == expected["nodes"], name
        assert shape(graph)["tools"] == expected.get("tools", {}), name
        assert {(edge.source, edge.target) for edge in graph.edges} == set(expected["edges"]), name
        conditional = {(edge.source, edge.target) for edge in graph.edges if edge.kind == "conditional"}
        assert set(expected.get("conditional", ())) <= conditional, name


def built(name: str) -> Graph:
    return extract(CASES[name][0](), name)


def condition(name: str, source: str, target: str) -> str:
    return next(edge.condition for edge in built(name).edges if (edge.source, edge.target) == (source, target))


def test_why_a_team_stops_is_said() -> None:
    """Conditions are told with what they look for, and how they are combined."""
    said = condition("round_with_two_conditions", "a", "__end__")
    assert said.startswith("((MaxMessageTermination(max_messages=9) & SourceMatchTermination(sources=['b'])) | Func")
    assert condition("round_with_a_limit_of_turns", "b", "__end__") == "max_turns=4"


def test_the_condition_of_an_edge_is_said() -> None:
    """A text that has to be mentioned, and a function as it is written."""
    assert condition("branches_by_texts", "a", "b") == "yes"
    assert condition("branches_by_functions", "a", "b") == "is_long"
    assert condition("branches_by_functions", "a", "c") == "not is_long(m)"


def test_early_stops_of_a_flow_are_said() -> None:
    """They are no edges of a flow by itself: a note tells after whom it may stop, and why."""
    graph = built("branches_by_texts")
    assert any("can also stop early: no condition holds (after a)" in note for note in graph.notes)
    assert graph.by_id["a"].metadata["may_stop"] is True


def test_who_chooses_the_next_speaker_is_said() -> None:
    """The model's choices are told from those of a function."""
    assert condition("selector", "a", "b").startswith("the model chooses it")
    assert condition("selector_with_one_candidate", "a", "b").startswith("the model chooses it")


def test_what_is_not_known_is_said() -> None:
    """A note tells whom a hand-off leads to, and where tools come from that are known only later."""
    assert built("swarm_with_an_agent_of_its_own").notes == (
        "to whom c hands off cannot be known: it is taken to be everybody",
    )
    assert built("only_tools_that_are_known_later").notes == (
        "the tools that a gets from a Remote are known only when it runs",
    )


def test_a_hand_off_to_nobody_is_said() -> None:
    """It ends in an error; a person is guessed from the name, and said to be a guess."""
    graph = built("swarm_that_fails_at_a_hand_off")
    assert "that 'user' is a person is a guess from the name" in graph.notes
    assert graph.by_id["user"].metadata["guess"] is True


def test_who_approves_code_is_said() -> None:
    """Of an approval that is no person's each time, a note says whose it is."""
    (by_model,) = built("code_that_a_model_approves").notes
    assert by_model == "the approval function of a asks a model: its code counts as not approved"
    (guess,) = built("code_that_somebody_approves_somewhere").notes
    assert guess.endswith("is a guess: its code does not tell")


def test_a_class_of_the_program_says_where_it_is_defined() -> None:
    """File and line are those of the agent's class, or of the function that asks the person."""
    node = built("an_agent_of_its_own").by_id["a"]
    lines = (PROGRAMS / "autogen_agents.py").read_text(encoding="utf-8").splitlines()
    assert lines[node.metadata["line"] - 1] == "class Counter(BaseChatAgent):"
    person = agents.UserProxyAgent("a", input_func=load)
    assert extract(person).by_id["a"].metadata["file"] == str(PROGRAMS.parent / "program_files.py")


def test_the_graph_is_the_same_every_time() -> None:
    """Nodes and edges come in the same order, those of the entry first."""
    assert built("swarm").to_dict() == built("swarm").to_dict()
    assert built("swarm").edges[0].source == "__start__"


def test_a_graph_that_names_nobody_is_refused() -> None:
    """A flow's graph whose node is no participant has a message with the name that was meant."""
    flow = CASES["in_a_line"][0]()
    flow._graph.nodes["aa"] = flow._graph.nodes.pop("a")  # AutoGen itself would refuse it later
    with pytest.raises(InputError, match="names 'aa', who is no participant; did you mean 'a'"):
        extract(flow)


def test_a_version_that_keeps_things_elsewhere_is_refused() -> None:
    """Where an attribute without a public name is gone, the error names the version and what to do."""
    team = CASES["round_without_an_end"][0]()
    del team._participants  # as if this version had none
    with pytest.raises(InputError, match=r"autogen-agentchat \d+\.\d+.*has no _participants.*install a version"):
        extract(team)


def test_what_is_no_workflow_is_refused() -> None:
    """An object that is nothing of the framework is not recognised; a condition of it is no workflow."""
    assert not autogen.recognises(object())
    condition: Any = pytest.importorskip("autogen_agentchat.conditions").MaxMessageTermination(1)
    with pytest.raises(InputError, match="a MaxMessageTermination of AutoGen is no workflow"):
        extract(condition)


def test_the_programs_are_found() -> None:
    """There are many of them, of each kind."""
    assert len(CASES) >= 60
    assert len(list(PROGRAMS.glob("autogen_*.py"))) == 3
