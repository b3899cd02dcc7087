#!/bin/sh
# Version: strands-agents 1.62.0
# Source: the results of a swarm's tool handoff_to_agent, which the model reads: each says that the task is handed to the
#   agent that the call names.
# Behaviour: of two hand-overs in one message both are answered with success, and only the last one happens: the agent that
#   was named first never runs, and neither the model nor the result of the swarm says so.
# Output seen:
#   first: success Handing off to billing: refund it
#   second: success Handing off to stock: count it
#   ran: ['clerk', 'stock'] completed
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile strands-agents==1.62.0
"$folder/venv/bin/python" - 2>/dev/null <<'PYTHON'
import json

from strands import Agent
from strands.models import Model
from strands.multiagent import Swarm


class Script(Model):
    def __init__(self, *turns):
        self.turns = list(turns)
        self.results = []

    def update_config(self, **kwargs):
        pass

    def get_config(self):
        return {}

    async def structured_output(self, *args, **kwargs):
        raise NotImplementedError
        yield

    async def stream(self, messages, *args, **kwargs):
        self.results = [block["toolResult"] for block in messages[-1]["content"] if "toolResult" in block]
        calls = self.turns.pop(0) if self.turns else []
        yield {"messageStart": {"role": "assistant"}}
        for number, arguments in enumerate(calls):
            use = {"name": "handoff_to_agent", "toolUseId": str(number)}
            yield {"contentBlockStart": {"start": {"toolUse": use}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(arguments)}}}}
            yield {"contentBlockStop": {}}
        if not calls:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": "done"}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if calls else "end_turn"}}


calls = [{"agent_name": "billing", "message": "refund it"}, {"agent_name": "stock", "message": "count it"}]
model = Script(calls)
clerk = Agent(name="clerk", model=model, callback_handler=None)
others = [Agent(name=name, model=Script(), callback_handler=None) for name in ("billing", "stock")]
result = Swarm([clerk, *others])("an order came back")
for name, reply in zip(("first", "second"), model.results, strict=True):
    print(f"{name}:", reply["status"], reply["content"][0]["text"])
ran = [node.node_id for node in result.node_history]
print("ran:", ran, result.status.value)
assert [reply["status"] for reply in model.results] == ["success", "success"]
assert "billing" in model.results[0]["content"][0]["text"]
assert (ran, result.status.value) == (["clerk", "stock"], "completed")
PYTHON
