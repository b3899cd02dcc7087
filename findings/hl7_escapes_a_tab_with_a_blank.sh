#!/bin/sh
# Version: hl7 0.4.5 (python-hl7)
# Source: HL7 version 2, escape sequences: \Xdddd..\ is data in hexadecimal digits, two for a byte. The docstring of
#   Message.escape: values are replaced by hex versions with HL7's conventions.
# Behaviour: a character below 16 gets one digit and a blank before it, which is no pair of digits. hl7 reads it itself,
#   because int() of Python ignores the blank; a reader that minds the standard does not.
# Output seen:
#   tab: '\\X 9\\' pairs of digits: False, read back: True
#   line feed: '\\X a\\' pairs of digits: False, read back: True
#   delete: '\\X7f\\' pairs of digits: True, read back: True
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile hl7==0.4.5
"$folder/venv/bin/python" - <<'PYTHON'
import re

import hl7

message = hl7.parse("MSH|^~\\&|A|B|C|D|20230101||ADT^A01|1|P|2.5\r")
cases = (("tab", "\t", "\\X 9\\"), ("line feed", "\n", "\\X a\\"), ("delete", "\x7f", "\\X7f\\"))
for name, character, expected in cases:
    escaped = message.escape(character)
    pairs = re.fullmatch(r"\\X([0-9A-Fa-f]{2})+\\", escaped) is not None
    back = message.unescape(escaped) == character
    print(f"{name}: {escaped!r} pairs of digits: {pairs}, read back: {back}")
    assert escaped == expected
    assert back
PYTHON
