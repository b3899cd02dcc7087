#!/bin/sh
# Version: langgraph 1.2.24
# Source: the docstring of langgraph.types.Command: resume is a mapping of interrupt ids to values. Two questions of one
#   node have different ids, so a reader expects that an answer to the first id is for the first question only.
# Behaviour: the same answer, sent again after the second question was asked (a second click, or a request that is
#   repeated), resumes the second interrupt, whose id is another one. It passes for its answer, without an error. An
#   id of no interrupt leaves the graph waiting.
# Output seen:
#   asked: the ids differ
#   an unknown id: still asked {'pay': 10000}
#   the first answer, repeated: {'pay': 10} -> yes, {'pay': 10000} -> yes
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile langgraph==1.2.24
"$folder/venv/bin/python" - <<'PYTHON'
from typing import TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt


class State(TypedDict):
    answers: list


def ask(state):
    return {"answers": [(str(question), interrupt(question)) for question in ({"pay": 10}, {"pay": 10000})]}


THREAD = {"configurable": {"thread_id": "1"}}
graph = StateGraph(State).add_node(ask).add_edge(START, "ask").compile(checkpointer=InMemorySaver())
[first] = graph.invoke({"answers": []}, THREAD)["__interrupt__"]
answer = Command(resume={first.id: "yes"})
[second] = graph.invoke(answer, THREAD)["__interrupt__"]
print("asked: the ids", "are the same" if first.id == second.id else "differ")
unknown = graph.invoke(Command(resume={"0" * 32: "yes"}), THREAD)
print("an unknown id: still asked", unknown["__interrupt__"][0].value)
state = graph.invoke(answer, THREAD)
print("the first answer, repeated:", ", ".join(f"{question} -> {given}" for question, given in state["answers"]))
assert first.id != second.id
assert unknown["__interrupt__"][0].id == second.id
assert "__interrupt__" not in state
assert state["answers"] == [("{'pay': 10}", "yes"), ("{'pay': 10000}", "yes")]
PYTHON
