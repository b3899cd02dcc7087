#!/bin/sh
# Version: bashlex 0.18
# Source: the Bash manual, "ANSI-C Quoting" and "Locale-Specific Translation": $'x' and $"x" are quoted texts, here
#   the text x; the README of bashlex: it is a port of the parser of GNU bash.
# Behaviour: both are read as the word $x with a node for a parameter (whose name is empty), without an error; bash
#   prints x.
# Output seen:
#   echo $'x' -> $x [('parameter', '')]
#   echo $"x" -> $x [('parameter', '')]
#   bash: x x
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile bashlex==0.18
"$folder/venv/bin/python" - <<'PYTHON'
import subprocess

import bashlex

for text in ("echo $'x'", 'echo $"x"'):
    word = bashlex.parse(text)[0].parts[1]
    parts = [(part.kind, part.value) for part in word.parts]
    print(text, "->", word.word, parts)
    assert word.word == "$x" and parts == [("parameter", "")]
printed = subprocess.run(["bash", "-c", "echo $'x' $\"x\""], capture_output=True, text=True, check=True).stdout.strip()
print("bash:", printed)
assert printed == "x x"
PYTHON
