#!/bin/sh
# Version: claude-agent-sdk 0.2.189, with the Claude Code program of its wheel
# Source: the Messages API: each tool_use block has an id, and the next message of the user has a tool_result for each.
# Behaviour: of two tool_use blocks with one id in a message, the program runs both tools. Its next request shows the
#   model one block, the first, and one result: that of the first.
# Output seen:
#   ran: [1, 2]
#   blocks: [{'a': 1}]
#   results: ['doubled 1']
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile claude-agent-sdk==0.2.189
cat > "$folder/program.py" <<'PYTHON'
import asyncio
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from claude_agent_sdk import ClaudeAgentOptions, create_sdk_mcp_server, query, tool

ran, requests = [], []


@tool("double", "Doubles.", {"a": int})
async def double(args):
    ran.append(args["a"])
    return {"content": [{"type": "text", "text": f"doubled {args['a']}"}]}


def blocks(body):
    if "double" not in json.dumps(body.get("tools") or []) or any(
        message["role"] == "assistant" for message in body["messages"]
    ):
        return [{"type": "text", "text": "ok"}], "end_turn"
    use = {"type": "tool_use", "id": "toolu_1", "name": "mcp__tools__double"}
    return [{**use, "input": {"a": a}} for a in (1, 2)], "tool_use"


def events(message, content):
    yield {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}
    for at, block in enumerate(content):
        text = block["type"] == "text"
        empty = {"text": ""} if text else {"input": {}}
        delta = (
            {"type": "text_delta", "text": block["text"]}
            if text
            else {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        )
        yield {"type": "content_block_start", "index": at, "content_block": {**block, **empty}}
        yield {"type": "content_block_delta", "index": at, "delta": delta}
        yield {"type": "content_block_stop", "index": at}
    reason = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": reason, "usage": {"output_tokens": 1}}
    yield {"type": "message_stop"}


class Api(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        if "messages" not in body or "count_tokens" in self.path:
            return self.reply("application/json", json.dumps({"input_tokens": 1}))
        requests.append(body)
        content, reason = blocks(body)
        usage = {"input_tokens": 1, "output_tokens": 1}
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"], "content": content}
        message |= {"stop_reason": reason, "stop_sequence": None, "usage": usage}
        if not body.get("stream"):
            return self.reply("application/json", json.dumps(message))
        lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events(message, content)]
        self.reply("text/event-stream", "".join(lines))

    def reply(self, kind, text):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *args):
        pass


async def main():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    env = {
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{server.server_address[1]}",
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CONFIG_DIR": sys.argv[1],
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    options = ClaudeAgentOptions(
        mcp_servers={"tools": create_sdk_mcp_server("tools", tools=[double])},
        allowed_tools=["mcp__tools__double"],
        tools=[],
        env=env,
        cwd=sys.argv[1],
        setting_sources=[],
        model="claude-sonnet-4-5",
    )
    async for _ in query(prompt="double 1 and 2", options=options):
        pass
    content = [
        block
        for message in requests[-1]["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
    ]
    uses = [block["input"] for block in content if block["type"] == "tool_use"]
    results = [block["content"][0]["text"] for block in content if block["type"] == "tool_result"]
    print("ran:", ran)
    print("blocks:", uses)
    print("results:", results)
    assert sorted(ran) == [1, 2] and uses == [{"a": 1}] and results == ["doubled 1"]


asyncio.run(asyncio.wait_for(main(), 100))
PYTHON
mkdir "$folder/home"
"$folder/venv/bin/python" "$folder/program.py" "$folder/home"
