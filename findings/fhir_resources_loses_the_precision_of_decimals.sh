#!/bin/sh
# Version: fhir.resources 8.3.0
# Source: the FHIR specification, data types, decimal: the precision has significance (0.010 is another value than 0.01)
#   and implementations preserve it; the field of the class is a decimal.Decimal.
# Behaviour: 1.00 comes in as Decimal('1.0') and goes out as 1.0, and the last of 18 digits is lost, without a word.
#   What a validated resource writes is not what was measured.
# Output seen:
#   1.00 -> Decimal('1.0') -> 1.0
#   0.010 -> Decimal('0.01') -> 0.01
#   123456789012345.678 -> Decimal('123456789012345.67') -> 123456789012345.67
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile fhir.resources==8.3.0
"$folder/venv/bin/python" - <<'PYTHON'
from fhir.resources.quantity import Quantity


SEEN = {
    "1.00": ("Decimal('1.0')", "1.0"),
    "0.010": ("Decimal('0.01')", "0.01"),
    "123456789012345.678": ("Decimal('123456789012345.67')", "123456789012345.67"),
}


def read(text):
    quantity = Quantity.model_validate_json(f'{{"value": {text}}}')
    return repr(quantity.value), quantity.model_dump_json().partition(":")[2].rstrip("}")


for text, (value, written) in SEEN.items():
    print(text, "->", " -> ".join(read(text)))
    assert read(text) == (value, written)
PYTHON
