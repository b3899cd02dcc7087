#!/bin/sh
# Version: dspy 3.4.1
# Source: the docstring of ReAct: the model is provided with the tools of the list that is passed, and decides which one is
#   called. The list has a tool `finish`, which closes the order at hand.
# Behaviour: ReAct puts a tool of that name in its place, without an error. The model is shown the other one, the run ends
#   as if the tool had run, with the observation `Completed.`, and the function is never called.
# Output seen:
#   tools: ['look', 'finish'], finish is the one passed: False
#   ran: [] observation: Completed. answer: closed
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile dspy==3.4.1
DSPY_CACHEDIR="$folder/cache" "$folder/venv/bin/python" - <<'PYTHON'
import dspy
from dspy.utils import DummyLM

ran = []


def look(order: int) -> str:
    """Looks an order up."""
    return "open"


def finish() -> str:
    """Closes the order."""
    ran.append("finish")
    return "closed"


agent = dspy.ReAct("question -> answer", tools=[look, finish])
turns = [
    {"next_thought": "close it", "next_tool_name": "finish", "next_tool_args": "{}"},
    {"reasoning": "it is done", "answer": "closed"},
]
with dspy.context(lm=DummyLM(turns)):
    prediction = agent(question="Close the order.")
observation = prediction.trajectory["observation_0"]
mine = agent.tools["finish"].desc == finish.__doc__
print(f"tools: {list(agent.tools)}, finish is the one passed: {mine}")
print("ran:", ran, "observation:", observation, "answer:", prediction.answer)
assert not mine
assert (ran, observation, prediction.answer) == ([], "Completed.", "closed")
PYTHON
