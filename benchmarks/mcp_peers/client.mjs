// A client of the TypeScript SDK: node client.mjs ts1|ts2 handshake|newest stdio COMMAND… | http URL
const [library, revision, transport, ...target] = process.argv.slice(2);
const headers = { "X-Run": "peers" };
const [client, stdio, http] =
  library === "ts1"
    ? await Promise.all([
        import("@modelcontextprotocol/sdk/client/index.js"),
        import("@modelcontextprotocol/sdk/client/stdio.js"),
        import("@modelcontextprotocol/sdk/client/streamableHttp.js"),
      ])
    : await Promise.all([
        import("@modelcontextprotocol/client"),
        import("@modelcontextprotocol/client/stdio"),
        import("@modelcontextprotocol/client"),
      ]);
const mode = revision === "handshake" ? "legacy" : { pin: "2026-07-28" };
const peer = new client.Client({ name: "peers", version: "1" }, { versionNegotiation: { mode } });
await peer.connect(
  transport === "stdio"
    ? new stdio.StdioClientTransport({ command: target[0], args: target.slice(1), env: process.env })
    : new http.StreamableHTTPClientTransport(new URL(target[0]), { requestInit: { headers } }),
);
const tools = (await peer.listTools()).tools.map((tool) => tool.name);
const refund = async (amount) =>
  (await peer.callTool({ name: "refund", arguments: { order_id: "W1", amount } })).content[0].text;
const denied = await refund(500);
const seen = peer.getNegotiatedProtocolVersion?.() ?? peer.transport?.protocolVersion ?? "handshake";
console.log(JSON.stringify({ revision: seen, tools, denied, allowed: await refund(50) }));
await peer.close();
process.exit(0);
