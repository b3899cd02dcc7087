#!/bin/sh
# Version: @modelcontextprotocol/sdk 1.32.2 with zod 4.6.7 (npm)
# Source: the MCP specification, tools, output schema: a server's structured result conforms to the outputSchema of its
#   tool. McpServer checks each result, and so does Client; the schema of both is the one of registerTool.
# Behaviour: a field more than those of the schema passes the check of the server and is sent, but the schema that the
#   server shows forbids it, so the client of the same package refuses the result. Before it has listed the tools, it
#   takes the same result.
# Output seen:
#   shown: additionalProperties false
#   before tools/list: {"total":1,"currency":"EUR"}
#   after: MCP error -32602: Structured content does not match the tool's output schema
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

const result = { total: 1, currency: "EUR" };
const server = new McpServer({ name: "server", version: "1" });
const schema = { outputSchema: { total: z.number() } };
server.registerTool("bill", schema, async () => ({ content: [], structuredContent: result }));
const client = new Client({ name: "client", version: "1" });
const [front, back] = InMemoryTransport.createLinkedPair();
await Promise.all([server.connect(back), client.connect(front)]);
const before = await client.callTool({ name: "bill" });
const [{ outputSchema }] = (await client.listTools()).tools;
const after = await client.callTool({ name: "bill" }).catch((error) => error.message.split(": ").slice(0, 2).join(": "));
console.log("shown: additionalProperties", outputSchema.additionalProperties);
console.log("before tools/list:", JSON.stringify(before.structuredContent));
console.log("after:", after);
assert.strictEqual(outputSchema.additionalProperties, false);
assert.deepEqual(before.structuredContent, result);
assert.match(after, /does not match the tool's output schema/);
await client.close();
JAVASCRIPT
node "$folder/npm/program.mjs"
