#!/bin/sh
# Version: langgraph 1.2.24, langchain 1.5.2
# Source: the documentation of Command: graph=Command.PARENT hands over to a node of the parent graph; the calls of a
#   message run in parallel, each with a result.
# Behaviour: the result of a tool that ran beside the hand-over is dropped: its work is done, and no message says so.
#   Nothing raises or warns.
# Output seen:
#   ran: ['work']
#   messages: ['please', '', 'over to second', 'done']
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile langgraph==1.2.24 langchain==1.5.2
cat > "$folder/program.py" <<'PYTHON'
from langchain.agents import create_agent
from langchain.tools import ToolRuntime
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command

ran = []


class Model(GenericFakeChatModel):
    def bind_tools(self, tools, **options):
        return self


@tool
def work() -> str:
    """Works."""
    ran.append("work")
    return "worked"


@tool
def transfer(runtime: ToolRuntime) -> Command:
    """Hands over."""
    reply = ToolMessage("over to second", tool_call_id=runtime.tool_call_id)
    return Command(goto="second", graph=Command.PARENT, update={"messages": [*runtime.state["messages"], reply]})


calls = [{"name": name, "args": {}, "id": name} for name in ("work", "transfer")]
first = create_agent(Model(messages=iter([AIMessage("", tool_calls=calls)])), [work, transfer])
second = create_agent(Model(messages=iter([AIMessage("done")])), [work])
graph = StateGraph(MessagesState)
graph.add_node("first", first, destinations=("second",))
graph.add_node("second", second)
graph.add_edge(START, "first")
messages = [message.content for message in graph.compile().invoke({"messages": ["please"]})["messages"]]
print("ran:", ran)
print("messages:", messages)
assert ran == ["work"] and "worked" not in messages
PYTHON
"$folder/venv/bin/python" "$folder/program.py"
