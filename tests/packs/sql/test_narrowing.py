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
from collections.abc import Iterable
from functools import cache
from itertools import product
from urllib.parse import urlsplit

import pytest

from guardagent import Decision, load_policies
from tests.stores import POSTGRES, postgres

MARIADB = os.environ.get("GUARDAGENT_TEST_MARIADB", "mysql://root@127.0.0.1:3306")
ROWS = 12
TABLES = [
    """CREATE TABLE orders (id int, customer_id int, parent_id int, name varchar(40), status varchar(9), total int,
    paid boolean, created_at date, deleted_at date, touched int)""",
    "CREATE TABLE customers (id int, name varchar(40), country varchar(9), x int, order_id int)",
    "CREATE TABLE staging (id int, order_id int, name varchar(40))",
]
CONTENT = [
    *(
        f"INSERT INTO orders VALUES ({n}, {1 + n % 3}, {n // 2}, 'name {n}', '{'open' if n % 2 else 'paid'}', {n * 10},"
        f" {bool(n % 2)}, '2024-03-{n:02}', {'NULL' if n % 4 else repr('2024-05-01')}, 0)"
        for n in range(1, ROWS + 1)
    ),
    *(
        f"INSERT INTO customers VALUES ({n}, 'customer {n}', '{'CH' if n > 1 else 'NO'}', {n}, {n})"
        for n in range(1, 4)
    ),
    *(f"INSERT INTO staging VALUES ({n}, {n}, 'name {n}')" for n in range(1, 4)),
]

# Conditions that hold for every row, or for every row of these tables.
TRUE = (
    """
1 = 1|id = id|orders.id = id|id = id + 0|(id) = ((id))|id IS NOT NULL|NOT id IS NULL|id > 0|0 < id|id >= 0|id <> -1|id != 99999
id < 1000000|id <= 999999|id BETWEEN 0 AND 9999999|id NOT IN (-1, -2)|NOT id = -1|id > -5|total >= 0|total > -1|name LIKE '%'
name LIKE '%%'|name LIKE '_%'|name NOT LIKE 'zz%'|name >= ''|name > 'A'|name < 'zzzz'|name = name|lower(name) = lower(name)
id < 5 OR id >= 5|id <= 5 OR id > 5|total < 70 OR total > 50|deleted_at IS NULL OR deleted_at IS NOT NULL|paid OR NOT paid
paid = true OR paid = false|paid IN (true, false)|paid IS TRUE OR paid IS FALSE|id = 1 OR id <> 1|id = 1 OR NOT (id = 1)
NOT (id = 1 AND id = 2)|NOT (id > 5 AND id < 3)|id = 7 OR 'a' = 'a'|status = 'open' OR 1 = 1|id % 1 = 0|id * 0 = 0
coalesce(id, 1) = coalesce(id, 1)|CASE WHEN id = 1 THEN true ELSE true END|created_at > '2001-01-01'|created_at < '2099-01-01'
created_at <= CURRENT_DATE|created_at BETWEEN '1900-01-01' AND '2100-01-01'|length(name) > 0|name = concat(name, '')|2 > 1
id IN (id)|id IN (id, 3)|3 IN (id, 3)|1 IN (1, 2)|(id, 1) = (id, 1)|left(name, 0) = ''|substr(name, 1, 0) = ''|EXISTS (SELECT 1)
extract(century FROM created_at) = 21|id IN (SELECT id FROM orders)|id = ANY (SELECT id FROM orders)
id IN (SELECT orders.id FROM customers)|id IN (SELECT orders.id FROM customers WHERE x = 3)|id = (SELECT orders.id)
id = (SELECT max(orders.id) FROM customers c WHERE c.x > 0)|EXISTS (SELECT 1 FROM customers)|NOT EXISTS (SELECT 1 FROM customers WHERE x = 99)
EXISTS (SELECT 1 FROM customers WHERE x = 3)|EXISTS (SELECT 1 FROM customers c WHERE c.id = 3 AND orders.id = orders.id)
EXISTS (SELECT 1 FROM customers c WHERE c.id = orders.customer_id)|customer_id IN (SELECT id FROM customers)
customer_id IN (SELECT c.id FROM customers c WHERE c.name LIKE '%')|EXISTS (SELECT count(*) FROM customers c WHERE c.id = orders.id)
(SELECT count(*) FROM customers WHERE x = 3) > 0|3 = (SELECT max(id) FROM customers)|3 IN (SELECT id FROM customers)
id IN (SELECT o.id FROM orders o WHERE o.id = orders.id)|EXISTS (SELECT 1 FROM orders o WHERE o.id = orders.id)
id IN (SELECT id FROM orders WHERE id = 3 UNION SELECT id FROM orders)|id IN (SELECT id FROM orders UNION ALL SELECT 3)
id IN (SELECT max(id) FROM orders GROUP BY id)|id >= (SELECT min(id) FROM orders)|id IN (SELECT id FROM (SELECT id FROM orders) s)
id IN (SELECT s.id FROM (SELECT id FROM orders WHERE 1 = 1) s)|id IN (SELECT o.id FROM orders o JOIN customers c ON c.id = o.customer_id)
id IN (SELECT o.id FROM orders o, customers c WHERE c.x = 3)|NOT EXISTS (SELECT 1 FROM staging s WHERE s.order_id = orders.id AND 1 = 0)
NOT EXISTS (SELECT 1 FROM staging s WHERE s.order_id = orders.id AND s.name = 'zz')|EXISTS (SELECT 1 FROM staging s WHERE s.id = 1 OR s.id = orders.id)
id IN (WITH w AS (SELECT id FROM orders) SELECT id FROM w)|id IN (SELECT orders.id FROM staging s WHERE s.id = 2)|name = 0|name = false
id IN (SELECT id FROM orders INTERSECT SELECT id FROM orders)|id IN (SELECT id FROM orders EXCEPT SELECT 99)|id = some (SELECT id FROM orders)
id IN (SELECT generate_series(0, 99))|id IN (SELECT * FROM generate_series(0, 99))|id = ANY (ARRAY(SELECT id FROM orders))|name ~ '.*'
name ~ '^'|name ~ 'x*'|name ~ '[a-z]'|name SIMILAR TO '(%|x)'|name REGEXP '.'|name REGEXP 'x?'|id IS DISTINCT FROM -1|id <=> id|id::text = id::text
NOT (name = 'zz' OR name = 'yy')|NOT (id <> id)|NOT (id < 0)|NOT (id <= 0 OR id > 9999999)|id | 0 = id|id XOR 0|round(id, 0) = id|abs(id) = id
""".replace("\n", "|")
    .strip("|")
    .split("|")
)  # noqa: SIM905 - as they are read
TRUE = [each for each in TRUE if each.strip() and each not in ("id ", " 0 = id")]
TEMPLATES = ["UPDATE orders SET touched = 1 WHERE {}", "DELETE FROM orders WHERE {}"]
JOINS = """
UPDATE orders SET touched = 1 FROM customers u WHERE u.id = 3
UPDATE orders SET touched = 1 FROM customers u, staging s WHERE u.id = 3 AND s.id = u.id
UPDATE orders SET touched = 1 FROM customers u WHERE u.id = 3 AND orders.id = orders.id
UPDATE orders SET touched = 1 FROM customers u WHERE orders.customer_id = u.id
UPDATE orders AS o SET touched = 1 FROM orders p WHERE o.id = p.id
UPDATE orders SET touched = 1 FROM orders p WHERE p.id = 3
UPDATE orders SET touched = 1 FROM (SELECT id FROM orders) p WHERE p.id = orders.id
UPDATE orders SET touched = 1 FROM (SELECT id AS k FROM orders WHERE total >= 0) p WHERE p.k = orders.id
UPDATE orders SET touched = 1 FROM (VALUES (1), (2)) AS v (n) WHERE v.n = 1
UPDATE orders SET touched = 1 FROM generate_series(1, 99) g WHERE g = orders.id
UPDATE orders SET touched = 1 FROM customers u LEFT JOIN staging s ON s.id = u.id AND s.id = 1 WHERE u.x = 3
WITH p AS (SELECT id FROM orders) UPDATE orders SET touched = 1 FROM p WHERE p.id = orders.id
WITH p AS (SELECT id FROM orders WHERE id = 1 OR 1 = 1) UPDATE orders SET touched = 1 FROM p WHERE p.id = orders.id
WITH p AS (SELECT 3 AS n) UPDATE orders SET touched = 1 FROM p WHERE p.n = 3
WITH p AS (SELECT id FROM orders), q AS (SELECT id FROM p) UPDATE orders SET touched = 1 WHERE id IN (SELECT id FROM q)
WITH p AS (SELECT id FROM orders) DELETE FROM orders WHERE id IN (SELECT id FROM p)
WITH p AS (SELECT id FROM orders) DELETE FROM orders USING p WHERE p.id = orders.id
DELETE FROM orders USING customers u WHERE u.id = 3
DELETE FROM orders USING customers u WHERE u.id = 3 OR u.id = orders.id
DELETE FROM orders USING customers u WHERE u.id = orders.customer_id
DELETE FROM orders USING orders p WHERE p.id = orders.id
DELETE FROM orders USING orders p WHERE p.id = 3
DELETE FROM orders USING (SELECT id FROM orders) p WHERE p.id = orders.id
WITH gone AS (DELETE FROM orders USING customers u WHERE u.id = 3 RETURNING orders.id) SELECT count(*) FROM gone
WITH p AS (SELECT id FROM orders), d AS (DELETE FROM orders USING p WHERE p.id = orders.id RETURNING 1) SELECT count(*) FROM d
UPDATE orders, customers SET orders.touched = 1 WHERE customers.id = 3
UPDATE orders JOIN customers c ON c.id = orders.customer_id SET orders.touched = 1
UPDATE orders JOIN customers c ON c.id = 3 SET orders.touched = 1
UPDATE orders o JOIN orders p ON o.id = p.id SET o.touched = 1
UPDATE orders LEFT JOIN customers c ON c.id = orders.customer_id AND c.x = 3 SET orders.touched = 1
UPDATE orders JOIN (SELECT id FROM orders) p USING (id) SET orders.touched = 1
UPDATE orders CROSS JOIN customers c SET touched = 1 WHERE c.country = 'NO'
UPDATE orders NATURAL JOIN (SELECT id FROM orders) p SET touched = 1
DELETE orders FROM orders JOIN customers c ON c.id = orders.customer_id
DELETE orders FROM orders, customers c WHERE c.id = 3
DELETE o FROM orders o JOIN orders p ON p.id = o.id
DELETE o FROM orders o LEFT JOIN customers c ON c.id = o.customer_id WHERE o.id = p.id OR c.id > 0
DELETE o FROM orders o LEFT JOIN staging s ON s.order_id = o.id AND s.id = 99 WHERE s.id IS NULL
DELETE o, c FROM orders o JOIN customers c WHERE c.x > 0
DELETE FROM orders USING orders JOIN customers c ON c.id = orders.customer_id
DELETE FROM o USING orders o, customers c WHERE c.id = 1
INSERT INTO orders SELECT * FROM orders ON CONFLICT (id) DO UPDATE SET touched = 1
INSERT INTO orders (id) SELECT id FROM orders WHERE id > 0 ON CONFLICT (id) DO UPDATE SET touched = 1
INSERT INTO orders SELECT * FROM orders ON DUPLICATE KEY UPDATE touched = 1
UPDATE orders SET touched = 1
DELETE FROM orders
""".strip().splitlines()
STATEMENTS = [
    *dict.fromkeys(TEMPLATES[at % 2].format(condition) for at, condition in enumerate(TRUE)),
    *dict.fromkeys(TEMPLATES[1].format(one) for one in TRUE if "SELECT" in one),
    *JOINS,
]
ORDINARY = """
UPDATE orders SET touched = 1 WHERE id = 3
UPDATE orders SET touched = 1 WHERE id IN (3, 4) OR name LIKE 'a%'
UPDATE orders SET touched = 1 WHERE total > 100 AND NOT paid
UPDATE orders SET touched = 1 WHERE total < 20 OR total > 110
UPDATE orders SET touched = 1 WHERE NOT (id <> 3)
UPDATE orders SET touched = 1 WHERE NOT (id > 3 OR paid)
UPDATE orders SET touched = 1 WHERE deleted_at IS NULL AND status <> 'open'
UPDATE orders SET touched = 1 WHERE created_at >= '2024-03-04' AND created_at < '2024-03-07'
UPDATE orders SET touched = 1 WHERE created_at BETWEEN '2024-03-04' AND '2024-03-07'
UPDATE orders SET touched = 1 WHERE (id, status) IN ((3, 'open'), (4, 'paid'))
UPDATE orders SET touched = 1 WHERE lower(name) = 'name 3'
UPDATE orders SET touched = 1 WHERE coalesce(total, 0) = 0
UPDATE orders SET touched = 1 WHERE extract(year FROM created_at) = 2020
UPDATE orders SET touched = 1 WHERE name = '' OR name IS NULL
UPDATE orders SET touched = 1 WHERE paid = false
UPDATE orders SET touched = 1 FROM customers c WHERE c.id = orders.customer_id AND c.country = 'NO'
UPDATE orders SET touched = 1 FROM customers c WHERE c.id = orders.customer_id AND (c.country = 'NO' OR c.x = 9)
UPDATE orders AS o SET name = s.name, touched = 1 FROM staging s WHERE s.order_id = o.id
UPDATE orders SET touched = 1 FROM customers c JOIN staging s ON s.id = c.id WHERE c.id = orders.customer_id AND s.name = 'name 3'
UPDATE orders SET touched = 1 FROM (SELECT id FROM orders WHERE status = 'open') p WHERE p.id = orders.id
UPDATE orders SET touched = 1 FROM (VALUES (1, 'a'), (2, 'b')) AS v (id, n) WHERE v.id = orders.id
WITH p AS (SELECT id FROM orders WHERE total > 100) UPDATE orders SET touched = 1 FROM p WHERE p.id = orders.id
WITH p AS (SELECT customer_id FROM orders GROUP BY customer_id HAVING count(*) > 9) UPDATE customers SET x = 1 FROM p WHERE customers.id = 3
WITH d AS (DELETE FROM orders WHERE id = 3 RETURNING *) SELECT count(*) FROM d
DELETE FROM orders WHERE id IN (SELECT order_id FROM staging)
DELETE FROM orders WHERE id IN (SELECT order_id FROM staging WHERE name = 'name 3')
DELETE FROM orders WHERE customer_id IN (SELECT id FROM customers WHERE country = 'NO')
DELETE FROM orders WHERE customer_id = (SELECT id FROM customers WHERE name = 'customer 1')
DELETE FROM orders WHERE id = (SELECT max(id) FROM orders)
DELETE FROM orders WHERE EXISTS (SELECT 1 FROM staging s WHERE s.order_id = orders.id)
DELETE FROM orders WHERE EXISTS (SELECT 1 FROM customers c WHERE c.id = orders.customer_id AND c.country = 'NO')
DELETE FROM orders WHERE NOT EXISTS (SELECT 1 FROM customers c WHERE c.order_id = orders.id)
DELETE FROM orders WHERE id IN (SELECT id FROM orders WHERE status = 'open' ORDER BY id LIMIT 2)
DELETE FROM orders WHERE id IN (SELECT 3 UNION SELECT 4)
DELETE FROM orders USING customers c WHERE c.id = orders.customer_id AND c.x = 1
DELETE FROM orders USING orders p WHERE p.customer_id = orders.customer_id AND orders.id > p.id
UPDATE orders o JOIN customers c ON c.id = o.customer_id SET o.touched = 1 WHERE c.country = 'NO'
UPDATE orders o JOIN staging s ON s.order_id = o.id SET o.name = s.name
UPDATE orders, customers c SET orders.touched = 1 WHERE orders.customer_id = c.id AND c.x = 1
DELETE o FROM orders o JOIN customers c ON c.id = o.customer_id WHERE c.country = 'NO'
DELETE o FROM orders o LEFT JOIN customers c ON c.order_id = o.id WHERE c.id IS NULL
DELETE o1 FROM orders o1 JOIN orders o2 ON o1.name = o2.name WHERE o1.id > o2.id
INSERT INTO orders (id, touched) VALUES (3, 1) ON CONFLICT (id) DO UPDATE SET touched = 1
INSERT INTO orders (id, name) SELECT order_id, name FROM staging ON CONFLICT (id) DO UPDATE SET touched = 1
""".strip().splitlines()


@cache
def decision(sql: str, dialect: str = "") -> Decision:
    entry = {"pack": "guardagent:sql", "constants": {"dialect": dialect}}
    return load_policies(data={"version": 1, "include": [entry]}).session().check("sql", {"sql": sql}).decision


LEFT = "SELECT count(*) FROM orders WHERE touched = 0"


def in_postgres(statements: Iterable[str]) -> dict[str, int]:
    """The rows that each statement leaves as they were, for those that the server takes."""
    name, left = f"test_{secrets.token_hex(8)}", {}
    with contextlib.closing(postgres(POSTGRES)) as db:
        db.execute(f"CREATE SCHEMA {name}")
        db.execute(f"SET search_path = {name}")
        try:
            for line in [*TABLES, "CREATE UNIQUE INDEX one ON orders (id)", *CONTENT]:
                db.execute(line)
            for statement in statements:
                db.execute("BEGIN")
                with contextlib.suppress(Exception):
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
    command = [
        client,
        "--force",
        "--batch",
        "--skip-column-names",
        f"-h{url.hostname}",
        f"-P{url.port}",
        f"-u{url.username}",
    ]
    lines = [f"CREATE DATABASE {name}", f"USE {name}", *TABLES, "CREATE UNIQUE INDEX one ON orders (id)", *CONTENT]
    for at, statement in enumerate(order):
        lines += ["START TRANSACTION", statement, f"SELECT 'left', {at}, ({LEFT})", "ROLLBACK"]
    text = ";\n".join([*lines, f"DROP DATABASE {name}"]) + ";\n"
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=120)  # noqa: S603
    if "Can't connect" in done.stderr:
        pytest.skip(f"no MariaDB at GUARDAGENT_TEST_MARIADB: {done.stderr.splitlines()[0]}")
    answers = [line.split("\t") for line in done.stdout.splitlines() if line.startswith("left\t")]
    return {order[int(at)]: int(left) for _, at, left in answers}


def in_sqlite(statements: Iterable[str]) -> dict[str, int]:
    left = {}
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        for line in [*TABLES, "CREATE UNIQUE INDEX one ON orders (id)", *CONTENT]:
            db.execute(line)
        for statement in statements:
            db.execute("BEGIN")
            with contextlib.suppress(sqlite3.Error):
                db.execute(statement)
                left[statement] = db.execute(LEFT).fetchone()[0]
            db.execute("ROLLBACK")
    return left


SERVERS = [
    pytest.param(in_postgres, "postgres", 90, marks=pytest.mark.slow),
    pytest.param(in_mariadb, "mysql", 90, marks=pytest.mark.slow),
    pytest.param(in_sqlite, "sqlite", 60),
]


@pytest.mark.parametrize(("server", "dialect", "least"), SERVERS)
def test_what_changes_every_row_is_not_allowed(server, dialect: str, least: int) -> None:  # type: ignore[no-untyped-def]
    """As a server says, in its own dialect and in the usual ones."""
    left = server(STATEMENTS)
    changing = [statement for statement, rows in left.items() if rows == 0]
    assert len(changing) >= least
    passed = [each for each, name in product(changing, ("", dialect)) if decision(each, name) < Decision.DENY]
    assert passed == []


@pytest.mark.parametrize(("server", "dialect", "least"), SERVERS)
def test_ordinary_changes_pass(server, dialect: str, least: int) -> None:  # type: ignore[no-untyped-def]
    """They leave rows as they were, and pass."""
    left = server(ORDINARY)
    assert len(left) >= least // 4
    assert [statement for statement, rows in left.items() if rows == 0] == []
    assert [each for each in left if decision(each, dialect) >= Decision.DENY] == []


def test_statements_are_many_and_differ() -> None:
    assert len(set(STATEMENTS)) == len(STATEMENTS) >= 200
    assert [each for each in ORDINARY if decision(each) >= Decision.DENY] == []
