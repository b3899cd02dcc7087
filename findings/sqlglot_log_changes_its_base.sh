#!/bin/sh
# Version: sqlglot 30.30.0
# Source: the README: it aims at semantically correct SQL in the target dialect. PostgreSQL's manual: log(x) is the
#   logarithm to base 10; MySQL's: LOG(X) is the natural one. The other way round sqlglot does keep the base.
# Behaviour: the logarithm to base 10 of PostgreSQL becomes the natural logarithm of MySQL, silently.
# Output seen:
#   postgres to mysql: SELECT LOG(100)
#   mysql to postgres: SELECT LN(100)
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile sqlglot==30.30.0
"$folder/venv/bin/python" - <<'PYTHON'
from sqlglot import ErrorLevel, transpile

forth = transpile("SELECT LOG(100)", read="postgres", write="mysql", unsupported_level=ErrorLevel.RAISE)[0]
back = transpile("SELECT LOG(100)", read="mysql", write="postgres")[0]
print("postgres to mysql:", forth)
print("mysql to postgres:", back)
assert forth == "SELECT LOG(100)"
assert back == "SELECT LN(100)"
PYTHON
