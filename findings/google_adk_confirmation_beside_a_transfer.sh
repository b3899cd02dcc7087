#!/bin/sh
# Version: google-adk 2.13.0
# Source: the documentation of tool confirmation: a tool with require_confirmation=True pauses until the user confirms,
#   and its response says that it requires confirmation.
# Behaviour: beside a transfer to another agent in the same message, the run goes on with that agent. No event asks the
#   user, although the response of the tool says that the call requires confirmation.
# Output seen:
#   response: {'error': 'This tool call requires confirmation, please approve or reject.'}
#   requests: 0
#   last: billing here
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile google-adk==2.13.0
cat > "$folder/program.py" <<'PYTHON'
import asyncio
import logging
import warnings

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools import FunctionTool
from google.genai import types

warnings.simplefilter("ignore")
logging.disable()


class Script(BaseLlm):
    parts: list

    async def generate_content_async(self, request, stream=False):
        yield LlmResponse(content=types.Content(role="model", parts=self.parts))


def call(name, **args):
    return types.Part(function_call=types.FunctionCall(name=name, args=args))


def refund(amount: int) -> str:
    """Pays back."""
    return "paid"


async def main():
    billing = LlmAgent(name="billing", model=Script(model="script", parts=[types.Part(text="billing here")]))
    parts = [call("refund", amount=5), call("transfer_to_agent", agent_name="billing")]
    tools = [FunctionTool(refund, require_confirmation=True)]
    clerk = LlmAgent(name="clerk", model=Script(model="script", parts=parts), tools=tools, sub_agents=[billing])
    runner = InMemoryRunner(agent=clerk, app_name="shop")
    await runner.session_service.create_session(app_name="shop", user_id="ann", session_id="s")
    message = types.Content(role="user", parts=[types.Part(text="please")])
    events = [event async for event in runner.run_async(user_id="ann", session_id="s", new_message=message)]
    responses = [reply.response for event in events for reply in event.get_function_responses()]
    asked = [made for event in events for made in event.get_function_calls() if "confirmation" in made.name]
    print("response:", responses[0])
    print("requests:", len(asked))
    print("last:", events[-1].content.parts[0].text)
    assert "confirmation" in str(responses[0]) and not asked


asyncio.run(main())
PYTHON
"$folder/venv/bin/python" "$folder/program.py" 2>/dev/null
