#!/bin/sh
# Version: duckdb 2.0.1 with pyarrow 26.0.1
# Source: DuckDB's INTERVAL keeps months apart from days: a month after the 31st of January is the 29th of February. Its
#   Arrow table has the month as one.
# Behaviour: fetchall() gives 30 days, without a word, and a year is 360. Passed back as a parameter of a query it leads
#   to another date.
# Output seen:
#   in SQL: 2024-01-31 + 1 month = 2024-02-29
#   fetched: 30 days, passed back: 2024-01-31 + it = 2024-03-01
#   1 year fetched: 360 days
#   arrow: months 1 days 0
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile duckdb==2.0.1 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import duckdb


def one(query, *parameters):
    return duckdb.connect().execute(query, list(parameters)).fetchall()[0][0]


inside = one("SELECT (DATE '2024-01-31' + INTERVAL '1 month')::DATE")
month = one("SELECT INTERVAL '1 month'")
back = one("SELECT (DATE '2024-01-31' + ?)::DATE", month)
year = one("SELECT INTERVAL '1 year'")
arrow = duckdb.connect().sql("SELECT INTERVAL '1 month'").to_arrow_table().column(0)[0].as_py()
print(f"in SQL: 2024-01-31 + 1 month = {inside}")
print(f"fetched: {month.days} days, passed back: 2024-01-31 + it = {back}")
print(f"1 year fetched: {year.days} days")
print(f"arrow: months {arrow.months} days {arrow.days}")
assert str(inside) == "2024-02-29"
assert (month.days, str(back), year.days) == (30, "2024-03-01", 360)
assert (arrow.months, arrow.days) == (1, 0)
PYTHON
