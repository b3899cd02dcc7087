"""The parser of SQL, and whether the condition of a DELETE or UPDATE selects only some rows.

Only conditions that are known to do so count.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator

from guardagent.errors import InputError

try:
    import sqlglot
    from sqlglot import exp as exp  # noqa: PLC0414 - `functions` takes it from here, after this check
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
    readings = []
    for dialect in dialects:
        try:
            parsed = sqlglot.parse(text, read=dialect or None)
        except (sqlglot.errors.SqlglotError, RecursionError, ValueError):
            continue
        statements: list[exp.Expr] = [
            statement for statement in parsed if statement is not None and not isinstance(statement, exp.Semicolon)
        ]
        if statements:
            readings.append(statements)
    return readings


# --- conditions

_ID = re.compile(r"(?:^|_)(?:id|pk|rowid|uuid|key)$", re.IGNORECASE)
_TIME = re.compile(r"_(?:at|on|date|time|until)$", re.IGNORECASE)
_PAST = re.compile(r"(?:^|_)(?:created|updated|modified|inserted|added|registered|born)(?:_|$)", re.IGNORECASE)
_ARITHMETIC = (
    exp.Mul,
    exp.Div,
    exp.Mod,
    exp.Add,
    exp.Sub,
    exp.Case,
    exp.If,
    exp.BitwiseAnd,
    exp.BitwiseOr,
    exp.BitwiseXor,
)


def is_narrow(statement: exp.Expr) -> bool:
    """Whether a DELETE or UPDATE has a condition that is false for some rows, as far as its text shows."""
    where = statement.args.get("where")
    if where is None or _joins_itself(statement):
        return False
    return _narrows(where.this, {target.name.lower() for target in _targets(statement)})


def _joins_itself(statement: exp.Expr) -> bool:
    """Whether a table has two names: `a.id = b.id` is true for every row then."""
    inner = {id(table) for query in statement.find_all(exp.Query) for table in query.find_all(exp.Table)}
    tables = [outer_table for outer_table in statement.find_all(exp.Table) if id(outer_table) not in inner]
    names = {(table.name.lower(), table.alias_or_name.lower()) for table in tables}
    return len(names) > len({name for name, _ in names})


def _targets(statement: exp.Expr) -> Iterator[exp.Table]:
    if statement.this is not None:
        yield from statement.this.find_all(exp.Table)


def _narrows(condition: exp.Expr, tables: set[str]) -> bool:
    if condition.args.get("negate"):
        return _negation_narrows(_positive(condition), tables)
    match condition:
        case exp.Paren():
            return _narrows(condition.this, tables)
        case exp.And():
            return _narrows(condition.left, tables) or _narrows(condition.right, tables)
        case exp.Or():
            return _narrows(condition.left, tables) and _narrows(condition.right, tables)
        case exp.Not():
            return _negation_narrows(condition.this, tables)
        case exp.Column():
            return not _ID.search(condition.name) and not condition.this.args.get("quoted")
    return _comparison_narrows(condition, tables)


def _comparison_narrows(condition: exp.Expr, tables: set[str]) -> bool:
    match condition:
        case exp.EQ() | exp.NullSafeEQ():
            return _equality_narrows(condition.left, condition.right, tables)
        case exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
            return _bound_narrows(condition)
        case exp.Between():
            ends = (condition.args["low"], condition.args["high"])
            return _is_value(condition.this) and not any(map(_own_columns, ends)) and not _is_number(ends[0], most=1)
        case exp.Is():
            return _is_value(condition.this)
        case exp.In():
            return _membership_narrows(condition, tables)
        case exp.Exists():
            return _query_narrows(condition.this, set())
        case exp.Like() | exp.ILike() | exp.SimilarTo() | exp.Glob():
            return _pattern_narrows(condition, "%_*")
        case exp.RegexpLike() | exp.RegexpILike():
            return _pattern_narrows(condition, ".*+?^$()|")
    return False


def _positive(condition: exp.Expr) -> exp.Expr:
    """A condition such as NOT LIKE without its NOT, which is a flag for some dialects."""
    expr = condition.copy()
    expr.set("negate", None)
    return expr


def _negation_narrows(condition: exp.Expr, tables: set[str]) -> bool:
    if condition.args.get("negate"):
        return _narrows(_positive(condition), tables)
    match condition:
        case exp.Paren():
            return _negation_narrows(condition.this, tables)
        case exp.Not():
            return _narrows(condition.this, tables)
        case exp.Column():
            return not condition.this.args.get("quoted")
        case exp.Is():  # a time is missing until something happens
            return isinstance(condition.this, exp.Column) and bool(_TIME.search(condition.this.name))
        case exp.Exists():  # rows without a counterpart
            where = condition.this.find(exp.Where)
            return where is not None and any(
                isinstance(equality.left, exp.Column)
                and isinstance(equality.right, exp.Column)
                and equality.left.table != equality.right.table
                for equality in where.find_all(exp.EQ)
            )
    return False


def _own_columns(term: exp.Expr) -> list[exp.Column]:
    """The columns of a term, without those of queries inside it."""
    if isinstance(term, exp.Query):
        return []
    inner = [column for child in term.iter_expressions() for column in _own_columns(child)]
    return [term] if isinstance(term, exp.Column) else inner


def _is_value(term: exp.Expr) -> bool:
    """Whether a term depends on a row, in a way that is plain to see."""
    return bool(_own_columns(term)) and term.find(*_ARITHMETIC) is None


def _equality_narrows(left: exp.Expr, right: exp.Expr, tables: set[str]) -> bool:
    """A quoted name can be a string: MySQL and SQLite read "a" = 'a' as true."""
    if left == right or any(
        _can_be_same(column, other) for column in _own_columns(left) for other in _own_columns(right)
    ):
        return False
    if _is_text(left) and _is_text(right) and left.name.lower() == right.name.lower():
        return False
    if isinstance(left, exp.Literal) and isinstance(right, exp.Literal):
        return _differ(left, right)
    if isinstance(right, exp.Any):
        query = right.find(exp.Query)
        return _is_value(left) and (query is None or _query_narrows(query, tables))
    queries = [side for side in (left.unnest(), right.unnest()) if isinstance(side, exp.Query)]
    if isinstance(left, exp.Tuple) and isinstance(right, exp.Tuple):
        pairs = zip(left.expressions, right.expressions, strict=False)
        return any(_equality_narrows(pair, other, tables) for pair, other in pairs)
    return (_is_value(left) or _is_value(right)) and all(query.find(exp.Column, exp.Star) for query in queries)


def _differ(left: exp.Literal, right: exp.Literal) -> bool:
    """Whether two constants differ in every database: MySQL reads 'a' = 0 as true."""
    if left.is_string == right.is_string:
        return left.name.strip().lower() != right.name.strip().lower() and left.is_string
    return _number(left.name) != _number(right.name)


def _number(text: str) -> float:
    return float(match[0]) if (match := re.match(r"\s*-?\d+(?:\.\d+)?", text)) else 0.0


def _can_be_same(left: exp.Column, right: exp.Column) -> bool:
    return left.name.lower() == right.name.lower() and (not left.table or not right.table or left.table == right.table)


def _is_text(term: exp.Expr) -> bool:
    """Whether a term is a constant, or a quoted name, which can be one."""
    return isinstance(term, exp.Literal) or (isinstance(term, exp.Column) and bool(term.this.args.get("quoted")))


def _bound_narrows(condition: exp.Binary) -> bool:
    """`id > 0` selects every row, as does a bound that all values are above or below."""
    left, right = condition.left, condition.right
    column, bound = (left, right) if _own_columns(left) else (right, left)
    if not _is_value(column) or not isinstance(column, exp.Column) or bound.find(exp.Column, exp.Query):
        return False
    if column.this.args.get("quoted") and isinstance(bound, exp.Literal) and bound.is_string:
        return False
    upward = isinstance(condition, exp.GT | exp.GTE) == (column is left)
    if isinstance(bound, exp.Literal) and bound.is_string:
        return bound.name > "1990" if upward else bound.name < "2100" or not bound.name[:1].isdigit()
    if _PAST.search(column.name) and not upward and isinstance(bound, exp.Func) and bound.find(exp.Literal) is None:
        return False
    if upward:
        return not _is_number(bound, most=1 if _ID.search(column.name) else -1)
    return not _is_number(bound, least=10_000_000)


def _is_number(term: exp.Expr, *, least: float = float("-inf"), most: float = float("inf")) -> bool:
    """Whether a term is a number in a range, or NULL and the like."""
    try:
        number = float(term.this.name) * -1 if isinstance(term, exp.Neg) else float(term.name)
    except ValueError:
        return False
    return least <= number <= most


def _membership_narrows(condition: exp.In, tables: set[str]) -> bool:
    query = condition.args.get("query")
    if not _own_columns(condition.this) or condition.this.find(*_ARITHMETIC):
        return False
    if query is not None:
        return _query_narrows(query.unnest(), tables)
    return bool(condition.expressions) and all(
        _equality_narrows(condition.this, expression, tables) for expression in condition.expressions
    )


def _query_narrows(query: exp.Expr, tables: set[str]) -> bool:
    """Whether a query gives some rows only: it has a condition, a limit, or reads only other tables."""
    if not isinstance(query, exp.Query) or not query.find(exp.Table):
        return False
    where = query.find(exp.Where)
    if where is not None:
        return _narrows(where.this, set())
    return bool(tables) and not tables & {table.name.lower() for table in query.find_all(exp.Table)}


def _pattern_narrows(condition: exp.Expr, free: str) -> bool:
    pattern = condition.expression
    return _is_value(condition.this) and isinstance(pattern, exp.Literal) and bool(pattern.name.strip(free))
