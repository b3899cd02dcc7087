#!/bin/sh
# Version: mingo 7.2.7 (npm), beside sift 17.1.4 (npm)
# Source: the README of mingo: MongoDB's query language in memory, strictly compatible by default, with a list of its
#   differences, none of these. There $in holds where one of its values would be found alone, and $all where each of them
#   would. sift, for the same language, agrees.
# Behaviour: what a query finds by a value alone, it does not find by $in or $all with that one value: a list by $in, and a
#   value that is no list by $all.
# Output seen:
#   {"a":[1]} in {"a":[1]}: mingo true, sift true
#   {"a":{"$in":[[1]]}} in {"a":[1]}: mingo false, sift true
#   {"a":1} in {"a":1}: mingo true, sift true
#   {"a":{"$all":[1]}} in {"a":1}: mingo false, sift true
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm install --prefix "$folder/npm" --silent --no-audit --no-fund mingo@7.2.7 sift@17.1.4
cat > "$folder/npm/program.mjs" <<'JAVASCRIPT'
import assert from "node:assert";
import { Query } from "mingo";
import sift from "sift";

const cases = [
  [{ a: [1] }, { a: [1] }, true],
  [{ a: { $in: [[1]] } }, { a: [1] }, false],
  [{ a: 1 }, { a: 1 }, true],
  [{ a: { $all: [1] } }, { a: 1 }, false],
];
for (const [query, value, expected] of cases) {
  const found = new Query(query).test(value);
  const other = (sift.default ?? sift)(query)(value);
  console.log(`${JSON.stringify(query)} in ${JSON.stringify(value)}: mingo ${found}, sift ${other}`);
  assert.strictEqual(found, expected);
  assert.strictEqual(other, true);
}
JAVASCRIPT
node "$folder/npm/program.mjs"
