"""SQLInterpreter: the tables and columns of a query, from its syntax tree."""

from __future__ import annotations

import ast
import functools
import itertools
import logging
import re
from typing import Any

from .strings import pieces_of, spelled
from .tables import Tables
from .values import (
    DATA,
    MURKY,
    OPEN,
    SOME,
    Args,
    Value,
    joined,
)

QUERY = re.compile(r"(?i)[\s(]*(?:select|with)\b")
WORD = re.compile(r"\w+")
LITERALS = re.compile(rf"(?:[\s,]|'{DATA}'|\"{DATA}\"|{DATA})*")
SQL = re.compile(
    r"(?s)(?P<quoted>'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`(?:[^`]|``)*`|\[[^\]]*\])"
    rf"|(?P<comment>--[^\n]*|/\*.*?(?:\*/|\Z))|(?P<before>[\w.$]?){DATA}(?P<after>[\w.$\"`\[(']?)"
)


class Interpreter(Tables):
    """The complete interpreter, with the analysis of SQL."""

    def program(self, trees: list[ast.Module]) -> None:
        """Interpret the readings of a section, each after all earlier sections."""
        start, ends = self.frame.env, [self.frame.env]
        for tree in trees:
            self.frame.env = {**start}
            *first, last = tree.body or [ast.Pass(lineno=1)]
            self.block(first)
            self.node = last
            if isinstance(last, ast.Expr):
                self.escape(self.value(last.value))
            else:
                self.block([last])
            self.escape(self.lookup("answer"))
            ends.append(self.frame.env)
        self.frame.env = functools.reduce(joined, ends)

    def t_sqlinterpreter(self, args: Args) -> Value:
        texts = [text for text in self.leaves(args.all()) if isinstance(text, str)]
        if not texts or "**" in args.named or MURKY in texts:
            self.fail("the argument of SQLInterpreter is only known at run time")
        for text in texts:
            if not all(map(LITERALS.fullmatch, pieces_of(text))):
                self.fail("the argument of SQLInterpreter is built by a loop from more than values")
            for query in spelled(text, 2) if OPEN in text else [text]:
                self.sql(query)
        return SOME

    def sql(self, text: str) -> None:
        """Read the tables and columns of SELECT statements."""
        import sqlglot
        from sqlglot import exp
        from sqlglot.optimizer.scope import traverse_scope

        if not logging.getLogger("sqlglot").handlers:  # its warnings are errors here
            logging.getLogger("sqlglot").addHandler(logging.NullHandler())
        if any(match["before"] or match["after"] for match in SQL.finditer(text)):
            self.fail("a name in the SQL is only known at run time")
        self.charge(len(text) // 8)
        self.sql_texts(text)
        plain = SQL.sub(
            lambda match: " " if match["comment"] else match[0].replace(DATA, " ") if match["quoted"] else "?", text
        )
        if not QUERY.match(plain):  # the parser would only warn
            self.fail("the SQL is not a SELECT")
        counted: set[int] = set()
        try:
            trees = [tree for tree in sqlglot.parse(plain, read="sqlite") if tree]
            if not trees or not all(isinstance(tree, exp.Query) for tree in trees):
                self.fail("the SQL is not a SELECT")
            for scope in [scope for tree in trees for scope in traverse_scope(tree)]:
                self.sql_scope(scope, counted)
        except (sqlglot.errors.SqlglotError, AttributeError, TypeError, LookupError):  # its parser meets odd SQL
            self.fail("the SQL cannot be parsed")
        for node in itertools.chain(*(tree.walk() for tree in trees)):
            self.charge()
            if is_odd(node, counted):
                self.fail(f"{node.sql()[:40]} in the SQL cannot be followed")

    def sql_texts(self, text: str) -> None:
        """Refuse a string literal that contains data and a column name: a quote in the data would turn it into SQL."""
        quoted = [match["quoted"].lower() for match in SQL.finditer(text) if DATA in (match["quoted"] or "")]
        known = {name.lower() for database, columns in self.schema.items() for name in (database, *columns)}
        if (known | {"select"}).intersection(WORD.findall(" ".join(quoted))):
            self.fail("a string in the SQL contains data and names a column")

    def sql_scope(self, scope: Any, known: set[int]) -> None:
        """Record one SELECT of a statement, and add its nodes to the known ones."""
        from sqlglot import exp

        chain, outer = [], scope
        while outer:
            chain.append({name.lower(): source for name, (_, source) in outer.selected_sources.items()})
            if len(chain[-1]) < len(outer.selected_sources):
                self.fail("two tables in the SQL have the same name")
            outer = None if outer.is_cte or outer.is_derived_table else outer.parent
        sides = [self.sql_tables(sources) for sources in chain]
        known |= {id(node) for node, _ in scope.selected_sources.values()}
        tops = scope.expression.expressions if isinstance(scope.expression, exp.Select) else []
        if any(isinstance(top, exp.Star) for top in tops) and not isinstance(scope.expression.parent, exp.Exists):
            self.found |= {database: self.found[database] | {"*"} for database in sides[0]}
        shared = [name.name for join in scope.find_all(exp.Join) for name in join.args.get("using") or ()]
        for name in shared:
            for database in [one for one in sides[0] if self.spelled(one, name)] or sides[0]:
                self.record(database, self.spelled(database, name) or name.lower())
        names = {top.alias.lower() for top in tops}
        sources = [source for source in chain[0].values() if not isinstance(source, exp.Table)]
        derived = [source.expression.named_selects for source in sources]
        places = [source.expression.find_ancestor(exp.CTE, exp.Subquery) for source in sources]
        derived += [place.alias_column_names for place in places if place]
        outputs = {output.lower() for each in derived for output in each}
        for column in scope.find_all(exp.Column):
            self.charge(1 + sum(map(len, sides)))
            for database in self.sql_owners(column, chain, sides, names, outputs):
                self.record(database, self.spelled(database, column.name) or column.name.lower())
            known.add(id(column))

    def spelled(self, database: str, name: str) -> str | None:
        return next((known for known in self.schema.get(database, ()) if known.lower() == name.lower()), None)

    def sql_tables(self, sources: dict[str, Any]) -> list[str]:
        tables = [source for source in sources.values() if type(source).__name__ == "Table"]
        for table in tables:
            if type(table.this).__name__ != "Identifier" or re.match(r"sqlite_|pragma_", table.name, re.IGNORECASE):
                self.fail(f"{table.sql()[:40]} in the SQL cannot be followed")
            self.record(self.database(table.name))
        return [self.database(table.name) for table in tables]

    def sql_owners(
        self, column: Any, chain: list[dict[str, Any]], sides: list[list[str]], names: set[str], outputs: set[str]
    ) -> list[str]:
        """Return the databases that a column of a SELECT may belong to."""
        from sqlglot import exp

        name, of = column.name.lower(), column.table.lower()
        if of:
            source = next((sources[of] for sources in chain if of in sources), None)
            if not source:
                self.fail(f"{column.sql()[:40]} in the SQL belongs to no table of the query")
            return self.sql_tables({of: source})
        listed = [[database for database in side if self.spelled(database, name)] for side in sides]
        equal = isinstance(column.parent, (exp.EQ, exp.NEQ, exp.In, exp.Like)) and column.arg_key != "this"
        operand = equal and isinstance(column.parent.this, exp.Column)
        if operand and column.this.args.get("quoted") and not any(listed) and (self.schema or not name.isidentifier()):
            return []  # SQLite reads it as a string
        late = column.find_ancestor(exp.Group, exp.Having, exp.Order) if name in names else None
        if late and (
            column.find_ancestor(exp.Window, exp.AggFunc, exp.Select) != late.parent
            or not isinstance(late.parent, exp.Select)
        ):
            late = None  # within a window or an aggregate, which do not see names of outputs
        if late and isinstance(column.parent, exp.Ordered):
            return []
        if name in outputs or (late and self.schema and not any(listed)):
            return []
        if len(listed[0]) == 1:
            return listed[0]
        outer = [side for side in listed[1:] if side]
        return outer[0] if outer and not listed[0] else next(filter(None, sides), [])


def is_odd(node: Any, known: set[int]) -> bool:
    """Tell whether a node of SQL may read data that no SELECT accounts for."""
    from sqlglot import exp

    if isinstance(node, exp.Placeholder):
        while node.parent and not isinstance(node, (exp.Predicate, exp.Limit, exp.Offset, exp.Select)):
            node = node.parent
        return not (
            isinstance(node, (exp.Limit, exp.Offset)) or (isinstance(node, exp.Predicate) and node.find(exp.Column))
        )
    if isinstance(node, (exp.Column, exp.Table)):
        within = node.find_ancestor(exp.Select, exp.SetOperation)  # names outputs in the ORDER BY of a UNION
        return id(node) not in known and not (isinstance(node, exp.Column) and isinstance(within, exp.SetOperation))
    if isinstance(node, exp.Identifier):
        naming = (exp.Column, exp.Table, exp.TableAlias, exp.Alias, exp.Join, exp.Window, exp.CTE)
        return not isinstance(node.parent, naming)
    if isinstance(node, exp.Star):
        return not isinstance(node.parent, (exp.Select, exp.Count, exp.Column))
    if isinstance(node, exp.Window):  # SQLite may take the name of a window for one of a table
        return node.arg_key == "windows" and bool(node.args.get("alias"))
    if isinstance(node, exp.In):
        return isinstance(node.args.get("field"), exp.Column)
    return isinstance(node, exp.Join) and node.method == "NATURAL"
