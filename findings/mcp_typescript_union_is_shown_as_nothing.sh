#!/bin/sh
# Version: @modelcontextprotocol/sdk 1.32.2 with zod 4.6.7 (npm)
# Source: the type of registerTool: inputSchema is any schema of zod. The MCP specification, tools: the inputSchema of a
#   tool in tools/list defines the arguments that it expects.
# Behaviour: a union, an intersection, a record or an object with a transform is taken, and each call is checked against
#   it; but tools/list shows an object without properties, so the model reads that there are no arguments. Nothing warns.
# Output seen:
#   object: shows {"amount":{"type":"number"}}, {} refused, {"amount":1} taken
#   union: shows {}, {} refused, {"amount":1} taken
#   intersection: shows {}, {} refused, {"amount":1} taken
#   record: shows {}, {"amount":"x"} refused, {"amount":1} taken
#   transform: shows {}, {} refused, {"amount":1} taken
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm install --prefix "$folder/npm" --silent --no-audit --no-fund @modelcontextprotocol/sdk@1.32.2 zod@4.6.7
cat > "$folder/npm/program.mjs" <<'JAVASCRIPT'
import assert from "node:assert";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { InMemoryTransport } from "@modelcontextprotocol/sdk/inMemory.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { z } from "zod";

const amount = z.object({ amount: z.number() });
const schemas = {
  object: amount,
  union: z.union([amount, z.object({ share: z.number() })]),
  intersection: z.intersection(amount, z.object({ note: z.string().optional() })),
  record: z.record(z.string(), z.number()),
  transform: amount.transform((value) => value),
};
const server = new McpServer({ name: "server", version: "1" });
for (const [name, inputSchema] of Object.entries(schemas)) {
  server.registerTool(name, { inputSchema }, async () => ({ content: [] }));
}
const client = new Client({ name: "client", version: "1" });
const [front, back] = InMemoryTransport.createLinkedPair();
await Promise.all([server.connect(back), client.connect(front)]);
for (const { name, inputSchema } of (await client.listTools()).tools) {
  const bad = name === "record" ? { amount: "x" } : {};
  const answers = [];
  for (const args of [bad, { amount: 1 }]) {
    const { isError } = await client.callTool({ name, arguments: args });
    answers.push(`${JSON.stringify(args)} ${isError ? "refused" : "taken"}`);
  }
  console.log(`${name}: shows ${JSON.stringify(inputSchema.properties)}, ${answers.join(", ")}`);
  assert.deepEqual(inputSchema.properties, name === "object" ? { amount: { type: "number" } } : {});
  assert.deepEqual(answers, [`${JSON.stringify(bad)} refused`, '{"amount":1} taken']);
}
await client.close();
JAVASCRIPT
node "$folder/npm/program.mjs"
