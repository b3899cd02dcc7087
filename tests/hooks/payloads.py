"""Events of each host as it documents them, written for these tests, and a user whose hooks are installed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from guardagent.hooks.installation import host_named

POLICY = """\
version: 1
unlisted: allow
include:
  - {pack: guardagent:shell, constants: {workspace: PROJECT}}
  - {pack: guardagent:filesystem, constants: {workspace: PROJECT}}
  - guardagent:git
  - guardagent:tests_first
"""
HOSTS = ("claude-code", "codex", "cursor", "gemini-cli", "qwen-code", "copilot-cli")
SHELLS = {**dict.fromkeys(HOSTS, "Bash"), "cursor": "Shell"} | dict.fromkeys(
    ("gemini-cli", "qwen-code"), "run_shell_command"
)
WITHOUT_IDS = ("gemini-cli", "copilot-cli")
EVENTS = {
    **{
        host: {"before": "PreToolUse", "after": "PostToolUse", "prompt": "UserPromptSubmit", "stop": "Stop"}
        for host in HOSTS
    },
    "cursor": {"before": "preToolUse", "after": "postToolUse", "prompt": "beforeSubmitPrompt", "stop": "stop"},
    "gemini-cli": {"before": "BeforeTool", "after": "AfterTool", "prompt": "BeforeAgent", "stop": "AfterAgent"},
}


def event(host: str, kind: str, project: Path, session: str = "s1", **fields: Any) -> dict[str, Any]:
    """Returns an event with the fields that all events of a host have."""
    name = EVENTS[host].get(kind, kind)
    if host == "cursor":
        common = {"conversation_id": session, "generation_id": "g1", "workspace_roots": [str(project)], "model": "m"}
        return {**common, "cursor_version": "2.4.21", "hook_event_name": name, "user_email": None, **fields}
    common = {"session_id": session, "transcript_path": "/home/ann/t.jsonl", "cwd": str(project)}
    more = {"timestamp": "2026-11-24T10:00:00Z"} if host == "gemini-cli" else {"permission_mode": "default"}
    turn = {"turn_id": "t1", "model": "m"} if host == "codex" else {}
    turn |= {"submitted_prompt": "x"} if host == "qwen-code" and kind == "prompt" else {}
    return {**common, **more, **turn, "hook_event_name": name, **fields}


class HookUser:
    """A user with a home, a project and a policy, and the hooks of one host.

    Attributes:
        home, project: the folders.
        policy: the policy file.
    """

    def __init__(self, folder: Path, host: str, policy: str = POLICY) -> None:
        self.host, self.home, self.project = host, folder / "home", folder / "shop"
        for directory in (self.home, self.project):
            directory.mkdir()
        self.policy = folder / "policy.yaml"
        self.policy.write_text(policy.replace("PROJECT", str(self.project)))
        self.env = {name: value for name, value in os.environ.items() if name != "XDG_STATE_HOME"} | {
            "HOME": str(self.home)
        }
        self._calls = 0

    @property
    def state(self) -> Path:
        return self.home / ".local" / "state" / "guardagent" / "hooks"

    def command(self, *arguments: str, status: int = 0, text: str = "") -> str:
        """Runs a command of GuardAgent."""
        ran = subprocess.run(
            [sys.executable, "-m", "guardagent", *arguments],
            env=self.env, cwd=self.project, capture_output=True, text=True, input=text, check=False,
        )  # fmt: skip
        assert ran.returncode == status, ran.stdout + ran.stderr
        return ran.stdout + ran.stderr

    def install(self) -> None:
        self.command("hook", "install", self.host, "--user", "--policies", str(self.policy))

    def send(
        self, kind: str, payload: Mapping[str, Any] | str | None = None, **fields: Any
    ) -> subprocess.CompletedProcess[str]:
        """Sends an event to the installed hook, as the host does."""
        host_event = payload if payload is not None else event(self.host, kind, self.project, **fields)
        text = host_event if isinstance(host_event, str) else json.dumps(host_event)
        name = EVENTS[self.host].get(kind, kind)
        return subprocess.run(  # noqa: S602 - as a host does
            self.hooks()[name], shell=True, env=self.env, input=text, capture_output=True, text=True, check=False
        )

    def hooks(self) -> dict[str, str]:
        """Returns the command of each event in the settings of the user, or in those of the project."""
        path = self.home / host_named(self.host).settings_path
        if not path.exists():
            path = host_named(self.host).settings_file(self.project)
        groups = json.loads(path.read_text())["hooks"]
        return {
            name: (group[0]["hooks"][0] if "hooks" in group[0] else group[0])["command"]
            for name, group in groups.items()
        }

    # --- tool calls

    def before(self, tool: str, args: Mapping[str, Any], call_id: str = "", **fields: Any) -> str:
        """Proposes a call. Returns allow, deny or ask, as the host would read the answer."""
        self._calls += 1
        named = {} if self.host in WITHOUT_IDS else {"tool_use_id": call_id or f"call-{self._calls}"}
        return decision(self.host, self.send("before", tool_name=tool, tool_input=dict(args), **named, **fields))

    def after(
        self, tool: str, args: Mapping[str, Any], call_id: str = "", *, failed: bool = False, **fields: Any
    ) -> None:
        """Tells the outcome of a call."""
        named = {} if self.host in WITHOUT_IDS else {"tool_use_id": call_id or f"call-{self._calls}"}
        kind, outcome = self._outcome(failed=failed)
        done = self.send(kind, tool_name=tool, tool_input=dict(args), **named, **outcome, **fields)
        assert done.returncode == 0, done.stderr

    def _outcome(self, *, failed: bool) -> tuple[str, dict[str, Any]]:
        if self.host == "copilot-cli":
            text = f"x\n<shellId: 0 completed with exit code {int(failed)}>"
            return "after", {"tool_result": {"result_type": "success", "text_result_for_llm": text}}
        if self.host in ("claude-code", "qwen-code"):
            return (
                ("PostToolUseFailure", {"error": "exit code 1"})
                if failed
                else ("after", {"tool_response": {"stdout": "ok"}})
            )
        if self.host == "codex":
            return "after", {"tool_response": "x\n"}
        if self.host == "cursor":
            return (
                ("postToolUseFailure", {"error_message": "x"})
                if failed
                else ("after", {"tool_output": '{"exitCode": 0}'})
            )
        return "after", {"tool_response": {"llmContent": f"Output: x\nExit Code: {int(failed)}"}}

    def run(self, command: str, *, failed: bool = False, **fields: Any) -> str:
        """Proposes a shell command, and runs it if it may run. Returns the answer."""
        args, tool = {"command": command}, SHELLS[self.host]
        answer = self.before(tool, args, **fields)
        if answer == "allow":
            self.after(tool, args, failed=failed, **fields)
        return answer

    def stop_daemon(self) -> None:
        """Kills the daemon of this user."""
        subprocess.run(["pkill", "-9", "-f", f"hook_daemon {self.state}"], check=False)  # noqa: S607

    def pause_daemon(self) -> None:
        """Stops the daemon without ending it."""
        completed = subprocess.run(
            ["pgrep", "-f", f"hook_daemon {self.state}"],  # noqa: S607
            capture_output=True,
            text=True,
            check=True,
        )
        for pid in completed.stdout.split():
            os.kill(int(pid), signal.SIGSTOP)


def decision(host: str, ran: subprocess.CompletedProcess[str]) -> str:
    """Returns the answer to a call as the host reads it, by its documentation."""
    if ran.returncode == 2 and ran.stderr.strip():
        return "deny"
    assert ran.returncode == 0, "a host runs the tool after any other status"
    if not ran.stdout.strip():
        return "allow"
    answer = json.loads(ran.stdout)
    if host not in ("cursor", "gemini-cli"):
        hook_specific_output = answer.get("hookSpecificOutput", {})
        assert hook_specific_output.get("permissionDecisionReason") or not hook_specific_output
        return str(hook_specific_output.get("permissionDecision", "allow"))
    return str(answer.get("permission" if host == "cursor" else "decision", "allow"))
