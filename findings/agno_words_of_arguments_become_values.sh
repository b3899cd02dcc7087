#!/bin/sh
# Version: agno 3.1.10 (with openai 3.57.0)
# Source: the schema that Agno sends to the model says that the argument is a string, and the text "None" is one.
# Behaviour: an argument whose whole text is none, null, true or false, in any case and with spaces around, becomes None,
#   True or False before the tool is called. A tool that takes a str is not run and the model reads a validation error;
#   one without an annotation gets the other value.
# Output seen:
#   schema: {'type': 'string'}
#   "None": note not run, save got None
#   "TRUE": note not run, save got True
#   "1": note got '1', save got '1'
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-compile agno==3.1.10 openai==3.57.0
"$folder/venv/bin/python" - <<'PYTHON'
import json
import logging
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

logging.disable(logging.CRITICAL)

from agno.agent import Agent  # noqa: E402
from agno.models.openai import OpenAILike  # noqa: E402
from agno.tools import tool  # noqa: E402

requests, texts, got = [], [], {}


class Model(BaseHTTPRequestHandler):
    """Calls both tools with the last text, and then ends."""

    def do_POST(self):
        requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        message = {"role": "assistant", "content": "done"}
        if requests[-1]["messages"][-1]["role"] == "user":
            call = {"arguments": json.dumps({"text": texts[-1]})}
            calls = [{"id": name, "type": "function", "function": {"name": name, **call}} for name in ("note", "save")]
            message = {"role": "assistant", "content": None, "tool_calls": calls}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        body = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
        content = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        """No log."""


@tool
def note(text: str) -> str:
    """Notes a text."""
    got["note"] = text
    return "ok"


@tool
def save(text) -> str:
    """Saves a text."""
    got["save"] = text
    return "ok"


server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=server.serve_forever, daemon=True).start()
model = OpenAILike(id="m", api_key="k", base_url=f"http://127.0.0.1:{server.server_port}/v1")
for text, expected in (("None", {"save": None}), ("TRUE", {"save": True}), ("1", {"note": "1", "save": "1"})):
    texts.append(text)
    got.clear()
    Agent(model=model, tools=[note, save], telemetry=False).run("go")
    if text == "None":
        print("schema:", requests[0]["tools"][0]["function"]["parameters"]["properties"]["text"])
    parts = [f"{name} got {got[name]!r}" if name in got else f"{name} not run" for name in ("note", "save")]
    print(f'"{text}":', ", ".join(parts))
    assert got == expected
PYTHON
