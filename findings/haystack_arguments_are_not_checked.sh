#!/bin/sh
# Version: haystack-ai 3.4.1
# Source: the docstrings of Haystack: @tool makes the JSON schema of a function's parameters from its annotations, and State
#   of an agent has a schema with the type of each of its keys.
# Behaviour: neither is looked at again. A tool whose parameter is an int runs with the text that the model wrote, here
#   `seven`, and multiplies it; a state whose key has the type int keeps a text. A missing or an unknown argument is an
#   error for the model, since Python itself raises it.
# Output seen:
#   shown to the model: {'type': 'integer'}
#   {'n': 'seven'}: sevenseven error: False
#   {'m': 1}: error: True
#   state: {'count': <class 'int'>} holds 'seven'
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile haystack-ai==3.4.1
HAYSTACK_TELEMETRY_ENABLED=False "$folder/venv/bin/python" - 2>/dev/null <<'PYTHON'
from typing import Annotated

from haystack import component
from haystack.components.agents import Agent
from haystack.components.agents.state import State
from haystack.dataclasses import ChatMessage, ToolCall
from haystack.tools import tool


@tool
def double(n: Annotated[int, "a number"]) -> str:
    """Doubles a number."""
    return str(n * 2)


@component
class Script:
    def __init__(self, arguments):
        self.arguments = arguments

    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage], tools: list | None = None):
        calls = [ToolCall(tool_name="double", arguments=self.arguments, id="1")]
        done = messages[-1].tool_call_results
        return {"replies": [ChatMessage.from_assistant("done" if done else "", tool_calls=[] if done else calls)]}


schema = double.parameters["properties"]["n"]["type"]
print("shown to the model:", {"type": schema})
results = []
for arguments in ({"n": "seven"}, {"m": 1}):
    agent = Agent(chat_generator=Script(arguments), tools=[double])
    messages = agent.run(messages=[ChatMessage.from_user("go")])["messages"]
    [result] = [result for message in messages for result in message.tool_call_results]
    results.append((result.result, result.error))
    print(f"{arguments}:", *([] if result.error else [result.result]), "error:", result.error)
state = State({"count": {"type": int}})
state.set("count", "seven")
print("state:", {"count": state.schema["count"]["type"]}, "holds", repr(state.get("count")))
assert schema == "integer"
assert results[0] == ("sevenseven", False)
assert results[1][1] is True
assert state.get("count") == "seven"
PYTHON
