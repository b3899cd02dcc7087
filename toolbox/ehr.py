"""Static analysis of EHRAgent code: the databases and columns that it reads.

Abstract interpretation of the syntax tree over sets of possible values (see `_ehr/values.py`); the code is never run.
Code that cannot be analyzed is an error.

The package has another reader of Python, `guardagent.workflow.python_source`. It asks what a function may call, whom it
asks and what it returns; code that it does not understand may have any value. This reader asks which columns reach an
output. So its values are tables, columns and texts of which a part is data, and it knows the methods of pandas. It is
content: it lies in the toolbox, so that a lock and the header of a compiled program notice each change. The tests of
both read the same functions.
"""

from __future__ import annotations

from functools import lru_cache

from ._ehr.log import read_log
from ._ehr.sql import Interpreter
from ._ehr.values import LIMIT


def columns_read(code: str, schema: dict[str, list[str]] | None = None) -> dict[str, list[str]]:
    """The databases and columns that EHRAgent code reads.

    Args:
        code: the code, or the whole log, of which all attempts count, failed, unreachable and escaped ones too.
        schema: database -> its columns, to resolve those of joined tables.

    Returns:
        database -> columns, sorted: "*" for all of them, none if the database is only loaded.

    Raises:
        ValueError: the columns cannot be determined; the message says where and why.
    """
    if not isinstance(code, str):
        raise ValueError(f"the code is a {type(code).__name__}; expected a string")  # noqa: TRY004 - the contract
    if not all(isinstance(columns, list | tuple) for columns in (schema or {}).values()):
        raise ValueError("the schema is not a mapping of databases to lists of columns")
    known = tuple(sorted((database, tuple(columns)) for database, columns in (schema or {}).items()))
    return {database: list(columns) for database, columns in _read(code, known)}


@lru_cache(maxsize=8)  # the host repeats the check of the program
def _read(code: str, schema: tuple[tuple[str, tuple[str, ...]], ...]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if len(code) > LIMIT:
        raise ValueError(f"the text is longer than {LIMIT} characters")
    reader = Interpreter({database: list(columns) for database, columns in schema})
    try:
        read_log(code, reader)
    except (RecursionError, MemoryError):
        raise ValueError("the code is nested too deeply to follow") from None
    except LookupError:
        raise ValueError("a call in the code lacks arguments") from None
    return tuple((database, tuple(sorted(columns))) for database, columns in sorted(reader.found.items()))
