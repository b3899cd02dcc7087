"""`check`, `test` and `audit`: exit status, output, unreadable lines, workers, and interrupts."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from guardagent.batch.records import form_of
from tests.conftest import Cli, CommandResult
from tests.shop import LOGIN, POLICIES, call, case, trace, write_lines, write_policies
from tests.tiers import slow_after

ALLOWED = case("ok", amount=5, more={"label": 1})
WARNED = case("warned", "buy", item="hat", price=50, more={"state": {"stock": {"hat": 1}}})
DENIED = case("no", history=[], amount=5, more={"label": 0})
UNKNOWN = case("unknown", "buy", item="hat", price=1)


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    return write_policies(tmp_path)


@pytest.fixture
def judge(cli: Cli, tmp_path: Path, policies: Path) -> Cli:
    """Runs a command over some lines."""

    def run(*lines: Any, command: str = "check", options: tuple[object, ...] = ()) -> CommandResult:
        return cli(command, write_lines(tmp_path / "in.jsonl", *lines), "--policies", policies, *options)

    return run


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ([ALLOWED], 0),
        ([ALLOWED, WARNED], 0),
        ([ALLOWED, DENIED], 1),
        ([DENIED, UNKNOWN, ALLOWED], 3),
        (["{", UNKNOWN, DENIED], 2),
        ([ALLOWED, '{"id": "x"}'], 2),
    ],
)
def test_the_worst_line_is_the_exit_status(judge: Cli, lines: list[Any], status: int) -> None:
    """Gold labels never matter, and a warning is an allowance."""
    assert judge(*lines).status == status
    assert judge(*lines, options=["--json"]).status == status


def test_json_is_one_verdict_in_a_line_and_nothing_else(judge: Cli) -> None:
    """In the order of the file; a bad line is named on standard error, and the rest goes on."""
    ran = judge(ALLOWED, "", "{", DENIED, UNKNOWN, options=["--json"])
    rows = [json.loads(line) for line in ran.out.splitlines()]
    assert [(row["id"], row["label"], row["rules"], bool(row["errors"])) for row in rows] == [
        ("ok", 0, [], False), ("no", 1, ["login_first"], False), ("unknown", 1, [], True),
    ]  # fmt: skip
    assert list(rows[0]) == [
        "id", "label", "decision", "reasons", "violations", "details", "answer", "risk", "errors", "checked_by",
        "model_calls", "elapsed_ms", "rules",
    ]  # fmt: skip
    error = json.loads(ran.err.splitlines()[0])["error"]
    assert (error["kind"], error["status"], "in.jsonl:3: not JSON" in error["message"]) == ("content", 2, True)


def test_a_person_reads_what_was_decided_and_why(judge: Cli) -> None:
    """A verdict for each case, and on standard error the metrics and a row for each rule."""
    ran = judge(ALLOWED, DENIED, case("gold", more={"label": 1, "rules": ["small_refunds"]}, amount=500))
    assert "no  ✘ DENIED" in ran.out
    assert "reason: log in first" in ran.out
    assert "rules: login_first" in ran.out
    assert (
        "3 cases: 1 allowed, 1 only needed approval, 1 denied (0 could not be fully checked); 0 unreadable lines"
        in ran.err
    )
    assert "on 3 labels: accuracy 33.3%, precision 50.0%, recall 50.0% (tp 1, fp 1, fn 1, tn 0)" in ran.err
    assert "small_refunds         1   1   0   0     100.0%  100.0%" in ran.err


def test_audit_shows_what_is_not_plainly_allowed(judge: Cli) -> None:
    """A trace that keeps all rules is only counted."""
    good = trace("good", LOGIN, call("refund", amount=5, order=1), call("receipt", order=1))
    ran = judge(good, trace("owing", LOGIN, call("refund", amount=5, order=1)), command="audit")
    assert (ran.status, "good" in ran.out) == (1, False)
    assert "at the end: a receipt is owed" in ran.out
    assert "2 traces: 1 allowed, 1 denied" in ran.err


def test_a_file_without_records_is_wrong(judge: Cli) -> None:
    """An empty file is an error, not an allowance."""
    for lines in ((), ("", "  ")):
        ran = judge(*lines)
        assert (ran.status, ran.out) == (2, "")
        assert "in.jsonl: holds no cases; expected one JSON object per line" in ran.err


def test_invalid_arguments_are_errors(cli: Cli, tmp_path: Path, policies: Path) -> None:
    """A missing file, an invalid policy file, and --resume without --out are refused."""
    cases = write_lines(tmp_path / "cases.jsonl", ALLOWED)
    for arguments, says in (
        (["check", tmp_path / "none", "--policies", policies], "none: no such file"),
        (["check", cases, "--policies", tmp_path / "none"], "none: no such file"),
        (["audit", cases, "--policies", cases], "cases.jsonl:1: "),
        (["audit", cases, "--policies", policies, "--resume"], "'--resume' needs '--out FILE'"),
        (["check", cases, "--policies", policies, "--workers", 0], "--workers"),
        (["test", policies, tmp_path], "is a folder; expected a file"),
        (["test", cases], "expected CASES --policies FILE"),
        (["test", cases, cases, "-p", policies], "expected CASES --policies FILE"),
    ):
        ran = cli(*arguments)
        assert (ran.status, ran.out) == (2, "")
        assert says in ran.err


def test_standard_input_is_read_for_a_dash(policies: Path, tmp_path: Path) -> None:
    """Messages call it standard input."""
    command = [sys.executable, "-m", "guardagent", "check", "-", "--policies", str(policies), "--json"]
    text = f"\ufeff{json.dumps(DENIED)}\r\n\r\n{{\r\n"
    ran = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
    assert ran.returncode == 2
    assert json.loads(ran.stdout)["id"] == "no"
    assert b"standard input:3: not JSON" in ran.stderr


def test_out_keeps_the_verdicts_and_resume_goes_on(judge: Cli, tmp_path: Path) -> None:
    """Existing results are never overwritten, and a longer input is continued."""
    out = tmp_path / "out.jsonl"
    keep = ["--out", out, "--json"]
    first = judge(DENIED, "{", ALLOWED, options=keep)
    assert first.out == out.read_text()
    assert judge(DENIED, "{", ALLOWED, options=keep).status == 2
    again = judge(DENIED, "{", ALLOWED, WARNED, options=[*keep, "--resume"])
    assert (again.status, first.out + again.out) == (2, out.read_text())
    assert "3 cases: 2 allowed, 1 denied" in again.err


def test_another_policy_or_command_goes_on_with_nothing(judge: Cli, tmp_path: Path) -> None:
    """Results of another policy or command are not continued."""
    keep = ["--out", tmp_path / "out.jsonl", "--resume"]
    judge(DENIED, options=keep)
    assert "was written under other policies" in judge(DENIED, command="audit", options=keep).err
    write_policies(tmp_path, POLICIES.replace("100]", "10]").replace("a <= 100", "a <= 10"))
    assert "was written under other policies" in judge(DENIED, options=keep).err


def test_test_shows_a_diff(cli: Cli, tmp_path: Path, policies: Path) -> None:
    """The diff has missing expectations and unexpected results; matching cases are only counted."""
    cases = write_lines(
        tmp_path / "cases.jsonl",
        case("right", history=[], amount=500, more={"label": 1, "rules": ["small_refunds", "login_first"]}),
        case("wrong", history=[], amount=5, more={"label": 0, "rules": ["smal_refunds"]}),
    )
    ran = cli("test", cases, "-p", policies)
    assert ran == cli("test", cases, "--policies", policies) == cli("test", policies, cases)
    assert (ran.status, "right" in ran.out) == (1, False)
    known = "cheap, in_stock, login_first, receipt, small_refunds"
    assert ran.out.splitlines() == [
        f"{cases}:2: wrong",
        "  - label: 0 (may proceed)",
        "  + label: 1 (may not)",
        "  + rule:  login_first",
        f"  - rule:  smal_refunds (no such policy; did you mean 'small_refunds'? known: {known})",
        "      log in first",
    ]
    assert "1 of 2 cases match their expectation" in ran.err


def test_test_says_the_same_in_json(cli: Cli, tmp_path: Path, policies: Path) -> None:
    """A row for every case, with what it expects; exit 0 where nothing differs, 2 where a line is unreadable."""
    right = case("right", amount=5, more={"label": 0})
    ran = cli("test", policies, write_lines(tmp_path / "a.jsonl", right), "--json")
    row = json.loads(ran.out)
    assert (ran.status, row["expected"], row["differs"]) == (0, {"label": 0, "rules": None}, False)
    ran = cli("test", policies, write_lines(tmp_path / "b.jsonl", right, case("none", amount=5)), "--json")
    assert (ran.status, ran.out.count("\n")) == (2, 1)
    assert "b.jsonl:2: has no expectation" in ran.err


@pytest.mark.slow
def test_workers_give_what_one_gives(judge: Cli, tmp_path: Path) -> None:
    """The same rows in the same order, and the same bad lines."""
    lines = ["{" if at % 50 == 7 else case(f"c{at}", amount=at) for at in range(300)]
    serial, two = (judge(*lines, options=["--json", "--workers", count]) for count in (1, 3))
    assert two.err == serial.err
    rows = [[{**json.loads(line), "elapsed_ms": 0} for line in ran.out.splitlines()] for ran in (serial, two)]
    assert rows[0] == rows[1]
    assert len(rows[0]) == 294


def test_a_worker_that_is_ended_ends_the_run(judge: Cli, tmp_path: Path) -> None:
    """Exit 3: what could not be judged is not allowed."""
    (tmp_path / "shop.py").write_text('import os\n\ndef stock(state, item):\n    """Ends it."""\n    os._exit(9)\n')
    ran = judge(ALLOWED, WARNED, options=["--json", "--workers", 2])
    assert (ran.status, ran.out) == (3, "")
    assert "a worker process was killed" in ran.err


SLOW = 'import time\n\ndef stock(state, item):\n    """Takes its time."""\n    time.sleep(0.05)\n    return 1\n'


@pytest.fixture
def slow(tmp_path: Path, policies: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts an audit of 200 traces that takes at least ten seconds, and waits for its first row."""
    (tmp_path / "shop.py").write_text(SLOW)
    buy = call("buy", item="hat", price=1)
    log = write_lines(tmp_path / "log.jsonl", *(trace(f"t{at}", buy, state={"x": 1}) for at in range(200)))
    started: list[subprocess.Popen[bytes]] = []

    def start(*options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "guardagent", "audit", str(log), "--policies", str(policies), *options]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        started.append(process)
        out = tmp_path / "out.jsonl"
        while process.poll() is None and not (out.exists() and out.stat().st_size):
            time.sleep(0.02)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("workers", slow_after(1, ["2", "1"]))
def test_an_interrupt_keeps_what_was_done(
    slow: Callable[..., subprocess.Popen[bytes]], tmp_path: Path, workers: str
) -> None:
    """Ctrl-C, which every process of the terminal gets, ends all of them with one sentence."""
    out = tmp_path / "out.jsonl"
    process = slow("--out", str(out), "--workers", workers)
    os.killpg(process.pid, signal.SIGINT)
    output = process.communicate()[1].decode()
    assert process.returncode == 130
    assert output.count("\n") == 1
    assert "interrupted after" in output
    assert "add '--resume' to continue" in output
    rows = [json.loads(line)["id"] for line in out.read_text().splitlines()]
    assert 0 < len(rows) < 150
    assert rows == [f"t{at}" for at in range(len(rows))]


@pytest.mark.slow
def test_workers_end_with_a_run_that_is_killed(slow: Callable[..., subprocess.Popen[bytes]], tmp_path: Path) -> None:
    """No process is left behind, and the same command resumes."""
    process = slow("--out", str(tmp_path / "out.jsonl"), "--workers", "2")
    workers = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    assert len(workers) >= 2
    _, alive = psutil.wait_procs(workers, timeout=5)
    assert alive == []


@pytest.mark.slow
def test_a_worker_that_is_killed_ends_the_run(slow: Callable[..., subprocess.Popen[bytes]], tmp_path: Path) -> None:
    """Exit 3, what was judged before is kept, and the other workers end too."""
    process = slow("--out", str(tmp_path / "out.jsonl"), "--workers", "2")
    children = psutil.Process(process.pid).children(recursive=True)
    workers = [child for child in children if "spawn_main" in " ".join(child.cmdline())]
    workers[0].kill()
    output = process.communicate()[1]
    assert (process.returncode, len(workers)) == (3, 2)
    assert b"a worker process was killed" in output
    rows = [json.loads(line)["id"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert rows == [f"t{at}" for at in range(len(rows))]
    assert not workers[1].is_running()


FORMS = [  # what the first lines of a file are, and the format that they are read with
    ([{"trace": "a", "tool": "login"}, {"trace": "b", "tool": "login"}], "jsonl"),
    (["", {"time": 1, "trace": 7, "tool": "login", "args": {}}], "jsonl"),
    (["{", {"trace": "a", "action": "send"}], "jsonl"),
    ([{"resourceSpans": []}], "otel"),
    ([{"traceId": "1", "spanId": "2"}], "otel"),
    ([{"id": "1", "run_type": "tool", "trace_id": "2"}], "langsmith"),
    ([[{"id": "1", "run_type": "tool"}]], "langsmith"),
    ([{"id": "1", "traceId": "2", "type": "TOOL"}], "langfuse"),
    ([{"data": [{"traceId": "2", "type": "TOOL"}]}], "langfuse"),
    ([{"object": "trace.span", "id": "1"}], "openai-agents"),
    ([{"entry": 1, "kind": "verdict"}], "log"),
    ([trace("a", LOGIN)], ""),
    ([{"id": "a", "trace": "x", "events": []}], ""),
    ([ALLOWED], ""),
    ([{"id": "a"}], ""),
    (["", "  "], ""),
    (["{"] * 12 + [{"trace": "late"}], ""),
]


@pytest.mark.parametrize(("lines", "form"), FORMS)
def test_the_first_lines_show_the_form_of_a_file(tmp_path: Path, lines: list[Any], form: str) -> None:
    assert form_of(write_lines(tmp_path / "in.jsonl", *lines)) == form


def test_events_in_one_file_are_judged_as_traces(judge: Cli, tmp_path: Path) -> None:
    """Whichever of its lines an event is in; a file as '--out' is refused, since a table gets a folder."""
    event = {"trace": "a", "tool": "refund", "args": {"amount": 5, "order": 1}, "time": 2}
    login = {"trace": "a", "tool": "login", "args": {}, "failed": False, "time": 1}
    ran = judge(event, login, command="audit", options=("--json",))
    assert json.loads(ran.out)["rules"] == ["receipt"]
    assert "read with '--format jsonl', as its first lines show" in ran.err
    ran = judge(event, login, command="audit", options=("--out", tmp_path / "v.jsonl"))
    assert (ran.status, (tmp_path / "v.jsonl").exists()) == (2, False)
    assert "expected the name of a folder" in ran.err
    assert judge(event, login, command="audit", options=("--out", tmp_path / "v")).status == 1


@pytest.mark.parametrize("start", [b'{"entry": 1, "kind": "verdict"}\n', b"SQLite format 3\0\x10\0"])
def test_an_audit_log_is_for_replay(cli: Cli, policies: Path, tmp_path: Path, start: bytes) -> None:
    (tmp_path / "log").write_bytes(start)
    ran = cli("audit", tmp_path / "log", "--policies", policies)
    assert (ran.status, "'guardagent replay' judges logs" in ran.err) == (2, True), ran.err


def test_a_policy_alone_is_tested_with_the_cases_beside_it(cli: Cli, policies: Path) -> None:
    refused = cli("test", policies)
    assert (refused.status, "expected CASES --policies FILE" in refused.err) == (2, True)
    write_lines(policies.with_suffix(".cases.jsonl"), {**ALLOWED, "label": 0})
    ran = cli("test", policies)
    assert (ran.status, "1 of 1 cases match" in ran.err) == (0, True), ran.err


def test_a_match_that_rests_on_what_is_unknown_is_named(judge: Cli) -> None:
    """As with an argument that is misspelt."""
    ran = judge({**UNKNOWN, "label": 1}, {**ALLOWED, "label": 0}, command="test")
    assert (ran.status, ran.err.count(" matches, but could not be fully checked: ")) == (0, 1), ran.err


BAD = {"id": 1, "events": [{"tool": 5}]}


@pytest.mark.parametrize(
    ("command", "lines", "shown"),
    [
        ("check", [{"id": f"c{at}"} for at in range(50)], 2),
        ("check", ["{"] * 50, 2),
        ("check", [ALLOWED, *["{", {"id": "x"}] * 20], 4),
        ("test", [case(f"c{at}", amount=at) for at in range(50)], 2),
        ("audit", [{**BAD, "id": at} for at in range(50)], 2),
        ("audit", [{"trace": f"t{at}", "tool": 5} for at in range(50)], 2),
        ("audit", [{"traceId": f"{at}", "spanId": f"s{at}", "name": "execute_tool x"} for at in range(50)], 2),
        ("audit", ["{", trace("a", LOGIN)], 1),
        ("check", ["{", ALLOWED, {"id": "x"}], 2),
    ],
)
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_errors_that_are_alike_are_counted(
    judge: Cli, command: str, lines: list[Any], shown: int, options: tuple[str, ...]
) -> None:
    ran = judge(*lines, command=command, options=options)
    errors = [line for line in ran.err.splitlines() if line.startswith(("guardagent: ", '{"error"'))]
    assert (ran.status, len(errors)) == (2, shown), ran.err
    assert any(" more like this: " in error for error in errors) == (len(lines) > 3)


@pytest.mark.parametrize("command", ["check", "audit"])
@pytest.mark.parametrize(
    "lines", [[], ["{"], ["{", {"id": "x"}], [{"trace": "a", "tool": 5}], [{"traceId": "1", "spanId": "2"}]]
)
def test_a_run_that_reads_nothing_leaves_nothing(judge: Cli, tmp_path: Path, command: str, lines: list[Any]) -> None:
    """So the right command can write there."""
    assert judge(*lines, command=command, options=("--out", tmp_path / "out")).status == 2
    assert sorted(path.name for path in tmp_path.glob("out*")) == []
    (tmp_path / "out").touch() if command == "check" else None
    ran = judge(
        ALLOWED if command == "check" else trace("a", LOGIN), command=command, options=("--out", tmp_path / "out")
    )
    assert (ran.status, (tmp_path / "out").read_text().count("\n")) == (0, 1)


def test_a_missing_file_leaves_nothing(cli: Cli, tmp_path: Path, policies: Path) -> None:
    for command in ("check", "audit"):
        assert cli(command, tmp_path / "none", "-p", policies, "--out", tmp_path / "out").status == 2
    assert not (tmp_path / "out").exists()
