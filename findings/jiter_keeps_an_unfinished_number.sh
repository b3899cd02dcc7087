#!/bin/sh
# Version: jiter 0.19.0
# Source: the README, "Handling Partial JSON": with partial_mode=True the incomplete last field is discarded.
# Behaviour: an unfinished string, literal or exponent is discarded, but the first digits of a longer number are its
#   value.
# Output seen:
#   {"n": "ab {}
#   {"n": tru {}
#   {"n": 12e {}
#   {"n": 12 {'n': 12}
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile jiter==0.19.0
"$folder/venv/bin/python" - <<'PYTHON'
from jiter import from_json

values = {}
for whole, length in (('{"n": "abc"}', 9), ('{"n": true}', 9), ('{"n": 12e3}', 9), ('{"n": 1200}', 8)):
    part = whole[:length]
    values[part] = from_json(part.encode(), partial_mode=True)
    print(part, values[part])
assert list(values.values()) == [{}, {}, {}, {"n": 12}]
PYTHON
