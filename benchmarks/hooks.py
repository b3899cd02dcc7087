"""The CPU time of a hook, beside `python -c pass`, in one run: `python benchmarks/hooks.py [EVENTS]`."""

from __future__ import annotations

import json
import os
import resource
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

POLICY = "version: 1\nunlisted: allow\ninclude:\n  - guardagent:shell\n  - guardagent:git\n  - guardagent:tests_first\n"


def cpu_of(command: list[str], text: str, env: dict[str, str]) -> float:
    """The CPU time of a process, in milliseconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, input=text, capture_output=True, text=True, env=env, check=True)  # noqa: S603 - our own
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


def main() -> None:
    """Installs the hooks of a user in a temporary home, and sends events in turn with the bare program."""
    events = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        env = {name: value for name, value in os.environ.items() if name != "XDG_STATE_HOME"} | {"HOME": folder}
        (home / "policy.yaml").write_text(POLICY)
        install = [
            sys.executable,
            "-m",
            "guardagent",
            "hook",
            "install",
            "claude-code",
            "-p",
            str(home / "policy.yaml"),
        ]
        subprocess.run(install, env=env, check=True, capture_output=True)  # noqa: S603 - our own
        settings = json.loads((home / ".claude" / "settings.json").read_text())
        hook = shlex.split(settings["hooks"]["PreToolUse"][0]["hooks"][0]["command"])
        hooks, bare = [], []
        for at in range(events + 1):
            call = {"tool_name": "Bash", "tool_input": {"command": f"ls -la {at}"}, "tool_use_id": f"call-{at}"}
            event = {"session_id": "s", "cwd": folder, "hook_event_name": "PreToolUse", **call}
            hooks.append(cpu_of(hook, json.dumps(event), env))
            bare.append(cpu_of([sys.executable, "-c", "pass"], "", env))
        subprocess.run(["pkill", "-f", f"hook_daemon {home}"], check=False)  # noqa: S603, S607 - our own
    print(f"CPU time of a hook: median {median(hooks[1:]):.1f} ms, the most {max(hooks[1:]):.1f} ms")
    print(f"of python -c pass:  median {median(bare[1:]):.1f} ms")


if __name__ == "__main__":
    main()
