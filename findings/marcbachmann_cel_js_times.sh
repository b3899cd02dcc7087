#!/bin/sh
# Version: @marcbachmann/cel-js 8.0.0 (npm), beside @bufbuild/cel 0.6.1 (npm) and cel-expr-python 0.1.3
# Source: the CEL language definition, list of standard definitions: the milliseconds of a duration are those beside its
#   seconds, a time zone may be a fixed offset, and a timestamp has nanoseconds. @bufbuild/cel and Google's own runtime,
#   cel-expr-python, agree. The README claims the specification, and says that an argument may name a time zone.
# Behaviour: getMilliseconds of a duration has all of them; two timestamps that differ by less than a millisecond are
#   equal; and with an offset there is no hour, but an error.
# Output seen (the other two: 500, false, 5):
#   duration('1.5s').getMilliseconds() -> 1500
#   timestamp('2023-01-01T00:00:00.1239Z') == timestamp('2023-01-01T00:00:00.123Z') -> true
#   timestamp('2023-01-01T00:00:00Z').getHours('+05:30') -> Invalid time zone specified
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm install --prefix "$folder/npm" --silent --no-audit --no-fund @marcbachmann/cel-js@8.0.0 @bufbuild/cel@0.6.1
cat > "$folder/npm/program.mjs" <<'JAVASCRIPT'
import assert from "node:assert";
import { run } from "@bufbuild/cel";
import { evaluate } from "@marcbachmann/cel-js";

const cases = [
  ["duration('1.5s').getMilliseconds()", "1500", 500n],
  ["timestamp('2023-01-01T00:00:00.1239Z') == timestamp('2023-01-01T00:00:00.123Z')", "true", false],
  ["timestamp('2023-01-01T00:00:00Z').getHours('+05:30')", "Invalid time zone specified", 5n],
];
for (const [expression, seen, other] of cases) {
  let answer;
  try {
    answer = String(evaluate(expression));
  } catch (error) {
    answer = error.message.split(":")[0];
  }
  console.log(`${expression} -> ${answer}`);
  assert.equal(answer, seen);
  assert.strictEqual(run(expression), other);
}
JAVASCRIPT
node "$folder/npm/program.mjs"
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile cel-expr-python==0.1.3
"$folder/venv/bin/python" - <<'PYTHON'
from cel_expr_python import cel

cases = {
    "duration('1.5s').getMilliseconds()": 500,
    "timestamp('2023-01-01T00:00:00.1239Z') == timestamp('2023-01-01T00:00:00.123Z')": False,
    "timestamp('2023-01-01T00:00:00Z').getHours('+05:30')": 5,
}
for expression, value in cases.items():
    assert cel.NewEnv().compile(expression).eval().value() == value
PYTHON
