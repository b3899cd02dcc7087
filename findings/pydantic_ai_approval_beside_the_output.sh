#!/bin/sh
# Version: pydantic-ai-slim 2.68.0
# Source: the documentation of end_strategy and of deferred tools: with 'graceful' the function tools beside the output
#   run, and a tool that raises ApprovalRequired ends the run with DeferredToolRequests.
# Behaviour: beside the output tool the request is dropped: the run ends with the output, its messages have the call
#   without a return, and nothing says that it waits.
# Output seen:
#   output: done
#   returns: ['final_result']
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile pydantic-ai-slim==2.68.0
cat > "$folder/program.py" <<'PYTHON'
from pydantic import BaseModel
from pydantic_ai import Agent, ApprovalRequired, DeferredToolRequests
from pydantic_ai.messages import ModelResponse, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel


class Answer(BaseModel):
    text: str


def say(messages, info):
    return ModelResponse(parts=[ToolCallPart("refund", {"amount": 500}), ToolCallPart("final_result", {"text": "done"})])


agent = Agent(FunctionModel(say), output_type=[Answer, DeferredToolRequests], end_strategy="graceful")


@agent.tool_plain
def refund(amount: int) -> str:
    raise ApprovalRequired


first = agent.run_sync("please")
returns = [part.tool_name for message in first.all_messages() for part in message.parts if isinstance(part, ToolReturnPart)]
print("output:", first.output.text)
print("returns:", returns)
assert first.output.text == "done" and returns == ["final_result"]
PYTHON
"$folder/venv/bin/python" "$folder/program.py"
