#!/bin/sh
# Version: apache-burr 0.42.0
# Source: an action declares the keys of the state that it writes. A class of Action that writes another key ends with
#   ValueError, "attempted to write to keys {...} that it did not declare".
# Behaviour: a function with the decorator @action writes the same key without a word, and the next actions read it. A
#   function that lacks a declared key is an error in both forms.
# Output seen:
#   class: ValueError
#   function: {'n': 1, 'extra': 5}
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile apache-burr==0.42.0
cat > "$folder/program.py" <<'PYTHON'
import logging

from burr.core import Action, ApplicationBuilder, State, action

logging.disable(logging.CRITICAL)


class Count(Action):
    @property
    def reads(self):
        return ["n"]

    @property
    def writes(self):
        return ["n"]

    def run(self, state: State):
        return {"n": state["n"] + 1}

    def update(self, result, state: State):
        return state.update(extra=5, **result)


@action(reads=["n"], writes=["n"])
def count(state: State) -> State:
    return state.update(extra=5, n=state["n"] + 1)


def run(step):
    application = ApplicationBuilder().with_actions(step=step).with_entrypoint("step").with_state(n=0).build()
    state = application.run(halt_after=["step"])[2].get_all()
    return {key: value for key, value in state.items() if not key.startswith("__")}


try:
    run(Count())
except ValueError as error:
    assert "extra" in str(error) and "did not declare" in str(error)
    print("class:", type(error).__name__)
else:
    raise AssertionError("the class wrote the key")
written = run(count)
print("function:", written)
assert written == {"n": 1, "extra": 5}
PYTHON
"$folder/venv/bin/python" "$folder/program.py"
