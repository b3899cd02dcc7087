#!/bin/sh
# Version: @openai/codex 0.171.0
# Source: the hook's name, and the program's list of hooks: UserPromptSubmit is "When the user submits a prompt".
# Behaviour: it also runs for the prompt that the model writes for a sub-agent, with the session of the user.
# Output seen:
#   user: delegate
#   sub-agent: count the files
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


def call(at, name, **args):
    item = {"type": "function_call", "id": f"fc_{at}", "call_id": f"call_{at}", "name": name}
    return {**item, "arguments": json.dumps(args)}


END = {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "end"}]}
SPAWN = {**call(1, "spawn_agent", message="count the files"), "namespace": "multi_agent_v1"}
WAIT = call(2, "exec_command", cmd="sleep 5")


class Model(BaseHTTPRequestHandler):
    def do_POST(self):
        text = self.rfile.read(int(self.headers["Content-Length"])).decode()
        is_user = '"text":"delegate"' in text
        turn = END if not is_user or "call_2" in text else WAIT if "call_1" in text else SPAWN
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        events = [
            {"type": "response.created", "response": {"id": "r"}},
            {"type": "response.output_item.done", "output_index": 0, "item": turn},
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
settings = {"hooks": {"UserPromptSubmit": [{"hooks": [hook]}]}}
(home / ".codex" / "hooks.json").write_text(json.dumps(settings))
url = f"http://127.0.0.1:{server.server_address[1]}/v1"
(home / ".codex" / "config.toml").write_text(f"""
model = "local"
model_provider = "local"
model_providers.local = {{name = "local", base_url = "{url}", wire_api = "responses", env_key = "KEY"}}
""")
words = ["exec", "--json", "--skip-git-repo-check", "--dangerously-bypass-hook-trust"]
words += ["--dangerously-bypass-approvals-and-sandbox", "delegate"]
env = {"PATH": os.environ["PATH"], "HOME": str(home), "KEY": "none"}
program = Path(sys.argv[1], "npm", "node_modules", ".bin", "codex")
subprocess.run([program, *words], cwd=home, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
events = [json.loads(line) for line in (home / "events").read_text().splitlines()]
for event in events:
    print("sub-agent:" if "agent_id" in event else "user:", event["prompt"])
assert [event["prompt"] for event in events] == ["delegate", "count the files"]
assert "agent_id" in events[1] and events[0]["session_id"] == events[1]["session_id"]
PYTHON
python3 "$folder/program.py" "$folder"
