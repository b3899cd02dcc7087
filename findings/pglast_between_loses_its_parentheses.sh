#!/bin/sh
# Version: pglast 8.8
# Source: the documentation of pglast: RawStream and prettify write a parsed statement as equivalent SQL. PostgreSQL's
#   manual, operator precedence: BETWEEN binds closer than =, NOT, AND and OR.
# Behaviour: a comparison or a negation before BETWEEN is written without its parentheses, so the text means something
#   else: the first one asks whether a equals the truth of b between c and d. Nothing warns, unless prettify is told to
#   check, which it does not by itself. Before another operator the parentheses stay.
# Output seen:
#   (a = b) BETWEEN c AND d -> a = b BETWEEN c AND d; same tree: False
#   (NOT a) BETWEEN b AND c -> NOT a BETWEEN b AND c; same tree: False
#   (a OR b) = c -> (a OR b) = c; same tree: True
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile pglast==8.8
"$folder/venv/bin/python" - <<'PYTHON'
from pglast import parse_sql, prettify
from pglast.stream import RawStream

cases = {
    "(a = b) BETWEEN c AND d": ("a = b BETWEEN c AND d", False),
    "(NOT a) BETWEEN b AND c": ("NOT a BETWEEN b AND c", False),
    "(a OR b) = c": ("(a OR b) = c", True),
}
for expression, (expected, same) in cases.items():
    statement = parse_sql("SELECT " + expression)[0].stmt
    text = RawStream()(statement)
    equal = parse_sql(text)[0].stmt == statement
    print(f"{expression} -> {text.removeprefix('SELECT ')}; same tree: {equal}")
    assert text == "SELECT " + expected == " ".join(prettify("SELECT " + expression).split())
    assert equal is same
PYTHON
