#!/bin/sh
# Version: agno 3.1.10
# Source: the parameters of @tool: after a tool with stop_after_tool_call the agent stops, without a further request to the
#   model; requires_confirmation pauses the run until a person decides on the call.
# Behaviour: each does so alone. In one message, the tool that stops runs, and the run pauses; after the person's answer
#   the stop is forgotten: the model is asked again, and its text takes the place of the result that should end the run.
# Output seen:
#   alone: completed, requests 1, hang up
#   beside a confirmation: paused, requests 1, ran ['close']
#   confirmed: completed, requests 2, let us go on, ran ['close', 'pay']
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile agno==3.1.10
AGNO_TELEMETRY=false "$folder/venv/bin/python" - 2>/dev/null <<'PYTHON'
from dataclasses import dataclass, field

from agno.agent import Agent
from agno.models.base import Model
from agno.models.response import ModelResponse
from agno.tools import tool

ran = []


@dataclass
class Script(Model):
    id: str = "script"
    calls: list = field(default_factory=list)
    requests: int = 0

    def invoke(self, *args, **kwargs):
        self.requests += 1
        response = ModelResponse(role="assistant")
        if self.requests == 1:
            functions = [{"name": name, "arguments": "{}"} for name in self.calls]
            response.tool_calls = [{"id": call["name"], "type": "function", "function": call} for call in functions]
        else:
            response.content = "let us go on"
        return response

    ainvoke = invoke_stream = ainvoke_stream = _parse_provider_response = _parse_provider_response_delta = invoke


@tool(stop_after_tool_call=True)
def close() -> str:
    """Closes the conversation."""
    ran.append("close")
    return "hang up"


@tool(requires_confirmation=True)
def pay() -> str:
    """Pays."""
    ran.append("pay")
    return "paid"


def agent(*calls):
    return Agent(model=Script(calls=list(calls)), tools=[close, pay], telemetry=False)


alone = agent("close")
first = alone.run("go")
print(f"alone: {first.status.value.lower()}, requests {alone.model.requests}, {first.content}")
assert (first.status.value, alone.model.requests, first.content) == ("COMPLETED", 1, "hang up")
ran.clear()
beside = agent("pay", "close")
paused = beside.run("go")
print(f"beside a confirmation: {paused.status.value.lower()}, requests {beside.model.requests}, ran {ran}")
assert (paused.status.value, beside.model.requests, ran) == ("PAUSED", 1, ["close"])
for execution in paused.tools_requiring_confirmation:
    execution.confirmed = True
done = beside.continue_run(run_response=paused)
print(f"confirmed: {done.status.value.lower()}, requests {beside.model.requests}, {done.content}, ran {ran}")
assert (done.status.value, beside.model.requests, done.content) == ("COMPLETED", 2, "let us go on")
assert ran == ["close", "pay"]
PYTHON
