"""The parser of SQL."""

from __future__ import annotations

import logging
import re

from guardagent.errors import InputError

try:
    import sqlglot
    from sqlglot import exp as exp  # noqa: PLC0414 - the other modules take it from here, after this check
except ImportError:
    raise InputError("reading SQL needs one more package: pip install 'guardagent[sql]'") from None

MAX_CHARACTERS = 20_000
_DIALECTS = ("", "postgres", "mysql", "sqlite")
_FURTHER = ("tsql", "oracle", "bigquery", "snowflake", "duckdb")  # read only text that the others cannot read
# MySQL runs comments with '!', and ends a nested comment where other databases do not.
_AMBIGUOUS = re.compile(r"/\*M?!|/\*(?:(?!\*/).)*?/\*|\0", re.DOTALL)
logging.getLogger("sqlglot").addFilter(lambda record: "Falling back" not in record.getMessage())


def readings(text: str, dialect: str) -> list[list[exp.Expr]]:
    """The statements of a text, once for each dialect that reads it differently or alike; empty if none can.

    Args:
        text: one or more statements.
        dialect: a dialect of sqlglot, such as postgres; empty if it is not known.
    """
    if len(text) > MAX_CHARACTERS or _AMBIGUOUS.search(text):
        return []
    if dialect:
        return _readings(text, (dialect,))
    return _readings(text, _DIALECTS) or _readings(text, _FURTHER)


def _readings(text: str, dialects: tuple[str, ...]) -> list[list[exp.Expr]]:
    found = []
    for dialect in dialects:
        try:
            parsed = sqlglot.parse(text, read=dialect or None)
        except (sqlglot.errors.SqlglotError, RecursionError, ValueError):
            continue
        statements: list[exp.Expr] = [one for one in parsed if one is not None and not isinstance(one, exp.Semicolon)]
        if statements:
            found.append(statements)
    return found
