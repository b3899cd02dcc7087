# ruff: noqa: S608 - the statements are of this test
"""A statement that changes every row of a table is never allowed: PostgreSQL, MariaDB and SQLite say which ones do.

Each statement runs in a schema of the test's own, in a transaction that is rolled back. MariaDB is the one at
`GUARDAGENT_TEST_MARIADB`, or at its usual port.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

import pytest

from guardagent import Decision, Policies, load_policies
from tests.stores import POSTGRES, postgres

MARIADB = os.environ.get("GUARDAGENT_TEST_MARIADB", "mysql://root@127.0.0.1:3306")
EVERY_ROW = (Path(__file__).parent / "every_row.sql").read_text(encoding="utf-8").splitlines()
SOME_ROWS = (Path(__file__).parent / "some_rows.sql").read_text(encoding="utf-8").splitlines()
SET_UP = [
    """CREATE TABLE orders (id int, customer_id int, parent_id int, name varchar(40), status varchar(9), total int,
    paid boolean, created_at date, deleted_at date, touched int)""",
    "CREATE TABLE customers (id int, name varchar(40), country varchar(9), x int, order_id int)",
    "CREATE TABLE staging (id int, order_id int, name varchar(40))",
    "CREATE UNIQUE INDEX one ON orders (id)",
    *(
        f"INSERT INTO orders VALUES ({n}, {1 + n % 3}, {n // 2}, 'name {n}', '{('paid', 'open')[n % 2]}', {n * 10},"
        f" {bool(n % 2)}, '2024-03-{n:02}', {'NULL' if n % 4 else repr('2024-05-01')}, 0)"
        for n in range(1, 13)
    ),
    *(f"INSERT INTO customers VALUES ({n}, 'customer {n}', '{('NO', 'CH')[n > 1]}', {n}, {n})" for n in range(1, 4)),
    *(f"INSERT INTO staging VALUES ({n}, {n}, 'name {n}')" for n in range(1, 4)),
]
LEFT = "SELECT count(*) FROM orders WHERE touched = 0"
Server: TypeAlias = "Callable[[Iterable[str]], dict[str, int]]"  # the rows that each statement leaves as they were


@cache
def policies(dialect: str) -> Policies:
    return load_policies(
        data={"version": 1, "include": [{"pack": "guardagent:sql", "constants": {"dialect": dialect}}]}
    )


def decision(sql: str, dialect: str = "") -> Decision:
    return policies(dialect).session().check("sql", {"sql": sql}).decision


def in_postgres(statements: Iterable[str]) -> dict[str, int]:
    name = f"test_{secrets.token_hex(8)}"
    left: dict[str, int] = {}
    with contextlib.closing(postgres(POSTGRES)) as db:
        db.execute(f"CREATE SCHEMA {name}")
        db.execute(f"SET search_path = {name}")
        try:
            for line in SET_UP:
                db.execute(line)
            for statement in statements:
                db.execute("BEGIN")
                with contextlib.suppress(Exception):  # not in this dialect
                    db.execute(statement)
                    left[statement] = db.execute(LEFT).fetchone()[0]
                db.execute("ROLLBACK")
        finally:
            db.execute(f"DROP SCHEMA {name} CASCADE")
    return left


def in_mariadb(statements: Iterable[str]) -> dict[str, int]:
    client, url = shutil.which("mariadb"), urlsplit(MARIADB)
    if client is None:
        pytest.skip("no client of MariaDB")
    name, order = f"test_{secrets.token_hex(8)}", list(statements)
    lines = [f"CREATE DATABASE {name}", f"USE {name}", *SET_UP]
    for at, statement in enumerate(order):
        lines += ["START TRANSACTION", statement, f"SELECT 'left', {at}, ({LEFT})", "ROLLBACK"]
    text = ";\n".join([*lines, f"DROP DATABASE {name}"]) + ";\n"
    address = [f"-h{url.hostname}", f"-P{url.port or 3306}", f"-u{url.username}", f"--password={url.password or ''}"]
    command = [client, *address, "--force", "--batch", "--skip-column-names"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=120)
    if "left" not in done.stdout:
        pytest.skip(f"no MariaDB at GUARDAGENT_TEST_MARIADB: {done.stderr[:200]}")
    answers = [line.split("\t") for line in done.stdout.splitlines() if line.startswith("left\t")]
    return {order[int(at)]: int(left) for _, at, left in answers}


def in_sqlite(statements: Iterable[str]) -> dict[str, int]:
    left = {}
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        for line in SET_UP:
            db.execute(line)
        for statement in statements:
            db.execute("BEGIN")
            with contextlib.suppress(sqlite3.Error):  # not in this dialect
                db.execute(statement)
                left[statement] = db.execute(LEFT).fetchone()[0]
            db.execute("ROLLBACK")
    return left


SERVERS = pytest.mark.parametrize(
    ("server", "dialect"),
    [
        pytest.param(in_postgres, "postgres", marks=pytest.mark.slow),
        pytest.param(in_mariadb, "mysql", marks=pytest.mark.slow),
        pytest.param(in_sqlite, "sqlite"),
    ],
)


@SERVERS
def test_what_changes_every_row_is_not_allowed(server: Server, dialect: str) -> None:
    """As the server says, read in its own dialect; below, in the usual ones."""
    changing = [statement for statement, rows in server(EVERY_ROW).items() if rows == 0]
    assert len(changing) >= 150
    assert [each for each in changing if decision(each, dialect) < Decision.DENY] == []


@SERVERS
def test_what_changes_some_rows_passes(server: Server, dialect: str) -> None:
    """Those that the server takes leave rows as they were."""
    left = server(SOME_ROWS)
    assert len(left) >= 25
    assert [statement for statement, rows in left.items() if rows == 0] == []
    assert [each for each in left if decision(each, dialect) >= Decision.DENY] == []


def test_the_usual_dialects_together() -> None:
    """Without a dialect, all of them are read."""
    assert len(EVERY_ROW) == len(set(EVERY_ROW)) >= 200
    assert [each for each in EVERY_ROW if decision(each) < Decision.DENY] == []
    assert [each for each in SOME_ROWS if decision(each) >= Decision.DENY] == []
