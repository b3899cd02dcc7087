#!/bin/sh
# Version: zod 4.6.7 (npm)
# Source: JSON Schema: all keywords of a schema apply, also those beside $ref, enum or properties, and required may name
#   a property that properties does not list. z.fromJSONSchema throws for the keywords that it does not support, such as
#   not.
# Behaviour: it takes four schemas without an error and forgets a part of each: a bound beside $ref, a bound beside
#   enum, a required name without a property, and anyOf beside properties. What the schema forbids passes.
# Output seen:
#   minimum beside $ref, 1: passes
#   minimum beside enum, 1: passes
#   required without a property, {"a":1}: passes
#   anyOf beside properties, {"a":1}: passes
#   not: not is not supported in Zod (except { not: {} } for never)
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm install --prefix "$folder/npm" --silent --no-audit --no-fund zod@4.6.7 ajv@8.20.0
cat > "$folder/npm/program.mjs" <<'JAVASCRIPT'
import assert from "node:assert";
import { Ajv2020 } from "ajv/dist/2020.js";
import { z } from "zod";

const properties = { a: { type: "integer" } };
const either = [{ required: ["b"] }, { required: ["c"] }];
const cases = [
  ["minimum beside $ref", { $ref: "#/$defs/count", minimum: 3, $defs: { count: { type: "integer" } } }, 1],
  ["minimum beside enum", { type: "integer", enum: [1, 5], minimum: 3 }, 1],
  ["required without a property", { type: "object", properties, required: ["a", "b"] }, { a: 1 }],
  ["anyOf beside properties", { type: "object", properties, anyOf: either }, { a: 1 }],
];
for (const [name, schema, value] of cases) {
  assert(!new Ajv2020({ strict: false }).compile(schema)(value));
  const { success } = z.fromJSONSchema(schema).safeParse(value);
  console.log(`${name}, ${JSON.stringify(value)}: ${success ? "passes" : "is refused"}`);
  assert(success);
}
assert.throws(
  () => z.fromJSONSchema({ not: { type: "integer" } }),
  (error) => (console.log("not:", error.message), /not is not supported/.test(error.message)),
);
JAVASCRIPT
node "$folder/npm/program.mjs"
