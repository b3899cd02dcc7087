"""`guardagent init` in a project, and `guardagent watch`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("tree_sitter_bash")

from guardagent import load_policies
from guardagent.errors import InputError, UnknownNameError
from guardagent.hooks.hook_state import PendingAsks, state_folder
from guardagent.hooks.installation import (
    find_hosts,
    hooks_of,
    host_named,
    install,
    installed,
    locks_of,
    policy_text,
    set_up,
    uninstall,
)
from guardagent.server.state import open_state
from tests.conftest import Cli


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "shop"
    (project / ".claude").mkdir(parents=True)
    (project / "app.py").write_text("import os\nfrom langgraph.graph import StateGraph\n")
    return project


def _transcript(home: Path, project: Path) -> None:
    folder = (
        home / ".claude" / "projects" / "".join(character if character.isalnum() else "-" for character in str(project))
    )
    folder.mkdir(parents=True)
    lines: list[object] = []
    for at, (command, is_error) in enumerate([("ls", False), ("rm -rf ~", False), ("pytest", True)]):
        use = {"type": "tool_use", "id": f"t{at}", "name": "Bash", "input": {"command": command}}
        result = {"type": "tool_result", "tool_use_id": f"t{at}", "content": "x", "is_error": is_error}
        lines.append({"type": "assistant", "cwd": str(project), "message": {"content": [use]}})
        lines.append({"type": "user", "message": {"content": [result]}})
    text = "\n".join(["{broken", '"text"', *map(json.dumps, lines)])
    (folder / "s.jsonl").write_text(text)


def test_a_project_gets_a_policy_and_its_last_sessions_are_replayed(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    _transcript(tmp_path, project)
    project_setup = set_up(project, tmp_path)
    assert (list(project_setup.hosts), project_setup.frameworks, project_setup.transcripts) == (
        ["claude-code"],
        ["langgraph"],
        1,
    )
    assert [call for call, _ in project_setup.warnings] == ["rm -rf ~"]
    session = load_policies(project_setup.policy).session()
    assert session.check("Bash", {"command": "rm -rf ~"}, reserve=False).decision == "deny"
    assert str(tmp_path) not in project_setup.policy.read_text(), "it holds no path of this machine"


@pytest.mark.parametrize(
    ("host", "settings", "tracked", "is_installed"),
    [
        ("claude-code", ".claude/settings.local.json", ".claude/settings.json", True),
        ("cursor", ".cursor/hooks.json", "", True),
        ("gemini-cli", ".gemini/settings.json", "", True),
        ("copilot-cli", ".github/copilot/settings.local.json", ".github/copilot/settings.json", True),
        ("codex", ".codex/hooks.json", ".codex/hooks.json", False),
        ("claude-code", ".claude/settings.local.json", ".claude/settings.local.json", False),
    ],
)
def test_hooks_of_a_project_are_in_settings_that_git_ignores(
    host: str, settings: str, tracked: str, is_installed: bool, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settings that git tracks are left alone; the backup is elsewhere."""
    monkeypatch.setenv("XDG_STATE_HOME", str(project.parent / "state"))
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)  # noqa: S607
    (project / settings).parent.mkdir(parents=True, exist_ok=True)
    (project / settings).write_text("{}")
    if tracked:
        (project / tracked).write_text("{}")
        subprocess.run(["git", "add", "-f", tracked], cwd=project, check=True)  # noqa: S607
    (project / "guardagent.yaml").write_text(policy_text([host]))
    if not is_installed:
        with pytest.raises(InputError, match="git tracks it"):
            install(host, project / "guardagent.yaml", project)
        assert (project / settings).read_text() == "{}"
        return
    _, backup = install(host, project / "guardagent.yaml", project)
    assert backup is not None
    assert not backup.is_relative_to(project)
    listed = subprocess.run(
        ["git", "ls-files", "-o", "--exclude-standard"],  # noqa: S607
        cwd=project, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert listed.stdout.split() == ["app.py", "guardagent.yaml"]
    [lock] = locks_of((), project)
    assert (lock.source, lock.mode) == (str(project / "guardagent.yaml"), "enforce")
    with pytest.raises(InputError, match="no hooks are installed for all your projects"):
        locks_of((), None)
    hooks = installed(project)
    assert (len(hooks_of(project, hooks)), hooks_of(project.parent, hooks)) == (1, []), "another folder is not guarded"


def test_linked_settings_stay_links_with_their_permissions(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(project.parent / "state"))
    link, settings = project / ".claude" / "settings.local.json", project.parent / "settings.json"
    settings.write_text('{"env": {"KEY": "secret"}}')
    settings.chmod(0o600)
    link.symlink_to(settings)
    (project / "guardagent.yaml").write_text(policy_text(["claude-code"]))
    install("claude-code", project / "guardagent.yaml", project)
    assert (link.is_symlink(), settings.stat().st_mode & 0o777) == (True, 0o600)
    assert json.loads(settings.read_text()).keys() == {"env", "hooks"}
    uninstall("claude-code", project)
    assert json.loads(link.read_text()) == {"env": {"KEY": "secret"}}


def test_a_repeated_call_needs_a_person_until_something_changes(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    session = load_policies(set_up(project, tmp_path).policy).session()

    def decisions(*calls: tuple[str, dict[str, str]]) -> list[str]:
        verdicts = []
        for tool, args in calls:
            verdict = session.check(tool, args)
            verdicts.append(str(verdict.decision))
            if verdict.label == 0:
                session.record("1 failed", failed=False)
        return verdicts

    tests, status = ("Bash", {"command": "pytest -q"}), ("Bash", {"command": "git status"})
    edits = [
        ("Edit", {"file_path": str(project / "app.py"), "old_string": f"{at}", "new_string": f"{at + 1}"})
        for at in range(6)
    ]
    assert decisions(*(call for edit in edits for call in (edit, tests, status))) == ["allow"] * 18
    assert decisions(tests, tests, tests, tests) == [*["allow"] * 3, "escalate"]
    assert decisions(edits[0], tests, status, tests, status, tests) == [*["allow"] * 5, "escalate"]


def test_a_rule_that_needs_the_zone_of_a_clock_is_refused(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    policy = tmp_path / "p.yaml"
    policy.write_text("version: 1\npolicies: [{id: a, temporal: 'forall(Bash(), hour(now) < 20)'}]\n")
    with pytest.raises(InputError, match=r"clock of hooks has no zone.*Europe/Berlin"):
        install("claude-code", policy, project)
    assert not (project / ".claude" / "settings.local.json").exists()


def test_nothing_is_overwritten(project: Path, tmp_path: Path) -> None:
    (project / "guardagent.yaml").write_text("mine")
    with pytest.raises(InputError, match="stays as it is; next: guardagent hook install --trial claude-code"):
        set_up(project, tmp_path)
    assert (project / "guardagent.yaml").read_text() == "mine"


def test_an_installed_agent_is_found_without_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    """And a first `hook install` says what to do before."""
    program = tmp_path / "bin" / "gemini"
    program.parent.mkdir()
    program.touch(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    refused = cli("hook", "install", "claude-code")
    assert f"next: 'guardagent init' writes it. Coding agents found: Gemini CLI ({program})" in refused.err
    assert find_hosts(tmp_path, tmp_path) == {"gemini-cli": str(program)}
    assert f"found Gemini CLI: {program}" in cli("init").out
    (tmp_path / ".copilot").mkdir()
    assert find_hosts(tmp_path, tmp_path)["copilot-cli"] == str(tmp_path / ".copilot")


def test_a_folder_without_agents_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="no agent framework was found"):
        set_up(tmp_path / "empty", tmp_path / "home")


def test_a_waiting_call_is_shown_in_full_and_answered_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    asks = PendingAsks(open_state(f"sqlite:{state_folder() / 'asks.db'}"))
    args = {"command": "rm $X\n\x1b[31m", "cwd": "/srv"}
    asks.request("codex", "s1", "Bash", args, ("a part is unknown",))
    shown = cli("watch", "--once").out
    assert "rm $X" in shown
    assert "a part is unknown" in shown
    assert "\x1b" not in shown
    (name,) = [question.name for question in asks.pending()]
    assert not asks.use(name), "nobody has approved it"
    asks.answer(name, approves=True)
    with pytest.raises(InputError, match="approved"):
        asks.answer(name, approves=False)
    assert asks.use(name)
    assert not asks.use(name)


def test_an_approval_ends_after_an_hour(tmp_path: Path) -> None:
    now = [1000.0]
    asks = PendingAsks(open_state(f"sqlite:{tmp_path / 'asks.db'}"), lambda: now[0])
    asks.request("codex", "s1", "Bash", {"command": "x"}, ())
    (name,) = [question.name for question in asks.pending()]
    asks.answer(name, approves=True)
    now[0] += 3601
    assert not asks.use(name)
    asks.request("codex", "s1", "Bash", {"command": "x"}, ())
    assert [question.name for question in asks.pending()] == [name], "it can be requested again"


@pytest.mark.parametrize(
    "name", ["claude-code", "codex", "cursor", "gemini-cli", "qwen-code", "copilot-cli", "claude_code"]
)
def test_a_host_has_the_name_of_the_help(name: str) -> None:
    assert host_named(name).title


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("claude", "claude-code"),
        ("claude code", "claude-code"),
        ("gemini", "gemini-cli"),
        ("cusror", "cursor"),
        ("", None),
    ],
)
def test_an_unknown_host_proposes_the_spelling_of_the_help(name: str, nearest: str | None) -> None:
    with pytest.raises(UnknownNameError) as refused:
        host_named(name)
    text = str(refused.value)
    assert (f"did you mean {nearest!r}?" in text) is (nearest is not None)
    assert text.endswith("known: claude-code, codex, copilot-cli, cursor, gemini-cli, qwen-code")
