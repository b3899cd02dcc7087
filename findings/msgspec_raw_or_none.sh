#!/bin/sh
# Version: msgspec 0.23.0
# Source: msgspec's page "Supported Types": Raw keeps the bytes of any value undecoded, and a union with None also takes
#   null.
# Behaviour: a field of the type `Raw | None` takes only null, and any other value is an error when it is decoded; a field
#   of the type `Raw` takes any value, null too.
# Output seen:
#   Raw | None: Expected `null`, got `array` - at `$.value`
#   Raw: b'[1]' b'null'
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile msgspec==0.23.0
"$folder/venv/bin/python" - <<'PYTHON'
import msgspec


class Optional(msgspec.Struct):
    value: msgspec.Raw | None = None


class Plain(msgspec.Struct):
    value: msgspec.Raw


try:
    msgspec.json.decode(b'{"value": [1]}', type=Optional)
except msgspec.ValidationError as error:
    print("Raw | None:", error)
else:
    raise SystemExit("it is decoded")
texts = [bytes(msgspec.json.decode(text, type=Plain).value) for text in (b'{"value": [1]}', b'{"value": null}')]
print("Raw:", *texts)
assert texts == [b"[1]", b"null"]
PYTHON
