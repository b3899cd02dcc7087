#!/bin/sh
# Version: @marcbachmann/cel-js 8.0.0 (npm), beside @bufbuild/cel 0.6.1 (npm)
# Source: the README: an implementation of CEL with full coverage of its specification. The CEL language definition: an
#   int has 64 bits, and a result out of its range is an error. Its own + and * raise integer overflow; @bufbuild/cel has
#   an error for all of these.
# Behaviour: a negation, a division and a conversion leave the range without an error, and comparisons go on with numbers
#   that no int can be.
# Output seen:
#   9223372036854775807 + 1 > 0 -> integer overflow
#   -(-9223372036854775807 - 1) > 0 -> true
#   (-9223372036854775807 - 1) / -1 > 0 -> true
#   int(1e30) > 9223372036854775807 -> true
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm install --prefix "$folder/npm" --silent --no-audit --no-fund @marcbachmann/cel-js@8.0.0 @bufbuild/cel@0.6.1
cat > "$folder/npm/program.mjs" <<'JAVASCRIPT'
import assert from "node:assert";
import { isCelError, run } from "@bufbuild/cel";
import { evaluate } from "@marcbachmann/cel-js";

const cases = [
  ["9223372036854775807 + 1 > 0", "integer overflow"],
  ["-(-9223372036854775807 - 1) > 0", "true"],
  ["(-9223372036854775807 - 1) / -1 > 0", "true"],
  ["int(1e30) > 9223372036854775807", "true"],
];
for (const [expression, seen] of cases) {
  let answer;
  try {
    answer = String(evaluate(expression));
  } catch (error) {
    answer = error.message.split(":")[0];
  }
  console.log(`${expression} -> ${answer}`);
  assert.equal(answer, seen);
  assert(isCelError(run(expression)));
}
JAVASCRIPT
node "$folder/npm/program.mjs"
