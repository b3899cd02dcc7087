#!/bin/sh
# Version: clingo 5.8.3
# Source: the Python binding of clingo: Number(2147483648) is an OverflowError, since a number has 32 bits. A division by
#   zero in a program is reported ("operation undefined").
# Behaviour: in a program such a number becomes another one, without a message: a literal keeps its lowest 32 bits, sums
#   and products wrap around, and #sum of amounts turns negative. A rule that denies more than a limit is not triggered.
# Output seen:
#   p(99999999999). -> p(1215752191) []
#   p(2147483647+1). -> p(-2147483648) []
#   a(2000000000;1000000000). s(S) :- S = #sum{X : a(X)}. -> s(-1294967296) []
#   p(1/0). -> nothing ['info: operation undefined']
#   Number(2147483648): OverflowError
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile clingo==5.8.3
"$folder/venv/bin/python" - <<'PYTHON'
from clingo import Control, Number

cases = {
    "p(99999999999).": ("p(1215752191)", False),
    "p(2147483647+1).": ("p(-2147483648)", False),
    "a(2000000000;1000000000). s(S) :- S = #sum{X : a(X)}.": ("s(-1294967296)", False),
    "p(1/0).": ("", True),
}
for program, (expected, warned) in cases.items():
    messages = []
    control = Control(logger=lambda code, message, into=messages: into.append(message))
    control.add("base", [], program + " #show p/1. #show s/1.")
    control.ground([("base", [])])
    with control.solve(yield_=True) as models:
        atoms = " ".join(str(symbol) for model in models for symbol in model.symbols(shown=True))
    infos = [message.splitlines()[0].split(": ", 1)[1].strip(": ") for message in messages]
    infos = [info for info in infos if "undefined" in info and "atom" not in info]
    print(program, "->", atoms or "nothing", infos)
    assert atoms == expected
    assert bool(infos) is warned
try:
    Number(2147483648)
except OverflowError as error:
    print("Number(2147483648):", type(error).__name__)
else:
    raise AssertionError
PYTHON
