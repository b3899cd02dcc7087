"""The functions of strings that are code: the commands of a shell, and the statements of SQL.

Their readers are those of the packs `guardagent:shell` and `guardagent:sql`, and need their parsers.
"""

from __future__ import annotations

from typing import Any

from guardagent.policy.functions import rule_function
from guardagent.policy.language.values import Unknown


def _require_shell() -> None:
    from guardagent.packs.shell.script import require_parser

    require_parser()


def _require_sql() -> None:
    from guardagent.packs.sql import functions  # noqa: F401 - it says what to install


def _dialect_problem(dialect: str) -> str | None:
    from guardagent.packs.sql.statement_lists import unknown_dialect

    return unknown_dialect(dialect)


@rule_function("commands", ("text",), result="list", require=_require_shell)
def _commands(text: str) -> Any:
    """`commands(text)`: the shell's commands, also those in others: `argv`, `name`, `reads`, `writes`, `cwd`, `env`."""
    from guardagent.packs.shell.command_lists import command_list

    return _known(command_list(text))


@rule_function(
    "statements", ("text",), ("text",), required=1, result="list", require=_require_sql, problem=_dialect_problem
)
def _statements(text: str, dialect: str = "") -> Any:
    """`statements(sql, "postgres")`: the statements: `kind`, `tables`, `columns`, `functions`, `every_row`."""
    from guardagent.packs.sql.statement_lists import statement_list

    return _known(statement_list(text, dialect))


def _known(records: Any) -> Any:
    return Unknown(records) if isinstance(records, str) else records
