#!/bin/sh
# Version: @openai/codex 0.171.0
# Source: the event of PostToolUse hooks has the field tool_response; the program's own record of the same command
#   (`codex exec --json`) has its exit_code, and so has the text that the model reads.
# Behaviour: the tool_response of a shell command is its output alone. A hook that follows a failed command cannot tell
#   it from one that succeeded.
# Output seen:
#   recorded: [('true', 0), ('false', 1)]
#   hook: [('true', ''), ('false', '')]
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm install --prefix "$folder/npm" --silent --no-audit --no-fund @openai/codex@0.171.0
cat > "$folder/program.py" <<'PYTHON'
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


def call(at, command):
    item = {"type": "function_call", "id": f"fc_{at}", "call_id": f"call_{at}", "name": "exec_command"}
    return {**item, "arguments": json.dumps({"cmd": command})}


END = {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "end"}]}
turns = iter([call(1, "true"), call(2, "false"), END])


class Model(BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        events = [
            {"type": "response.created", "response": {"id": "r"}},
            {"type": "response.output_item.done", "output_index": 0, "item": next(turns)},
            {"type": "response.completed", "response": {"id": "r", "usage": usage}},
        ]
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write("".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events).encode())

    def log_message(self, *args):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=server.serve_forever, daemon=True).start()
home = Path(sys.argv[1], "home")
(home / ".codex").mkdir(parents=True)
hook = {"type": "command", "command": f"cat >> {home}/events; echo >> {home}/events"}
settings = {"hooks": {"PostToolUse": [{"matcher": "*", "hooks": [hook]}]}}
(home / ".codex" / "hooks.json").write_text(json.dumps(settings))
url = f"http://127.0.0.1:{server.server_address[1]}/v1"
(home / ".codex" / "config.toml").write_text(f"""
model = "gpt-5.5"
model_provider = "local"
model_providers.local = {{name = "local", base_url = "{url}", wire_api = "responses", env_key = "KEY"}}
""")
words = ["exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-hook-trust"]
words += ["--dangerously-bypass-approvals-and-sandbox", "run true and false"]
env = {"PATH": os.environ["PATH"], "HOME": str(home), "KEY": "none"}
program = Path(sys.argv[1], "npm", "node_modules", ".bin", "codex")
ran = subprocess.run([program, *words], cwd=home, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
items = [json.loads(line).get("item", {}) for line in ran.stdout.splitlines()]
recorded = [
    (item["command"].split()[-1].strip("'"), item["exit_code"])
    for item in items
    if item.get("type") == "command_execution" and item["status"] != "in_progress"
]
events = [json.loads(line) for line in (home / "events").read_text().splitlines()]
hooked = [(event["tool_input"]["command"], event["tool_response"]) for event in events]
print("recorded:", recorded)
print("hook:", hooked)
assert recorded == [("true", 0), ("false", 1)]
assert hooked == [("true", ""), ("false", "")]
assert {*events[0]} == {*events[1]}
PYTHON
python3 "$folder/program.py" "$folder"
