#!/bin/sh
# Version: problog 2.3.0
# Source: ISO Prolog, evaluable functors: rem has the sign of the dividend, mod that of the divisor; round(2.5) is 3.
#   ProbLog extends Prolog and has the functors under these names. is_list holds for proper lists.
# Behaviour: rem is mod; a half goes to the even neighbour, as in Python; and is_list holds for a list whose end is
#   unknown. mod and truncate are as in ISO Prolog.
# Output seen:
#   -7 rem 2 is 1
#   -7 mod 2 is 1
#   round(1.5) is 2
#   round(2.5) is 2
#   truncate(-1.5) is -1
#   is_list([a | _]) has the probability 1.0
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile problog==2.3.0
"$folder/venv/bin/python" - <<'PYTHON'
from problog import get_evaluatable
from problog.program import PrologString


def evaluate(program):
    return {str(term): value for term, value in get_evaluatable().create_from(PrologString(program)).evaluate().items()}


SEEN = {"-7 rem 2": 1, "-7 mod 2": 1, "round(1.5)": 2, "round(2.5)": 2, "truncate(-1.5)": -1}
for expression, value in SEEN.items():
    (answer,) = evaluate(f"answer(X) :- X is {expression}. query(answer(_)).")
    print(expression, "is", answer.removeprefix("answer(").removesuffix(")"))
    assert answer == f"answer({value})"
probability = evaluate(":- use_module(library(lists)). open :- is_list([a | _]). query(open).")["open"]
print("is_list([a | _]) has the probability", probability)
assert probability == 1.0
PYTHON
