#!/bin/sh
# Version: strands-agents 1.62.0
# Source: the docstring of AgentResult: structured_output is the output that was parsed, as the model of
#   structured_output_model. A model that calls the output's tool ends the run; an interrupt pauses it, and the answer
#   resumes it from where it was.
# Behaviour: beside a call that an interrupt holds up, the output is validated and returned with the pause; after the answer
#   it is forgotten: the model is asked again, and its second output is the result.
# Output seen:
#   alone: tool_use Refund(amount=5), requests 1
#   beside: interrupt Refund(amount=5), requests 1
#   answered: tool_use Refund(amount=7), requests 2
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile strands-agents==1.62.0
"$folder/venv/bin/python" - 2>/dev/null <<'PYTHON'
import json

from pydantic import BaseModel
from strands import Agent, tool
from strands.hooks import BeforeToolCallEvent
from strands.models import Model


class Refund(BaseModel):
    """The refund."""

    amount: int


class Script(Model):
    def __init__(self, *turns):
        self.turns = list(turns)
        self.requests = 0

    def update_config(self, **kwargs):
        pass

    def get_config(self):
        return {}

    async def structured_output(self, *args, **kwargs):
        raise NotImplementedError
        yield

    async def stream(self, messages, *args, **kwargs):
        self.requests += 1
        yield {"messageStart": {"role": "assistant"}}
        for name, arguments in self.turns.pop(0):
            yield {"contentBlockStart": {"start": {"toolUse": {"name": name, "toolUseId": f"{name}{self.requests}"}}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(arguments)}}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use"}}


@tool
def pay() -> str:
    """Pays."""
    return "paid"


def ask(event):
    if event.tool_use["name"] == "pay":
        event.interrupt("approve", reason="pays")


def agent(model):
    clerk = Agent(model=model, tools=[pay], callback_handler=None, structured_output_model=Refund)
    clerk.hooks.add_callback(BeforeToolCallEvent, ask)
    return clerk


def show(name, result, model):
    print(f"{name}: {result.stop_reason} {result.structured_output!r}, requests {model.requests}")
    return result.stop_reason, result.structured_output.amount, model.requests


alone = Script([("Refund", {"amount": 5})])
assert show("alone", agent(alone)("go"), alone) == ("tool_use", 5, 1)
beside = Script([("Refund", {"amount": 5}), ("pay", {})], [("Refund", {"amount": 7})])
clerk = agent(beside)
paused = clerk("go")
assert show("beside", paused, beside) == ("interrupt", 5, 1)
answer = {"interruptResponse": {"interruptId": paused.interrupts[0].id, "response": "yes"}}
assert show("answered", clerk([answer]), beside) == ("tool_use", 7, 2)
PYTHON
