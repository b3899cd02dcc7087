"""Random teams of AutoGen AgentChat as source text, in the ways in which people write them."""

from __future__ import annotations

import random

TOOLS = ("search", "mail", "pay", "log")
HEAD = '''
import random

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import HandoffTermination, MaxMessageTermination, TextMentionTermination
from autogen_agentchat.teams import DiGraphBuilder, GraphFlow, RoundRobinGroupChat, SelectorGroupChat, Swarm
from autogen_core import FunctionCall
from autogen_core.models import CreateResult, RequestUsage
from autogen_core.tools import FunctionTool
from autogen_ext.models.replay import ReplayChatCompletionClient

RAN = []
NAMES = [f"n{number}" for number in range(6)]
INFO = {"vision": False, "function_calling": True, "json_output": True, "family": "unknown", "structured_output": True}


class Model(ReplayChatCompletionClient):
    """A model that calls any tool that it is offered, or answers."""

    def __init__(self, answers):
        super().__init__([], model_info=INFO)
        self.answers = answers

    async def create(self, messages, *, tools=(), **more):
        names = [one["name"] if isinstance(one, dict) else one.name for one in tools]
        content = random.choice(self.answers)
        if names and random.random() < 0.6:
            content = [FunctionCall(id=str(random.random()), name=random.choice(names), arguments="{}")]
        return CreateResult(
            finish_reason="stop", content=content, cached=False,
            usage=RequestUsage(prompt_tokens=0, completion_tokens=0),
        )


model = Model(["yes", "no", "maybe", "yes STOP"])
chooser = Model(NAMES)


def done(name):
    RAN.append(name)
    return "done"


'''
HELPERS = """
BY_NAME = {"search": search, "mail": mail, "pay": pay, "log": log}


def who(name, tools=(), **more):
    return AssistantAgent(name, model_client=model, tools=[*tools], **more)


def pick(messages):
    return random.choice(["n0", "n1"]) if messages[-1].source == "n0" else None


"""


class Writer:
    """Writes one program; the workflow is the variable `team`."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - no secret
        self.names = [f"n{number}" for number in range(self.random.randint(2, 5))]

    def program(self) -> str:
        tools = "".join(f'def {name}() -> str:\n    """Does it."""\n    return done("{name}")\n\n\n' for name in TOOLS)
        write = self.random.choice([self._rounds, self._selector, self._swarm, self._flow])
        lines = write()
        if self.random.random() < 0.4:
            lines = ["def make():", *(f"    {line}" for line in lines), "    return team", "", "team = make()"]
        return HEAD + tools + HELPERS + "\n".join(lines) + "\n"

    def _tools(self) -> str:
        some = self.random.sample(TOOLS, self.random.choice([0, 1, 1, 2]))
        forms = ("{0}", "BY_NAME[{0!r}]", "FunctionTool({0}, description='d')")
        shown = (self.random.choice(forms).replace("{0!r}", repr(tool)).replace("{0}", tool) for tool in some)
        return f"[{', '.join(shown)}]"

    def _agents(self, **more: str) -> list[str]:
        if not more and self.random.random() < 0.4:
            pairs = ", ".join(f"({name!r}, {self._tools()})" for name in self.names)
            return [f"members = [who(name, tools) for name, tools in [{pairs}]]"]
        made = ("who({0!r}, {1}{2})", "AssistantAgent({0!r}, model_client=model, tools={1}{2})",
                "AssistantAgent(name={0!r}, model_client=model, tools={1}, reflect_on_tool_use=True{2})")  # fmt: skip
        lines = [
            f"{name} = {self.random.choice(made).format(name, self._tools(), more.get(name, ''))}"
            for name in self.names
        ]
        return [*lines, f"members = [{', '.join(self.names)}]"]

    def _limit(self) -> str:
        return self.random.choice([
            f", max_turns={self.random.randint(1, 6)}", ", termination_condition=TextMentionTermination('STOP'), max_turns=20",  # noqa: E501
            f", termination_condition=MaxMessageTermination({self.random.randint(2, 9)}) | TextMentionTermination('STOP')",  # noqa: E501
        ])  # fmt: skip

    def _rounds(self) -> list[str]:
        return [*self._agents(), f"team = RoundRobinGroupChat(members{self._limit()})"]

    def _selector(self) -> list[str]:
        more = self.random.choice(["", ", allow_repeated_speaker=True", ", selector_func=pick"])
        attempts = ", max_selector_attempts=99"
        return [
            *self._agents(),
            f"team = SelectorGroupChat(members, model_client=chooser{attempts}{more}{self._limit()})",
        ]

    def _swarm(self) -> list[str]:
        some = {name: self.random.sample([other for other in self.names if other != name], 1) for name in self.names}
        handoffs = {
            name: f", handoffs={[*others, *self.random.choice([[], ['person']])]}" for name, others in some.items()
        }
        stop = "HandoffTermination('person') | TextMentionTermination('STOP')"
        return [*self._agents(**handoffs), f"team = Swarm(members, termination_condition={stop}, max_turns=20)"]

    def _flow(self) -> list[str]:
        edges = list[str]()
        for at in range(len(self.names)):
            later = self.names[at + 1 :]
            for other in self.random.sample(later, min(len(later), self.random.randint(1, 2))):
                group = f", activation_group='to', activation_condition={'any' if int(other[1:]) % 2 else 'all'!r}"
                edges.append(f"builder.add_edge(members[{at}], members[{other[1:]}]{group})")
        added = self.random.choice(
            [
                ["for one in members:", "    builder.add_node(one)"],
                [f"builder.add_node(members[{at}])" for at, _ in enumerate(self.names)],
            ]
        )
        end = "team = GraphFlow(participants=builder.get_participants(), graph=builder.build(), max_turns=12)"
        return [
            *self._agents(),
            "builder = DiGraphBuilder()",
            *added,
            *edges,
            "builder.set_entry_point(members[0])",
            end,
        ]
