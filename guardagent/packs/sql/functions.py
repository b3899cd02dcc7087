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

from guardagent.packs.sql.narrowing import is_narrow

_NAMES = frozenset(
    "sql query queries statement statements sqlquery querystring querytext sqlstatement sqltext sqlstring stmt q "
    "command commands script code text input".split()
)
READING = (exp.Query, exp.Values, exp.Table, exp.Describe, exp.Show, exp.Transaction, exp.Commit, exp.Rollback)
WRITING = (exp.Insert, exp.Update, exp.Delete)
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
    r"(?:^|_)(?:pass(?:word|wd|phrase|code)s?|pwd?|pins?|secrets?|ssn|cv[vc]2?|credentials?|salt|authentication_string|rolpassword"
    r"|(?:user|db|login)_?pass|(?:api|private|secret|access|encryption|auth|signing|master|ssh)_?keys?"
    r"|(?<!page_)(?<!next_)(?<!sync_)(?<!continuation_)token|(?:access|refresh|auth|session|reset|api)_?tokens?"
    r"|(?:totp|mfa|otp|2fa)_?(?:secret|seed|code|key)?s?|(?:recovery|backup|security)_?(?:code|answer)s?"
    r"|(?:credit_?)?card_?number|pass_?hash)(?:_?(?:hash|hashed|digest|enc|encrypted|salt|plain|text|value))?\d*$"
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


EXPLAINED = re.compile(
    r"\s*EXPLAIN\b(?:\s+(?:ANALY[ZS]E|VERBOSE|EXTENDED|QUERY\s+PLAN|FORMAT\s*=\s*\w+|\((?:[\w\s,]*)\)))*\s+(?=\w|\()",
    re.IGNORECASE,
)


@lru_cache(1024)
def _of_text(text: str, dialect: str, functions: tuple[str, ...]) -> frozenset[str]:
    explained = EXPLAINED.match(text)
    statements = readings(text[explained.end() :] if explained else text, dialect)
    if not statements:
        return frozenset({"unreadable"})
    known = _COMPUTING | set(functions)
    try:
        kinds = frozenset(kind for statement in statements for kind in _of_statements(statement, known))
    except RecursionError:  # nested too deeply
        return frozenset({"unreadable"})
    planned = explained and "several" not in kinds and not re.search("ANALY[ZS]E", explained[0], re.IGNORECASE)
    return kinds - {"write", "every_row"} if planned else kinds  # a plan alone changes nothing


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
    if not shown and not isinstance(statement, (*READING, *WRITING)) and not _is_values(statement):
        yield "statement"


def _is_values(node: exp.Expr) -> bool:
    """Whether a node is `VALUES (1)` as the dialects read it that also have a function with this name."""
    return isinstance(node, exp.Anonymous) and node.parent is None and node.name.upper() == "VALUES"


def _of_node(node: exp.Expr, functions: frozenset[str]) -> Iterator[str]:
    if isinstance(node, WRITING):
        yield "write"
        adds = isinstance(node, exp.Insert) and not (node.args.get("conflict") or node.args.get("alternative"))
        if node.args.get("overwrite") or not (adds or is_narrow(node)):
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
    elif isinstance(node, exp.Column | exp.Dot) and not _is_assigned(node):
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", node.name).lower()  # accessToken
        if _SECRETS.search(words) or is_whole_row(node):
            yield "secret_columns"


def is_computing(function: exp.Func) -> bool:
    """Whether a function only computes a value."""
    return _is_allowed(function, _COMPUTING)


def _is_allowed(function: exp.Func, functions: frozenset[str]) -> bool:
    parent = function.parent
    if isinstance(parent, exp.Dot) and parent.expression is function:  # of a schema or a package
        return f"{parent.this.sql()}.{function.name}".lower() in functions
    if isinstance(function, exp.Anonymous):
        return _is_values(function) or function.name.lower() in functions
    name = function.sql_name().lower()
    return name in functions or name in _NEAR or (name not in _FAR and not name.startswith(_FAR_PREFIXES))


def _of_table(table: exp.Table) -> Iterator[str]:
    name = ".".join(part.name for part in table.parts).lower()
    if any(_CREDENTIALS.match(spelling) for spelling in (name, table.name.lower(), name.replace("..", "."))):
        yield "credentials"
    if isinstance(table.this, exp.Literal) or _FILE.search(table.name):
        yield "file"


def is_whole_row(column: exp.Expr) -> bool:
    """Whether a column is a row of a table, as in `SELECT users FROM users` and `row_to_json(u.*)`."""
    if isinstance(column, exp.Dot) or isinstance(column.parent, exp.Count):
        return False
    if isinstance(column.this, exp.Star):
        return not isinstance(column.parent, exp.Select | exp.Returning)
    query: exp.Expr | None = column
    while not column.args.get("table") and query is not None:
        query = query.find_ancestor(exp.Select, exp.Update, exp.Delete)
        if query and any(_is_row_of(column, source) for source in _sources(query)):
            return True
    return False


def _sources(query: exp.Expr) -> Iterator[exp.Expr]:
    """The tables and queries from which a query reads, or which it changes."""
    origin, using = query.args.get("from_"), query.args.get("using")
    first = [query.this] if isinstance(query, exp.Update | exp.Delete) else []
    for source in [*first, *([origin.this] if origin else []), *(using if isinstance(using, list) else [])]:
        yield source
        yield from (join.this for join in source.args.get("joins") or ())
    yield from (join.this for join in query.args.get("joins") or ())


def _is_row_of(column: exp.Expr, source: exp.Expr) -> bool:
    """Whether a column is a row of a table. One of a query whose columns are named shows no more than these."""
    if column.name.lower() != source.alias_or_name.lower():
        return False
    common = {query.alias.lower() for query in column.root().find_all(exp.CTE)}
    if isinstance(source, exp.Table):
        return isinstance(source.this, exp.Identifier) and source.name.lower() not in common
    return isinstance(source, exp.Subquery) and bool(source.this.find(exp.Star))


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


def readings(text: str, dialect: str) -> list[list[exp.Expr]]:
    """The statements of a text, once for each dialect that reads it differently or alike; empty if none can.

    Args:
        text: one or more statements.
        dialect: a dialect of sqlglot, such as postgres; empty if it is not known.
    """
    if len(text) > MAX_CHARACTERS or _AMBIGUOUS.search(text):
        return []
    if dialect:
        readings = _readings_of(text, (dialect,))
        values = re.match(r"\s*VALUES\s*\(", text, re.IGNORECASE) and "\\" not in text
        return readings or (_readings_of(text, ("",)) if values else [])
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
