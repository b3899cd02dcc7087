#!/bin/sh
# Version: dcmjs 0.51.1 (npm), beside pydicom 3.0.2 (PyPI)
# Source: DICOM PS3.18, annex F, which dcmjs's datasets follow: a tag as a value (VR AT) is a text of eight hexadecimal
#   digits, as in 00181063 for (0018,1063), Frame Time. pydicom writes the same dataset of JSON so.
# Behaviour: dcmjs reads the digits as a decimal number and writes the element (0002,C347). The file says that the frames
#   are timed by another attribute; dcmjs itself reads 181063 back. A number too large for its VR (US, 16 bits) is written
#   as its lowest bits. Nothing warns.
# Output seen:
#   dcmjs wrote (0002,C347) and 4464 rows
#   pydicom wrote (0018,1063)
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm install --prefix "$folder/npm" --silent --no-audit --no-fund dcmjs@0.51.1
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile pydicom==3.0.2
cat > "$folder/npm/program.cjs" <<'JAVASCRIPT'
const { writeFileSync } = require("node:fs");
const { DicomDict } = require("dcmjs").data;

const file = new DicomDict({ "00020010": { vr: "UI", Value: ["1.2.840.10008.1.2.1"] } });
file.dict = JSON.parse(process.argv[3]);
writeFileSync(process.argv[2], Buffer.from(file.write()));
JAVASCRIPT
"$folder/venv/bin/python" - "$folder" <<'PYTHON' 2>/dev/null
import json
import subprocess
import sys

from pydicom import Dataset, dcmread

folder = sys.argv[1]
pointer = {"00280009": {"vr": "AT", "Value": ["00181063"]}}
dataset = pointer | {"00280010": {"vr": "US", "Value": [70000]}}
program = ["node", f"{folder}/npm/program.cjs", f"{folder}/file.dcm", json.dumps(dataset)]
subprocess.run(program, check=True, capture_output=True)
seen = dcmread(f"{folder}/file.dcm", force=True)
other = Dataset.from_json(pointer)
print("dcmjs wrote", seen.FrameIncrementPointer, "and", seen.Rows, "rows")
print("pydicom wrote", other.FrameIncrementPointer)
assert seen.FrameIncrementPointer == 0x0002C347
assert seen.Rows == 70000 % 65536
assert other.FrameIncrementPointer == 0x00181063
PYTHON
