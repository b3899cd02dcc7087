#!/bin/sh
# Version: google-adk 2.13.0
# Source: the docstring of LongRunningFunctionTool: its response comes asynchronously, for the call with that id. A tool
#   that returns None has no response yet, and a run with such a call alone ends there: the model waits.
# Behaviour: beside another call in the same message the model does not wait. It is asked again at once, with both calls
#   and one response, as if the other call had never been answered, and its answer ends the run.
# Output seen:
#   alone: requests 1, then: waits
#   beside: requests 2, last: calls ['refund', 'look'] responses ['look'], then: done
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile google-adk==2.13.0
"$folder/venv/bin/python" - 2>/dev/null <<'PYTHON'
import asyncio

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools import LongRunningFunctionTool
from google.genai import types


class Script(BaseLlm):
    calls: list = []
    requests: list = []

    async def generate_content_async(self, llm_request, stream=False):
        self.requests.append(llm_request.contents)
        parts = [types.Part(text="done")]
        if len(self.requests) == 1:
            calls = [types.FunctionCall(name=name, args={}, id=name) for name in self.calls]
            parts = [types.Part(function_call=call) for call in calls]
        yield LlmResponse(content=types.Content(role="model", parts=parts))


def refund() -> None:
    """Asks a person for a refund."""


def look() -> dict:
    """Looks the order up."""
    return {"state": "open"}


async def run(calls):
    model = Script(model="script", calls=calls, requests=[])
    agent = LlmAgent(name="agent", model=model, tools=[LongRunningFunctionTool(refund), look])
    runner = InMemoryRunner(agent, app_name="app")
    session = await runner.session_service.create_session(app_name="app", user_id="user")
    message = types.Content(role="user", parts=[types.Part(text="refund order 7")])
    texts = []
    async for event in runner.run_async(user_id="user", session_id=session.id, new_message=message):
        texts += [part.text for part in event.content.parts if part.text]
    parts = [part for content in model.requests[-1] for part in content.parts]
    called = [part.function_call.name for part in parts if part.function_call]
    answered = [part.function_response.name for part in parts if part.function_response]
    return len(model.requests), called, answered, texts


alone = asyncio.run(run(["refund"]))
beside = asyncio.run(run(["refund", "look"]))
print(f"alone: requests {alone[0]}, then:", *(alone[3] or ["waits"]))
print(f"beside: requests {beside[0]}, last: calls {beside[1]} responses {beside[2]}, then:", *beside[3])
assert alone == (1, [], [], [])
assert beside == (2, ["refund", "look"], ["look"], ["done"])
PYTHON
