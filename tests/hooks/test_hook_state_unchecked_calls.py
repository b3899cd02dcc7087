"""The history of a session: the calls in it that ran without a verdict, and how long it is kept."""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tree_sitter_bash")

from guardagent.cli.hooks import watch
from guardagent.errors import InputError
from guardagent.hooks.hook_daemon import HookDaemon
from guardagent.hooks.hook_state import HookLock, PendingAsks, delete_old_sessions, read_lock, state_folder
from guardagent.hooks.installation import policy_text
from guardagent.log.verification import Selection
from guardagent.server.state import open_state
from guardagent.session.counters import open_counters
from tests.hooks.payloads import EVENTS, POLICY, SHELLS, decision, event

DAY = 86400
STOPPED = ("ask", "deny")  # the host asks, or cannot
PUSH = {"command": "git push origin topic"}


class Daemon:
    """A daemon in this process, for the hook of a host."""

    def __init__(
        self,
        folder: Path,
        host: str,
        policy: str = POLICY,
        keep_days: int = 30,
        ask: Any = "host",
        mode: Any = "enforce",
    ) -> None:
        self.host, self.project, self.folder = host, folder / "shop", state_folder()
        self.project.mkdir()
        path = folder / "policy.yaml"
        path.write_text(policy.replace("PROJECT", str(self.project)))
        lock = HookLock.of(host.replace("-", "_"), folder / "settings.json", path, None, keep_days, ask, mode)
        self.lock = lock.write(self.folder)
        self.restart()

    def restart(self) -> None:
        self.daemon = HookDaemon(self.folder)

    def before(self, args: Mapping[str, Any], call_id: str, session: str = "s1", **more: Any) -> str:
        return decision(self.host, self.sent("before", args, call_id, session, **more))

    def after(self, args: Mapping[str, Any], call_id: str, session: str = "s1", **more: Any) -> None:
        outcome = {"tool_response": {"stdout": "ok"}, "tool_output": '{"exitCode": 0}', **more}
        self.sent("after", args, call_id, session, **outcome)

    def run(self, args: Mapping[str, Any], call_id: str) -> None:
        assert self.before(args, call_id) == "allow"
        self.after(args, call_id)

    def entries(self, kind: str) -> list[Mapping[str, Any]]:
        entries = Selection().entries([str(self.folder / "log.db")])
        return [entry.fields for entry in entries if entry.fields["kind"] == kind]

    def sent(self, kind: str, args: Mapping[str, Any], call_id: str = "", session: str = "s1", **outcome: Any) -> Any:
        fields = {"tool_name": SHELLS[self.host], "tool_input": dict(args), "tool_use_id": call_id, **outcome}
        payload = event(self.host, kind, self.project, session, **fields)
        name = EVENTS[self.host].get(kind, kind)
        output = self.daemon.output(self.host.replace("-", "_"), name, str(self.lock), json.dumps(payload).encode())
        found_text = (output.status, output.stdout, output.stderr)
        return type("Ran", (), dict(zip(("returncode", "stdout", "stderr"), found_text, strict=True)))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.mark.parametrize("host", ["claude-code", pytest.param("cursor", marks=pytest.mark.slow)])
def test_a_call_that_was_never_checked_is_a_step_of_the_history(host: str, tmp_path: Path) -> None:
    """An edit asks for new tests, tests count, and a repeated event changes nothing."""
    daemon = Daemon(tmp_path, host)
    daemon.run({"command": "pytest"}, "1")
    assert daemon.before(PUSH, "2") == "allow"
    for _ in range(2):
        daemon.after({"command": "touch a.py"}, "3")
    assert daemon.before(PUSH, "4") in STOPPED
    daemon.restart()
    assert daemon.before(PUSH, "5") in STOPPED, "the history outlives the daemon"
    [entry] = daemon.entries("unchecked")
    assert (entry["tool"], entry["call_id"], entry["status"]) == (SHELLS[host], "3", "ok")
    daemon.after({"command": "pytest"}, "6")
    assert daemon.before(PUSH, "7") == "allow"


@pytest.mark.parametrize("mode", ["enforce", "trial"])
def test_many_calls_in_flight_stop_nothing(mode: str, tmp_path: Path) -> None:
    """A coding agent reads about ten files at once, and an interrupted call has no outcome."""
    daemon = Daemon(tmp_path, "claude-code", policy_text(["claude-code"]), mode=mode)
    ran = [daemon.sent("before", {"command": f"ls d{at}"}, str(at)) for at in range(15)]
    assert [(answer.returncode, answer.stdout) for answer in ran] == [(0, "")] * 15


def test_the_outcome_of_a_lost_call_is_unknown_after_the_turn(tmp_path: Path) -> None:
    """A sub-agent may work in the background: its calls end when the session goes on in a new process."""
    daemon = Daemon(tmp_path, "claude-code")
    daemon.run({"command": "pytest"}, "1")
    daemon.before({"command": "ls"}, "2", agent_id="sub-1")
    daemon.before({"command": "touch a.py"}, "3")
    for kind, lost in (("stop", ["3"]), ("prompt", ["3"]), ("SessionStart", ["3", "2"])):
        daemon.sent(kind, {}, source="resume")
        unknown = [entry["call_id"] for entry in daemon.entries("outcome") if entry["status"] == "unknown"]
        assert unknown == lost
    assert daemon.before(PUSH, "4") in STOPPED, "the edit may have happened"


@pytest.mark.parametrize("host", ["claude-code", "codex"])
def test_a_call_that_ran_with_other_arguments_is_the_step_that_ran(host: str, tmp_path: Path) -> None:
    """Another hook has changed them, or the program that answered the host's question."""
    daemon = Daemon(tmp_path, host)
    assert daemon.before({"command": "ls"}, "1") == "allow"
    daemon.after({"command": "touch a.py"}, "1")
    daemon.after({"command": "touch a.py"}, "1")
    assert [entry["args"]["command"] for entry in daemon.entries("unchecked")] == ["touch a.py"]
    assert daemon.before(PUSH, "2") in STOPPED


def test_a_deferred_call_is_proposed_again_with_its_id(tmp_path: Path) -> None:
    """Its first proposal may have run; an id that is in use, or had an outcome, stays refused."""
    daemon = Daemon(tmp_path, "claude-code")
    for _ in range(2):
        assert daemon.before({"command": "ls"}, "1") == "allow"
        daemon.sent("SessionStart", {}, source="resume")
    daemon.run({"command": "ls"}, "1")
    assert daemon.before({"command": "ls"}, "1") == "deny"
    outcomes = [(entry["call_id"], entry["status"]) for entry in daemon.entries("outcome")]
    assert outcomes == [("1", "unknown"), ("1:again", "unknown"), ("1:again:again", "ok")]


def test_a_command_of_a_skill_is_judged_before_it_runs(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, "claude-code")
    answers = [daemon.sent("PreSkillShellCommand", {"command": line}, line) for line in ("ls", "rm -rf ~", "make $X")]
    assert [decision("claude-code", answer) for answer in answers] == ["allow", "deny", "deny"]
    assert "cannot ask its user here" in answers[2].stdout
    assert daemon.sent("PreSkillShellCommand", {}, tool_name=7).returncode == 2


@pytest.mark.parametrize(
    ("host", "response"),
    [
        ("claude-code", {"stdout": "", "backgroundTaskId": "b1"}),
        ("codex", '{"exit_code": 0}'),
        ("gemini-cli", {"llmContent": "<untrusted_context>\nOutput: (empty)\nSignal: 9\n</untrusted_context>"}),
        ("claude-code", None),  # Copilot CLI runs its hooks, too, with results of another name
        ("gemini-cli", {"llmContent": "Command moved to background (PID: 7). Output hidden."}),
    ],
)
def test_tests_that_are_not_known_to_have_passed_do_not_count(host: str, response: Any, tmp_path: Path) -> None:
    """They run in the background, ended by a signal, or the host does not report their exit status."""
    daemon = Daemon(tmp_path, host)
    daemon.run({"command": "touch a.py"}, "1")
    assert daemon.before({"command": "pytest"}, "2") == "allow"
    daemon.after({"command": "pytest"}, "2", tool_response=response)
    assert daemon.before(PUSH, "3") in STOPPED


UNCHECKABLE = """
version: 1
policies:
  - {id: "be: sure", temporal: "forall(Bash(), fact(sure) == true)", message: Ask first.}
  - {id: asked, temporal: "G !tool:Bash", message: No shell., on_violation: escalate}
  - {id: due, temporal: "exists(Read(), true)", message: Read the rules.}
"""


def test_on_trial_rules_only_warn_and_say_what_they_will_do(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, "claude-code", UNCHECKABLE, mode="trial")
    assert json.loads(daemon.sent("before", {"command": "ls"}, "1").stdout)["systemMessage"].splitlines() == [
        "GuardAgent (on trial): would be put to a person by asked: No shell.",
        "GuardAgent (on trial): would be denied by be: sure: could not be checked: the fact 'sure' is unknown",
    ]
    daemon.after({"command": "ls"}, "1")
    assert daemon.entries("unchecked") == [], "it was in flight as any other call"
    ended = json.loads(daemon.sent("stop", {}).stdout)
    assert ended == {"systemMessage": "GuardAgent (on trial): due is still due: call 'Read'"}
    assert daemon.sent("before", {}, tool_name=7).returncode == 2, "an event that cannot be read is denied"


def test_a_rule_that_could_not_be_checked_is_not_reported_as_broken(tmp_path: Path) -> None:
    reason = Daemon(tmp_path, "claude-code", UNCHECKABLE).sent("before", {"command": "ls"}, "1").stdout
    assert (
        "- be: sure: could not be checked: the fact 'sure' is unknown (rule: Ask first.)"
        in json.loads(reason)["hookSpecificOutput"]["permissionDecisionReason"].splitlines()
    )


def test_the_loss_of_all_files_is_named_before_that_of_the_guard(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, "claude-code")
    reason = json.loads(daemon.sent("before", {"command": "rm -rf ~/"}, "1").stdout)["hookSpecificOutput"]
    lines = reason["permissionDecisionReason"].splitlines()
    assert [line.startswith(("- shell.delete: ", "- This would change")) for line in lines] == [False, True, True]


def test_the_host_alone_is_known_to_have_let_a_call_run(tmp_path: Path) -> None:
    """No person is recorded as the approver where a program of the host may have answered."""
    daemon = Daemon(tmp_path, "claude-code")
    assert daemon.before({"command": "make $X"}, "1") == "ask"
    asks = PendingAsks(open_state(f"sqlite:{daemon.folder / 'asks.db'}"))
    assert asks.pending() == [], "the host asks, so watch does not"
    daemon.after({"command": "make $X"}, "1")
    assert [entry["approver"] for entry in daemon.entries("approval")] == ["unknown: the host let it run"]


def test_calls_are_left_to_watch(tmp_path: Path) -> None:
    """Then the host's answer counts for nothing, and a person's does once; what has run is not asked about any more."""
    daemon = Daemon(tmp_path, "claude-code", ask="watch")
    asks = PendingAsks(open_state(f"sqlite:{daemon.folder / 'asks.db'}"))
    assert daemon.before({"command": "make $X"}, "1") == "deny"
    asks.answer(asks.pending()[0].name, approves=True)
    daemon.after({"command": "make $X"}, "1")
    assert (len(daemon.entries("unchecked")), daemon.entries("approval")) == (1, [])
    assert daemon.before({"command": "make $X"}, "2") == "deny", "the answer was for the call that has run"
    asks.answer(asks.pending()[0].name, approves=True)
    daemon.sent("stop", {})
    assert daemon.before({"command": "make $X"}, "3") == "allow", "in the next turn, too"
    assert [entry["approver"] for entry in daemon.entries("approval")] == ["guardagent watch"]
    assert daemon.before({"command": "ls"}, "4") == "allow"


def test_a_denied_call_that_ran_is_shown_with_its_objections(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Later calls are judged as before."""
    daemon = Daemon(tmp_path, "claude-code")
    assert daemon.before({"command": "rm -rf ~/x"}, "1") == "deny"
    daemon.after({"command": "rm -rf ~/x"}, "1")
    assert daemon.entries("unchecked")[0]["decision"] == "deny"
    assert daemon.before({"command": "ls"}, "2") == "allow"
    assert daemon.before({"command": "rm -rf ~/x"}, "3") == "deny"
    watch(once=True, denials=True)
    shown = capsys.readouterr().out
    assert "rm -rf ~/x (it ran without a verdict that allows it; This deletes whole folders" in shown


def test_a_rule_can_name_unchecked_calls(tmp_path: Path) -> None:
    """Here, after one, no further command runs in this session."""
    rule = 'policies: [{id: a, temporal: "G (unchecked -> X G !tool:Bash)"}]'
    daemon = Daemon(tmp_path, "claude-code", f"version: 1\nunlisted: allow\n{rule}\n")
    daemon.run({"command": "ls"}, "1")
    daemon.after({"command": "ls -l"}, "2")
    assert daemon.before({"command": "ls"}, "3") == "deny"
    assert daemon.before({"command": "ls"}, "4", session="s2") == "allow"


@pytest.mark.slow
def test_a_call_that_the_host_cannot_ask_about_and_runs_is_unchecked(tmp_path: Path) -> None:
    """Only the answer of a host's user is an approval."""
    daemon = Daemon(tmp_path, "codex")
    assert daemon.before({"command": "make $X"}, "1") == "deny"
    daemon.after({"command": "make $X"}, "1")
    assert len(daemon.entries("unchecked")) == 1


@pytest.mark.slow
def test_a_call_that_the_host_did_not_run_is_no_step(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, "cursor")
    daemon.run({"command": "pytest"}, "1")
    assert daemon.before({"command": "touch a.py"}, "2") == "allow"
    daemon.after({"command": "touch a.py"}, "2", failure_type="permission_denied")
    assert daemon.before({"command": "rm -rf ~/x"}, "3") == "deny"
    daemon.after({"command": "rm -rf ~/x"}, "3", failure_type="permission_denied")
    assert daemon.before(PUSH, "4") == "allow"
    assert daemon.entries("unchecked") == []


def test_a_session_is_deleted_some_days_after_its_last_use(tmp_path: Path) -> None:
    """If it comes back it starts empty. The log stays."""
    daemon = Daemon(tmp_path, "claude-code", keep_days=7)
    daemon.run({"command": "touch a.py"}, "1")
    assert delete_old_sessions(daemon.folder, lambda: time.time() + 6 * DAY) == []
    assert daemon.before(PUSH, "2") in STOPPED
    logged = len(daemon.entries("verdict"))
    assert delete_old_sessions(daemon.folder, lambda: time.time() + 8 * DAY) == ["claude_code/s1"]
    assert daemon.before(PUSH, "3") == "allow", "a running daemon sees it, too"
    daemon.restart()
    assert daemon.before(PUSH, "4") == "allow"
    assert len(daemon.entries("verdict")) == logged + 2


COUNTED = """
version: 1
counters:
  daily: {on: Bash(command=c), key: c, window: 24h}
  ever: {on: Bash(command=c), key: c}
policies: [{id: some, temporal: "forall(Bash(command=c), counter(daily, c) + counter(ever, c) < 9)"}]
"""


def test_counts_are_deleted_when_their_window_has_long_passed(tmp_path: Path) -> None:
    """Those without a window stay, and a call in flight counts for good when its session is deleted."""
    daemon = Daemon(tmp_path, "claude-code", COUNTED, keep_days=7)
    assert {daemon.before({"command": f"ls {at}"}, str(at)) for at in range(5)} == {"allow"}
    store = open_counters(f"sqlite:{daemon.folder / 'counters.db'}")
    for days, left in ((1, {"daily": 5, "ever": 5}), (3, {"ever": 5}), (8, {})):
        delete_old_sessions(daemon.folder, lambda days=days: time.time() + days * DAY)  # type: ignore[misc]
        assert Counter(reservation.counter.split()[0] for reservation in store.pending()) == left
    with sqlite3.connect(daemon.folder / "counters.db") as db:
        assert db.execute("SELECT settled FROM keys").fetchall() == [("1",)] * 5


@pytest.mark.slow
def test_requests_for_a_person_are_deleted_too(tmp_path: Path) -> None:
    daemon = Daemon(tmp_path, "claude-code", ask="watch")
    assert daemon.before({"command": "make $X"}, "1") == "deny"
    delete_old_sessions(daemon.folder, lambda: time.time() + 31 * DAY)
    assert PendingAsks(open_state(f"sqlite:{daemon.folder / 'asks.db'}")).pending() == []


def test_a_session_is_kept_for_a_day_at_least(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least one"):
        Daemon(tmp_path, "claude-code", keep_days=0)


@pytest.mark.slow
def test_old_sessions_are_deleted_when_the_daemon_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the daemon changes it
    daemon = Daemon(tmp_path, "claude-code")
    daemon.run({"command": "touch a.py"}, "1")
    HookDaemon(daemon.folder, idle_seconds=0.1, clock=lambda: time.time() + 31 * DAY).serve()
    daemon.restart()
    assert daemon.before(PUSH, "2") == "allow"


def test_a_person_can_approve_what_would_change_the_guard(tmp_path: Path) -> None:
    """Once, and in `watch` only; the policy judges the call, too."""
    daemon = Daemon(tmp_path, "claude-code")
    asks = PendingAsks(open_state(f"sqlite:{daemon.folder / 'asks.db'}"))
    change = {"command": "sed -i s/a/b/ ../policy.yaml", "cwd": str(daemon.project)}
    assert daemon.before(change, "1") == "deny"
    asks.answer(asks.pending()[0].name, approves=True)
    assert daemon.before({"command": "guardagent hook enforce"}, "2") == "deny", "that is another call"
    asks.answer(asks.pending()[0].name, approves=True)
    assert daemon.before({"command": "guardagent hook enforce"}, "3") == "allow"
    assert daemon.before({"command": "guardagent hook enforce"}, "4") == "deny"
    asks.answer(asks.pending()[0].name, approves=False)
    assert daemon.before({"command": "guardagent hook enforce"}, "5") == "deny"
    assert asks.pending() == [], "a rejected call is not asked about again"
    assert daemon.before(change, "6") == "allow"
    assert daemon.before(change, "7") == "deny"


def test_the_environment_of_the_hook_is_not_cleared(tmp_path: Path) -> None:
    """Even if the package is elsewhere, as one that is installed for its development."""
    daemon = Daemon(tmp_path, "claude-code", "version: 1\nunlisted: allow\ninclude: [guardagent:runaway]\n")
    environment = Path(sys.executable).parents[1]
    assert daemon.before({"command": f"python3 -m venv --clear {environment}"}, "1") == "deny"
    assert daemon.before({"command": f"{environment}/bin/pytest -q"}, "2") == "allow"


def test_that_approval_covers_only_the_reasons_of_rules_that_were_shown(tmp_path: Path) -> None:
    """A rule that escalates only since the request is shown in another one."""
    rules = "forall(Bash(), count(f:Bash(), true) < 1)"
    rule = f"{{id: a, temporal: '{rules}', on_violation: escalate, message: Again.}}"
    policy = f"version: 1\nunlisted: allow\npolicies: [{rule}]\n"
    daemon = Daemon(tmp_path, "claude-code", policy)
    asks = PendingAsks(open_state(f"sqlite:{daemon.folder / 'asks.db'}"))
    change = {"command": "guardagent hook enforce"}
    assert daemon.before(change, "1") == "deny"
    asks.answer(asks.pending()[0].name, approves=True)
    daemon.run({"command": "ls"}, "2")
    assert daemon.before(change, "3") == "deny"
    [request] = asks.pending()
    assert len(request.reasons) == 2
    assert "Again." in request.reasons[1]
    asks.answer(request.name, approves=True)
    assert daemon.before(change, "4") == "allow"


def test_a_trial_warns_about_everything_that_would_be_stopped(tmp_path: Path) -> None:
    """Each call is a step of the history then, and an enforced policy goes on with it."""
    policy = "version: 1\nunlisted: deny\npolicies: [{id: a, temporal: 'G (tool:Bash -> X G !tool:Bash)'}]\n"
    daemon = Daemon(tmp_path, "claude-code", policy)
    lock = read_lock(Path(daemon.lock))
    replace(lock, mode="trial").write(daemon.folder)
    daemon.run({"command": "ls"}, "1")
    assert daemon.before({"command": "pwd"}, "2") == "allow"
    daemon.after({"command": "pwd"}, "2")
    assert daemon.entries("unchecked") == []
    replace(lock, mode="enforce").write(daemon.folder)
    daemon.restart()
    assert daemon.before({"command": "ls"}, "3") == "deny"


def test_a_workspace_is_the_folder_of_the_session(tmp_path: Path) -> None:
    """It stays so when the agent goes elsewhere; a session that begins elsewhere has another one."""
    include = "include: [guardagent:shell, guardagent:filesystem]"
    daemon = Daemon(tmp_path, "claude-code", f"version: 1\nunlisted: allow\n{include}\n")
    own, other = Path("/srv/own"), Path("/srv/other")
    daemon.project = own
    assert daemon.before({"command": f"rm {own}/a.py"}, "1") == "allow"
    assert daemon.before({"command": f"rm {other}/a.py"}, "2") == "deny"
    daemon.project = other
    assert daemon.before({"command": f"rm {other}/b.py"}, "3") == "deny"
    assert daemon.before({"command": f"rm {other}/b.py"}, "4", session="s2") == "allow"
    daemon.restart()
    assert daemon.before({"command": f"rm {other}/c.py"}, "5") == "deny"


def test_counters_go_on_in_other_sessions_and_after_a_restart(tmp_path: Path) -> None:
    rule, counters = "{id: a, temporal: 'forall(Bash(), counter(runs) < 1)'}", "counters: {runs: {on: Bash()}}"
    daemon = Daemon(tmp_path, "claude-code", f"version: 1\nunlisted: allow\n{counters}\npolicies: [{rule}]\n")
    daemon.run({"command": "ls"}, "1")
    assert daemon.before({"command": "ls"}, "2") == "deny"
    daemon.restart()
    assert daemon.before({"command": "ls"}, "3", session="s2") == "deny"


@pytest.mark.parametrize("form", ["rules.yaml", "../shared/rules.yaml"])
def test_the_copy_has_the_files_that_a_policy_names(form: str, tmp_path: Path) -> None:
    folder = tmp_path / "team"
    folder.mkdir()
    rules = folder / form
    rules.parent.mkdir(exist_ok=True)
    rules.write_text("version: 1\npolicies: [{id: a, temporal: G !tool:Write}]\n")
    source = folder / "p.yaml"
    source.write_text(f"version: 1\nunlisted: allow\ninclude: [{form}]\n")
    lock = HookLock.of("codex", tmp_path / "s.json", source, None).write(state_folder())
    rules.unlink()
    source.unlink()
    assert read_lock(lock).load().session().check("Write", {}, reserve=False).label == 1
