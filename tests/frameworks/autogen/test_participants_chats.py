"""Programs in the style of AutoGen 0.2 and AG2, read from their source alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from guardagent.errors import InputError
from guardagent.workflow.python_source.source_graphs import graph_of_source
from tests.frameworks.langgraph.test_source import sections, summary

Write = Callable[..., Path]

HEAD = """
import autogen
from autogen import AssistantAgent, ConversableAgent, GroupChat, GroupChatManager, UserProxyAgent
from autogen import initiate_chats, register_function
from autogen.agentchat import initiate_group_chat
from autogen.agentchat.group import AgentTarget, OnCondition, ReplyResult, RevertToUserTarget, TerminateTarget
from autogen.agentchat.group.patterns import AutoPattern, DefaultPattern, RoundRobinPattern

model = {"config_list": autogen.config_list_from_json("MODELS")}
quiet = {"human_input_mode": "NEVER", "code_execution_config": False}
a, b, c = (AssistantAgent(name, llm_config=model) for name in "abc")
user = UserProxyAgent("user", is_termination_msg=lambda message: "DONE" in message["content"], **quiet)

def mail(to: str) -> str:
    "Sends."
    return to

def pay(amount: int) -> str:
    "Pays."
    return str(amount)
"""

STYLES = """
# two agents alternate until the first one stops: user:passthrough a:llm (>user user>a a@user a?)
user.initiate_chat(a, message="x")

# a person answers and ends the chat: boss:human a:llm (>boss boss>a a@boss boss?)
boss = UserProxyAgent("boss", code_execution_config=False)
if __name__ == "__main__":
    boss.initiate_chat(recipient=a, message="x")

# one turn only: coder:tool+code_executor a:llm (>coder coder>a a?)
def main():
    coder = autogen.UserProxyAgent("coder", human_input_mode="NEVER", code_execution_config={"work_dir": "w"})
    coder.initiate_chat(a, message="x", max_turns=1)

# the executor of decorated tools has them: user:tool+send+mail a:llm (>user user>a a@user a?)
@user.register_for_execution()
@a.register_for_llm(description="Mails.")
def send(to: str) -> str:
    return to

register_function(mail, caller=a, executor=user, description="Mails.")
async def main():
    await user.a_initiate_chat(a, message="x", max_turns=4)

# a person is asked before each tool: boss:tool+pay! a:llm (>boss boss>a a@boss boss?)
boss = UserProxyAgent("boss", code_execution_config=False, function_map={"pay": pay})
boss.initiate_chat(a, message="x")

# a queue of chats: user:passthrough a:llm b:llm (>user user>a a?user user>b b@user b?)
user.initiate_chats([{"recipient": a, "max_turns": 1}, {"recipient": b, "message": "y", "max_turns": 2}])

# a queue with other senders: a:llm b:llm c:llm (>a a>b b?b b>c c?)
initiate_chats([{"sender": a, "recipient": b, "max_turns": 1}, {"sender": b, "recipient": c, "max_turns": 1}])

# a group takes turns: user:passthrough a:llm b:llm (>user user>a a>b b@user user?) a?) b?)
chat = GroupChat(agents=[user, a, b], messages=[], max_round=9, speaker_selection_method="round_robin")
user.initiate_chat(GroupChatManager(groupchat=chat, llm_config=model), message="x")

# a model chooses without repeats: user:passthrough a:llm (>user user?a a?user user?) a?)
chat = GroupChat([user, a], [], 9, allow_repeat_speaker=False)
user.initiate_chat(GroupChatManager(chat), message="x")

# a call of a tool goes to its executor: user:tool+mail a:llm b:llm (>user user>a a>b b@user a?user user?) a?) b?)
register_function(mail, caller=a, executor=user, description="Mails.")
register_function(mail, caller=b, executor=user, description="Mails.")
chat = GroupChat(agents=[user, a, b], messages=[], speaker_selection_method="round_robin")
user.initiate_chat(GroupChatManager(groupchat=chat), message="x")

# a function chooses: user:passthrough a:llm b:llm (>user user?a a?b b?user user?) a?) b?)
def pick(last_speaker, groupchat):
    if last_speaker is user:
        return a
    return b if last_speaker.name == "a" else user
chat = GroupChat(agents=[user, a, b], messages=[], speaker_selection_method=pick)
user.initiate_chat(GroupChatManager(groupchat=chat), message="x")

# allowed transitions: user:passthrough a:llm b:llm (>user user?a a?b a?user b?a user?) a?) b?)
chat = GroupChat(
    agents=[user, a, b], messages=[], speaker_transitions_type="allowed",
    allowed_or_disallowed_speaker_transitions={user: [a], a: [b, user], b: [a]},
)
user.initiate_chat(GroupChatManager(groupchat=chat), message="x")

# nested chats: user:passthrough a:llm b:llm c:llm (>user user>a a@user a?) a>b b?a a>c c?a
a.register_nested_chats([{"recipient": b, "max_turns": 1}, {"recipient": c, "max_turns": 1}], trigger=user)
user.initiate_chat(a, message="x")

# agents of a class: chief:human a:llm b:llm (>chief chief>a a>b b@chief chief?) a?) b?)
class Office:
    def __init__(self):
        self.chief = UserProxyAgent(name="chief", code_execution_config=False)
        self.staff = {}
        for name in ("a", "b"):
            self.staff[name] = AssistantAgent(name=name, llm_config=model)
        agents = [self.chief] + list(self.staff.values())
        self.chat = GroupChat(agents=agents, messages=[], speaker_selection_method="round_robin")
        self.manager = GroupChatManager(groupchat=self.chat, llm_config=model)

    def work(self, task):
        self.chief.initiate_chat(self.manager, message=task)

# hand-offs and work after a turn: t:tool+sort x:llm y:llm me:human (>t t?x t?y x?y x>me me?x t?) x?) y?) me?)
def sort(kind: str) -> ReplyResult:
    if kind == "x":
        return ReplyResult(message="x", target=AgentTarget(x))
    return ReplyResult(message="y", target=AgentTarget(y))
t = ConversableAgent("t", llm_config=model, functions=[sort])
x, y = ConversableAgent("x", llm_config=model), ConversableAgent("y", llm_config=model)
me = ConversableAgent("me", llm_config=False, human_input_mode="ALWAYS")
x.handoffs.add_llm_condition(OnCondition(target=AgentTarget(y), condition="later"))
x.handoffs.set_after_work(RevertToUserTarget())
y.handoffs.set_after_work(TerminateTarget())
initiate_group_chat(DefaultPattern(initial_agent=t, agents=[t, x, y], user_agent=me), messages="x", max_rounds=9)

# a pattern in rounds: b:llm a:llm (>b b>a a@b a?) b?)
initiate_group_chat(RoundRobinPattern(initial_agent=b, agents=[a, b]), messages="x")

# a pattern with a manager: a:llm b:llm (>a a?a a?b b?a b?b a?) b?)
result = initiate_group_chat(pattern=AutoPattern(initial_agent=a, agents=[a, b]), messages="x", max_rounds=4)
"""

CASES = sections(STYLES)


@pytest.mark.parametrize("name", CASES)
def test_a_chat_gives_its_graph(write: Write, name: str) -> None:
    expected, code = CASES[name]
    graph = graph_of_source(write("program.py", HEAD + code))
    assert sorted(summary(graph).split()) == sorted(expected.split())


def test_unknown_agents_have_the_names_of_their_variables(write: Write) -> None:
    code = """
from elsewhere import builder
writer = builder.build()
chat = GroupChat(agents=[user, writer], messages=[], speaker_selection_method="round_robin")
user.initiate_chat(GroupChatManager(groupchat=chat), message="x")
"""
    graph = graph_of_source(write("program.py", HEAD + code))
    assert graph.by_id["writer"].metadata["tools_unknown"]["reason"] == "the agent is unknown"
    assert {(edge.source, edge.target) for edge in graph.edges} >= {("user", "writer"), ("writer", "user")}


def test_an_agent_that_other_code_gets_may_have_more_tools(write: Write) -> None:
    code = "from elsewhere import register_all\nregister_all(a, user)\nuser.initiate_chat(a, message='x')\n"
    graph = graph_of_source(write("program.py", HEAD + code))
    assert "register_all(...)" in graph.by_id["user"].metadata["tools_unknown"]["reason"]


def test_an_unknown_choice_of_the_speaker_is_marked(write: Write) -> None:
    code = """
from elsewhere import pick
chat = GroupChat(agents=[user, a], messages=[], speaker_selection_method=pick)
user.initiate_chat(GroupChatManager(groupchat=chat), message="x")
"""
    graph = graph_of_source(write("program.py", HEAD + code))
    assert graph.by_id["a"].metadata["widened"]


def test_a_runtime_of_autogen_core_is_refused_with_its_line(write: Write) -> None:
    code = "from autogen_core import SingleThreadedAgentRuntime\nruntime = SingleThreadedAgentRuntime()\n"
    with pytest.raises(InputError, match=r"program.py:2: .* topics"):
        graph_of_source(write("program.py", code))
