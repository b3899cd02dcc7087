#!/bin/sh
# Version: ibis-framework 12.0.0 with duckdb 1.5.6, polars 2.1.0 and sqlite; sqlglot 27.29.0
# Source: Ibis's own aim: one expression for every backend, and an error (OperationNotDefinedError) for what a backend
#   cannot do. The docstrings: nunique is the number of distinct rows, round rounds to a number of digits.
# Behaviour: the same expressions have other values, without a word. Polars counts a null as one more value and gives the
#   remainder the sign of the divisor; sqlite leaves tens as they are; DuckDB rounds where the others cut off.
# Output seen:
#   n.nunique(): duckdb 3, polars 4, sqlite 3
#   i % 3: duckdb [-1, 2], polars [2, 2], sqlite [-1, 2]
#   f.cast('int64'): duckdb [2, -2], polars [1, -2], sqlite [1, -2]
#   (i * 5).round(-1): duckdb [-40, 10], sqlite [-35, 10]
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile "ibis-framework[duckdb,polars,sqlite]==12.0.0" \
  duckdb==1.5.6 polars==2.1.0 sqlglot==27.29.0
"$folder/venv/bin/python" - <<'PYTHON'
import ibis
import pandas

FRAME = pandas.DataFrame({"i": [-7, 2, 2, 2], "f": [1.5, -2.5, 0.0, 0.0], "n": [1.0, None, 3.0, 2.0]})
connections = {"duckdb": ibis.duckdb.connect(), "polars": ibis.polars.connect(), "sqlite": ibis.sqlite.connect()}
tables = {name: connection.create_table("t", FRAME) for name, connection in connections.items()}


def first(column):
    return [int(value) for value in column.execute().tolist()[:2]]


cases = {
    "n.nunique()": (lambda t: int(t.n.nunique().execute()), {"duckdb": 3, "polars": 4, "sqlite": 3}),
    "i % 3": (lambda t: first(t.i % 3), {"duckdb": [-1, 2], "polars": [2, 2], "sqlite": [-1, 2]}),
    "f.cast('int64')": (
        lambda t: first(t.f.cast("int64")),
        {"duckdb": [2, -2], "polars": [1, -2], "sqlite": [1, -2]},
    ),
    "(i * 5).round(-1)": (lambda t: first((t.i * 5).round(-1)), {"duckdb": [-40, 10], "sqlite": [-35, 10]}),
}
for expression, (evaluate, expected) in cases.items():
    seen = {name: evaluate(tables[name]) for name in expected}
    print(f"{expression}:", ", ".join(f"{name} {value}" for name, value in seen.items()))
    assert seen == expected
PYTHON
