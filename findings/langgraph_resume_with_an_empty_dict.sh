#!/bin/sh
# Version: langgraph 1.2.24
# Source: the docstring of langgraph.types.Command: resume is a mapping of interrupt ids to values, or a single
#   value with which to resume the next interrupt.
# Behaviour: False, 0, an empty string and an empty list resume the interrupt; an empty dict (an answer without
#   fields) is read as a mapping of no interrupts, and the graph stops at the same interrupt again, without an
#   error.
# Output seen:
#   False -> ['False']
#   0 -> ['0']
#   [] -> ['[]']
#   {} -> interrupted again
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile langgraph==1.2.24
"$folder/venv/bin/python" - <<'PYTHON'
import operator
from typing import Annotated, TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt


class State(TypedDict):
    answers: Annotated[list, operator.add]


def ask(state):
    return {"answers": [repr(interrupt("question"))]}


THREAD = {"configurable": {"thread_id": "1"}}
outcomes = []
for answer in (False, 0, [], {}):
    graph = StateGraph(State).add_node(ask).add_edge(START, "ask").compile(checkpointer=InMemorySaver())
    graph.invoke({"answers": []}, THREAD)
    state = graph.invoke(Command(resume=answer), THREAD)
    outcomes.append("interrupted again" if "__interrupt__" in state else state["answers"])
    print(answer, "->", outcomes[-1])
assert outcomes == [["False"], ["0"], ["[]"], "interrupted again"]
PYTHON
