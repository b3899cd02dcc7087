#!/bin/sh
# Version: smolagents 1.26.0
# Source: the documentation of CodeAgent: the model writes its actions as Python code; and local_python_executor.py,
#   where evaluate_ast raises InterpreterError for what is not supported.
# Behaviour: four constructs give another value and no error: an unpacked list display, a decorator (ignored), a
#   property (callable: a bound method), and a default that reads a variable (read at the call).
# Output seen:
#   [range(0, 2)] instead of [0, 1]
#   1 instead of 5
#   True instead of False
#   6 instead of 5
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile smolagents==1.26.0
"$folder/venv/bin/python" - <<'PYTHON'
from smolagents.local_python_executor import LocalPythonExecutor

PROGRAMS = {
    "[*range(2)]": ([range(0, 2)], [0, 1]),
    "def five(f):\n  return lambda: 5\n@five\ndef g(): return 1\ng()": (1, 5),
    "class A:\n  @property\n  def w(self): return 1\ncallable(A().w)": (True, False),
    "x = 5\ndef f(y=x): return y\nx = 6\nf()": (6, 5),
}
for program, (seen, right) in PROGRAMS.items():
    executor = LocalPythonExecutor([])
    executor.send_tools({})
    value = executor(program).output
    *statements, last = program.splitlines()
    names = {}
    exec("\n".join(statements), names)
    print(value, "instead of", eval(last, names))
    assert value == seen and eval(last, names) == right
PYTHON
