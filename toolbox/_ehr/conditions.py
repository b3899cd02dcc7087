"""The columns named in the arguments of FilterDB and GetValue.

FilterDB splits its text at `||` into commands, and takes the text before the operator of a command as its column;
a command without an operator is `max(column)` or `min(column)`. The text after the operator is a value, and only
selects rows. So a value may contain data: data cannot move the operator to the left, since the
column and the first operator are known, and an operator within the data (the tool splits `a=x>=5` at `>=`) gives a
column name that no table has. Data could only end the command, with a `||`. A string of the code that may contain a
`||` is refused, or known and split here; this includes a `|` beside data that may be empty (`|DATA|`, `|DATA`). A
condition directly after data (`a=DATAb>5`) counts as a condition, in case a separator was cut out of the data. It is
assumed that no *stored* value contains `||COLUMN` or SQL. A value that names a column, which some tools would read
(`a>b`, `a=1 and b=2`, `a=max(b)`), counts as a read of it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from .strings import is_marked, pieces_of, spelled
from .values import DATA, MURKY, OPEN

OPERATOR = re.compile(
    r"(?i)>=|<=|<>|[<>=]|\s(?:not\s+)?(?:in|i?like|between|contains|includes|startswith|endswith|regexp|glob)\b"
    r"|\s(?:starts|ends)[ _]with\b|\sis\b|\s(?:isnull|notnull)\b"
)
EXTREME = re.compile(r"\s*(?:max|min)\s*\(([^)]*)\)?\s*")
CALL = re.compile(r"\w+\(\s*['\"`]?(\w+)['\"`]?\s*(?:\)|$)")
ENDS = re.compile(rf"\|{DATA}?\||\|{DATA}|{DATA}\|(?!{DATA}?\|)")
ALSO = re.compile(rf"(?i)\s(?:and|or)\b|&+|\||{DATA}")
WORD = re.compile(r"\w+")
LEADING = re.compile(r"(?i)^(?:(?:not|where|and|or|if)\s+)+")
SELECT = re.compile(r"(?i)\(\s*select\b")
AGGREGATES = frozenset(
    "count mean max min sum list avg average median mode unique distinct first last set std var nunique len length"
    " maximum minimum total value values all tolist array".split()
)


def condition_columns(text: str, known: Collection[str] | None) -> Iterator[str]:
    """Yield the columns that a text of FilterDB names, and `MURKY` for columns that cannot be determined.

    Args:
        text: with data and groups in it.
        known: the columns of the table, None if unknown.
    """
    # A piece that ends no command must not build a name of a column with others: it holds data, or no letters. Then
    # three pieces show all: where a command starts, what follows, and where the next one ends.
    pieces = pieces_of(text) if OPEN in text else []
    if any(DATA not in piece and "|" not in piece and re.search(r"\w", piece) for piece in pieces):
        yield MURKY
    for words in spelled(text, 3) if pieces else (text,):
        for command in filter(str.strip, ENDS.split(words)):
            yield from _command_columns(command, known)


def _command_columns(command: str, known: Collection[str] | None) -> Iterator[str]:
    operator, extreme = OPERATOR.search(command), EXTREME.match(command)
    head = command[: operator.start()] if operator else command
    if extreme and extreme.end() >= len(head.rstrip()):
        head = extreme[1]
    yield from _head_columns(head, known, alone=not operator)
    if operator:
        value = command[operator.end() :]
        yield from _value_columns(value, known)
        if DATA in value:
            yield from _value_columns(value.replace(DATA, ""), known)


def _head_columns(head: str, known: Collection[str] | None, *, alone: bool) -> Iterator[str]:
    """Yield the columns before an operator: one, or those that an expression names."""
    head = LEADING.sub("", head.strip()).strip(" \t\n'\"`[]()!~")
    if WORD.fullmatch(head):
        yield head
    elif not head or is_marked(head):
        yield MURKY
    elif names := [name for name in WORD.findall(head) if name in (known or ())]:
        yield from names
    else:
        call = CALL.match(head)
        yield call[1] if call else MURKY if alone else head


def _value_columns(value: str, known: Collection[str] | None) -> Iterator[str]:
    """Yield the columns that a value names: another column, one in a call, and further conditions after `and`."""
    if SELECT.search(value):
        yield MURKY
    calls = [match for match in CALL.finditer(value) if known is not None or match[0].startswith(("max", "min"))]
    first, *others = ALSO.split(value) if ALSO.search(value) else [value]
    names = [match[1] for match in calls] + [first.strip(" \t\n'\"`()")] * bool(known)
    for other in others:
        operator = OPERATOR.search(other)
        names += WORD.findall(other[: operator.start()]) if operator and known else []
    yield from (name for name in names if known is None or name in known)


def value_columns(text: str, known: Collection[str] | None) -> list[str]:
    """Return the columns that a text of GetValue names: those between its commas, without what is done with them."""
    parts = [_column(part) for part in text.split(",")]
    while len(parts) > 1 and is_aggregate(parts[-1]) and parts[-1] not in (known or ()):
        parts.pop()
    return parts


def _column(part: str) -> str:
    call = CALL.fullmatch(part.strip())
    part = call[1] if call else part.strip(" \t\n'\"[]()")
    return re.sub(r"(?i)^(?:distinct|unique)\s+(?=\w)", "", part) or MURKY


def is_aggregate(part: str) -> bool:
    return part.isdigit() or all(word in AGGREGATES for word in part.lower().split())
