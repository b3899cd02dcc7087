#!/bin/sh
# Version: @bufbuild/cel 0.6.1 (npm), beside cel-expr-python 0.1.3
# Source: the CEL language definition, type conversions: a text that is no number, or no timestamp of RFC 3339, is an
#   error. Google's own runtime, cel-expr-python, has an error for each of these.
# Behaviour: the conversions are JavaScript's. An empty text is 0, digits may be binary, and the thirtieth of February is
#   the first of March. What is not a number by JavaScript either is an error.
# Output seen (cel-expr-python: errors):
#   int('') -> 0
#   double('') -> 0
#   int('0b11') -> 3
#   timestamp('2024-02-30T00:00:00Z') == timestamp('2024-03-01T00:00:00Z') -> true
#   int('7 apples') -> Cannot convert 7 apples to a BigInt
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm install --prefix "$folder/npm" --silent --no-audit --no-fund @bufbuild/cel@0.6.1
cat > "$folder/npm/program.mjs" <<'JAVASCRIPT'
import assert from "node:assert";
import { isCelError, run } from "@bufbuild/cel";

const cases = [
  ["int('')", "0"],
  ["double('')", "0"],
  ["int('0b11')", "3"],
  ["timestamp('2024-02-30T00:00:00Z') == timestamp('2024-03-01T00:00:00Z')", "true"],
  ["int('7 apples')", "Cannot convert 7 apples to a BigInt"],
];
for (const [expression, seen] of cases) {
  const value = run(expression);
  const answer = isCelError(value) ? value.message : String(value);
  console.log(`${expression} -> ${answer}`);
  assert.equal(answer, seen);
}
JAVASCRIPT
node "$folder/npm/program.mjs"
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile cel-expr-python==0.1.3
"$folder/venv/bin/python" - <<'PYTHON'
from cel_expr_python import cel

for expression in ("int('')", "double('')", "int('0b11')", "timestamp('2024-02-30T00:00:00Z')"):
    assert "ERROR" in str(cel.NewEnv().compile(expression).eval().type())
PYTHON
