#!/bin/sh
# Version: regopy 1.5.2
# Source: the Open Policy Agent documentation ("Policy Language", default keyword: the rule has its default value
#   where all its bodies are undefined) and regopy's own page, which sets out to answer as the reference
#   implementation does.
# Behaviour: a query that names a rule whose value is false answers `undefined`; the same rule bound to a variable,
#   and its whole package, show false.
# Output seen:
#   data.p.allow -> undefined
#   x := data.p.allow -> {"expressions":[true], "bindings":{"x":false}}
#   data.p -> {"expressions":[{"allow":false}]}
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile regopy==1.5.2
"$folder/venv/bin/python" - <<'PYTHON'
from regopy import Interpreter

answers = {}
for query in ("data.p.allow", "x := data.p.allow", "data.p"):
    interpreter = Interpreter()
    interpreter.add_module("p", "package p\nimport rego.v1\ndefault allow := false\nallow if input.x == 1\n")
    answers[query] = str(interpreter.query(query)).strip()
    print(query, "->", answers[query])
assert answers["data.p.allow"] == "undefined"
assert '"x":false' in answers["x := data.p.allow"]
assert '"allow":false' in answers["data.p"]
PYTHON
