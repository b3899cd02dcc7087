#!/bin/sh
# Version: cel-python 0.5.0, beside cel-expr-python 0.1.3
# Source: the CEL language definition: a list is indexed from 0, and an index out of range is an error. Google's own
#   runtime, cel-expr-python, gives that error.
# Behaviour: cel-python counts a negative index from the end, as Python does; an index past the end is an error in
#   both.
# Output seen:
#   cel-python [1, 2, 3][-1] -> 3
#   cel-python [1, 2, 3][5] -> CELEvalError
#   cel-expr-python [1, 2, 3][-1] -> UNKNOWN: Index error: index=-1 size=3
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile cel-python==0.5.0 cel-expr-python==0.1.3
"$folder/venv/bin/python" - <<'PYTHON'
import celpy
from cel_expr_python import cel


def answer(expression):
    environment = celpy.Environment()
    try:
        return environment.program(environment.compile(expression)).evaluate({})
    except celpy.CELEvalError as error:
        return type(error).__name__


reference = cel.NewEnv().compile("[1, 2, 3][-1]").eval().value()
print("cel-python [1, 2, 3][-1] ->", answer("[1, 2, 3][-1]"))
print("cel-python [1, 2, 3][5] ->", answer("[1, 2, 3][5]"))
print("cel-expr-python [1, 2, 3][-1] ->", reference)
assert answer("[1, 2, 3][-1]") == 3
assert answer("[1, 2, 3][5]") == "CELEvalError"
assert "Index error" in str(reference)
PYTHON
