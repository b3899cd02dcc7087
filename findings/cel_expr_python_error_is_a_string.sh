#!/bin/sh
# Version: cel-expr-python 0.1.3
# Source: the package's page and its type stub: the value of a result is read with value(); neither says that a
#   failed evaluation has one.
# Behaviour: the value of a failed evaluation is a plain str with the error's text; only type() tells it from a
#   string that the expression made.
# Output seen:
#   1 / 0 == 1 -> str 'INVALID_ARGUMENT: divide by zero' ERROR
#   "a" + "b" -> str 'ab' STRING
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile cel-expr-python==0.1.3
"$folder/venv/bin/python" - <<'PYTHON'
from cel_expr_python import cel

results = {}
for expression in ("1 / 0 == 1", '"a" + "b"'):
    results[expression] = cel.NewEnv().compile(expression).eval()
    value = results[expression].value()
    print(expression, "->", type(value).__name__, repr(value), results[expression].type())
failed = results["1 / 0 == 1"]
assert isinstance(failed.value(), str) and failed.value()
assert str(failed.type()) != str(results['"a" + "b"'].type())
PYTHON
