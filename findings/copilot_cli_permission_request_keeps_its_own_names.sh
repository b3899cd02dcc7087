#!/bin/sh
# Version: @github/copilot 1.0.102
# Source: GitHub's CLI hooks reference (docs.github.com/en/copilot/reference/copilot-cli-reference/cli-hooks-reference), input
#   payloads: with an event name in PascalCase, "Fields use snake_case".
# Behaviour: PreToolUse and PostToolUse have such fields; PermissionRequest beside them has those of camelCase, and names its
#   tool `bash`, where the others say `Bash`.
# Output seen:
#   PreToolUse: hook_event_name, tool_name Bash
#   PermissionRequest: hookName, toolName bash
#   PostToolUse: hook_event_name, tool_name Bash
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm install --prefix "$folder/npm" --silent --no-audit --no-fund @github/copilot@1.0.102
cat > "$folder/program.py" <<'PYTHON'
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Model(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        proposes = body.get("tools") and not any(message["role"] == "tool" for message in body["messages"])
        call = {"name": "bash", "arguments": json.dumps({"command": "touch a.txt", "description": "x"})}
        calls = {"tool_calls": [{"index": 0, "id": "1", "type": "function", "function": call}]}
        delta = {"role": "assistant", **(calls if proposes else {"content": "end"})}
        choice = {"index": 0, "delta": delta, "finish_reason": "tool_calls" if proposes else "stop"}
        whole = {"index": 0, "message": delta, "finish_reason": "stop"}
        about = {"id": "1", "created": 0, "model": "m", "usage": {"prompt_tokens": 1, "completion_tokens": 1}}
        data = json.dumps({**about, "choices": [choice if body.get("stream") else whole]})
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if body.get("stream") else "application/json")
        self.end_headers()
        self.wfile.write((f"data: {data}\n\ndata: [DONE]\n\n" if body.get("stream") else data).encode())

    def log_message(self, *args):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=server.serve_forever, daemon=True).start()
home, project = Path(sys.argv[1], "home"), Path(sys.argv[1], "home", "project")
for place in (home / ".copilot", project):
    place.mkdir(parents=True)
names = ("PreToolUse", "PermissionRequest", "PostToolUse")
hooks = {name: [{"hooks": [{"type": "command", "command": f"cat > {home}/{name}.json"}]}] for name in names}
(home / ".copilot" / "settings.json").write_text(json.dumps({"hooks": hooks}))
env = {
    "PATH": os.environ["PATH"],
    "HOME": str(home),
    "COPILOT_PROVIDER_BASE_URL": f"http://127.0.0.1:{server.server_address[1]}/v1",
    "COPILOT_PROVIDER_API_KEY": "none",
    "COPILOT_MODEL": "gpt-4.1",
    "COPILOT_OFFLINE": "true",
    "COPILOT_AUTO_UPDATE": "false",
}
program = Path(sys.argv[1], "npm", "node_modules", ".bin", "copilot")
words = ["--prompt=make a file", "--allow-all-tools"]
subprocess.run([program, *words], cwd=project, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
seen = {}
for name in names:
    event = json.loads((home / f"{name}.json").read_text())
    seen[name] = [field for field in ("hook_event_name", "hookName") if field in event]
    seen[name] += [f"{field} {event[field]}" for field in ("tool_name", "toolName") if field in event]
    print(f"{name}:", ", ".join(seen[name]))
snake = ["hook_event_name", "tool_name Bash"]
assert [*seen.values()] == [snake, ["hookName", "toolName bash"], snake]
PYTHON
python3 "$folder/program.py" "$folder"
