#!/bin/sh
# Version: @qwen-code/qwen-code 0.24.4
# Source: bundled/qc-helper/docs/features/hooks.md of the package, output of PreToolUse: "hookSpecificOutput.updatedInput:
#   modified tool input parameters to use instead of original".
# Behaviour: the tool runs with the original arguments; the denial of the same hook is obeyed.
# Output seen:
#   updatedInput: proposed.txt
#   deny: nothing
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm install --prefix "$folder/npm" --silent --no-audit --no-fund @qwen-code/qwen-code@0.24.4
cat > "$folder/program.py" <<'PYTHON'
import json
import os
import shlex
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ARGS = {"command": "touch proposed.txt", "is_background": False}


class Model(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        proposes = body.get("tools") and body["messages"][-1]["role"] == "user"
        call = {"name": "run_shell_command", "arguments": json.dumps(ARGS)}
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


def run(name, **answer):
    home, project = Path(sys.argv[1], f"home-{name}"), Path(sys.argv[1], f"home-{name}", "project")
    for place in (home / ".qwen", project):
        place.mkdir(parents=True)
    text = json.dumps({"hookSpecificOutput": {"hookEventName": "PreToolUse", **answer}})
    hook = {"type": "command", "command": f"printf %s {shlex.quote(text)}"}
    settings = {
        "security": {"auth": {"selectedType": "openai"}},
        "privacy": {"usageStatisticsEnabled": False},
        "hooks": {"PreToolUse": [{"hooks": [hook]}]},
    }
    (home / ".qwen" / "settings.json").write_text(json.dumps(settings))
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"{url}/v1"}
    words = ["--approval-mode=yolo", "--prompt=make a file", "--model=m"]
    program = Path(sys.argv[1], "npm", "node_modules", ".bin", "qwen")
    subprocess.run([program, *words], cwd=project, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
    return " ".join(path.name for path in project.glob("*.txt")) or "nothing"


server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_address[1]}"
changed = {"updatedInput": {**ARGS, "command": "touch changed.txt"}}
seen = [
    run("updatedInput", permissionDecision="allow", permissionDecisionReason="x", **changed),
    run("deny", permissionDecision="deny", permissionDecisionReason="x"),
]
print("updatedInput:", seen[0])
print("deny:", seen[1])
assert seen == ["proposed.txt", "nothing"]
PYTHON
python3 "$folder/program.py" "$folder"
