#!/bin/sh
# Version: duckdb 2.0.1 with pandas 3.1.1 and pyarrow 26.0.1
# Source: DuckDB's types: SUM of integers is a HUGEINT, an integer of 128 bits, and a DECIMAL is exact. fetchall() and the
#   Arrow table of the same query have the exact numbers.
# Behaviour: df() makes a float of either, whatever its size, so the sum of two integers that fit 64 bits
#   is off by one, and an amount is no decimal any more. A column of BIGINT, not summed, stays an integer.
# Output seen:
#   SUM: fetchall 9007199254740993, arrow 9007199254740993, df 9007199254740992.0 (float64)
#   DECIMAL: fetchall 1.10, arrow 1.10, df 1.1 (float64)
#   BIGINT: fetchall 9007199254740993, arrow 9007199254740993, df 9007199254740993 (int64)
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile duckdb==2.0.1 pandas==3.1.1 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import duckdb

cases = {
    "SUM": ("SELECT SUM(x) FROM (VALUES (9007199254740992), (1)) AS t(x)", "9007199254740992.0", "float64"),
    "DECIMAL": ("SELECT 1.10::DECIMAL(5, 2)", "1.1", "float64"),
    "BIGINT": ("SELECT 9007199254740993", "9007199254740993", "int64"),
}
for name, (query, expected, kind) in cases.items():
    exact = str(duckdb.connect().execute(query).fetchall()[0][0])
    arrow = str(duckdb.connect().sql(query).to_arrow_table().column(0)[0].as_py())
    frame = duckdb.connect().sql(query).df().iloc[:, 0]
    print(f"{name}: fetchall {exact}, arrow {arrow}, df {frame.iloc[0]} ({frame.dtype})")
    assert exact == arrow
    assert (str(frame.iloc[0]), str(frame.dtype)) == (expected, kind)
PYTHON
