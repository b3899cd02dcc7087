"""The programs of hosts, with the hooks: each test runs one, and judges by the files that it has written.

`make test-hosts-real` installs their newest releases and runs these tests.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tree_sitter_bash")

from tests.hooks.real_programs import FOLDER, PROGRAMS, RealProgram, RealRun, real_run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(FOLDER not in os.environ, reason="'make test-hosts-real' runs the programs of hosts"),
]
BY_HOST = {program.host: program for program in PROGRAMS}
NAMES = ("allowed", "denied", "asked")


def started(program: RealProgram, folder: Path) -> Iterator[RealRun]:
    if not Path(os.environ[FOLDER], "node_modules", ".bin", program.program).exists():
        pytest.skip(f"the package of {program.program!r} could not be installed")
    with real_run(program, folder) as run:
        yield run


@pytest.fixture(params=PROGRAMS, ids=lambda program: program.host)
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RealRun]:
    yield from started(request.param, tmp_path)


@pytest.fixture
def claude(tmp_path: Path) -> Iterator[RealRun]:
    yield from started(BY_HOST["claude-code"], tmp_path)


@pytest.fixture
def codex(tmp_path: Path) -> Iterator[RealRun]:
    yield from started(BY_HOST["codex"], tmp_path)


def touches(run: RealRun, *names: str) -> list[Any]:
    """Returns calls, each in a message of its own."""
    return [[run.program.bash(f"touch {name}")] for name in names]


def test_calls_are_allowed_denied_and_escalated(run: RealRun) -> None:
    """In the most permissive mode; the model is told why."""
    mcp = [[(run.program.mcp, {"name": f"mcp-{name}"})] for name in NAMES]
    assert run.run([*touches(run, *NAMES), *mcp]) == {"allowed", "mcp-allowed"}
    assert all(f"{rule}_{at}: " in run.results() for rule in ("denied", "asked") for at in (0, 1))
    assert run.logged("outcome", "status")[-1] == ["ok"], "the last is that of the MCP tool"


@pytest.mark.parametrize(
    ("program", "mode"),
    [pytest.param(program, mode, id=mode[0]) for program in PROGRAMS for mode in program.modes],
)
def test_no_escalated_call_runs_in_any_mode(program: RealProgram, mode: tuple[str, ...], tmp_path: Path) -> None:
    """Nobody is there to answer."""
    for run in started(program, tmp_path):
        ran = run.run(touches(run, *NAMES), *mode)
        assert ran <= {"allowed"}
        judged = run.logged("verdict", "decision")
        assert judged == [["allow"], ["deny"], ["escalate"]] or not (ran or judged), "the host refuses them all itself"


FAILURES = {
    "killed": {"command": "kill -9 $$"},
    "status 1": {"command": "exit 1"},
    "missing": {"command": "/nonexistent/hook"},
    "late": {"command": "sleep 30"},
    "silent": {"command": "true"},
    "text": {"command": "echo hello"},
}
RUNS = {
    "claude-code": ("silent", "text"),
    "codex": tuple(FAILURES),
    "gemini-cli": ("killed", "status 1", "late", "silent", "text"),
    "qwen-code": tuple(FAILURES),
    "copilot-cli": ("late", "silent", "text"),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_hook_that_fails(run: RealRun, failure: str) -> None:
    """Some programs run the call; it is a step of the history all the same."""
    limit = {"timeout": 2000 if run.program.host == "gemini-cli" else 2} if failure == "late" else {}
    run.change_hook(**FAILURES[failure], **limit)
    ran = failure in RUNS[run.program.host]
    assert run.run(touches(run, "allowed")) == ({"allowed"} if ran else set())
    assert len(run.logged("unchecked") if ran else []) == ran


def test_a_call_that_another_hook_changes(run: RealRun) -> None:
    """The program, unless it is Qwen Code, runs the changed call; the history has what ran, without a verdict."""
    event, field = ("BeforeTool", "tool_input") if run.program.host == "gemini-cli" else ("PreToolUse", "updatedInput")
    output = {"hookEventName": event, "permissionDecision": "allow", field: {"command": "touch denied"}}
    run.add_hook(json.dumps({"hookSpecificOutput": output}))
    is_changed = run.program.host != "qwen-code"
    assert run.run(touches(run, "allowed")) == ({"denied"} if is_changed else {"allowed"})
    assert run.logged("unchecked", "decision") == ([["deny"]] if is_changed else [])
    assert (["ok"] not in run.logged("outcome", "status")) == is_changed


def test_the_outcomes_of_commands(run: RealRun) -> None:
    """A failure is one, or unknown; only a success is a success."""
    run.run([[run.program.bash(line)] for line in ("false", "kill -9 $$", "true")])
    statuses = [status for [status] in run.logged("outcome", "status")]
    assert statuses == (["unknown"] * 3 if run.program.host == "codex" else ["failed", "failed", "ok"])


def test_the_calls_of_a_sub_agent(run: RealRun) -> None:
    """They share the history of the session."""
    prompt = run.model.script(touches(run, "sub-allowed", "sub-denied"))
    agents = run.user.home / ".gemini" / "agents"
    agents.mkdir(parents=True)
    (agents / "helper.md").write_text("---\nname: helper\ndescription: x\ntools: [run_shell_command]\n---\nHelp.\n")
    spawn = {
        "claude-code": ("Agent", {"description": "x", "prompt": prompt, "run_in_background": False}),
        "codex": ("multi_agent_v1/spawn_agent", {"message": prompt}),
        "gemini-cli": ("invoke_agent", {"agent_name": "helper", "prompt": prompt}),
        "qwen-code": ("agent", {"description": "x", "prompt": prompt, "subagent_type": "general-purpose"}),
        "copilot-cli": ("task", {"name": "x", "description": "x", "prompt": prompt, "agent_type": "general-purpose"}),
    }[run.program.host]
    mode = (*run.program.mode, *(["--model=gpt-5.1-codex"] if run.program.host == "codex" else []))
    assert run.run([[spawn], [run.program.bash("sleep 4")]], *mode) == {"sub-allowed"}
    assert ["deny"] in run.logged("verdict", "decision")
    assert len({conversation for [conversation] in run.logged("verdict", "conversation")}) == 1


def test_mcp_tools_behind_the_proxy(run: RealRun) -> None:
    """The proxy has a policy of its own, for tools as the server names them."""
    pytest.importorskip("fastmcp")
    rule = "{id: shut, temporal: 'forall(touch(name=x), !(x matches /shut/))', message: The shop is shut.}"
    policy = run.user.home / "shop.yaml"
    policy.write_text(f"version: 1\nunlisted: allow\npolicies:\n  - {rule}\n")
    run.serve_shop(sys.executable, "-m", "guardagent", "mcp-proxy", "--policies", str(policy), "--")
    assert run.run([[(run.program.mcp, {"name": name})] for name in ("open", "shut", "denied")]) == {"open"}
    assert "The shop is shut." in run.results()
    assert run.logged("verdict", "decision") == [["allow"], ["allow"], ["deny"]]


# --- Claude Code


@pytest.mark.parametrize("answers", [(), ("--permission-prompt-tool=mcp__shop__permit",)])
def test_who_answers_for_the_host_lets_an_escalated_call_run(claude: RealRun, answers: tuple[str, ...]) -> None:
    files = claude.run(touches(claude, *NAMES), "--permission-mode=default", "--allowedTools=Bash", *answers)
    assert files == ({"allowed", "asked"} if answers else {"allowed"})
    assert claude.logged("approval", "approver") == ([["unknown: the host let it run"]] if answers else [])


@pytest.mark.parametrize(("name", "files"), [("allowed", {"allowed"}), ("denied", set()), ("asked", set())])
def test_a_deferred_call_is_judged_again_when_the_session_goes_on(claude: RealRun, name: str, files: set[str]) -> None:
    """Another hook defers it: a denial goes before, and a question comes after."""
    output = {"hookEventName": "PreToolUse", "permissionDecision": "defer"}
    claude.add_hook(json.dumps({"hookSpecificOutput": output}))
    assert claude.run(touches(claude, name), "--output-format=json", *claude.program.mode) == set()
    result = json.loads(claude.output)
    assert (result["stop_reason"] == "tool_deferred") == (name != "denied")
    claude.change(lambda settings: settings["hooks"]["PreToolUse"].pop())
    assert claude.start("", "--resume", result["session_id"], *claude.program.mode) == files


@pytest.mark.parametrize(("name", "files"), [("allowed", {"allowed"}), ("denied", set()), ("asked", set())])
def test_a_command_in_the_text_of_a_skill(claude: RealRun, name: str, files: set[str]) -> None:
    skill = claude.user.project / ".claude" / "skills" / "hello"
    skill.mkdir(parents=True)
    text = f"---\nname: hello\ndescription: x\nallowed-tools: Bash(touch:*)\n---\nNow: !`touch {name}`\n"
    (skill / "SKILL.md").write_text(text)
    assert claude.run([[("Skill", {"skill": "hello"})]]) == files


# --- Codex CLI


PATCH = "*** Begin Patch\n*** Add File: {}\n+x\n*** End Patch\n"


def test_patches_pass_unless_they_change_the_guard(codex: RealRun) -> None:
    patches = [PATCH.format(name) for name in ("a.txt", ".codex/hooks.json", ".codex/config.toml")]
    assert codex.run([[("custom/apply_patch", patch)] for patch in patches]) == {"a.txt"}
    assert not (codex.user.project / ".codex").exists()


def test_calls_of_a_program_of_the_model(codex: RealRun) -> None:
    """Newer models write JavaScript that calls the tools."""
    calls = [f"await tools.exec_command({{cmd: 'touch {name}'}}).catch(() => 0)" for name in NAMES]
    code = ";\n".join([*calls, f"await tools.apply_patch(`{PATCH.format('patched')}`)"])
    assert codex.run([[("custom/exec", code)]], "--model=gpt-6.2-sol", *codex.program.mode) == {"allowed", "patched"}


def test_hooks_that_nobody_trusted_are_skipped(codex: RealRun) -> None:
    words = tuple(word for word in codex.program.words if not word.endswith("hook-trust"))
    codex.program = replace(codex.program, words=words)
    assert codex.run(touches(codex, "denied")) == {"denied"}
