#!/bin/sh
# Version: sqlglot 30.30.0 with duckdb 2.0.1
# Source: the docstring of sqlglot.optimizer.simplify.simplify: it rewrites a tree to simplify its expressions. A simpler
#   condition keeps the rows that the first one keeps.
# Behaviour: where two bounds on a column have one number and one of them is written as `1 - x > 0`, the negation of both
#   loses the equality: the row with x = 1 is left out. With the bound written as `x < 1` it is kept. DuckDB counts the rows.
# Output seen:
#   NOT (x <= 1 AND 1 - x > 0) -> x > 1; rows [1, 2] -> [2]
#   NOT (x <= 1 AND x < 1) -> x >= 1; rows [1, 2] -> [1, 2]
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile sqlglot==30.30.0 duckdb==2.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import duckdb
from sqlglot import parse_one
from sqlglot.optimizer.simplify import simplify


def rows(condition):
    query = f"SELECT x FROM (VALUES (0), (1), (2)) AS t(x) WHERE {condition} ORDER BY x"
    return [x for (x,) in duckdb.sql(query).fetchall()]


cases = {"NOT (x <= 1 AND 1 - x > 0)": ("x > 1", [2]), "NOT (x <= 1 AND x < 1)": ("x >= 1", [1, 2])}
for condition, (expected, kept) in cases.items():
    simpler = simplify(parse_one(condition)).sql()
    print(f"{condition} -> {simpler}; rows {rows(condition)} -> {rows(simpler)}")
    assert simpler == expected
    assert rows(condition) == [1, 2]
    assert rows(simpler) == kept
PYTHON
