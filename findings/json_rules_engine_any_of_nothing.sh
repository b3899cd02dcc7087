#!/bin/sh
# Version: json-rules-engine 7.3.1 (npm)
# Source: docs/rules.md of the project, "Boolean expressions": `all` needs every condition to be truthy, `any` needs one.
#   Of no conditions none is truthy, and [].some() is false in JavaScript.
# Behaviour: an `any` without conditions is true, on its own and inside other conditions. A list of alternatives from
#   which the last one is deleted turns from a rule that seldom fires into one that always does.
# Output seen:
#   {"any":[{"fact":"country","operator":"equal","value":"NO"}]} false
#   {"any":[]} true
#   {"all":[{"any":[]}]} true
#   {"not":{"any":[]}} false
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm install --prefix "$folder/npm" --silent --no-audit --no-fund json-rules-engine@7.3.1
cat > "$folder/npm/program.cjs" <<'JAVASCRIPT'
const assert = require("node:assert");
const { Engine } = require("json-rules-engine");

const cases = [
  [{ any: [{ fact: "country", operator: "equal", value: "NO" }] }, false],
  [{ any: [] }, true],
  [{ all: [{ any: [] }] }, true],
  [{ not: { any: [] } }, false],
];
(async () => {
  for (const [conditions, expected] of cases) {
    const { events } = await new Engine([{ conditions, event: { type: "fires" } }]).run({ country: "SE" });
    console.log(JSON.stringify(conditions), events.length === 1);
    assert.equal(events.length === 1, expected);
  }
})();
JAVASCRIPT
node "$folder/npm/program.cjs"
