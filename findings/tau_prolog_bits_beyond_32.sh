#!/bin/sh
# Version: tau-prolog 0.3.4 (npm)
# Source: ISO Prolog: an integer beyond the flags max_integer and min_integer is an evaluation error; within them shifts
#   and /\ are those of the integer. The flag max_integer of the library is 9007199254740991.
# Behaviour: sums and products beyond the flag raise int_overflow, but the operators of bits take 32 bits of a number
#   and answer without an error: a shift by 40 is one by 8.
# Output seen:
#   X is 4294967296 + 1 -> X = 4294967297
#   X is 1 << 40 -> X = 256
#   X is 1 << 31 -> X = -2147483648
#   X is 4294967296 /\ 4294967296 -> X = 0
#   X is 123456789 * 987654321 -> int_overflow
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm install --prefix "$folder/npm" --silent --no-audit --no-fund tau-prolog@0.3.4
cat > "$folder/npm/program.cjs" <<'JAVASCRIPT'
const assert = require("assert");
const prolog = require("tau-prolog");

const session = prolog.create();
const ask = (goal) =>
  new Promise((resolve) =>
    session.query(`${goal}.`, {
      success: () =>
        session.answer({
          success: (answer) => resolve(session.format_answer(answer)),
          error: (error) => resolve(/int_overflow/.exec(String(error))[0]),
        }),
    }),
  );
const seen = {
  "X is 4294967296 + 1": "X = 4294967297",
  "X is 1 << 40": "X = 256",
  "X is 1 << 31": "X = -2147483648",
  "X is 4294967296 /\\ 4294967296": "X = 0",
  "X is 123456789 * 987654321": "int_overflow",
};
(async () => {
  assert.strictEqual(await ask("current_prolog_flag(max_integer, X)"), "X = 9007199254740991");
  for (const [goal, expected] of Object.entries(seen)) {
    const answer = await ask(goal);
    console.log(goal, "->", answer);
    assert.strictEqual(answer, expected);
  }
})();
JAVASCRIPT
node "$folder/npm/program.cjs"
