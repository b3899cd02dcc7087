#!/bin/sh
# Version: casbin 1.43.0 (PyPI), beside casbin 5.51.1 (npm)
# Source: the page on functions of Casbin's documentation, one for all its languages: regexMatch is whether a string
#   matches a regular expression. The original in Go finds it anywhere, as Node's does.
# Behaviour: in Python it must begin where the string begins, though it need not reach the end. The same model and
#   policy allow a request in one language and refuse it in the other.
# Output seen:
#   Python /v1/topic/create True /v2/v1/topic/create False
#   Node /v1/topic/create true /v2/v1/topic/create true
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile casbin==1.43.0
npm install --prefix "$folder/npm" --silent --no-audit --no-fund casbin@5.51.1
cat > "$folder/model.conf" <<'MODEL'
[request_definition]
r = sub, obj

[policy_definition]
p = sub, obj

[policy_effect]
e = some(where (p.eft == allow))

[matchers]
m = r.sub == p.sub && regexMatch(r.obj, p.obj)
MODEL
echo 'p, alice, /v1/topic/[a-z]+' > "$folder/policy.csv"
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import sys

import casbin

enforcer = casbin.Enforcer(f"{sys.argv[1]}/model.conf", f"{sys.argv[1]}/policy.csv")
first, second = (enforcer.enforce("alice", path) for path in ("/v1/topic/create", "/v2/v1/topic/create"))
print("Python /v1/topic/create", first, "/v2/v1/topic/create", second)
assert (first, second) == (True, False)
PYTHON
cat > "$folder/npm/program.mjs" <<'JAVASCRIPT'
import assert from "node:assert";
import { newEnforcer } from "casbin";

const enforcer = await newEnforcer(`${process.argv[2]}/model.conf`, `${process.argv[2]}/policy.csv`);
const first = await enforcer.enforce("alice", "/v1/topic/create");
const second = await enforcer.enforce("alice", "/v2/v1/topic/create");
console.log("Node /v1/topic/create", first, "/v2/v1/topic/create", second);
assert.deepStrictEqual([first, second], [true, true]);
JAVASCRIPT
node "$folder/npm/program.mjs" "$folder"
