#!/bin/sh
# Version: pylogics 0.2.1, beside flloat 0.3.0
# Source: De Giacomo and Vardi, "Linear Temporal Logic and Linear Dynamic Logic on Finite Traces" (IJCAI 2013): last
#   is "not next true", true at the last instant; X is the strong next.
# Behaviour: pylogics reads `last` as G(ff), which holds at no instant of a trace, and `X a` as the weak next.
#   flloat, for the same logic and notation, has last true at the last instant, and X strong.
# Output seen:
#   pylogics: last is G(ff); X a is WeakNext
#   flloat on a trace of one instant: last True, G(false) False, X(a) False, WX(a) True
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile pylogics==0.2.1 flloat==0.3.0
"$folder/venv/bin/python" - <<'PYTHON'
from flloat.parser.ltlf import LTLfParser
from pylogics.parsers import parse_ltl
from pylogics.utils.to_string import to_string

read_last, read_next = to_string(parse_ltl("last")), type(parse_ltl("X a")).__name__
print(f"pylogics: last is {read_last}; X a is {read_next}")
truth = {text: LTLfParser()(text).truth([{"a": False}]) for text in ("last", "G(false)", "X(a)", "WX(a)")}
print("flloat on a trace of one instant:", ", ".join(f"{text} {value}" for text, value in truth.items()))
assert (read_last, read_next) == ("G(ff)", "WeakNext")
assert truth == {"last": True, "G(false)": False, "X(a)": False, "WX(a)": True}
PYTHON
