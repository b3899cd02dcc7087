"""`log show`, `log verify` and `log export`: what they print, and their exit status."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from guardagent.log import AuditLog
from tests.conftest import Cli
from tests.log.logs import KEY, SUFFIXES, edit, filled, record, remove


@pytest.fixture(params=SUFFIXES)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A log of three conversations."""
    path = tmp_path / f"audit{request.param}"
    seconds = iter(range(1_700_000_000, 1_800_000_000, 3600))
    with AuditLog(path, clock=lambda: float(next(seconds))) as log:
        for number in range(12):
            decision = "deny" if number % 4 == 0 else "allow"
            log.append(record(number, decision=decision, reasons=["\x1b[31mred\nline"] if number == 4 else []))
        log.append({"kind": "outcome", "conversation": "c1", "tool": "mail", "status": "ok"})
    return path


@pytest.mark.parametrize(
    ("options", "numbers"),
    [
        ((), list(range(1, 14))),
        (("--last", 2), [12, 13]),
        (("--conversation", "c1"), [2, 5, 8, 11, 13]),
        (("--conversation", "c1", "--last", 2), [11, 13]),
        (("--tool", "mail"), [13]),
        (("--decision", "deny"), [1, 5, 9]),
        (("--since", "2023-11-15"), list(range(3, 14))),
        (("--since", "2023-11-15T00:00:00+01:00", "--until", "2023-11-15T01:13:20Z"), [2, 3, 4]),
        (("--conversation", "c"), []),
    ],
)
def test_show_chooses(cli: Cli, path: Path, options: tuple[object, ...], numbers: list[int]) -> None:
    """With `--json`, each line is printed as stored in the log."""
    shown = cli("log", "show", path, "--json", *options)
    assert shown.status == 0
    assert [json.loads(line)["seq"] for line in shown.out.splitlines()] == numbers


def test_show_is_a_line_for_each(cli: Cli, path: Path) -> None:
    """Control characters are removed."""
    shown = cli("log", "show", path)
    lines = shown.out.splitlines()
    assert len(lines) == 13
    assert lines[4] == "5  2023-11-15T02:13:20.000Z  verdict  deny  refund  c1  �[31mred line"
    assert lines[12] == "13  2023-11-15T10:13:20.000Z  outcome  ok  mail  c1"


@pytest.mark.parametrize(
    ("options", "message"),
    [(("--decision", "denied"), "did you mean 'deny'"), (("--since", "yesterday"), "2026-11-02T10:30:00Z")],
)
def test_show_says_what_it_expects(cli: Cli, path: Path, options: tuple[object, ...], message: str) -> None:
    """An unknown decision and an invalid time are errors with a hint."""
    shown = cli("log", "show", path, *options)
    assert shown.status == 2
    assert message in shown.err


def test_verify_says_where(cli: Cli, path: Path) -> None:
    """Without a head the exit status is 3 for an unchanged log, and 1 with the first bad entry for a changed one."""
    intact = cli("log", "verify", path)
    assert intact.status == 3
    assert "end not checked (no head), 13 entries" in intact.out
    assert json.loads(cli("log", "verify", path, "--json").out)["status"] == "end_unchecked"
    edit(path, '"amount":6', '"amount":5')
    changed = cli("log", "verify", path, "--json")
    assert changed.status == 1
    report = json.loads(changed.out)
    assert (report["status"], report["first_bad"], report["problem"]) == ("tampered", 7, "was changed")
    assert "entry 7 was changed" in cli("log", "verify", path).out


def test_verify_compares_with_a_head(cli: Cli, path: Path) -> None:
    """A truncated log is detected with a head from `verify --json`."""
    head = path.parent / "head.json"
    head.write_text(json.dumps(json.loads(cli("log", "verify", path, "--json").out)["head"]))
    whole = cli("log", "verify", path, "--head", head)
    assert (whole.status, "whole, 13 entries" in whole.out) == (0, True)
    remove(path, 12, 13)
    assert cli("log", "verify", path).status == 3
    cut = cli("log", "verify", path, "--head", head)
    assert cut.status == 1
    assert "entry 12 is missing: the log was cut off, since its head records 13 entries" in cut.out
    head.write_text("{}")
    assert cli("log", "verify", path, "--head", head).status == 2


def test_verify_needs_the_key(cli: Cli, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the key the status is 3; it is read from a file or the environment, and never shown."""
    monkeypatch.delenv("GUARDAGENT_LOG_KEY", raising=False)
    keyed = filled(path.with_name(f"keyed{path.suffix}"), 3, key=KEY)
    missing = cli("log", "verify", keyed, "--json")
    assert missing.status == 3
    assert json.loads(missing.out)["status"] == "unchecked"
    file = path.parent / "key"
    file.write_bytes(KEY + b"\n")
    assert "no head" in cli("log", "verify", keyed, "--key-file", file).out
    assert cli("log", "verify", path, "--key-file", file).status == 1
    monkeypatch.setenv("GUARDAGENT_LOG_KEY", KEY.decode())
    assert "no head" in cli("log", "verify", keyed).out
    file.write_bytes(b"fifteen bytes..\n")
    short = cli("log", "verify", keyed, "--key-file", file)
    assert short.status == 2
    assert "16" in short.err
    assert "fifteen" not in short.err
    assert cli("log", "verify", keyed, "--key-file", path.parent / "none").status == 2


@pytest.mark.parametrize("name", "none.db none.jsonl text.db text.jsonl other.db folder.jsonl a.txt".split())
def test_a_file_that_is_not_a_log_is_an_error(cli: Cli, tmp_path: Path, name: str) -> None:
    """The status is 2 with the file's name, and no file is created."""
    import sqlite3

    path = tmp_path / name
    if name.startswith("text"):
        path.write_text('{"id": 1}\n' * 1000)
    if name.startswith("other"):
        with sqlite3.connect(path) as db:
            db.execute("CREATE TABLE entries (x)")
        db.close()
    if name.startswith("folder"):
        path.mkdir()
    before = list(tmp_path.iterdir())
    for command in ("verify", "show", "export"):
        ran = cli("log", command, path)
        assert ran.status == 2, command
        assert name in ran.err
    assert list(tmp_path.iterdir()) == before


def test_an_export_is_a_log(cli: Cli, path: Path) -> None:
    """As JSON Lines it has the same entries, and can be verified, with the same head too."""
    out, head = path.parent / "export.jsonl", path.parent / "head"
    assert cli("log", "export", path, "-o", out).status == 0
    head.write_text(json.dumps(json.loads(cli("log", "verify", path, "--json").out)["head"]))
    assert "whole, 13 entries" in cli("log", "verify", out, "--head", head).out
    assert out.read_text() == cli("log", "export", path).out
    assert cli("log", "export", path, "-o", path).status == 2
    assert "13 entries" in cli("log", "verify", path).out


def test_an_export_is_a_table(cli: Cli, path: Path) -> None:
    """A row for each entry; nothing in it is a formula."""
    with AuditLog(path) as log:
        log.append(record(13, tool="=1+1", host="h"))
    rows = list(csv.DictReader(io.StringIO(cli("log", "export", path, "--format", "csv").out)))
    assert [row["seq"] for row in rows] == [str(number) for number in range(1, 15)]
    assert (rows[1]["tool"], rows[1]["args"]) == ("refund", '{"amount": 1}')
    assert (rows[13]["tool"], rows[13]["other"]) == ("'=1+1", '{"host": "h"}')


def test_an_export_of_a_damaged_log_leaves_nothing(cli: Cli, tmp_path: Path) -> None:
    """The error names the last readable entry."""
    path = filled(tmp_path / "audit.jsonl", 3)
    path.write_bytes(path.read_bytes().replace(b'"seq":2', b'"seq":x'))
    ran = cli("log", "export", path, "-o", tmp_path / "out.jsonl")
    assert ran.status == 2
    assert "after entry 1" in ran.err
    assert [file.name for file in tmp_path.iterdir()] == ["audit.jsonl"]
