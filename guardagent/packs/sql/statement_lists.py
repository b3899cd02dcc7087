"""The statements of an SQL text as rules read them: `statements(text)`.

Everything is exact or unknown: a text that the dialects read in different ways is unknown until the rule names one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import sqlglot
from sqlglot import exp

from guardagent.errors import name_hint
from guardagent.packs.sql.functions import EXPLAINED, READING, WRITING, is_computing, is_whole_row, readings
from guardagent.packs.sql.narrowing import is_narrow

_CHANGES = (*WRITING, exp.DDL, exp.Into, exp.Merge, exp.Copy, exp.Set, exp.Command)


def unknown_dialect(dialect: str) -> str | None:
    """The problem of a dialect that does not exist; None for those that do, and for none."""
    if not dialect or dialect in sqlglot.Dialect.classes:
        return None
    return f"{dialect!r} is not a dialect of SQL{name_hint(dialect, sqlglot.Dialect.classes)}"


@lru_cache(1024)
def statement_list(text: str, dialect: str = "") -> list[dict[str, Any]] | str:
    """The statements of a text, in order, with those inside of others; a string says why they are unknown."""
    if problem := unknown_dialect(dialect):
        return problem
    explained = EXPLAINED.match(text)
    planned = explained is not None and not re.search("ANALY[ZS]E", explained[0], re.IGNORECASE)
    try:
        lists = [
            [record for at, root in enumerate(roots) for record in _records(root, is_planned=planned and at == 0)]
            for roots in readings(text[explained.end() :] if explained else text, dialect)
        ]
    except RecursionError:
        lists = []
    if not lists:
        return "a string cannot be read as SQL"
    if any(records != lists[0] for records in lists):
        return "dialects of SQL read a string in different ways; name one, as in 'statements(q, \"postgres\")'"
    return lists[0]


def _records(root: exp.Expr, *, is_planned: bool) -> list[dict[str, Any]]:
    if is_planned:  # a plan alone changes nothing
        return [{**_record(root), "kind": "explain", "every_row": False}]
    inner = [node for node in root.walk() if isinstance(node, _CHANGES) and node is not root and _is_statement(node)]
    return [_record(node) for node in (root, *inner)]


def _is_statement(node: exp.Expr) -> bool:
    """Whether a node changes something by itself: `DDL` is also the class of queries."""
    return not isinstance(node, exp.Query | exp.Values)


def _record(node: exp.Expr) -> dict[str, Any]:
    if isinstance(node, exp.Command):
        return {"kind": str(node.this).lower(), "tables": None, "columns": None, "functions": None, "every_row": None}
    tables = (table for table in node.find_all(exp.Table) if not _is_of_query(table))
    calls = (call for call in node.find_all(exp.Func) if not is_computing(call))
    return {
        "kind": _kind(node),
        "tables": sorted({".".join(part.name for part in table.parts).lower() for table in tables} - {""}),
        "columns": sorted(_columns(node)),
        "functions": sorted(
            {(call.name if isinstance(call, exp.Anonymous) else call.sql_name()).lower() for call in calls}
        ),
        "every_row": _concerns_every_row(node),
    }


def _is_of_query(table: exp.Table) -> bool:
    """Whether a name stands for a query of `WITH`: one before it, or around it if it reads itself."""
    node: exp.Expr = table
    while (parent := node.parent) is not None:
        queries = parent.args.get("with_")
        if isinstance(queries, exp.With) and queries is not node and _names(queries.expressions, table):
            return True
        if isinstance(parent, exp.With):
            at = next(at for at, query in enumerate(parent.expressions) if query is node)
            if _names(parent.expressions[: at + bool(parent.args.get("recursive"))], table):
                return True
        node = parent
    return False


def _names(queries: Sequence[exp.Expr], table: exp.Table) -> bool:
    return not table.args.get("db") and _key(table.this) in {_key(query.args["alias"].this) for query in queries}


def _key(name: exp.Expr) -> tuple[str, bool]:
    """A name as the database compares it: one in quotes is another one, to be on the safe side."""
    is_quoted = bool(name.args.get("quoted"))
    return (name.name if is_quoted else name.name.lower()), is_quoted


def _kind(node: exp.Expr) -> str:
    if isinstance(node, exp.Query | exp.Values | exp.Table):
        return "select"
    return "truncate" if isinstance(node, exp.TruncateTable) else str(node.key).lower()


def _columns(node: exp.Expr) -> set[str]:
    """The columns that a statement names; `*` for all of a table."""
    columns = {column.name.lower() for column in node.find_all(exp.Column) if not isinstance(column.this, exp.Star)}
    schemas = [
        schema
        for insert in (node, *node.find_all(exp.Insert))
        for schema in [insert.this]
        if isinstance(schema, exp.Schema)
    ]
    columns |= {name.name.lower() for schema in schemas for name in schema.expressions}
    is_whole = any(not isinstance(star.parent, exp.Count) for star in node.find_all(exp.Star))
    is_whole |= any(is_whole_row(column) for column in node.find_all(exp.Column, exp.Dot))
    is_whole |= any(not isinstance(insert.this, exp.Schema) for insert in node.find_all(exp.Insert))
    return columns | ({"*"} if is_whole or isinstance(node, exp.Table) else set())


def _concerns_every_row(node: exp.Expr) -> bool | None:
    """Whether a change may leave no row of a table as it was; None if that is not known."""
    if isinstance(node, WRITING):
        adds = isinstance(node, exp.Insert) and not (node.args.get("conflict") or node.args.get("alternative"))
        return bool(node.args.get("overwrite")) or not (adds or is_narrow(node))
    if isinstance(node, exp.Drop | exp.TruncateTable):
        return True
    return False if isinstance(node, READING) else None
