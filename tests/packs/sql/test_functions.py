"""The constants of the pack `guardagent:sql`."""

from __future__ import annotations

from typing import Any

import pytest
import sqlglot

from guardagent import Decision, InputError, load_policies
from guardagent.packs.catalogue import pack


def decision(sql: str, **constants: Any) -> Decision:
    entry = {"pack": "guardagent:sql", "constants": constants}
    return load_policies(data={"version": 1, "include": [entry]}).session().check("sql", {"sql": sql}).decision


@pytest.mark.parametrize(
    "sql", ["INSERT INTO t VALUES (1)", "DELETE FROM t WHERE id = 1", "EXPLAIN ANALYZE UPDATE t SET a = 1 WHERE id = 2"]
)
def test_reading_only(sql: str) -> None:
    """`writes: false` denies each change of rows."""
    assert decision(sql) is Decision.ALLOW
    assert decision(sql, writes=False) is Decision.DENY


def test_own_functions() -> None:
    """They pass by their whole name, whatever the case."""
    assert decision("SELECT app.total(1)") is Decision.ESCALATE
    assert decision("SELECT app.total(1)", functions=["App.Total"]) is Decision.ALLOW
    assert decision("SELECT other.total(1)", functions=["App.Total"]) is Decision.ESCALATE


def test_the_dialect_decides() -> None:
    """MySQL reads a backslash before a quote as an escape; without a dialect, the more dangerous reading counts."""
    sql = "SELECT 'a\\'' ; DROP TABLE users -- '"
    assert decision(sql, dialect="mysql") is Decision.DENY
    assert decision(sql, dialect="postgres") is Decision.ALLOW
    assert decision(sql) is Decision.DENY


def test_an_unknown_dialect_is_refused() -> None:
    """The pack names the dialects of sqlglot."""
    with pytest.raises(InputError, match="constant 'dialect' is 'postgre'; did you mean 'postgres'"):
        decision("SELECT 1", dialect="postgre")
    assert {*pack("sql").policy.constants["dialect"].limits.choices} == {*sqlglot.Dialect.classes}


@pytest.mark.parametrize("dialect", sorted(set(sqlglot.Dialect.classes) - {"dax", "prql"}))
@pytest.mark.parametrize("sql", ["VALUES (1)", "VALUES (1, 'a'), (2, 'b')", "values (1);"])
def test_values_in_every_dialect(sql: str, dialect: str) -> None:
    """Some also have a function with this name."""
    assert decision(sql, dialect=dialect) is Decision.ALLOW
    assert decision(f"{sql.rstrip(';')}; DROP TABLE t", dialect=dialect) >= Decision.DENY


def test_a_plan_changes_nothing() -> None:
    """Without ANALYZE, the statement does not run: also where only reading is allowed."""
    assert decision("EXPLAIN DELETE FROM t", writes=False) is Decision.ALLOW
    assert decision("EXPLAIN ANALYZE DELETE FROM t WHERE id = 1", writes=False) is Decision.DENY
    assert decision("EXPLAIN/**/ANALYZE DELETE FROM t") >= Decision.DENY
    assert decision("EXPLAIN DELETE FROM t; DELETE FROM t") is Decision.DENY
