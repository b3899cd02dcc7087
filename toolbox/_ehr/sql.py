"""SQLInterpreter: the tables and columns of a query, from its syntax tree."""

from __future__ import annotations

import ast
import functools
import itertools
import re
from typing import Any

from .tables import Tables
from .values import (
    DATA,
    MURKY,
    SOME,
    Args,
    Value,
    joined,
)

SQL = re.compile(r"(?s)'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?(?:\*/|$)|(.?" + DATA + ".?)")
JOINT = re.compile(rf"[\w.$`\"\]']{DATA}|{DATA}[\w.$`\"\[(']")


class Reader(Tables):
    """The whole interpreter: its last part reads SQL."""

    def program(self, trees: list[ast.Module]) -> None:
        """Interpret the readings of a section, each after all sections before."""
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
            self.fail("SQLInterpreter gets a text that is only known at run time")
        for text in texts:
            self.sql(text)
        return SOME

    def sql(self, text: str) -> None:
        """Read the tables and columns of SELECT statements."""
        import sqlglot
        from sqlglot import exp
        from sqlglot.optimizer.scope import traverse_scope

        if any(match[1] and JOINT.search(match[1]) for match in SQL.finditer(text)):
            self.fail("a name in the SQL is only known at run time")
        plain = SQL.sub(lambda match: match[0].replace(DATA, "?" if match[1] else " "), text)
        try:
            trees = [tree for tree in sqlglot.parse(plain, read="sqlite") if tree]
            scopes = [scope for tree in trees for scope in traverse_scope(tree)]
        except sqlglot.errors.SqlglotError:
            self.fail("the SQL cannot be parsed")
        if not trees or not all(isinstance(tree, exp.Query) for tree in trees):
            self.fail("the SQL is no SELECT")
        known: set[int] = set()
        for scope in scopes:
            known |= self.sql_scope(scope, known)
        for node in itertools.chain(*(tree.walk() for tree in trees)):
            self.charge()
            if is_odd(node, known):
                self.fail(f"{node.sql()[:40]} in the SQL cannot be followed")

    def sql_scope(self, scope: Any, known: set[int]) -> set[int]:
        """Read one SELECT of a statement, and return the nodes that it accounts for."""
        from sqlglot import exp

        chain, outer = [], scope
        while outer:
            chain.append({name.lower(): source for name, (_, source) in outer.selected_sources.items()})
            outer = outer.parent
        known = known | {id(node) for node, _ in scope.selected_sources.values()}
        own = self.sql_tables(chain[0])
        tops = scope.expression.expressions if isinstance(scope.expression, exp.Select) else []
        for top in tops:
            if isinstance(top, exp.Star) and not isinstance(scope.expression.parent, exp.Exists):
                self.found |= {database: self.found[database] | {"*"} for database in own}
        shared = [name.name for join in scope.find_all(exp.Join) for name in join.args.get("using") or ()]
        for name, database in itertools.product(shared, own):
            if self.spelled(database, name) or not any(self.spelled(other, name) for other in own):
                self.record(database, self.spelled(database, name) or name.lower())
        for column in scope.find_all(exp.Column):
            for database in self.sql_owners(column, chain) if id(column) not in known else ():
                self.record(database, self.spelled(database, column.name) or column.name.lower())
            known.add(id(column))
        return known

    def spelled(self, database: str, name: str) -> str | None:
        return next((known for known in self.schema.get(database, ()) if known.lower() == name.lower()), None)

    def sql_tables(self, sources: dict[str, Any]) -> list[str]:
        tables = [source for source in sources.values() if type(source).__name__ == "Table"]
        for table in tables:
            if type(table.this).__name__ != "Identifier" or re.match(r"sqlite_|pragma_", table.name, re.IGNORECASE):
                self.fail(f"{table.sql()[:40]} in the SQL cannot be followed")
            self.record(self.database(table.name))
        return [self.database(table.name) for table in tables]

    def sql_owners(self, column: Any, chain: list[dict[str, Any]]) -> list[str]:
        """Return the databases that a column of a SELECT may belong to."""
        from sqlglot import exp

        name, of = column.name.lower(), column.table.lower()
        if of:
            source = next((sources[of] for sources in chain if of in sources), None)
            if not source:
                self.fail(f"{column.sql()[:40]} in the SQL is of no table there")
            return self.sql_tables({of: source})
        sides = [self.sql_tables(sources) for sources in chain]
        listed = [[database for database in side if self.spelled(database, name)] for side in sides]
        operand = isinstance(column.parent, exp.Predicate) and column.arg_key != "this"
        if operand and column.this.args.get("quoted") and not any(listed) and (self.schema or not name.isidentifier()):
            return []  # SQLite takes it for a text
        derived = [source.expression.named_selects for source in chain[0].values() if not isinstance(source, exp.Table)]
        if name in [output.lower() for outputs in derived for output in outputs]:
            return []
        select = column.find_ancestor(exp.Select)
        within = column.find_ancestor(exp.Window, exp.AggFunc, exp.Select)
        aliased = [top.alias.lower() for top in (select.expressions if select else ())]
        if name in aliased and isinstance(within, exp.Select | None):
            late = column.find_ancestor(exp.Group, exp.Having, exp.Ordered)
            if isinstance(column.parent, exp.Ordered) or (late and self.schema and not any(listed)):
                return []
        if len(listed[0]) == 1:
            return listed[0]
        outer = [side for side in listed[1:] if side]
        return outer[0] if outer and not listed[0] else next(filter(None, sides), [])


def is_odd(node: Any, known: set[int]) -> bool:
    """Tell whether a node of SQL may read something that no SELECT accounts for."""
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
    if isinstance(node, exp.Star):
        return not isinstance(node.parent, (exp.Select, exp.Count, exp.Column))
    if isinstance(node, exp.In):
        return isinstance(node.args.get("field"), exp.Column)
    return isinstance(node, exp.Join) and node.method == "NATURAL"
