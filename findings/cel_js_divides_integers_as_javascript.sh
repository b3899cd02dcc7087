#!/bin/sh
# Version: cel-js 0.8.2 (npm), beside @bufbuild/cel 0.6.1 (npm)
# Source: the README of cel-js: a parser and evaluator for Google's Common Expression Language, whose list of features has
#   int, uint, arithmetic, && and ||. The CEL language definition: an int is a whole number of 64 bits, and `true || e` is
#   true even where e is an error. @bufbuild/cel answers so.
# Behaviour: integers are JavaScript's numbers: a division leaves a fraction, and beyond 2 to the 53rd digits change. Both
#   sides of || are computed, so an error on the right ends an expression that is decided on the left; && skips its right
#   side.
# Output seen:
#   1 / 2 == 0 -> cel-js false, @bufbuild/cel true
#   7 / 2 * 2 == 7 -> cel-js true, @bufbuild/cel false
#   9007199254740993 == 9007199254740992 -> cel-js true, @bufbuild/cel false
#   true || 1 / 0 == 1 -> cel-js Division by zero, @bufbuild/cel true
#   false && 1 / 0 == 1 -> cel-js false, @bufbuild/cel false
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm install --prefix "$folder/npm" --silent --no-audit --no-fund cel-js@0.8.2 @bufbuild/cel@0.6.1
cat > "$folder/npm/program.mjs" <<'JAVASCRIPT'
import assert from "node:assert";
import { run } from "@bufbuild/cel";
import { evaluate } from "cel-js";

const cases = [
  ["1 / 2 == 0", "false", true],
  ["7 / 2 * 2 == 7", "true", false],
  ["9007199254740993 == 9007199254740992", "true", false],
  ["true || 1 / 0 == 1", "Division by zero", true],
  ["false && 1 / 0 == 1", "false", false],
];
for (const [expression, seen, other] of cases) {
  let answer;
  try {
    answer = String(evaluate(expression));
  } catch (error) {
    answer = error.message;
  }
  console.log(`${expression} -> cel-js ${answer}, @bufbuild/cel ${run(expression)}`);
  assert.equal(answer, seen);
  assert.strictEqual(run(expression), other);
}
JAVASCRIPT
node "$folder/npm/program.mjs"
