#!/bin/sh
# Version: hl7apy 1.3.5, beside hl7 0.4.5 (python-hl7)
# Source: HL7 version 2, chapter 2: a separator inside a text is written as an escape sequence, which stands for that
#   character. hl7apy escapes a text that is assigned; hl7 gives the text back that a sequence stands for. The type NM is
#   digits with a sign and a point.
# Behaviour: hl7apy escapes on the way out and does not undo it on the way in: the value of a parsed field has the
#   sequence, so a text that went through a message is another one, and is equal to nothing. A number of type NM below a
#   millionth is written with an exponent.
# Output seen:
#   assigned: JOHN|J written: PID|||||^JOHN\F\J
#   read by hl7apy: JOHN\F\J
#   read by hl7: JOHN|J
#   NM: 1E-7
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile hl7apy==1.3.5 hl7==0.4.5
"$folder/venv/bin/python" - <<'PYTHON'
from decimal import Decimal

import hl7
from hl7apy.core import Segment
from hl7apy.factories import datatype_factory
from hl7apy.parser import parse_segment

segment = Segment("PID", version="2.5")
segment.pid_5.xpn_2 = "JOHN|J"
text = segment.to_er7()
read = parse_segment(text, version="2.5").pid_5.xpn_2.value
other = hl7.parse("MSH|^~\\&|A|B|C|D|20240101||ADT^A01|1|P|2.5\r" + text + "\r")["PID.F5.R1.C2"]
number = datatype_factory("NM", Decimal("0.0000001"), version="2.5").to_er7()
print("assigned: JOHN|J written:", text)
print("read by hl7apy:", read)
print("read by hl7:", other)
print("NM:", number)
assert text == "PID|||||^JOHN\\F\\J"
assert read == "JOHN\\F\\J"
assert other == "JOHN|J"
assert number == "1E-7"
PYTHON
