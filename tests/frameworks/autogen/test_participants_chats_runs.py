"""Runs of random programs of AG2 compared with their graphs, read from source: every turn is an edge."""
# mypy: disable-error-code="misc,name-defined,no-untyped-def"

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import pytest

from guardagent.workflow.model.graph import END, START, Graph
from guardagent.workflow.python_source.source_graphs import graph_of_source

autogen: Any = pytest.importorskip("autogen", reason="AG2 is not installed")
io: Any = pytest.importorskip("autogen.io", reason="AG2 is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")

HEAD = """
from autogen import AssistantAgent, ConversableAgent, GroupChat, GroupChatManager, UserProxyAgent, register_function
CALLED = []
def t0() -> str:
    CALLED.append("t0")
    return "ok"
def t1() -> str:
    CALLED.append("t1")
    return "ok"
def stops(message) -> bool:
    return "STOP" in (message.get("content") or "")
MODEL = {"config_list": [{"model": "m", "api_key": "k"}]}
"""
AGENTS = (
    "AssistantAgent({name!r}, llm_config=MODEL)",
    "AssistantAgent({name!r}, llm_config=MODEL, max_consecutive_auto_reply=2)",
    "ConversableAgent({name!r}, llm_config=MODEL, is_termination_msg=stops, human_input_mode='NEVER')",
    "UserProxyAgent({name!r}, human_input_mode='NEVER', code_execution_config=False, max_consecutive_auto_reply=2)",
    "UserProxyAgent({name!r}, human_input_mode='ALWAYS', code_execution_config=False)",
    "UserProxyAgent({name!r}, human_input_mode='TERMINATE', code_execution_config=False, max_consecutive_auto_reply=1)",
)
WORDS = ("yes", "no", "TERMINATE", "please STOP")


class Person(io.IOStream):
    """A person at the terminal who answers at random."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def print(self, *_objects: Any, **_more: Any) -> None:
        pass

    def send(self, _message: Any) -> None:
        pass

    def input(self, _prompt: str = "", *, password: bool = False) -> str:
        return self.chance.choice(["", "exit", "go on"])


def program(chance: random.Random) -> str:
    """A random program: agents, tools, and one conversation in `go()`."""
    made = {f"n{number}": chance.choice(AGENTS) for number in range(chance.randint(2, 4))}
    names, callers = list(made), [name for name, text in made.items() if "MODEL" in text]
    lines = [f"{name} = {text.format(name=name)}" for name, text in made.items()]
    for tool in ("t0", "t1") if callers else ():
        if chance.random() < 0.6:
            caller = chance.choice(callers)
            executor = chance.choice([name for name in names if name != caller])
            lines.append(f'register_function({tool}, caller={caller}, executor={executor}, description="d")')
    return HEAD + "\n".join([*lines, *chance.choice((pair, queue, group, group))(chance, names)])


def limits(chance: random.Random) -> str:
    return chance.choice(["", ", max_turns=1", ", max_turns=3"])


def pair(chance: random.Random, names: list[str]) -> list[str]:
    first, second = chance.sample(names, 2)
    return ["def go():", f'    {first}.initiate_chat({second}, message="x"{limits(chance)})']


def queue(chance: random.Random, names: list[str]) -> list[str]:
    first, *others = chance.sample(names, len(names))
    chats = [
        f'{{"recipient": {recipient}, "message": "x", "max_turns": {chance.randint(1, 2)}}}' for recipient in others
    ]
    return ["def go():", f"    {first}.initiate_chats([{', '.join(chats)}])"]


def group(chance: random.Random, names: list[str]) -> list[str]:
    method = chance.choice(['"round_robin"', '"random"', "pick"])
    inside = chance.sample(names, chance.randint(2, len(names)))
    repeats = chance.choice(["", ", allow_repeat_speaker=False"])
    listed = ", ".join(inside)
    moves = "\n".join(f"    if last is {name}:\n        return {chance.choice(inside)}" for name in names)
    if chance.random() < 0.3 and method == '"random"':
        allowed = ", ".join(f"{speaker}: [{', '.join(chance.sample(inside, 2))}]" for speaker in inside)
        repeats = f', allowed_or_disallowed_speaker_transitions={{{allowed}}}, speaker_transitions_type="allowed"'
    limit = f"max_round={chance.randint(2, 8)}"
    return [
        f"def pick(last, chat):\n{moves}\n    return {chance.choice(inside)}",
        f"chat = GroupChat([{listed}], messages=[], {limit}, speaker_selection_method={method}{repeats})",
        "manager = GroupChatManager(groupchat=chat, llm_config=False)",
        "def go():", f'    {chance.choice(names)}.initiate_chat(manager, message="x")',
    ]  # fmt: skip


def play(text: str, chance: random.Random) -> tuple[list[str], list[str]]:
    """Runs a program: its speakers in order, and the tools called."""
    space: dict[str, Any] = {}
    exec(text, space)  # noqa: S102 - a program of this test
    spoke: list[str] = []

    def sent(sender: Any, message: Any, recipient: Any, silent: bool) -> Any:
        spoke.append(sender.name)
        return message

    agents = [agent for agent in space.values() if isinstance(agent, autogen.ConversableAgent)]
    for agent in agents:
        agent.replace_reply_func(autogen.ConversableAgent.generate_oai_reply, scripted(agent, chance))
        if not isinstance(agent, autogen.GroupChatManager):
            agent.register_hook("process_message_before_send", sent)
    with io.IOStream.set_default(Person(chance)):
        space["go"]()
    return spoke, space["CALLED"]


def scripted(agent: Any, chance: random.Random) -> Any:
    proposed = [tool["function"]["name"] for tool in (agent.llm_config or {}).get("tools", [])]

    def answer(*_arguments: Any, **_more: Any) -> tuple[bool, Any]:
        if not agent.llm_config or isinstance(agent.llm_config, bool):
            return False, None
        if proposed and chance.random() < 0.5:
            call = {"id": "1", "type": "function", "function": {"name": chance.choice(proposed), "arguments": "{}"}}
            return True, {"content": None, "tool_calls": [call]}
        return True, chance.choice(WORDS)

    return answer


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200))
def test_chats_run_along_their_edges(seed: int, tmp_path: Path) -> None:
    """The order of the speakers is a path from start to end, and the tools belong to its nodes."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    text = program(chance)
    path = tmp_path / "program.py"
    path.write_text(text)
    graph = graph_of_source(path)
    for _ in range(3):
        try:
            spoke, called = play(text, chance)
        except ValueError:  # AG2 refuses a call of a tool that nobody in the group executes
            continue
        assert is_run(graph, text, spoke), (text, spoke)
        assert set(called) <= {tool for name in spoke for tool in graph.by_id[name].tools}


def is_run(graph: Graph, text: str, spoke: list[str]) -> bool:
    """Whether a run is a path; a person who ends a chat has no message of their own."""
    edges = {(edge.source, edge.target) for edge in graph.edges}
    people = {
        line.partition(" = ")[0] for line in text.splitlines() if " = UserProxyAgent(" in line and "NEVER" not in line
    }
    silent = {
        (a, b) for (a, person), (other, b) in itertools.product(edges, edges) if person == other and person in people
    }
    stops = {node.id for node in graph.nodes if node.metadata.get("may_stop")}
    steps = {*itertools.pairwise([START, *spoke]), (spoke[-1], END)}
    return steps <= edges | silent | {(stop, stop) for stop in stops} | {(stop, END) for stop in stops}
