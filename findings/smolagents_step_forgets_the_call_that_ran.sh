#!/bin/sh
# Version: smolagents 1.26.0
# Source: the documentation of ActionStep and of an agent's memory: tool_calls and observations are those of the
#   step.
# Behaviour: of two calls in one message, the one that ran is in neither if the other raises: the step has no calls
#   and no observations.
# Output seen:
#   ran: [1]
#   step: tool_calls None observations None error AgentToolExecutionError
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
def invert(a: int) -> int:
    """Inverts.
    Args:
        a: a number
    """
    result = 1 // a
    ran.append(a)
    return result


class Script(Model):
    turns = [[("invert", {"a": 0}), ("invert", {"a": 1})], [("final_answer", {"answer": "ok"})]]

    def generate(self, messages, **options):
        functions = [ChatMessageToolCallFunction(name=name, arguments=values) for name, values in self.turns.pop(0)]
        calls = [ChatMessageToolCall(id=str(i), type="function", function=call) for i, call in enumerate(functions)]
        return ChatMessage(role=MessageRole.ASSISTANT, content=None, tool_calls=calls)


agent = ToolCallingAgent(tools=[invert], model=Script(model_id="script"), verbosity_level=LogLevel.OFF)
agent.run("go")
step = agent.memory.steps[1]
print("ran:", ran)
print("step: tool_calls", step.tool_calls, "observations", step.observations, "error", type(step.error).__name__)
assert ran == [1] and not step.tool_calls and not step.observations and step.error
PYTHON
"$folder/venv/bin/python" "$folder/program.py"
