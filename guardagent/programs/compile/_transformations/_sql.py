"""SQL queries in a text: their locations, and their replacement."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from guardagent.programs.compile.fields import objects_in

_BEGINS = re.compile(r"\b(?:SELECT|WITH)\b", re.IGNORECASE)
_MOST_LINES = 12  # per unquoted query
_MOST_QUERIES = 8  # per text


@dataclass(frozen=True, slots=True)
class SqlQuery:
    """A query in a text.

    Attributes:
        sql: the unescaped query.
        tree: its syntax tree.
        start, end: its span in the text.
        quote: the quote around a query in a string; `json` for a JSON string.
    """

    sql: str
    tree: Any
    start: int
    end: int
    quote: str = ""

    @property
    def takes_lines(self) -> bool:
        """Whether the location admits a line break."""
        return self.quote not in ("'", '"')

    def put(self, text: str, sql: str) -> str:
        """Returns the text with another query at this location."""
        if self.quote == "json":
            sql = json.dumps(sql, ensure_ascii=False)[1:-1]
        elif len(self.quote) == 1:
            sql = sql.replace("\\", "\\\\").replace(self.quote, f"\\{self.quote}")
        return text[: self.start] + sql + text[self.end :]


def queries_in(text: str) -> list[SqlQuery]:
    """Returns the parseable queries of a text, in order."""
    found: list[SqlQuery] = []
    in_json = [(start, end) for start, end, _ in objects_in(text)]
    for match in _BEGINS.finditer(text):
        if (not found or match.start() >= found[-1].end) and len(found) < _MOST_QUERIES:
            query = _query_at(text, match.start(), in_json)
            found += [query] if query else []
    return found


def parsed(sql: str) -> Any:
    """Parses a query that reads a table; None for anything else."""
    import sqlglot
    from sqlglot import exp

    try:
        tree = sqlglot.parse_one(sql, read="sqlite")
    except (sqlglot.errors.SqlglotError, RecursionError):
        return None
    return tree if isinstance(tree, exp.Query) and tree.find(exp.Table) else None


def _query_at(text: str, start: int, in_json: list[tuple[int, int]]) -> SqlQuery | None:
    quote = _quote_before(text, start)
    if quote:
        end = _end_of_string(text, start, quote)
        is_json = quote == '"' and any(first < start < last for first, last in in_json)
        raw = text[start:end]
        sql = _unescaped(raw, "json" if is_json else quote)
        tree = parsed(sql) if sql else None
        return SqlQuery(sql, tree, start, end, "json" if is_json else quote) if tree else None
    for end in _ends_of_lines(text, start):
        sql = text[start:end].rstrip().removesuffix(";")
        if tree := parsed(sql):
            return SqlQuery(sql, tree, start, start + len(sql))
    return None


def _quote_before(text: str, at: int) -> str:
    before = text[:at].rstrip(" \n\t")
    return next((quote for quote in ('"""', "'''", '"', "'") if before.endswith(quote)), "")


def _end_of_string(text: str, start: int, quote: str) -> int:
    match = re.compile(rf"(?<!\\){re.escape(quote)}").search(text, start)
    return match.start() if match else start


def _unescaped(raw: str, quote: str) -> str:
    if quote == "json":
        try:
            return str(json.loads(f'"{raw}"'))
        except ValueError:
            return ""
    return raw.replace(f"\\{quote}", quote) if len(quote) == 1 else raw


def _ends_of_lines(text: str, start: int) -> Iterator[int]:
    end = start
    for _ in range(_MOST_LINES):
        end = text.find("\n", end + 1)
        yield len(text) if end < 0 else end
        if end < 0:
            return
