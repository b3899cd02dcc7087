"""EHRAgent's functions over two small tables: programs run for real, to see on which columns their output depends."""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import sqlite3
import statistics
from collections.abc import Callable
from typing import Any

pd: Any = None
with contextlib.suppress(ImportError):  # in no environment of the project; where it is, programs run on it, too
    pd = importlib.import_module("pandas")

Rows = list[dict[str, Any]]
Database = dict[str, Rows]
KINDS = ["dicts", "pandas"] if pd else ["dicts"]
DATABASE: Database = {
    "patient": [
        {"patientunitstayid": 1, "uniquepid": "p-1", "gender": "Male", "age": 50, "wardid": "ab"},
        {"patientunitstayid": 2, "uniquepid": "p-1", "gender": "Male", "age": 51, "wardid": ""},
        {"patientunitstayid": 3, "uniquepid": "p-2", "gender": "Female", "age": 9, "wardid": "abc"},
    ],
    "lab": [
        {"patientunitstayid": 1, "labname": "ph", "labresult": 7, "labresulttime": "2105-01"},
        {"patientunitstayid": 1, "labname": "ph", "labresult": 5, "labresulttime": "2104-02"},
        {"patientunitstayid": 2, "labname": "bun", "labresult": 0, "labresulttime": "2105-03"},
        {"patientunitstayid": 3, "labname": "ph", "labresult": 9, "labresulttime": ""},
    ],
}
SCHEMA = {name: [*rows[0]] for name, rows in DATABASE.items()}


def changed(database: Database, read: dict[str, list[str]], turn: int) -> Database:
    """Return a database that is another in every column that is not read, with as many rows."""
    return {
        name: [
            {
                column: value if {column, "*"} & {*read.get(name, ())} else other(value, place, turn)
                for column, value in row.items()
            }
            for place, row in enumerate(rows)
        ]
        for name, rows in database.items()
    }


def other(value: Any, place: int, turn: int) -> Any:
    if isinstance(value, int):
        return [90 - place, 0, place % 2][turn]
    return [f"z{'y' * (5 - place)}", "", "ph" if place % 2 else "gender"][turn]


def holds(row: dict[str, Any], command: str) -> bool:
    for operator, test in TESTS.items():
        column, separator, value = command.partition(operator)
        if separator:
            return test(row[column], value)
    return True


def typed(cell: Any, value: str) -> Any:
    with contextlib.suppress(ValueError):
        return type(cell)(value)
    return value


def among(cell: Any, value: str) -> bool:
    return cell in [typed(cell, part.strip().strip("'\"")) for part in value.strip("[]").split(",")]


TESTS: dict[str, Callable[[Any, str], bool]] = {
    ">=": lambda cell, value: cell >= typed(cell, value),
    "<=": lambda cell, value: cell <= typed(cell, value),
    ">": lambda cell, value: cell > typed(cell, value),
    "<": lambda cell, value: cell < typed(cell, value),
    "=": lambda cell, value: bool(cell == typed(cell, value)),
    " in ": among,
}


class EhrTools:
    """The functions of one run; its tables are lists of dicts, or frames of pandas."""

    def __init__(self, database: Database, kind: str) -> None:
        self.database, self.kind = database, kind

    def table(self, rows: Rows, columns: list[str]) -> Any:
        return pd.DataFrame(rows, columns=columns) if self.kind == "pandas" else [*rows]

    def rows(self, table: Any) -> Rows:
        return table if isinstance(table, list) else table.to_dict("records")

    def load(self, name: str) -> Any:
        return self.table([dict(row) for row in self.database[name]], SCHEMA[name])

    def filter(self, table: Any, argument: str) -> Any:
        """As the agent's tool does: the first of its operators that is found in a command, in this order."""
        columns = [*(self.rows(table)[0] if len(table) else ())] if self.kind == "dicts" else [*table.columns]
        rows = self.rows(table)
        for command in argument.split("||"):
            extreme = next((word for word in ("max", "min") if word in command), None)
            if rows and not any(operator in command for operator in TESTS) and extreme:
                column = command.split(f"{extreme}(")[1].split(")")[0]
                best = (max if extreme == "max" else min)(row[column] for row in rows)
                rows = [row for row in rows if row[column] == best]
            else:
                rows = [row for row in rows if holds(row, command)]
        return self.table(rows, columns)

    def value(self, table: Any, argument: str) -> Any:
        column, *how = argument.split(", ")
        cells = [row[column] for row in self.rows(table)]
        if not how:
            return str(cells[0]) if len(cells) == 1 else ", ".join(sorted({str(cell) for cell in cells}))
        if "list" in how[-1]:
            return [str(cell) for cell in cells]
        numbers = [float(cell) for cell in cells]
        totals: dict[str, Callable[[list[float]], float]] = {"max": max, "min": min, "sum": sum}
        return totals.get(how[-1], statistics.fmean)(numbers)

    def sql(self, query: str) -> Any:
        with contextlib.closing(sqlite3.connect(":memory:")) as connection:
            for name, rows in self.database.items():
                connection.execute(f"create table {name} ({', '.join(SCHEMA[name])})")
                marks = ", ".join("?" * len(SCHEMA[name]))
                connection.executemany(f"insert into {name} values ({marks})", [[*row.values()] for row in rows])  # noqa: S608
            return connection.execute(query).fetchall()


def output(code: str, database: Database, kind: str) -> str:
    """Run a program; return what it prints, its answer, and the error that it ends with."""
    tools = EhrTools(database, kind)
    names: dict[str, Any] = {
        "LoadDB": tools.load,
        "FilterDB": tools.filter,
        "GetValue": tools.value,
        "SQLInterpreter": tools.sql,
        "Calendar": lambda _: "2105-12-31",
        "Calculate": lambda _: 5,
    }
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "program", "exec"), names)  # noqa: S102 - written by the generator below
    except Exception as error:  # noqa: BLE001 - programs fail as they like
        return re.sub(r"0x\w+", "", f"{printed.getvalue()}\n{type(error).__name__}: {error}")
    return re.sub(r"0x\w+", "", f"{printed.getvalue()}\n{names.get('answer')!r}")
