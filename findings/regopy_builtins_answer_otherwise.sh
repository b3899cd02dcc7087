#!/bin/sh
# Version: regopy 1.5.2
# Source: the Open Policy Agent documentation ("Built-in Functions": object.union is recursive, semver.compare
#   follows semantic versioning, format_int writes the number in the base; "Policy Reference": null < booleans <
#   numbers < strings < ...). regopy lists the built-ins it lacks, none of these.
# Behaviour: object.union replaces nested objects, a pre-release is later than its release, -5 in base two is 11,
#   and numbers are not less than strings.
# Output seen:
#   object.union({"a":{"b":1}},{"a":{"c":2}}) -> {"a":{"c":2}}
#   semver.compare("1.0.0-alpha","1.0.0") -> 1
#   format_int(-5,2) -> "11"
#   1 < "a" -> false
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile regopy==1.5.2
"$folder/venv/bin/python" - <<'PYTHON'
from regopy import Interpreter

SEEN = {
    'object.union({"a":{"b":1}},{"a":{"c":2}})': '{"a":{"c":2}}',
    'semver.compare("1.0.0-alpha","1.0.0")': "1",
    "format_int(-5,2)": '"11"',
    '1 < "a"': "false",
}
for expression, value in SEEN.items():
    answer = str(Interpreter().query(f"x := {expression}")).strip()
    print(expression, "->", answer.partition('"x":')[2][:-2])
    assert answer.endswith(f'"bindings":{{"x":{value}}}}}'), answer
PYTHON
