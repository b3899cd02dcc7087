"""EHRAgent's functions, and the methods of pandas on their tables."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

from .calls import Calls
from .conditions import condition_columns, is_aggregate, value_columns
from .reads import LOOSE
from .strings import HARMLESS, is_marked
from .values import (
    DATA,
    MURKY,
    NONE,
    OPEN,
    PLAIN,
    SOME,
    UNKNOWN,
    Args,
    Box,
    Function,
    Table,
    TablePart,
    ToolName,
    Value,
    with_made,
)
from .vocabulary import (
    BY,
    BY_NAME,
    GROWING,
    SAME,
    SPLITTING,
    TOTALS,
    words,
)

QUERY = re.compile(
    r"'[^']*'|\"[^\"]*\"|@\s*(?P<local>\w+)|\.\s*\w+|\b(?:and|or|not|in|True|False|None)\b|`(?P<quoted>[^`]*)`"
    r"|\b(?P<name>[^\W\d]\w*)|\W"
)
OPERATORS = frozenset([*"=<>[,+-*/", "in"])
JOINING = frozenset("_.([`")
HOW = frozenset(["left", "right", "inner", "outer", "cross"])
CALLING = frozenset(["apply", "applymap", "transform", "map"])
COUNTING = frozenset(["size", "ngroup", "cumcount"])
STORING = frozenset(["fillna", "replace", "where", "mask", "assign", "insert"])


class Tables(Calls):
    """Evaluates LoadDB, FilterDB, GetValue and operations on tables."""

    def t_loaddb(self, args: Args) -> Value:
        names = {name for name in self.leaves(args.all()) if isinstance(name, str)}
        if "**" in args.named or not names or any(map(is_marked, names)):
            self.fail("the database of LoadDB is only known at run time")
        for name in names:
            self.record(self.database(name))
        return frozenset(Table((TablePart(self.database(name)),)) for name in names)

    def target(self, args: Args, who: str) -> Iterator[tuple[Table, str]]:
        """Yield the tables and strings passed to an accessor. A non-string, such as a mask, names no column."""
        values = [*args.plain, *args.named.values()]
        frames = [value for value in values if any(isinstance(atom, Table) for atom in value)]
        others = self.leaves(*(value for value in values if value not in frames))
        texts = [x for x in others if isinstance(x, str)]
        funcs = frozenset(x for x in others if isinstance(x, Function))
        if others and others - funcs <= PLAIN:
            texts = [""]
            self.visit(funcs, self.elements(NONE.union(*frames)))
        if len(frames) != 1 or frames[0] & {DATA, MURKY} or not texts or MURKY in texts or "**" in args.named:
            self.fail(f"the table or the condition of {who} is only known at run time")
        yield from itertools.product([atom for atom in frames[0] if isinstance(atom, Table)], texts)

    def t_filterdb(self, args: Args) -> Value:
        tables = set()
        for table, text in self.target(args, "FilterDB"):
            tables.add(table)
            for column in condition_columns(text, self.columns_of(table)):
                self.charge()
                self.read(table, column)
        return frozenset(tables)

    def t_getvalue(self, args: Args) -> Value:
        targets = [*self.target(args, "GetValue")]
        named = [target for target in targets if not is_aggregate(target[1])]
        for table, text in named or targets:
            for column in value_columns(text, self.columns_of(table)):
                self.read(table, column)
        return SOME

    def columns_of(self, table: Table) -> frozenset[str] | None:
        """Return the columns of a table, None if unknown."""
        listed = [self.schema.get(part.name) for part in table.parts]
        return frozenset(itertools.chain(*filter(None, listed))) if all(listed) else None

    def table_method(self, table: Table, name: str, args: Args) -> Value:
        if table.shape in LOOSE:
            return self.row_method(table, name, args)
        frame, arguments = table._replace(shape="row" if table.shape == "row" else "frame"), args.all()
        if name in ("merge", "join"):
            return self.merged(frame, args, named=name == "merge")
        if name in ("query", "eval"):
            return self.queried(frame, self.choices(arguments))
        if name == "filter" and "items" in args.named:
            return self.pick(frame, args.named["items"], pair=False)
        if name == "to_dict" and table.shape in ("frame", "row"):
            return self.dicts(frame, args)
        columns, made = self.columns_in(frame, name, args)
        for column in columns:
            if column in (DATA, MURKY):
                self.escape(frozenset({frame}))
            else:
                self.read(frame, column)
        funcs = frozenset(atom for atom in arguments if isinstance(atom, Function))
        called = self.called(table, name, arguments, columns=bool(columns))
        if name == "pipe":
            return called
        tables = frozenset(atom for atom in called if isinstance(atom, Table))
        self.put_in(name, called - tables, arguments - funcs)
        if (name == "pivot_table" and args.plain) or (name[:5] == "pivot" and "values" in args.named):
            return SOME  # all of it is of the columns named
        out = self.derived(with_made(frame, made), table.shape, name, columns=bool(columns), funcs=bool(funcs))
        return (PLAIN if out == SOME and called == PLAIN else out) | tables

    def put_in(self, name: str, *values: Value) -> None:
        """Pass values to a method of a table, which may store them in it."""
        self.opaque(*values)
        atoms = NONE.union(*values)
        harmless = {atom for atom in atoms if isinstance(atom, str) and HARMLESS.fullmatch(atom)}
        if name in STORING and self.opaque(atoms - harmless) == UNKNOWN:
            self.fail("a string is added to a table")

    def row_method(self, row: Table, name: str, args: Args) -> Value:
        """Call a method of a row that is not a series, or of a column name."""
        this = frozenset({row})
        if name in ("get", "pop") and args.plain:
            return NONE.union(*(self.chosen(row, atom) for atom in args.plain[0]), *args.plain[1:])
        if name == "keys":
            return UNKNOWN
        if name in ("copy", "_asdict", "to_dict"):
            return this if name == "copy" else frozenset({row._replace(shape="record")})
        if self.opaque(args.all()) == UNKNOWN and (name in GROWING or name in STORING):
            self.fail("a string is added to a row")
        return self.opaque(this)

    def dicts(self, frame: Table, args: Args) -> Value:
        """Return the result of to_dict: a dict for each row or column, or one for all."""
        texts = NONE.union(*args.plain, *args.named.values())
        record = frozenset({frame._replace(shape="record")})
        if len(texts) > 1 or args.named.keys() - {"orient"} or not texts <= words("records index list dict series"):
            return self.opaque(frozenset({frame}))
        if not texts & {"records", "index"}:
            return record
        return frozenset({Box(self.here(), (record,), (MURKY,) if "index" in texts else None, sure=False)})

    def called(self, table: Table, name: str, arguments: Value, *, columns: bool) -> Value:
        """Call the function arguments of a method with groups, columns, rows or the whole table."""
        each: Value = frozenset({table._replace(shape="row")})
        if table.shape in ("groups", "windows") or name in ("pipe", "assign", "where", "mask"):
            each = frozenset({table._replace(shape="frame")})
        if table.shape == "windows" or name in ("agg", "aggregate", "transform"):  # it may be the cells of a column
            each = frozenset({table._replace(shape="frame"), table._replace(shape="row")})
        if name in ("agg", "aggregate") and columns:
            each = SOME
        if name in (*CALLING, "agg", "aggregate", "pipe", "assign", "where", "mask"):
            self.visit(frozenset(atom for atom in arguments if isinstance(atom, ToolName)), each)
        return NONE.union(*(self.repeat(func, [each]) for func in arguments if isinstance(func, Function)))

    def derived(self, frame: Table, shape: str, name: str, *, columns: bool, funcs: bool) -> Value:
        """Return the result of a table method; its arguments name columns, contain functions, or neither."""
        if name in ("iterrows", "itertuples"):
            return frozenset({frame._replace(shape=name)})
        if name in SPLITTING:
            return frozenset({frame._replace(shape=SPLITTING[name])})
        if (name == "drop_duplicates" and not columns) or (name in TOTALS and shape == "row"):
            self.escape(frozenset({frame}))
        if name in SAME or (funcs and name == "filter"):
            return frozenset({frame})
        if name in TOTALS and shape == "row":
            return SOME
        if name in TOTALS:
            return frozenset({frame if shape in ("groups", "windows") else frame._replace(shape="row")})
        if not ((columns and name in BY) or (funcs and name in CALLING) or name in COUNTING):
            self.escape(frozenset({frame}))
        return PLAIN if name == "duplicated" else SOME

    def columns_in(self, frame: Table, name: str, args: Args) -> tuple[set[str], set[str]]:
        """Return the columns named in the arguments of a method, and those that it creates."""
        boxes = [box for box in args.all() if isinstance(box, Box)]
        made: set[str] = {*args.named} if name in ("agg", "aggregate", "assign") else set()
        values = [*args.plain[BY.get(name, slice(0))], *(args.named[key] for key in args.named if key in BY_NAME)]
        if name in ("agg", "aggregate", "rename"):
            values = [self.elements(frozenset({box})) for box in boxes if box.keys is not None]
        if name == "rename":
            texts = {text for box in boxes for text in self.every(box) if isinstance(text, str)}
            made = {text for text in texts if self.is_new(frame, text)}
            if any(isinstance(atom, (Function, ToolName)) or atom in (DATA, MURKY) for atom in args.all()):
                values = [UNKNOWN]
        elif made:
            values += [self.get(box, frozenset({0})) for box in boxes if box.keys is None]
        texts = {text for text in self.leaves(*values) if isinstance(text, str)}
        return set() if name in ("drop", "reindex") else texts, made

    def is_new(self, frame: Table, column: str) -> bool:
        """Tell whether a table has no column of this name yet."""
        listed = [self.schema.get(part.name) for part in frame.parts]
        return all(columns and column not in columns for columns in listed)

    def merged(self, frame: Table, args: Args, *, named: bool) -> Value:
        keys = {key: {x for x in self.leaves(value) if isinstance(x, str)} for key, value in args.named.items()}
        texts = {x for value in args.plain for x in self.leaves(value) if isinstance(x, str)}
        if texts - HOW:
            keys["on"] = keys.get("on", set()) | (texts - HOW)
        out = NONE
        for other in (atom for atom in args.all() if isinstance(atom, Table)):
            for side, columns in ((frame, ("on", "left_on")), (other, ("on", "right_on") if named else ())):
                for column in itertools.chain(*(keys.get(key, ()) for key in columns)):
                    self.read(side, column)
            both = Table((*frame.parts, *other.parts))
            out |= {with_made(both, itertools.chain(*(part.made for part in both.parts)))}
            if named and not keys.keys() & {"on", "right_on", "right_index"}:
                self.escape(out)
        return out or self.opaque(args.all(), frozenset({frame}))

    def queried(self, frame: Table, texts: list[Any]) -> Value:
        """Read the columns in a condition of DataFrame.query."""
        for text in texts:
            if OPEN in str(text) or re.search(r"@\s*\w+\s*[.\[(]", str(text)):
                self.fail("the column of a variable in a query is only known at run time")
            before = ""
            for match in QUERY.finditer(str(text)):
                name, after = match["quoted"] or match["name"], str(text)[match.end() : match.end() + 1]
                if match["local"]:
                    self.opaque(self.lookup(match["local"]))
                data = match[0] == DATA and (before not in OPERATORS or after.isalnum() or after in JOINING)
                if MURKY in match[0] or data or (match["local"] and after in JOINING):
                    self.fail("the column is only known at run time")
                if name and after != "(":
                    self.read(frame, name)
                before = match[0].strip() or before
        return frozenset({frame})
