"""Verification detects and locates any change of a log."""

from __future__ import annotations

import functools
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guardagent.errors import InputError
from guardagent.log import AuditLog, Head, verify_log
from guardagent.log.chain import Chain
from tests.log.logs import KEY, SUFFIXES, copied, edit, filled, opened, read, record, remove, swap
from tests.tiers import examples


@pytest.fixture(params=SUFFIXES)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / f"audit{request.param}"


@pytest.mark.parametrize("key", [None, KEY])
@pytest.mark.parametrize(
    ("change", "first_bad"),
    [
        (lambda path: edit(path, '"amount":7', '"amount":8'), 7),
        (lambda path: remove(path, 9), 9),
        (lambda path: remove(path, 1), 1),
        (lambda path: remove(path, *range(3, 12)), 3),
        (lambda path: swap(path, 4, 5), 4),
        (lambda path: swap(path, 1, 20), 1),
    ],
)
def test_a_change_is_located(path: Path, key: bytes | None, change: Callable[[Path], None], first_bad: int) -> None:
    """Changed values, missing entries and reordered entries are reported with the first number."""
    filled(path, key=key)
    assert verify_log(path, key=key).status == "end_unchecked"
    change(path)
    report = verify_log(path, key=key)
    assert (report.status, report.first_bad) == ("tampered", first_bad)


def test_the_head_reveals_a_cut_tail(path: Path) -> None:
    """It also reveals an older copy and another log; a log that has grown since is whole."""
    filled(path, 10)
    older = copied(path, path.parent / "older")
    filled(path, 10)
    with AuditLog(path) as log:
        head = log.head()
        log.append(record())
    report = verify_log(path, head=head)
    assert (report.status, "ends with entry 20" in report.notes[0]) == ("whole", True)
    remove(path, *range(12, 22))
    assert verify_log(path).status == "end_unchecked"
    report = verify_log(path, head=head)
    assert (report.status, report.first_bad) == ("tampered", 12)
    assert "cut" in str(report.problem)
    assert verify_log(older, head=head).first_bad == 11
    other = filled(path.parent / "older" / f"other{path.suffix}", 21)
    report = verify_log(other, head=head)
    assert (report.status, report.first_bad) == ("tampered", 20)


def test_a_head_is_not_forged_without_the_key(path: Path) -> None:
    """A lower count or a missing mac is detected with the key, and only with it."""
    filled(path, 10, key=KEY)
    with AuditLog(path, key=KEY) as log:
        head = log.head()
    fifth = verify_log(copied(path, path.parent / "copy"), key=KEY).head
    assert fifth == head
    remove(path, 9, 10)
    forged = Chain(b"some other key of theirs")
    for wrong in (
        Head(8, head.digest, head.mac),
        Head(8, head.digest, forged.head_hash(8, head.digest)),
        Head(8, head.digest, None),
        Head(8, head.digest, "ünsinn"),
    ):
        assert verify_log(path, key=KEY, head=wrong).status == "tampered"
    assert verify_log(path, head=head).status == "unchecked"


def test_a_chain_is_not_forged_without_the_key(path: Path) -> None:
    """A writer without the key can only create logs that fail verification."""
    filled(path, 5, key=KEY)
    assert verify_log(path).status == "unchecked"
    forged = filled(path.with_name(f"forged{path.suffix}"), 5)
    assert verify_log(forged, key=KEY).first_bad == 1
    report = verify_log(filled(path.with_name(f"theirs{path.suffix}"), 5, key=b"another key of 16"), key=KEY)
    assert (report.status, report.first_bad) == ("tampered", 1)
    assert "another key" in str(report.problem)


def test_an_agent_cannot_have_an_entry_hashed(tmp_path: Path) -> None:
    """Arguments that imitate the hashed form of an entry do not get the hash of one."""
    path = tmp_path / "audit.jsonl"
    with AuditLog(path, key=KEY) as log:
        log.append(record())
        wanted = {"entry": {"kind": "verdict"}, "prev": log.head().digest, "seq": 3}
        log.append({"kind": "verdict", "args": wanted})
    made = read(path)[1]["args_hash"]
    line = f'{{"entry":{{"kind":"verdict"}},"prev":"{log_hash(path)}","seq":3,"hash":"{made}"}}\n'
    with path.open("a") as file:
        file.write(line)
    assert verify_log(path, key=KEY).first_bad == 3


def log_hash(path: Path) -> str:
    return path.read_text().splitlines()[-1].rpartition('"hash":"')[2][:-2]


@functools.cache
def lines(key: bytes | None) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return filled(Path(folder) / "audit.jsonl", 3, key=key).read_bytes()


@settings(max_examples=examples(300))
@given(st.data(), st.sampled_from([None, KEY]))
def test_every_flipped_byte_is_found(data: st.DataObject, key: bytes | None) -> None:
    """This holds for every byte of a JSON Lines log."""
    content = bytearray(lines(key))
    at = data.draw(st.integers(0, len(content) - 1) | st.just(len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    assert not is_intact(bytes(content), key)


@settings(max_examples=examples(50))
@given(st.data())
def test_only_a_prefix_of_the_lines_is_intact(data: st.DataObject) -> None:
    """Any selection of lines in any order is intact only if it is a prefix of the log."""
    content = lines(None).splitlines(keepends=True)
    chosen = data.draw(st.lists(st.sampled_from(content), max_size=4))
    assert is_intact(b"".join(chosen), None) == (chosen == content[: len(chosen)])


def is_intact(content: bytes, key: bytes | None) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "audit.jsonl"
        path.write_bytes(content)
        try:
            return verify_log(path, key=key).status == "end_unchecked"
        except InputError:  # it does not even look like a log
            return False


values = st.none() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5) | st.binary(max_size=5)


@settings(max_examples=examples(60))
@given(st.data(), st.sampled_from(["seq", "entry", "prev", "hash"]), values)
def test_every_changed_column_is_found(data: st.DataObject, column: str, value: object) -> None:
    """Changes to any value of any type are detected, and so is an added row."""
    columns = ("seq", "entry", "prev", "hash")
    exactly = f"SELECT {', '.join(f'typeof({column}), hex({column})' for column in columns)} FROM entries"  # noqa: S608
    with tempfile.TemporaryDirectory() as folder:
        path = filled(Path(folder) / "audit.db", 5)
        row = data.draw(st.integers(1, 5))
        with opened(path) as db:
            before = db.execute(exactly).fetchall()
            blob = data.draw(st.sampled_from(["?", "CAST(? AS BLOB)", "? || " + column]))
            try:
                db.execute(f"UPDATE entries SET {column} = {blob} WHERE seq = ?", (value, row))  # noqa: S608
            except sqlite3.Error:  # SQLite itself does not take it
                return
            changed = db.execute(exactly).fetchall() != before
        assert (verify_log(path).status == "tampered") == changed


@pytest.mark.parametrize("seq", [-(2**63), -1, 0, 3, 2**63 - 1])
def test_an_added_row_is_found(tmp_path: Path, seq: int) -> None:
    """Its number does not matter."""
    path = filled(tmp_path / "audit.db", 2)
    with opened(path) as db:
        db.execute("INSERT INTO entries SELECT ?, entry, prev, hash FROM entries WHERE seq = 2", (seq,))
    assert verify_log(path).status == "tampered"


@pytest.mark.parametrize(
    "sql",
    [
        "DROP TRIGGER kept",
        "CREATE TRIGGER more AFTER INSERT ON entries BEGIN SELECT 1; END",
        "CREATE TABLE more (x)",
        "CREATE INDEX more ON entries (hash)",
    ],
)
def test_a_changed_schema_is_found(tmp_path: Path, sql: str) -> None:
    """A trigger could drop entries, so nothing is appended to such a file either."""
    path = filled(tmp_path / "audit.db", 2)
    with sqlite3.connect(path) as db:
        db.execute(sql)
    db.close()
    report = verify_log(path)
    assert report.status == "tampered"
    assert "tables or triggers" in str(report.problem)


@settings(max_examples=examples(150))
@given(st.integers(0, 10**9), st.integers(1, 255))
def test_a_flipped_byte_of_the_file_is_found_or_changes_nothing(at: int, flip: int) -> None:
    """An SQLite file has unused bytes; a change of any other one is detected."""
    content = bytearray(database())
    content[at % len(content)] ^= flip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "audit.db"
        path.write_bytes(content)
        try:
            intact = verify_log(path).status == "end_unchecked"
        except InputError:
            return
        if intact:
            assert [entry["args"]["amount"] for entry in read(path)] == list(range(1, 21))


@functools.cache
def database() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return filled(Path(folder) / "audit.db", 20).read_bytes()


def test_verifying_changes_nothing(tmp_path: Path) -> None:
    """It changes neither a log at rest nor one with a WAL file, which is read too."""
    path = tmp_path / "audit.db"
    with AuditLog(path) as log:
        log.append(record(1))
        killed = copied(path, tmp_path / "killed")
        log.append(record(2))
    for log_path, count in ((path, 2), (killed, 1)):
        before = {file.name: file.read_bytes() for file in log_path.parent.glob("audit*") if file.is_file()}
        assert verify_log(log_path).entries == count
        assert {name: (log_path.parent / name).read_bytes() for name in before} == before
    assert sorted(file.name for file in tmp_path.glob("audit*")) == ["audit.db"]
