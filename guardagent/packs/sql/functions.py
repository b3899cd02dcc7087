"""The functions of the pack's rules."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from guardagent._support.requirements import install_hint
from guardagent.errors import InputError
from guardagent.packs import named_values, strings

try:
    import sqlglot
    from sqlglot import exp
except ImportError:
    raise InputError(f"reading SQL needs one more package; {install_hint('sql')}") from None

_NAMES = frozenset(
    "sql query queries statement statements sqlquery querystring querytext sqlstatement sqltext sqlstring stmt q "
    "command commands script code text input".split()
)
_READING = (exp.Query, exp.Values, exp.Table, exp.Describe, exp.Show, exp.Transaction, exp.Commit, exp.Rollback)
_WRITING = (exp.Insert, exp.Update, exp.Delete)
_FORBIDDEN = (
    exp.DDL, exp.DML, exp.Command, exp.Into, exp.Directory, exp.QueryTransform, exp.Set, exp.Pragma, exp.Attach,
    exp.Merge, exp.Copy, exp.Kill, exp.Use,
)  # fmt: skip
# Functions that the parser knows, and that reach files, the network or models, or name tables as they run.
_FAR = frozenset(
    "read_csv read_parquet net_func to_file predict secret dynamic_identifier safe_func vector_search "
    "search features_at_time".split()
)
_FAR_PREFIXES = ("ai_", "m_l_", "a_i_", "generate_")
_NEAR = frozenset("generate_series generate_date_array generate_timestamp_array".split())
_CREDENTIALS = re.compile(
    r"(?:pg_(?:shadow|authid|user|auth_members|user_mappings?|hba_file_rules|ident_file_mappings|file_settings)"
    r"|pg_(?:subscription|largeobject)"
    r"|mysql\.\w+|(?:master|sys|msdb)\..*\b(?:sql_logins|syslogins|server_principals|sysxlogins|credentials|user\$|link\$)"
    r"|syslogins|sysusers|sql_logins|server_principals|sysxlogins|(?:dba|cdb)_(?:users|db_links)\w*|user\$|link\$|default_pwd\$"
    r"|user_history\$|system\.(?:users|user_directories)|.*\.login_history)$"
)
_SECRETS = re.compile(
    r"(?:^|_)(?:password|passwords|passwd|pwd|passphrase|secret|secrets|ssn|cvv|cvc|(?:api|private|secret|access|encryption)_?key|"
    r"(?:access|refresh|auth|session|reset|api)_?token|(?:totp|mfa|otp)_?\w*|(?:credit_?)?card_?number|authentication_string|"
    r"rolpassword|password_?hash|pass_?hash|salt)(?:_(?:hash|hashed|digest|enc|encrypted|salt|plain))?$"
)
_FILE = re.compile(r"[/\\]|://|\.(?:csv|tsv|json|jsonl|ndjson|parquet|db|sqlite|txt|xlsx?|gz)$", re.IGNORECASE)

# Functions of databases that only compute, besides those that the parser knows.
_COMPUTING = frozenset(
    (
        "addtime age any_value approx_count_distinct array_agg array_append array_cat array_length array_position "
        "array_remove array_to_json arraysum bin_to_uuid bm25 bool_and bool_or btrim cardinality casefold ceil "
        "ceiling changes char_length character_length charindex checksum choose clock_timestamp col_description "
        "concat_ws connection_id cosine_distance cot countif crc32 curdate current_database current_schema currval "
        "curtime database date date_diff date_format date_part dateadd datefromparts datename datepart daterange "
        "datetime datetime2fromparts datetrunc dayofweek dayofyear decode difference digest div encode endswith "
        "eomonth every field find_in_set floor format_date format_type found_rows from_unixtime gcd "
        "gen_random_uuid generate_subscripts getdate getutcdate glob hashbytes hex highlight hour ifnull iif "
        "inet_aton inet_ntoa inner_product instr int4range isdate isempty isjson isnull isnumeric json json_agg "
        "json_array json_array_elements json_array_elements_text json_array_length json_build_array "
        "json_build_object json_contains json_each json_each_text json_extract_path json_extract_path_text "
        "json_group_array json_group_object json_keys json_length json_merge_patch json_modify json_object "
        "json_object_agg json_object_keys json_patch json_query json_quote json_search json_tree json_type "
        "json_typeof json_unquote json_valid json_value jsonb jsonb_agg jsonb_array_elements "
        "jsonb_array_elements_text jsonb_array_length jsonb_build_array jsonb_build_object jsonb_each "
        "jsonb_each_text jsonb_extract_path_text jsonb_object_agg jsonb_object_keys jsonb_path_exists "
        "jsonb_path_query jsonb_pretty jsonb_set jsonb_strip_nulls jsonb_typeof julianday l2_distance last_day "
        "last_insert_id last_insert_rowid lastval lcm len levenshtein likelihood listagg locate log10 log2 lower "
        "lower_inf lpad ltrim make_date make_timestamp makedate md5 metaphone minute mod month_name months_between "
        "newid now ntile num_nonnulls num_nulls numrange nvl obj_description octet_length overlay parse parse_date "
        "patindex percentile period_add pg_database_size pg_get_constraintdef pg_get_indexdef pg_get_viewdef "
        "pg_indexes_size pg_relation_size pg_size_pretty pg_table_size pg_total_relation_size pg_typeof "
        "phraseto_tsquery plainto_tsquery pow printf quarter quote quote_ident quote_literal quotename "
        "regexp_count regexp_like regexp_matches regexp_replace regexp_split_to_array regexp_split_to_table "
        "regexp_substr row_count row_to_json rownum rpad rtrim safe_divide schema sec_to_time second sha1 sha256 "
        "sign similarity snippet soundex sqlite_source_id sqlite_version square st_area st_asgeojson st_astext "
        "st_contains st_dwithin st_geomfromtext st_intersects st_length st_makepoint st_setsrid st_within st_x "
        "st_y startswith statement_timestamp stddev_samp stdev str strftime string_agg string_escape string_split "
        "string_to_table subtime sysdate sysdatetime sysutcdatetime time time_to_sec timediff timestamp_trunc "
        "timezone to_clob to_date to_json to_jsonb to_number to_regclass to_timestamp to_tsquery to_tsvector total "
        "total_changes translate trim_array trunc truncate try_convert ts_headline ts_rank tsrange unaccent unistr "
        "unix_timestamp unixepoch unlikely upper user uuid_generate_v4 uuid_to_bin var version "
        "websearch_to_tsquery weekday width width_bucket word_similarity xmlagg zeroblob "
    ).split()
)


def sql_findings(arguments: dict[str, Any], dialect: str, writes: bool, functions: Sequence[str]) -> list[str]:  # noqa: FBT001
    """The kinds of danger in the arguments of a call that runs SQL; without a statement, it is unreadable.

    Args:
        arguments: the arguments; the statement is `sql`, `query`, `statement`, ...
        dialect: the dialect of sqlglot; empty to read the text in several.
        writes: whether INSERT, UPDATE and DELETE are allowed.
        functions: the further functions that are allowed.
    """
    values = list(named_values(arguments, _NAMES))
    kinds: set[str] = set() if values else {"unreadable"}
    for value in values:
        texts = strings(value)
        kinds |= {"unreadable"} if texts is None else set()
        for text in texts or ():
            kinds |= _of_text(text, dialect, tuple(function.lower() for function in functions))
    return sorted(kinds - {"write"} | ({"statement"} if "write" in kinds and not writes else set()))


@lru_cache(1024)
def _of_text(text: str, dialect: str, functions: tuple[str, ...]) -> frozenset[str]:
    explained = re.match(
        r"\s*EXPLAIN\b(?:\s+(?:ANALY[ZS]E|VERBOSE|EXTENDED|QUERY\s+PLAN|FORMAT\s*=\s*\w+|\((?:[\w\s,]*)\)))*\s+(?=\w|\()",
        text, re.IGNORECASE,
    )  # fmt: skip
    statements = _readings(text[explained.end() :] if explained else text, dialect)
    if not statements:
        return frozenset({"unreadable"})
    try:
        return frozenset(
            kind for statement in statements for kind in _of_statements(statement, _COMPUTING | set(functions))
        )
    except RecursionError:  # nested too deeply
        return frozenset({"unreadable"})


def _of_statements(statements: list[exp.Expr], functions: frozenset[str]) -> Iterator[str]:
    if len(statements) > 1:
        yield "several"
    for statement in statements:
        yield from _of_root(statement)
        for node in statement.walk():
            yield from _of_node(node, functions)


def _of_root(statement: exp.Expr) -> Iterator[str]:
    shown = isinstance(statement, exp.Command) and str(statement.this).upper() == "SHOW"
    if shown and not re.fullmatch(r"[\w\s.'%`]*", str(statement.expression)):
        yield "statement"
    if not shown and not isinstance(statement, (*_READING, *_WRITING)):
        yield "statement"


def _of_node(node: exp.Expr, functions: frozenset[str]) -> Iterator[str]:
    if isinstance(node, _WRITING):
        yield "write"
        if isinstance(node, exp.Insert) and node.args.get("overwrite"):
            yield "every_row"
        if isinstance(node, exp.Update | exp.Delete) and not _is_narrow(node):
            yield "every_row"
    elif isinstance(node, _FORBIDDEN) and not isinstance(node, exp.Query | exp.Values):
        yield (
            ""
            if isinstance(node, exp.Command) and node.parent is None and str(node.this).upper() == "SHOW"
            else "statement"
        )
    elif isinstance(node, exp.Func) and not _is_allowed(node, functions):
        yield "function"
    elif isinstance(node, exp.Table):
        yield from _of_table(node)
    elif isinstance(node, exp.Column | exp.Dot) and _SECRETS.search(node.name.lower()) and not _is_assigned(node):
        yield "secret_columns"


def _is_allowed(function: exp.Func, functions: frozenset[str]) -> bool:
    parent = function.parent
    if isinstance(parent, exp.Dot) and parent.expression is function:  # of a schema or a package
        return f"{parent.this.sql()}.{function.name}".lower() in functions
    if isinstance(function, exp.Anonymous):
        return function.name.lower() in functions
    name = function.sql_name().lower()
    return name in functions or name in _NEAR or (name not in _FAR and not name.startswith(_FAR_PREFIXES))


def _of_table(table: exp.Table) -> Iterator[str]:
    name = ".".join(part.name for part in table.parts).lower()
    if any(_CREDENTIALS.match(spelling) for spelling in (name, table.name.lower(), name.replace("..", "."))):
        yield "credentials"
    if isinstance(table.this, exp.Literal) or _FILE.search(table.name):
        yield "file"


def _is_assigned(column: exp.Expr) -> bool:
    """Whether an UPDATE gives the column a value."""
    return (
        isinstance(column.parent, exp.EQ)
        and isinstance(column.parent.parent, exp.Update)
        and column.parent.left is column
    )


# --- the parser

MAX_CHARACTERS = 20_000
_DIALECTS = ("", "postgres", "mysql", "sqlite")
_FURTHER = ("tsql", "oracle", "bigquery", "snowflake", "duckdb")  # read only text that the others cannot read
# MySQL runs comments with '!', and ends a nested comment where other databases do not.
_AMBIGUOUS = re.compile(r"/\*M?!|/\*(?:(?!\*/).)*?/\*|\0", re.DOTALL)
logging.getLogger("sqlglot").addFilter(lambda record: "Falling back" not in record.getMessage())


def _readings(text: str, dialect: str) -> list[list[exp.Expr]]:
    """The statements of a text, once for each dialect that reads it differently or alike; empty if none can.

    Args:
        text: one or more statements.
        dialect: a dialect of sqlglot, such as postgres; empty if it is not known.
    """
    if len(text) > MAX_CHARACTERS or _AMBIGUOUS.search(text):
        return []
    if dialect:
        return _readings_of(text, (dialect,))
    return _readings_of(text, _DIALECTS) or _readings_of(text, _FURTHER)


def _readings_of(text: str, dialects: tuple[str, ...]) -> list[list[exp.Expr]]:
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


def _is_narrow(statement: exp.Expr) -> bool:
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
