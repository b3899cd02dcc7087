#!/bin/sh
# Version: @google/gemini-cli 0.61.0
# Source: docs/hooks/reference.md of the package, exit codes of a hook: "0: Success", "2: System Block", "Other: Warning.
#   A non-fatal failure occurred; the CLI continues with a warning."
# Behaviour: the call goes on after status 1; after 3 it is blocked as after 2, also by a program that the shell does not
#   find (127).
# Output seen:
#   status 1: written
#   status 2: blocked
#   status 3: blocked
#   status 127: blocked
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
npm install --prefix "$folder/npm" --silent --no-audit --no-fund @google/gemini-cli@0.61.0
cat > "$folder/program.py" <<'PYTHON'
import json
import os
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


def run(status):
    home, project = Path(sys.argv[1], f"home-{status}"), Path(sys.argv[1], f"home-{status}", "project")
    for place in (home / ".gemini", project):
        place.mkdir(parents=True)
    hook = {"type": "command", "command": f"echo why >&2; exit {status}"}
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
    assert results
    return "written" if (project / "a.txt").exists() else "blocked"


server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_address[1]}"
seen = {status: run(status) for status in (1, 2, 3, 127)}
for status, end in seen.items():
    print(f"status {status}:", end)
assert [*seen.values()] == ["written", "blocked", "blocked", "blocked"]
PYTHON
python3 "$folder/program.py" "$folder"
