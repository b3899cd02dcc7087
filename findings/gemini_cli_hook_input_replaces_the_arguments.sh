#!/bin/sh
# Version: @google/gemini-cli 0.61.0
# Source: docs/hooks/reference.md of the package, BeforeTool: "hookSpecificOutput.tool_input: An object that merges with
#   and overrides the model's arguments before execution."
# Behaviour: the object replaces the arguments. A hook that changes one argument of write_file has to repeat the others;
#   without them the call fails validation.
# Output seen:
#   changed one: params must have required property 'file_path'
#   repeated all: changed
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm install --prefix "$folder/npm" --silent --no-audit --no-fund @google/gemini-cli@0.61.0
cat > "$folder/program.py" <<'PYTHON'
import json
import os
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

CALL = {"functionCall": {"id": "1", "name": "write_file", "args": {"file_path": "a.txt", "content": "proposed"}}}
results = []


class Model(BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        parts = [part for content in body.get("contents", []) for part in content["parts"]]
        results.extend(part["functionResponse"]["response"] for part in parts if "functionResponse" in part)
        part = CALL if body.get("tools") and not any("functionCall" in part for part in parts) else {"text": "end"}
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}
        streams = ":streamGenerateContent" in self.path
        text = json.dumps({"candidates": [candidate]})
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream" if streams else "application/json")
        self.end_headers()
        self.wfile.write((f"data: {text}\n\n" if streams else text).encode())

    def log_message(self, *args):
        pass


def run(name, tool_input):
    home, project = Path(sys.argv[1], name), Path(sys.argv[1], name, "project")
    for place in (home / ".gemini", project):
        place.mkdir(parents=True)
    output = {"hookSpecificOutput": {"hookEventName": "BeforeTool", "tool_input": tool_input}}
    hook = {"type": "command", "command": f"echo '{json.dumps(output)}'"}
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "hooks": {"BeforeTool": [{"matcher": "write_file", "hooks": [hook]}]},
    }
    (home / ".gemini" / "settings.json").write_text(json.dumps(settings))
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": url}
    words = ["--skip-trust", "--approval-mode=yolo", "--model=gemini-2.5-pro", "--prompt=write a.txt"]
    results.clear()
    program = Path(sys.argv[1], "npm", "node_modules", ".bin", "gemini")
    subprocess.run([program, *words], cwd=project, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
    return results[-1], (project / "a.txt").read_text() if (project / "a.txt").exists() else None


server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_address[1]}"
response, text = run("one", {"content": "changed"})
problem = re.search("params must.*", response["error"]).group()
print("changed one:", problem)
assert text is None and "'file_path'" in problem
_, text = run("all", {"file_path": "a.txt", "content": "changed"})
print("repeated all:", text)
assert text == "changed"
PYTHON
python3 "$folder/program.py" "$folder"
