"""Several servers append to one stream in PostgreSQL, that at `GUARDAGENT_TEST_POSTGRES` or at the usual port."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from guardagent.errors import GuardError, InputError, LogError, UnknownNameError
from guardagent.log import AuditLog, verify_log
from tests.conftest import Cli
from tests.log.logs import KEY, filled, read, record
from tests.processes import is_true_in_child

psycopg = pytest.importorskip("psycopg")
SERVER = os.environ.get("GUARDAGENT_TEST_POSTGRES", "postgresql://postgres@127.0.0.1:5432/test")

KILLED = """
import os, random, signal, sys, time
from guardagent.errors import LogError
from guardagent.log import AuditLog

def write(name, pipe):
    log = AuditLog(sys.argv[1])
    for number in range(100_000):
        try:
            log.append({"kind": "verdict", "args": {"text": f"{name} {number}"}})
        except LogError:
            continue
        os.write(pipe, f"{name} {number}\\n".encode())

turn, acknowledged = 0, 0
while acknowledged < 2000:
    pipe, end = os.pipe()
    writers = []
    for writer in range(4):
        writers.append(os.fork())
        if not writers[-1]:
            os.close(pipe)
            write(f"{turn} {writer}", end)
    os.close(end)
    output = os.read(pipe, 100)
    for writer in writers:
        time.sleep(random.random() * 0.3)
        os.kill(writer, signal.SIGKILL)
        os.waitpid(writer, 0)
    while more := os.read(pipe, 65536):
        output += more
    os.close(pipe)
    sys.stdout.write(output.decode())
    turn, acknowledged = turn + 1, acknowledged + output.count(b"\\n")
"""


@pytest.fixture
def db() -> Iterator[Any]:
    """A connection to the server."""
    try:
        server_connect = psycopg.connect(SERVER, autocommit=True, connect_timeout=3)
    except psycopg.OperationalError as error:
        pytest.skip(f"no PostgreSQL at GUARDAGENT_TEST_POSTGRES: {error}")
    with contextlib.closing(server_connect):
        yield server_connect


@pytest.fixture
def schema(db: Any) -> Iterator[str]:
    """The name of a schema that is dropped at the end."""
    name = f"test_{secrets.token_hex(8)}"
    db.execute(f"SET search_path = {name}")
    yield name
    db.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE")


@pytest.fixture
def address(schema: str) -> str:
    return f"{SERVER}{'&' if '?' in SERVER else '?'}schema={schema}&stream=shop"


def status(address: str, **options: Any) -> tuple[str, int, int | None]:
    report = verify_log(address, **options)
    return report.status, report.entries, report.first_bad


def test_a_stream_is_a_log_like_a_file(cli: Cli, address: str, tmp_path: Path) -> None:
    """The same commands show, verify and export it, and the export is the same chain."""
    out, head = tmp_path / "out.jsonl", tmp_path / "head"
    with AuditLog(address, head=head, redact=["args.card"]) as log:
        assert [log.append(record(number, card="\x00\ud800'%s")) for number in (1, 2)] == [1, 2]
        assert (log.path, log.head().count) == (None, 2)
    filled(address, 1, head=head)
    assert cli("log", "verify", address, "--head", head).status == 0
    assert "end not checked (no head), 3 entries" in cli("log", "verify", address).out
    assert len(cli("log", "show", address, "--last", 2).out.splitlines()) == 2
    assert cli("log", "export", address, "-o", out).status == 0
    assert status(str(out)) == status(address) == ("end_unchecked", 3, None)


def test_streams_are_separate(address: str) -> None:
    """An unknown one is an error that names the others."""
    other = address.replace("=shop", "=caf%C3%A9")
    filled(address, 2)
    filled(other, 3, key=KEY)
    assert (status(address)[1], status(other, key=KEY)[1]) == (2, 3)
    assert status(other)[0] == "unchecked"
    with pytest.raises(UnknownNameError, match="did you mean 'shop'"):
        verify_log(address.replace("=shop", "=shp"))
    with pytest.raises(InputError, match="has no log"):
        verify_log(f"{address}x".replace("&stream=shopx", "x"))


def test_writers_take_turns(address: str) -> None:
    """Threads of two logs extend one chain, and the parent and the child of a fork do."""
    with AuditLog(address) as audit_log, AuditLog(address) as other:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda log: [log.append(record(number)) for number in range(20)], (audit_log, other) * 2))
        assert is_true_in_child(lambda: audit_log.append(record(77)))
        audit_log.append(record(78))
    assert status(address) == ("end_unchecked", 82, None)
    assert [entry["args"]["amount"] for entry in read(address)][80:] == [77, 78]


@pytest.mark.parametrize(
    ("change", "first_bad"),
    [
        ("UPDATE entries SET entry = replace(entry, '\"amount\":4', '\"amount\":5')", 4),
        ("DELETE FROM entries WHERE seq = 3", 3),
        ("DELETE FROM entries WHERE seq < 3", 1),
        ("DELETE FROM entries WHERE seq > 5", 6),
        ("DELETE FROM entries", 1),
        ("UPDATE entries SET seq = seq + 1 WHERE seq = 6", 6),
        ("INSERT INTO entries SELECT stream, 7, entry, prev, hash FROM entries WHERE seq = 6", 7),
        ("INSERT INTO entries SELECT stream, -9, entry, prev, hash FROM entries WHERE seq = 6", 1),
        ("UPDATE heads SET seq = 5", 7),
        ("UPDATE heads SET hash = 'x'", 7),
    ],
)
def test_a_change_is_located(address: str, db: Any, change: str, first_bad: int) -> None:
    """Nothing is added to a stream whose end was changed."""
    filled(address, 6)
    db.execute(change)
    assert (status(address)[0], status(address)[2]) == ("tampered", first_bad)
    if first_bad > 5:
        with pytest.raises(LogError, match=r"differs from its last entry|was changed"), AuditLog(address) as log:
            log.append(record())


def test_a_cut_stream_needs_a_head_from_elsewhere(address: str, db: Any) -> None:
    """Whoever can change the stored head as well leaves no trace in the database."""
    filled(address, 6)
    with AuditLog(address) as log:
        head = log.head()
    db.execute("DELETE FROM entries WHERE seq > 4")
    db.execute("UPDATE heads SET seq = 4, hash = (SELECT hash FROM entries WHERE seq = 4)")
    assert status(address)[0] == "end_unchecked"
    assert status(address, head=head)[0] == "tampered"


def test_old_entries_are_removed_after_an_anchor(cli: Cli, address: str, db: Any) -> None:
    """`log verify` says where the rest begins, and finds that more was removed."""
    filled(address, 6)
    assert cli("log", "anchor", address, "--removed", 4).status == 0
    db.execute("DELETE FROM entries WHERE seq <= 4")
    assert "end not checked (no head), 3 entries from entry 5 on" in cli("log", "verify", address).out
    db.execute("DELETE FROM entries WHERE seq <= 5")
    assert status(address)[2] == 1


def test_a_role_that_only_inserts_is_enough(address: str, schema: str, db: Any) -> None:
    """The guard's role can neither change nor remove an entry, and an auditor's role can verify."""
    filled(address, 1)
    roles = ("guard", "auditor")
    for role in roles:
        db.execute(f"CREATE ROLE {schema}_{role} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {schema}_{role}")
        db.execute(f"GRANT SELECT ON entries, heads TO {schema}_{role}")
    db.execute(f"GRANT INSERT ON entries, heads TO {schema}_guard; GRANT UPDATE ON heads TO {schema}_guard")
    try:
        guard, auditor = (f"{address}&options=-c%20role%3D{schema}_{role}" for role in roles)
        filled(guard, 1)
        assert status(auditor) == ("end_unchecked", 2, None)
        with pytest.raises(LogError, match="permission denied"):
            filled(auditor, 1)
        db.execute(f"SET ROLE {schema}_guard")
        for change in ("DELETE FROM entries", "UPDATE entries SET entry = ''", "TRUNCATE entries"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                db.execute(change)
    finally:
        db.execute("RESET ROLE")
        for role in roles:
            db.execute(f"DROP OWNED BY {schema}_{role}; DROP ROLE {schema}_{role}")


def test_commits_are_durable(address: str, schema: str, db: Any) -> None:
    """This holds whatever the server's default is."""
    lazy = f"{address}&options=-c%20synchronous_commit%3Doff"
    filled(lazy, 1)
    db.execute("CREATE TABLE seen AS SELECT ''::text AS setting")
    insert = f"INSERT INTO {schema}.seen VALUES (current_setting('synchronous_commit'))"  # noqa: S608
    db.execute(f"CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {insert}; RETURN NEW; END $$")
    db.execute("CREATE TRIGGER see AFTER INSERT ON entries FOR EACH ROW EXECUTE FUNCTION see()")
    filled(lazy, 1)
    filled(lazy, 1, durable=False)
    assert db.execute("SELECT setting FROM seen WHERE setting <> ''").fetchall() == [("on",), ("off",)]


def test_a_cut_connection_is_opened_again(address: str, db: Any) -> None:
    """One that was idle costs nothing; a removed stream is not begun anew."""
    with AuditLog(f"{address}&application_name=cut") as log:
        log.append(record(1))
        db.execute("SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity WHERE application_name = 'cut'")
        assert log.append(record(2)) == 2
        db.execute("DELETE FROM entries; DELETE FROM heads")
        with pytest.raises(LogError, match="the stream was removed"):
            log.append(record(3))


@pytest.mark.parametrize(
    "wrong",
    [
        "postgresql://u:geheim@127.0.0.1:1/test",
        "postgresql://u:geheim@127.0.0.1/none_such",
        "postgresql://u:ge@heim/x@127.0.0.1/test",
        "postgresql://u:12?geheim@127.0.0.1/test",
        "postgresql://127.0.0.1:1/test?password=geheim&stream=%1b",
        "postgresql://127.0.0.1:1/test?password=geheim&geheim_option=1",
        "postgresql:/u:geheim@127.0.0.1/test",
        "postgresq://u:geheim@127.0.0.1/test",
    ],
)
def test_a_password_is_never_shown(cli: Cli, wrong: str) -> None:
    """Every error names the problem without it."""
    for command in ("show", "verify", "export"):
        ran = cli("log", command, wrong)
        assert (ran.status, "heim" in ran.err, "\x1b" in ran.err) == (2, False, False), ran.err
    with pytest.raises(GuardError) as error:
        AuditLog(Path(wrong) if "%" in wrong else wrong)
    assert "heim" not in str(error.value)


@pytest.mark.slow
def test_writers_are_killed_and_cut_off(address: str, schema: str, db: Any) -> None:
    """Four processes append 2,000 records: no fork, no gap, and every acknowledged record is there."""
    command = [sys.executable, "-c", KILLED, f"{address}&application_name={schema}"]
    cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s ORDER BY random() LIMIT 1"
    with (
        subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True) as ran,
        ThreadPoolExecutor(1) as pool,
    ):
        output = pool.submit(ran.communicate)
        while not output.done():
            time.sleep(0.2)
            db.execute(cut, (schema,))
    acknowledged = output.result()[0].splitlines()
    there = [entry["args"]["text"] for entry in read(address)]
    assert status(address) == ("end_unchecked", len(there), None)
    assert len(there) == len(set(there))
    assert len(acknowledged) == len(set(acknowledged)) >= 2000
    assert set(acknowledged) <= set(there)
