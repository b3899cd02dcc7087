"""Rewrites SQL to equivalent forms, and embeds a denied query in an allowed one.

A program that matches the words of a query instead of parsing it confuses these.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from guardagent.programs.compile._transformations._sql import SqlQuery, queries_in
from guardagent.programs.compile.examples import Example
from guardagent.programs.compile.suite import RUN_TEXTS, Suite
from guardagent.programs.compile.transformations import Relation, Variant

ABOUT = "queries are rewritten (OR, comments, CTEs, aliases, sub-queries, quotes, case), or contain a denied query"

_MOST_DENIED = 4  # denied queries per query
_BREAKS = re.compile(r"\s+(?=(?:FROM|WHERE|JOIN|GROUP|ORDER)\b)|(?<=,)\s*", re.IGNORECASE)
_SPACE = re.compile(r"('(?:[^']|'')*')| ")
_KEYWORDS = re.compile(r"\b(?:SELECT|FROM|WHERE|JOIN|ON|AS|AND|OR|UNION|ALL|IN)\b")


def variants(example: Example, suite: Suite) -> Iterator[Variant]:
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
        one if one.alias_or_name else exp.alias_(one, f"v{number}") for number, one in enumerate(tree.expressions)
    ]
    tree.set("expressions", columns)
    return tree if len({one.alias_or_name for one in columns}) == len(columns) else None


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
    columns = [exp.alias_(one.unalias(), f"v{number}") for number, one in enumerate(tree.expressions)]
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
    denied = [one for one in suite.examples if one.label == 1]
    found = {other.sql: other for one in denied for other in queries_in(getattr(one, origin))}
    return [other for sql, other in found.items() if sql != query.sql]


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
