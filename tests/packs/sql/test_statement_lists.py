"""Statements as rules read them: a list of allowed queries that no other statement passes."""

from __future__ import annotations

from typing import Any

import pytest

from guardagent.packs.sql.statement_lists import statement_list
from guardagent.policy.load import compile_rules
from guardagent.session.session import Session
from guardagent.types import Decision

RULE = """forall(query(sql=q), all(s in statements(q), s.kind == "select" && s.functions == []
          && all(t in s.tables, t in ["orders", "items"])))"""
ORDINARY = """
SELECT * FROM orders
select id, total from orders where total > 5 order by id limit 3;
SELECT o.id, count(*) FROM orders o JOIN items i ON i.order_id = o.id GROUP BY o.id
WITH recent AS (SELECT * FROM orders WHERE id > 5) SELECT * FROM recent JOIN items ON items.id = recent.id
SELECT id FROM orders WHERE id IN (SELECT order_id FROM items) UNION SELECT id FROM items
WITH a AS (SELECT 1 AS x), b AS (SELECT x FROM a) SELECT x FROM b
SELECT max(total), lower(name) FROM orders -- a comment
""".strip().splitlines()
SMUGGLED = """
DELETE FROM orders
SELECT * FROM orders; DROP TABLE orders
WITH x AS (DELETE FROM orders RETURNING *) SELECT * FROM x
WITH x AS (UPDATE orders SET total = 0 RETURNING id) SELECT id FROM x
SELECT * INTO copy FROM orders
SELECT * FROM users
SELECT * FROM orders JOIN users ON users.id = orders.id
SELECT (SELECT secret FROM users LIMIT 1) FROM orders
SELECT id FROM orders WHERE EXISTS (SELECT 1 FROM users)
SELECT * FROM orders UNION SELECT * FROM users
WITH users AS (SELECT * FROM users) SELECT * FROM users
WITH orders AS (SELECT * FROM users) SELECT * FROM orders
SELECT * FROM public.users
SELECT * FROM other.orders
SELECT pg_sleep(5) FROM orders
SELECT read_csv('/etc/passwd')
SELECT * FROM pg_read_file('/etc/passwd')
COPY orders TO '/tmp/x'
EXPLAIN ANALYZE DELETE FROM orders
EXPLAIN SELECT 1; DELETE FROM orders
INSERT INTO orders SELECT * FROM items
CREATE TABLE x AS SELECT * FROM orders
TRUNCATE orders
CALL steal()
GRANT ALL ON orders TO eve
SET ROLE admin
SELECT /*! 1; DROP TABLE orders */ 1
SELECT * FROM orders WHERE
BEGIN; DELETE FROM orders; COMMIT
REPLACE INTO orders VALUES (1)
SELECT "users" FROM orders, "users"
""".strip().splitlines()


@pytest.fixture(scope="module")
def session() -> Session:
    opened: Session = compile_rules([RULE]).session()
    return opened


@pytest.mark.parametrize("sql", ORDINARY)
def test_an_ordinary_query_passes_a_list(session: Session, sql: str) -> None:
    """It reads the tables of the list alone."""
    assert session.check("query", {"sql": sql}, reserve=False).decision is Decision.ALLOW


@pytest.mark.parametrize("sql", SMUGGLED)
def test_no_other_statement_passes_a_list(session: Session, sql: str) -> None:
    """Neither a change, nor another table or function, nor a text that dialects read in different ways."""
    assert session.check("query", {"sql": sql}, reserve=False).decision is Decision.DENY


@pytest.mark.parametrize(
    ("sql", "field", "values"),
    [
        ("select a, t.b from T", "columns", [["a", "b"]]),
        ("select count(*) from t", "columns", [[]]),
        ("select u from users u", "columns", [["*", "u"]]),
        ("insert into t (a, b) values (1, 2)", "columns", [["a", "b"]]),
        ("insert into t values (1)", "columns", [["*"]]),
        ("delete from t; delete from t where id = 1; update t set a = 1", "every_row", [True, False, True]),
        ("truncate t", "kind", ["truncate"]),
        ("explain delete from t", "kind", ["explain"]),
        ("vacuum", "tables", [None]),
        ("select 1; select a from b.c", "tables", [[], ["b.c"]]),
    ],
)
def test_the_fields_of_a_statement(sql: str, field: str, values: list[Any]) -> None:
    """Of each statement, in order."""
    records = statement_list(sql)
    assert isinstance(records, list), records
    assert [record[field] for record in records] == values


@pytest.mark.parametrize(
    ("sql", "dialect", "problem"),
    [
        ('select "a" from t', "", "different ways; name one"),
        ("select 1", "pg", "'pg' is not a dialect of SQL"),
        ("select from where", "", "cannot be read as SQL"),
        ("", "", "cannot be read as SQL"),
        (f"select {'(' * 3000}1", "", "cannot be read as SQL"),
    ],
)
def test_a_text_that_is_not_clear_is_unknown(sql: str, dialect: str, problem: str) -> None:
    """The reason says what to do."""
    assert problem in statement_list(sql, dialect)
    assert isinstance(statement_list('select "a" from t', "postgres"), list)
