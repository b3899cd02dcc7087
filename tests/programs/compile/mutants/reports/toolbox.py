"""The tables and columns that SQL of the shop reads."""

from __future__ import annotations

from functools import cache

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import traverse_scope

_TABLES = {
    "orders": ["id", "placed_on", "customer_id", "total"],
    "customers": ["id", "name", "city", "email", "phone"],
    "staff": ["id", "name", "salary", "iban"],
    "payments": ["id", "order_id", "amount", "iban", "card"],
}
_SCHEMA: dict[str, object] = {table: dict.fromkeys(columns, "TEXT") for table, columns in _TABLES.items()}


def sql_columns(statement: str) -> dict[str, list[str]]:
    """The tables and columns that SQL reads, in all its parts.

    Args:
        statement: a SQL query, or several with `;` between them.

    Returns:
        table -> columns, sorted.

    Raises:
        ValueError: it is no query, or names a table or column that there is not.
    """
    return {table: list(columns) for table, columns in _columns(statement).items()}


@cache  # the same statements come in thousands of runs
def _columns(statement: str) -> dict[str, list[str]]:
    found: dict[str, set[str]] = {}
    try:
        for tree in sqlglot.parse(statement, read="sqlite"):
            if not isinstance(tree, exp.Query):
                raise ValueError("a statement is no query")  # noqa: TRY004 - the contract
            for scope in traverse_scope(qualify(tree, schema=_SCHEMA, dialect="sqlite")):
                tables = {name: source.name for name, source in scope.sources.items() if isinstance(source, exp.Table)}
                for table in tables.values():
                    found.setdefault(table, set())
                for column in scope.columns:
                    if column.table in tables:
                        found[tables[column.table]].add(column.name)
    except SqlglotError as error:
        raise ValueError(f"the statement cannot be read: {str(error)[:100]}") from None
    if unknown := set(found) - set(_TABLES):
        raise ValueError(f"there is no table {min(unknown)}")
    return {table: sorted(columns) for table, columns in sorted(found.items())}
