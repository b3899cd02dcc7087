// A server of the TypeScript SDK with one tool: node server.mjs ts1|ts2|ts2-newest stdio | http PORT
import { createServer } from "node:http";
import { randomUUID } from "node:crypto";
import { z } from "zod";

const [library, transport, port] = process.argv.slice(2);
const { McpServer } = await import(
  library === "ts1" ? "@modelcontextprotocol/sdk/server/mcp.js" : "@modelcontextprotocol/server"
);

const shop = () => {
  const server = new McpServer({ name: "shop", version: "1" });
  const fields = { order_id: z.string(), amount: z.number().int().default(500) };
  const inputSchema = library === "ts1" ? fields : z.object(fields);
  server.registerTool("refund", { description: "Pays an order back.", inputSchema }, async ({ amount }) => ({
    content: [{ type: "text", text: `paid ${amount}` }],
  }));
  return server;
};

const legacy = library === "ts2-newest" ? { legacy: "reject" } : {};
if (library === "ts1" && transport === "stdio") {
  const { StdioServerTransport } = await import("@modelcontextprotocol/sdk/server/stdio.js");
  await shop().connect(new StdioServerTransport());
} else if (library === "ts1") {
  const { StreamableHTTPServerTransport } = await import("@modelcontextprotocol/sdk/server/streamableHttp.js");
  const sessions = new Map();
  createServer(async (request, response) => {
    let session = sessions.get(request.headers["mcp-session-id"]);
    if (!session) {
      session = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (name) => sessions.set(name, session),
      });
      await shop().connect(session);
    }
    await session.handleRequest(request, response);
  }).listen(Number(port), "127.0.0.1");
} else if (transport === "stdio") {
  const { serveStdio } = await import("@modelcontextprotocol/server/stdio");
  serveStdio(shop, legacy);
} else {
  const { createMcpHandler } = await import("@modelcontextprotocol/server");
  const { toNodeHandler } = await import("@modelcontextprotocol/node");
  createServer(toNodeHandler(createMcpHandler(shop, legacy))).listen(Number(port), "127.0.0.1");
}
