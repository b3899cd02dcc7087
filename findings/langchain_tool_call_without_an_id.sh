#!/bin/sh
# Version: langchain-core 1.8.3 with langgraph 1.2.24
# Source: the types of langchain_core.messages.ToolCall: the id of a call is `str | None`.
# Behaviour: ToolNode runs a call whose id is None, then raises: without an id the tool's bare value comes back
#   where a message is expected. What the tool did stays done, and no message says so.
# Output seen:
#   ran: [1]
#   TypeError Tool add returned unexpected type: <class 'int'>
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile langchain-core==1.8.3 langgraph==1.2.24
"$folder/venv/bin/python" - <<'PYTHON'
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

ran = []


@tool
def add(a: int) -> int:
    """Adds."""
    ran.append(a)
    return a


graph = StateGraph(MessagesState).add_node("tools", ToolNode([add])).add_edge(START, "tools").compile()
message = AIMessage("", tool_calls=[{"name": "add", "args": {"a": 1}, "id": None, "type": "tool_call"}])
try:
    graph.invoke({"messages": [message]})
    outcome = "no error"
except TypeError as error:
    outcome = f"{type(error).__name__} {error}"
print("ran:", ran)
print(outcome)
assert ran == [1] and "unexpected type" in outcome
PYTHON
