"""A log of JSON Lines goes on in a new file, and the files stay one log."""

from __future__ import annotations

import json
import os
from itertools import pairwise
from pathlib import Path

import pytest

from guardagent.errors import InputError, LogError
from guardagent.log import AuditLog, Head, verify_log
from guardagent.log.verification import Selection
from tests.conftest import Cli
from tests.log.logs import KEY, edit, filled, read, record


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log of several files."""
    return filled(tmp_path / "audit.jsonl", 20, max_bytes=1500, head=tmp_path / "head")


def earlier(path: Path) -> list[Path]:
    return sorted(path.parent.glob("audit.0*.jsonl"))


def checked(path: Path) -> tuple[str, int, int | None]:
    report = verify_log(path, head=Head.load(path.parent / "head"))
    return report.status, report.entries, report.first_bad


def test_each_file_continues_the_one_before(path: Path) -> None:
    """Its first record names that file and its last hash, and every entry is in one file."""
    files = [*earlier(path), path]
    assert len(files) > 3
    for before, after in pairwise(files):
        last, first = (json.loads(file.read_text().splitlines()[at]) for file, at in ((before, -1), (after, 0)))
        assert first["entry"]["kind"] == "continued"
        assert (first["entry"]["file"], first["entry"]["hash"]) == (before.name, last["hash"])
        assert (first["prev"], first["seq"]) == (last["hash"], first["entry"]["entries"] + 1)
        assert before.stat().st_size >= 1500
    assert [entry["args"]["amount"] for entry in read(path) if entry["kind"] == "verdict"] == list(range(1, 21))
    assert checked(path) == ("whole", 20 + len(files) - 1, None)


def test_commands_read_all_files(cli: Cli, path: Path) -> None:
    """The log's name, its folder and the list of its files are the same log."""
    for log in ([path], [path.parent], [*earlier(path), path]):
        assert cli("log", "verify", *log, "--head", path.parent / "head").status == 0
        assert len(cli("log", "show", *log, "--tool", "refund").out.splitlines()) == 20
        assert len(cli("log", "show", *log, "--tool", "refund", "--last", 15).out.splitlines()) == 15
        exported = cli("log", "export", *log).out
        assert exported == "".join(file.read_text() for file in [*earlier(path), path])
        assert cli("log", "export", *log, "-o", earlier(path)[0]).status == 2
    one_file = cli("log", "verify", earlier(path)[1])
    assert (one_file.status, "entry 1 is missing" in one_file.out) == (1, True)


def test_a_missing_or_swapped_file_is_found(path: Path) -> None:
    """Its first entry is reported."""
    first, second, third, *_ = earlier(path)
    begins = int(second.name.split(".")[1])
    content = second.read_bytes()
    second.unlink()
    assert checked(path)[2] == begins
    second.write_bytes(third.read_bytes())
    assert checked(path)[2] == begins
    third.write_bytes(content)
    assert checked(path)[2] == begins
    first.rename(first.with_name("first"))
    assert checked(path)[2] == 1


def test_a_changed_byte_in_an_earlier_file_is_found(path: Path) -> None:
    """So is one at its end; without its first bytes it does not even look like a log."""
    whole = earlier(path)[1].read_bytes()
    for at in range(9, len(whole), 7):
        earlier(path)[1].write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert checked(path)[0] == "tampered"
    earlier(path)[1].write_bytes(whole + b'{"entry":')
    assert checked(path)[0] == "tampered"
    earlier(path)[1].write_bytes(b"x" + whole)
    with pytest.raises(InputError, match="is not a log"):
        checked(path)


def test_an_old_file_is_closed(tmp_path: Path) -> None:
    """Its age is that of its first entry, also for a log that was opened again."""
    path, times = tmp_path / "audit.jsonl", iter(range(0, 10**9, 40))
    for _ in range(3):
        filled(path, 4, max_age=100, clock=lambda: float(next(times)))
    assert len(earlier(path)) >= 3
    assert verify_log(path).entries == 12 + len(earlier(path))


def test_a_crash_at_any_point_keeps_the_chain(path: Path) -> None:
    """A file may have both names, be empty, or have been prepared only; a log without limits goes on as well."""
    os.link(path, path.with_name(f"audit.{last_file(path):012}.jsonl"))
    path.with_name(".audit.jsonl.new").write_bytes(b"junk")
    assert checked(path)[0] == "whole"
    filled(path, 5, max_bytes=1500, head=path.parent / "head")
    assert checked(path)[0] == "whole"
    full = path.with_name(f"audit.{last_file(path):012}.jsonl")
    path.rename(full)
    path.touch()
    assert checked(path)[0] == "whole"
    filled(path, 1, head=path.parent / "head")
    assert checked(path)[0] == "whole"
    assert json.loads(path.read_text().splitlines()[0])["entry"]["file"] == full.name


def last_file(path: Path) -> int:
    number: int = json.loads(path.read_text().splitlines()[0])["seq"]
    return number


def test_writers_follow_each_other_to_a_new_file(tmp_path: Path) -> None:
    """One of them has no limits; an unfinished line of a killed one is dropped and recorded."""
    path = tmp_path / "audit.jsonl"
    with AuditLog(path, max_bytes=900, key=KEY) as audit_log, AuditLog(path, key=KEY) as other:
        for number in range(10):
            audit_log.append(record(number))
            other.append(record(number))
            with path.open("ab") as file:
                file.write(b'{"entry":')
        assert audit_log.head().count > 30
    assert len(earlier(path)) > 3
    assert sum(entry["kind"] == "recovered" for entry in read(path)) == 9
    assert "unfinished" in verify_log(path, key=KEY).notes[0]


def test_an_anchor_allows_the_removal_of_old_files(cli: Cli, path: Path) -> None:
    """Only of those that it covers; `log verify` says where the rest begins."""
    first, second, third, *_ = earlier(path)
    removed, later = (int(file.name.split(".")[1]) - 1 for file in (second, third))
    assert cli("log", "anchor", path, "--removed", 999).status == 2
    assert cli("log", "anchor", path.with_name("none.jsonl"), "--removed", 1).status == 2
    assert cli("log", "anchor", path, "--removed", removed).status == 0
    first.unlink()
    report = cli("log", "verify", path.parent)
    assert (report.status, f"from entry {removed + 1:,} on" in report.out) == (3, True)
    second.unlink()
    assert checked(path)[2] == 1
    with AuditLog(path) as log:
        log.anchor(later + 1)
    assert verify_log(path).first == later + 1
    assert checked(path)[0] == "whole"
    edit(path, '"kind":"anchor"', '"kind":"Anchor"')
    assert checked(path)[0] == "tampered"


@pytest.mark.parametrize(
    "limits", [{"max_bytes": 0}, {"max_age": -1.0}, {"max_age": float("nan")}, {"max_bytes": True}]
)
def test_limits_are_positive(tmp_path: Path, limits: dict[str, float]) -> None:
    """Only files of JSON Lines have them."""
    with pytest.raises(InputError, match="expected a number above 0"):
        AuditLog(tmp_path / "audit.jsonl", **limits)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"\.jsonl"):
        AuditLog(tmp_path / "audit.db", max_bytes=10)
    assert list(tmp_path.iterdir()) == []


def test_a_foreign_file_in_the_way_is_an_error(path: Path) -> None:
    """It is not replaced, and the entry is not acknowledged."""
    path.with_name(f"audit.{last_file(path):012}.jsonl").write_text("mine")
    with AuditLog(path, max_bytes=1) as log, pytest.raises(LogError, match="exists already"):
        log.append(record())


def test_a_folder_has_one_log(cli: Cli, path: Path) -> None:
    """Several files are one log only as JSON Lines."""
    other = filled(path.with_name("other.db"), 1)
    verified = cli("log", "verify", path.parent)
    assert (verified.status, "several logs: audit.jsonl, other.db" in verified.err) == (2, True)
    assert cli("log", "verify", path, other).status == 2
    with pytest.raises(InputError, match="several files"):
        Selection().entries([])
