"""The functions of the pack's rules."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from guardagent.packs.arguments import named_values, strings
from guardagent.packs.sql.computing_functions import COMPUTING
from guardagent.packs.sql.narrowing import is_narrow
from guardagent.packs.sql.parser import exp, readings

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
            kinds |= _of_text(text, dialect, tuple(one.lower() for one in functions))
    return sorted(kinds - {"write"} | ({"statement"} if "write" in kinds and not writes else set()))


@lru_cache(1024)
def _of_text(text: str, dialect: str, functions: tuple[str, ...]) -> frozenset[str]:
    explained = re.match(
        r"\s*EXPLAIN\b(?:\s+(?:ANALY[ZS]E|VERBOSE|EXTENDED|QUERY\s+PLAN|FORMAT\s*=\s*\w+|\((?:[\w\s,]*)\)))*\s+(?=\w|\()",
        text, re.IGNORECASE,
    )  # fmt: skip
    found = readings(text[explained.end() :] if explained else text, dialect)
    if not found:
        return frozenset({"unreadable"})
    try:
        return frozenset(kind for one in found for kind in _of_statements(one, COMPUTING | set(functions)))
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
        if isinstance(node, exp.Update | exp.Delete) and not is_narrow(node):
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
    if any(_CREDENTIALS.match(one) for one in (name, table.name.lower(), name.replace("..", "."))):
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
