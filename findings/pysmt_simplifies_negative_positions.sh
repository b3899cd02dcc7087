#!/bin/sh
# Version: pySMT 0.9.6 (with cvc5 1.4.2)
# Source: SMT-LIB, theory of strings: str.at and str.substr with a negative position are the empty string, str.indexof
#   with one is -1. pySMT writes these operators in SMT-LIB under these names, and gives them to its solvers.
# Behaviour: simplify() counts a negative position from the end of the string, as Python does; so a term and what it
#   simplifies to differ, and pySMT's own is_valid says so.
# Output seen:
#   str.at("12", -2) -> "1" equal: False
#   str.substr("12", -1, 3) -> "2" equal: False
#   str.indexof("12", "12", -3) -> 0 equal: False
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile pysmt==0.9.6 cvc5==1.4.2
"$folder/venv/bin/python" - <<'PYTHON'
from pysmt.shortcuts import EqualsOrIff, Int, StrCharAt, String, StrIndexOf, StrSubstr, is_valid

text = String("12")
for term, simplified in (
    (StrCharAt(text, Int(-2)), String("1")),
    (StrSubstr(text, Int(-1), Int(3)), String("2")),
    (StrIndexOf(text, text, Int(-3)), Int(0)),
):
    result = term.simplify()
    equal = is_valid(EqualsOrIff(term, result), solver_name="cvc5")
    print(term, "->", result, "equal:", equal)
    assert result == simplified and not equal
PYTHON
