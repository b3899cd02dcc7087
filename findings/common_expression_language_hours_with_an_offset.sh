#!/bin/sh
# Version: common-expression-language 0.10.0, beside cel-python 0.5.0
# Source: the CEL language definition, list of standard definitions: getHours of a timestamp, without an argument,
#   is the hour in UTC.
# Behaviour: common-expression-language answers with the hour of the offset that the text was written with, so that
#   two equal timestamps have different hours; cel-python answers in UTC.
# Output seen:
#   common-expression-language 0 23 equal: True
#   cel-python 23
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile common-expression-language==0.10.0 cel-python==0.5.0
"$folder/venv/bin/python" - <<'PYTHON'
import cel
import celpy

WRITTEN = 'timestamp("2026-01-01T00:00:00+01:00")'
SAME = 'timestamp("2025-12-31T23:00:00Z")'
hour, hour_of_same = (cel.evaluate(f"{text}.getHours()", {}) for text in (WRITTEN, SAME))
equal = cel.evaluate(f"{WRITTEN} == {SAME}", {})
environment = celpy.Environment()
reference = environment.program(environment.compile(f"{WRITTEN}.getHours()")).evaluate({})
print("common-expression-language", hour, hour_of_same, "equal:", equal)
print("cel-python", reference)
assert (hour, hour_of_same, equal, int(reference)) == (0, 23, True, 23)
PYTHON
