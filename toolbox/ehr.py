"""Which databases and columns a piece of EHRAgent code reads, told from its syntax tree.

The code is interpreted over sets of possible values (see `_ehr/values.py`), never run. What cannot be told is an error.
"""

from __future__ import annotations

from functools import lru_cache

from ._ehr.log import read_log
from ._ehr.sql import Interpreter
from ._ehr.values import LIMIT


def columns_read(code: str, schema: dict[str, list[str]] | None = None) -> dict[str, list[str]]:
    """The databases and columns that EHRAgent code reads.

    Args:
        code: the code, or a log with "Generated code:" sections, fenced blocks or "cell" texts. All attempts count,
            also such as failed or can never run, and code with escaped line breaks.
        schema: database -> columns it is known to have; it tells whose a column of joined tables is.

    Returns:
        database -> columns, sorted. "*" stands for every column; a database that is loaded and not read has none.

    Raises:
        ValueError: it cannot be told what the code reads; the message says where and why.
    """
    if not isinstance(code, str):
        raise ValueError(f"the code is no text, but {type(code).__name__}")  # noqa: TRY004 - the contract
    if not all(isinstance(columns, list | tuple) for columns in (schema or {}).values()):
        raise ValueError("the schema is no mapping of databases to lists of columns")
    known = tuple(sorted((database, tuple(columns)) for database, columns in (schema or {}).items()))
    return {database: list(columns) for database, columns in _read(code, known)}


@lru_cache(maxsize=8)  # the host checks again what the program has checked
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
