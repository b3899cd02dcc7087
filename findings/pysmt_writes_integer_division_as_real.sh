#!/bin/sh
# Version: pySMT 0.9.6 (with z3-solver 5.4.1)
# Source: SMT-LIB, theories Ints and Reals: integer division is div; / divides reals, and 7 / 2 is 3.5. pySMT's Div on
#   integers is integer division: it simplifies 7 / 2 to 3, and its solvers agree.
# Behaviour: to_smtlib writes it as /, so a solver that reads the text divides reals: what pySMT proves, the text does
#   not say. Its own reader knows no div either.
# Output seen:
#   text: (= (* 2 (/ 7 2)) 7)
#   pySMT: valid: False
#   Z3 on the text: valid: True
#   reading div: NotImplementedError
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile pysmt==0.9.6 z3-solver==5.4.1
"$folder/venv/bin/python" - <<'PYTHON'
from io import StringIO

import z3
from pysmt.shortcuts import Div, Equals, Int, Times, is_valid
from pysmt.smtlib.parser import SmtLibParser
from pysmt.smtlib.printers import to_smtlib

formula = Equals(Times(Int(2), Div(Int(7), Int(2))), Int(7))
text = to_smtlib(formula, daggify=False)
by_pysmt = is_valid(formula, solver_name="z3")
solver = z3.Solver()
solver.add(z3.parse_smt2_string(f"(assert (not {text}))"))
by_text = solver.check() == z3.unsat
print("text:", text)
print("pySMT: valid:", by_pysmt)
print("Z3 on the text: valid:", by_text)
try:
    SmtLibParser().get_script(StringIO("(declare-fun x () Int)(assert (= x (div 7 2)))"))
    raise SystemExit("it reads div")
except NotImplementedError as error:
    print("reading div:", type(error).__name__)
assert "(/ 7 2)" in text and by_text and not by_pysmt
PYTHON
