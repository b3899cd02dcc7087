#!/bin/sh
# Version: smolagents 1.26.0
# Source: the documentation of ToolCallingAgent: the tool calls of a message are executed, in parallel if there are
#   several.
# Behaviour: of two calls with one id the first is dropped without a word: it is in no output, no observation and not in
#   the tool_calls of the step. The last one runs.
# Output seen:
#   ran: [2]
#   step: [('double', {'a': 2})] 4
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile smolagents==1.26.0
cat > "$folder/program.py" <<'PYTHON'
from smolagents import LogLevel, Model, ToolCallingAgent, tool
from smolagents.models import ChatMessage, ChatMessageToolCall, ChatMessageToolCallFunction, MessageRole

ran = []


@tool
def double(a: int) -> int:
    """Doubles.
    Args:
        a: a number
    """
    ran.append(a)
    return 2 * a


class Script(Model):
    turns = [[("double", {"a": 1}), ("double", {"a": 2})], [("final_answer", {"answer": "ok"})]]

    def generate(self, messages, **options):
        functions = [ChatMessageToolCallFunction(name=name, arguments=values) for name, values in self.turns.pop(0)]
        calls = [ChatMessageToolCall(id="call_1", type="function", function=function) for function in functions]
        return ChatMessage(role=MessageRole.ASSISTANT, content=None, tool_calls=calls)


agent = ToolCallingAgent(tools=[double], model=Script(model_id="script"), verbosity_level=LogLevel.OFF)
agent.run("go")
step = agent.memory.steps[1]
print("ran:", ran)
print("step:", [(call.name, call.arguments) for call in step.tool_calls], step.observations)
assert ran == [2] and len(step.tool_calls) == 1
PYTHON
"$folder/venv/bin/python" "$folder/program.py"
