#!/bin/sh
# Version: openai-agents 0.24.0
# Source: the docstrings of agents.lifecycle.RunHooks: on_tool_start is called immediately before, and on_tool_end
#   immediately after, a local tool is invoked.
# Behaviour: a tool that raises has a start and an end while its error becomes a text for the model, but only a
#   start where the error ends the run (failure_error_function=None).
# Output seen:
#   text ['start', 'end']
#   raised ['start'] UserError
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile openai-agents==0.24.0
"$folder/venv/bin/python" - <<'PYTHON'
import asyncio

from agents import Agent, Model, ModelResponse, RunHooks, Runner, function_tool, set_tracing_disabled
from agents.usage import Usage
from openai.types.responses import ResponseFunctionToolCall

set_tracing_disabled(True)
events = []


class Script(Model):
    async def get_response(self, *args, **options):
        call = ResponseFunctionToolCall(type="function_call", name="fail", arguments="{}", call_id="1")
        return ModelResponse(output=[call], usage=Usage(), response_id=None)

    stream_response = None


class Hooks(RunHooks):
    async def on_tool_start(self, context, agent, tool):
        events.append("start")

    async def on_tool_end(self, context, agent, tool, result):
        events.append("end")


def fail() -> str:
    raise ValueError("no")


text = Agent(name="a", model=Script(), tools=[function_tool(fail)], tool_use_behavior="stop_on_first_tool")
asyncio.run(Runner.run(text, "go", hooks=Hooks()))
print("text", events)
assert events == ["start", "end"]
events.clear()
raised = Agent(name="a", model=Script(), tools=[function_tool(fail, failure_error_function=None)])
try:
    asyncio.run(Runner.run(raised, "go", hooks=Hooks()))
except Exception as error:
    print("raised", events, type(error).__name__)
assert events == ["start"]
PYTHON
