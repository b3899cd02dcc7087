"""The real programs of hosts, with installed hooks and a scripted model; `make test-hosts-real` installs them.

A program runs without a terminal, in a home and a project of its own.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from guardagent.hooks.installation import host_named
from guardagent.log.verification import Selection
from tests.frameworks.litellm.upstream import Turn, Upstream
from tests.hooks.payloads import HookUser

FOLDER = "GUARDAGENT_REAL_HOSTS"
"""The environment variable with the folder of the installed packages."""
SECONDS = 120


@dataclass(frozen=True)
class RealProgram:
    """A host's program.

    Attributes:
        host, program: its names, as of `hook install` and on the command line.
        shell: its shell tool for the model, and the argument with the command.
        tool: the same tool, and `touch` of the MCP server `shop`, in its events.
        mcp: `touch` for the model.
        words, env: how it runs a prompt, with a model at an address.
        settings: writes its other settings: the home, the project and the address.
        mode: the words of its most permissive mode.
        modes: those of its other modes.
    """

    host: str
    program: str
    shell: tuple[str, str]
    tool: tuple[str, str]
    mcp: str
    words: tuple[str, ...]
    env: Callable[[str], Mapping[str, str]]
    settings: Callable[[HookUser, str], None]
    mode: tuple[str, ...]
    modes: tuple[tuple[str, ...], ...] = ()

    def bash(self, command: str) -> tuple[str, dict[str, Any]]:
        """Returns a call of the shell."""
        return self.shell[0], {self.shell[1]: command}


class ScriptedModel(Upstream):
    """Answers a program; its requests without tools, such as one for a title, are not of the script."""

    def next_turn(self, body: dict[str, Any]) -> Turn:
        has_tools = body.get("tools") or "additional_tools" in json.dumps(body.get("input", ""))
        return super().next_turn(body) if has_tools else "ok"


class RealRun:
    """A user of a program. Its policy denies `*denied*` and escalates `*asked*`, in the shell and over MCP.

    Attributes:
        program: the program.
        user: the home, the project and the hooks.
        model: the scripted model.
        output: what the program has printed in its last run.
    """

    def __init__(self, program: RealProgram, folder: Path, model: ScriptedModel) -> None:
        rules = [
            f"  - {{id: {rule}_{at}, temporal: 'forall({tool}({name}=x), !(x matches /.*{rule}.*/))', {response}}}"
            for rule, response in (("denied", "on_violation: block"), ("asked", "on_violation: escalate"))
            for at, (tool, name) in enumerate(zip(program.tool, ("command", "name"), strict=True))
        ]
        self.program, self.model, self.output = program, model, ""
        self.user = HookUser(
            folder, program.host, "\n".join(["version: 1", "unlisted: allow", "policies:", *rules, ""])
        )
        self.user.install()
        self.serve_shop()
        program.settings(self.user, model.url)

    def serve_shop(self, *proxy: str) -> None:
        """Has the program start the MCP server `shop`, which writes files in the project, or a proxy for it."""
        server = Path(__file__).with_name("shop_server.py")
        words = [*proxy, sys.executable, str(server), str(self.user.project)]
        (self.user.home / "shop.sh").write_text(f"exec {shlex.join(words)}\n")

    def change(self, change: Callable[[dict[str, Any]], None]) -> None:
        """Changes the settings with the hooks."""
        path = self.user.home / host_named(self.program.host).settings_path
        settings = json.loads(path.read_text())
        change(settings)
        path.write_text(json.dumps(settings))

    def add_hook(self, answer: str, **about: Any) -> None:
        """Adds a hook of another program before each tool call, which prints an answer."""
        before = next(iter(host_named(self.program.host).events))
        hook = {"type": "command", "command": f"printf %s {shlex.quote(answer)}", **about}
        self.change(lambda settings: settings["hooks"][before].append({"matcher": "*", "hooks": [hook]}))

    def change_hook(self, **changed: Any) -> None:
        """Changes the installed hook before each tool call."""
        before = next(iter(host_named(self.program.host).events))
        self.change(lambda settings: settings["hooks"][before][0]["hooks"][0].update(changed))

    def run(self, turns: Sequence[Turn], *words: str) -> set[str]:
        """Runs a script. Returns the names of the files in the project."""
        return self.start(self.model.script(turns), *(words or self.program.mode))

    def start(self, prompt: str, *words: str) -> set[str]:
        """Runs the program. Returns the names of the files in the project."""
        path = Path(os.environ[FOLDER], "node_modules", ".bin", self.program.program).resolve()
        inherited = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        start = [word.format(home=self.user.home, prompt=prompt) for word in self.program.words]
        ran = subprocess.run(
            [path, *filter(None, start), *words],
            env={**inherited, "HOME": str(self.user.home), **self.program.env(self.model.url)},
            cwd=self.user.project,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=SECONDS,
            check=False,
        )
        self.output = ran.stdout + ran.stderr
        return {path.name for path in self.user.project.iterdir() if not path.name.startswith(".")}

    def results(self) -> str:
        """Returns the conversation as the model saw it at last."""
        return json.dumps(self.model.requests[-1])

    def logged(self, kind: str, *fields: str) -> list[Any]:
        """Returns the entries of the hooks' log of a kind."""
        entries = [entry.fields for entry in Selection().entries([str(self.user.state / "log.db")])]
        return [[entry.get(field) for field in fields] for entry in entries if entry["kind"] == kind]


@contextlib.contextmanager
def real_run(program: RealProgram, folder: Path) -> Iterator[RealRun]:
    """Yields a user of a program, until the end of the block."""
    model = ScriptedModel()
    threading.Thread(target=model.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    run = RealRun(program, folder, model)
    try:
        yield run
    finally:
        run.user.stop_daemon()
        model.shutdown()
        model.server_close()


# --- the programs


def _mcp_servers(user: HookUser) -> dict[str, Any]:
    return {"mcpServers": {"shop": {"command": "sh", "args": [f"{user.home}/shop.sh"]}}}


def _claude_settings(user: HookUser, _url: str) -> None:
    (user.home / "mcp.json").write_text(json.dumps(_mcp_servers(user)))


def _codex_settings(user: HookUser, url: str) -> None:
    (user.home / ".codex" / "config.toml").write_text(f"""
model = "gpt-5.5"
model_provider = "local"
analytics.enabled = false
model_providers.local = {{name = "local", base_url = "{url}/v1", wire_api = "responses", env_key = "KEY"}}
mcp_servers.shop = {{command = "sh", args = ["{user.home}/shop.sh"], required = true}}
projects."{user.project}" = {{trust_level = "trusted"}}
""")


def _gemini_settings(user: HookUser, _url: str, host: str = "gemini", auth: str = "gemini-api-key") -> None:
    path = user.home / f".{host}" / "settings.json"
    more = {"security": {"auth": {"selectedType": auth}}, "privacy": {"usageStatisticsEnabled": False}}
    path.write_text(json.dumps({**json.loads(path.read_text()), **more, **_mcp_servers(user)}))


def _copilot_settings(user: HookUser, _url: str) -> None:
    servers = _mcp_servers(user)
    servers["mcpServers"]["shop"] |= {"type": "local", "tools": ["*"]}
    (user.home / ".copilot" / "mcp-config.json").write_text(json.dumps(servers))


PROGRAMS = [
    RealProgram(
        "claude-code",
        "claude",
        ("Bash", "command"),
        ("Bash", "mcp__shop__touch"),
        "mcp__shop__touch",
        ("-p", "{prompt}", "--model=claude-opus-5", "--mcp-config={home}/mcp.json"),
        lambda url: {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "IS_SANDBOX": "1",  # for bypassPermissions by root
        },
        _claude_settings,
        ("--permission-mode=bypassPermissions",),
        tuple(
            (f"--permission-mode={mode}", "--allowedTools=Bash")
            for mode in ("default", "manual", "acceptEdits", "auto", "dontAsk", "plan")
        ),
    ),
    RealProgram(
        "codex",
        "codex",
        ("exec_command", "cmd"),
        ("Bash", "mcp__shop__touch"),
        "mcp__shop/touch",
        ("exec", "{prompt}", "--skip-git-repo-check", "--dangerously-bypass-hook-trust"),
        lambda _url: {"KEY": "none"},
        _codex_settings,
        ("--dangerously-bypass-approvals-and-sandbox",),
        (("--sandbox=danger-full-access", "--config=approval_policy=on-request"),),
    ),
    RealProgram(
        "gemini-cli",
        "gemini",
        ("run_shell_command", "command"),
        ("run_shell_command", "mcp_shop_touch"),
        "mcp_shop_touch",
        ("--prompt={prompt}", "--skip-trust", "--model=gemini-2.5-pro"),
        lambda url: {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": url},
        _gemini_settings,
        ("--approval-mode=yolo",),
    ),
    RealProgram(
        "qwen-code",
        "qwen",
        ("run_shell_command", "command"),
        ("run_shell_command", "mcp__shop__touch"),
        "mcp__shop__touch",
        ("--prompt={prompt}",),
        lambda url: {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_MODEL": "qwen3-coder-plus"},
        functools.partial(_gemini_settings, host="qwen", auth="openai"),
        ("--approval-mode=yolo",),
        tuple(
            (f"--approval-mode={mode}", "--allowed-tools=run_shell_command")
            for mode in ("default", "auto-edit", "auto", "plan")
        ),
    ),
    RealProgram(
        "copilot-cli",
        "copilot",
        ("bash", "command"),
        ("Bash", "shop-touch"),
        "shop-touch",
        ("--prompt={prompt}", "--trust-folder"),
        lambda url: {
            "COPILOT_PROVIDER_BASE_URL": f"{url}/v1",
            "COPILOT_PROVIDER_API_KEY": "none",
            "COPILOT_MODEL": "gpt-4.1",
            "COPILOT_OFFLINE": "true",
            "COPILOT_AUTO_UPDATE": "false",
        },
        _copilot_settings,
        ("--allow-all",),
        (("--allow-tool=shell",),),
    ),
]
