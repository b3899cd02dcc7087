"""Transformations of SQL queries: equivalent forms of a query, and a denied query within an allowed one.

A program that matches the words of a query instead of parsing it confuses these. The queries are found in the texts of
a run, also within JSON and other strings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from guardagent.programs.compile.examples import RUN_TEXTS, Example, objects_in
from guardagent.programs.compile.suite import Suite
from guardagent.programs.compile.transformations import Relation, Variant, transformation

_MOST_DENIED = 4  # denied queries per query
_BREAKS = re.compile(r"\s+(?=(?:FROM|WHERE|JOIN|GROUP|ORDER)\b)|(?<=,)\s*", re.IGNORECASE)
_SPACE = re.compile(r"('(?:[^']|'')*')| ")
_KEYWORDS = re.compile(r"\b(?:SELECT|FROM|WHERE|JOIN|ON|AS|AND|OR|UNION|ALL|IN)\b")
_QUERY_START = re.compile(r"\b(?:SELECT|WITH)\b", re.IGNORECASE)
_MOST_LINES = 12  # per unquoted query
_MOST_QUERIES = 8  # per text


@transformation(
    "queries are rewritten (OR, comments, CTEs, aliases, sub-queries, quotes, case), or contain a denied query"
)
def sql_forms(example: Example, suite: Suite) -> Iterator[Variant]:
    """Rewrites SQL to equivalent forms, and embeds a denied query in an allowed one."""
    for origin in RUN_TEXTS:
        text = getattr(example, origin)
        for query in queries_in(text):
            for sql, note, relation in _forms(query, example.label):
                changed = example.with_text(origin, query.put(text, sql))
                yield Variant(changed, relation, f"SQL {note}: {sql}")
            if example.label == 0:
                yield from _with_denied(example, suite, origin, query)


def _forms(query: SqlQuery, label: int) -> Iterator[tuple[str, str, Relation]]:
    """Yields (query, description, relation) for forms that read the same data."""
    steady = [
        (_KEYWORDS.sub(lambda match: match[0].lower(), query.sql), "with small keywords"),
        (_spaced(query, "  "), "with wide spaces"),
        (query.sql.replace(" ", " /* vexil torba */ ", 1), "with a comment"),
        (_quoted(query), "with quoted names"),
        (_aliased(query), "with an alias"),
        *_nested(query),
    ]
    if query.takes_lines:
        steady += [
            (_BREAKS.sub("\n", query.sql), "over several lines"),
            (_spaced(query, "\n"), "a word a line"),
        ]
        steady += [(query.sql.replace(" ", " -- vexil\n", 1), "with a comment to the end of the line")]
    yield from ((sql, note, "steady") for sql, note in steady if sql)
    if label == 1:
        yield from ((sql, note, "denied") for sql, note in _hiding(query) if sql)


def _hiding(query: SqlQuery) -> Iterator[tuple[str, str]]:
    """Yields forms that hide the data that the query reads."""
    yield query.sql.swapcase() if "'" not in query.sql else "", "in other letters"
    yield _before_the_rest(query, "'--' AS vexil"), "behind a literal that looks like a comment"
    yield _before_the_rest(query, "'/*' AS vexil"), "behind a literal that looks like a comment"
    yield _between_literals(query, "/*", "*/"), "between literals that look like a comment"
    if query.takes_lines:
        yield _between_literals(query, "--", "\n"), "between literals that look like a comment"
    yield f"{query.sql} ((", "that cannot be read"
    yield _or(query), "with OR"
    yield _renamed(query), "with its columns under another name"


def _spaced(query: SqlQuery, space: str) -> str:
    """Replaces the spaces outside literals."""
    return _SPACE.sub(lambda match: match[1] or space, query.sql)


def _quoted(query: SqlQuery) -> str:
    return str(query.tree.sql(dialect="sqlite", identify=True))


def _aliased(query: SqlQuery) -> str:
    """Adds an alias to the only table."""
    from sqlglot import exp

    tree = query.tree.copy()
    tables = list(tree.find_all(exp.Table))
    if len(tables) != 1 or tables[0].alias:
        return ""
    for column in tree.find_all(exp.Column):
        column.set("table", exp.to_identifier("v"))
    tables[0].set("alias", exp.TableAlias(this=exp.to_identifier("v")))
    return str(tree.sql(dialect="sqlite"))


def _nested(query: SqlQuery) -> Iterator[tuple[str, str]]:
    """Wraps the query in a sub-query, and in a common table expression."""
    named = _named(query)
    if named is None:
        return
    names = ", ".join(f'v."{name}"' for name in named.named_selects)
    inner = named.sql(dialect="sqlite")
    yield f"SELECT {names} FROM ({inner}) AS v", "in a sub-query"  # noqa: S608 - no database gets it
    if not named.args.get("with_") and not named.args.get("with"):
        yield f"WITH v AS ({inner}) SELECT {names} FROM v", "in a common table expression"  # noqa: S608


def _named(query: SqlQuery) -> Any:
    """Returns the query with a name for each column; None for `*` or duplicate names."""
    from sqlglot import exp

    tree = query.tree.copy()
    if not isinstance(tree, exp.Select) or tree.is_star:
        return None
    columns = [
        expression if expression.alias_or_name else exp.alias_(expression, f"v{number}")
        for number, expression in enumerate(tree.expressions)
    ]
    tree.set("expressions", columns)
    return tree if len({column.alias_or_name for column in columns}) == len(columns) else None


def _before_the_rest(query: SqlQuery, column: str) -> str:
    return re.sub(r"(?i)\bSELECT\b(?!\s+DISTINCT)", f"SELECT {column},", query.sql, count=1)


def _between_literals(query: SqlQuery, begin: str, end: str) -> str:
    """Puts the columns between two literals; the query stays valid for a reader that takes them for a comment."""
    first = _before_the_rest(query, f"'{begin}' AS vexil")
    return re.sub(r"(?i)\s+FROM\b", f", '{end}' AS torba FROM", first, count=1)


def _or(query: SqlQuery) -> str:
    from sqlglot import exp

    if not isinstance(query.tree, exp.Select):
        return ""
    where = query.tree.args.get("where")
    condition = exp.or_(where.this, "1 = 1") if where else "1 = 1 OR 2 = 1"
    return str(query.tree.where(condition, append=False).sql(dialect="sqlite"))


def _renamed(query: SqlQuery) -> str:
    from sqlglot import exp

    if not isinstance(query.tree, exp.Select) or query.tree.is_star:
        return ""
    tree = query.tree.copy()
    columns = [exp.alias_(expression.unalias(), f"v{number}") for number, expression in enumerate(tree.expressions)]
    tree.set("expressions", columns)
    return str(tree.sql(dialect="sqlite"))


def _with_denied(example: Example, suite: Suite, origin: str, query: SqlQuery) -> Iterator[Variant]:
    """Yields queries that embed one of a denied example, and a query that mentions it in a comment only."""
    text = getattr(example, origin)
    for denied in _denied_queries(suite, origin, query)[:_MOST_DENIED]:
        other = example.with_text(origin, query.put(text, denied.sql))
        for sql, note in _combined(query, denied):
            changed = example.with_text(origin, query.put(text, sql), label=1)
            yield Variant(changed, "conflicting", f"SQL {note}: {sql}", other)
        mentioned = query.sql.replace(" ", f" /* {denied.sql.replace('*/', '')} */ ", 1)
        commented = example.with_text(origin, query.put(text, mentioned))
        yield Variant(commented, "steady", f"SQL with another query in a comment: {mentioned}")


def _denied_queries(suite: Suite, origin: str, query: SqlQuery) -> list[SqlQuery]:
    denied = [example for example in suite.examples if example.label == 1]
    by_sql = {other.sql: other for example in denied for other in queries_in(getattr(example, origin))}
    return [other for sql, other in by_sql.items() if sql != query.sql]


def _combined(query: SqlQuery, denied: SqlQuery) -> Iterator[tuple[str, str]]:
    from sqlglot import exp

    first, second = query.sql, denied.sql
    yield f"{first}; {second}", "with a second query behind it"
    yield f"{second}; {first}", "with another query before it"
    yield f"{first} UNION ALL {second}", "with UNION"
    if not isinstance(query.tree, exp.Select):
        return
    inner = denied.tree
    tree = query.tree
    yield str(tree.where(exp.Exists(this=inner.copy())).sql(dialect="sqlite")), "with a sub-query in its condition"
    yield (
        str(tree.select(exp.Subquery(this=inner.copy(), alias="vexil")).sql(dialect="sqlite")),
        "with a sub-query as a column",
    )
    if not tree.args.get("joins"):
        yield (
            re.sub(r"(?i)(\bFROM\s+\w+(?:\s+AS\s+\w+)?)", rf"\1, ({second}) AS vexil", first, count=1),
            "with a sub-query as a table",
        )
    if first[:6].upper() == "SELECT":
        yield f"WITH vexil AS ({second}) {first}", "with a common table expression"
        hidden = re.sub(r"(?i)\bSELECT\b", "SELECT '--' AS torba,", first, count=1)
        yield f"{hidden} UNION ALL {second}", "with UNION behind a literal that looks like a comment"


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
    sql_queries: list[SqlQuery] = []
    in_json = [(start, end) for start, end, _ in objects_in(text)]
    for match in _QUERY_START.finditer(text):
        if (not sql_queries or match.start() >= sql_queries[-1].end) and len(sql_queries) < _MOST_QUERIES:
            query = _query_at(text, match.start(), in_json)
            sql_queries += [query] if query else []
    return sql_queries


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
