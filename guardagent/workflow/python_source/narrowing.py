"""Narrows names by the tests before their uses: in `if name in KNOWN: go(name)`, the name is an element of KNOWN.

A use is narrowed if every path to it passes the test, and nothing binds the name in between. Only names of functions
count: any code may bind those of a file.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from guardagent.workflow.python_source.paths import block_ends, has_break
from guardagent.workflow.python_source.scopes import bound_names, statements
from guardagent.workflow.python_source.values import FunctionTree

NarrowedTo = tuple[ast.expr, bool]
"""An expression whose value a name has; or, if true, one of whose elements."""
_Test = tuple[str, tuple[NarrowedTo, ...], bool]
"""A name, what it is narrowed to, and the truth of the condition that says so."""


@lru_cache(maxsize=1024)
def narrowed(tree: FunctionTree) -> Mapping[int, tuple[NarrowedTo, ...]]:
    """Returns what the uses of names in a function can be, by the identities of their nodes."""
    uses = _Uses(
        {name for node in ast.walk(tree) if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names}
    )
    for node in (tree, *statements(tree)):
        if isinstance(node, ast.IfExp):
            for name, sources, truth in _tests(node.test):
                uses.add(name, sources, [node.body if truth else node.orelse])
        blocks = [getattr(node, name, None) for name in ("body", "orelse", "finalbody")]
        for block in (block for block in blocks if isinstance(block, list)):
            for place, statement in enumerate(block):
                if isinstance(statement, ast.If | ast.While):
                    uses.add_statement(statement, block[place + 1 :])
    return uses.sources


@dataclass
class _Uses:
    outer: set[str]
    sources: dict[int, tuple[NarrowedTo, ...]] = field(default_factory=dict)

    def add_statement(self, node: ast.If | ast.While, after: list[ast.stmt]) -> None:
        """Adds the uses in the blocks of a statement and in the code after it."""
        for name, sources, truth in _tests(node.test):
            holds, fails = (node.body, node.orelse) if truth else (node.orelse, node.body)
            self.add(name, sources, holds)
            if any(name in bound_names(part) for statement in holds for part in ast.walk(statement)):
                continue
            if isinstance(node, ast.While):
                self.add(name, sources, after if not truth and not has_break(node) else ())
            elif block_ends(fails):
                self.add(name, sources, after)
            elif (last := fails[-1:]) and isinstance(last[0], ast.Assign) and bound_names(last[0]) == [name]:
                self.add(name, (*sources, (last[0].value, False)), after)

    def add(self, name: str, sources: tuple[NarrowedTo, ...], code: Iterable[ast.stmt | ast.expr]) -> None:
        """Adds the uses of a name in some code, up to the next binding of the name."""
        for part in code if name not in self.outer else ():
            is_bound = any(name in bound_names(node) for node in ast.walk(part))
            if not is_bound or isinstance(part, ast.Assign | ast.Return):
                here = statements([part] if isinstance(part, ast.stmt) else [ast.Expr(part)])
                self.sources |= {id(node): sources for node in here if isinstance(node, ast.Name) and node.id == name}
            if is_bound:
                return


def _tests(test: ast.expr) -> Iterator[_Test]:
    binds = [part for part in ast.walk(test) if isinstance(part, ast.NamedExpr)]
    if binds and binds != [getattr(test, "left", None)]:
        return  # it may bind the name again
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            yield from ((name, sources, not truth) for name, sources, truth in _tests(inner))
        case ast.BoolOp(op=op, values=parts):
            every = [list(_tests(part)) for part in parts]
            wanted = isinstance(op, ast.And)  # a true `and` has true parts only, a false `or` false ones
            yield from (each for tests in every for each in tests if each[2] is wanted)
            ways = [next((each for each in tests if each[2] is not wanted), ("", (), wanted)) for tests in every]
            if ways[0][0] and len({name for name, _, _ in ways}) == 1:
                yield ways[0][0], tuple(source for _, sources, _ in ways for source in sources), not wanted
        case ast.Compare(
            left=ast.Name(id=name) | ast.NamedExpr(target=ast.Name(id=name)), ops=[sign], comparators=[of]
        ):
            if isinstance(sign, ast.In | ast.NotIn | ast.Eq | ast.NotEq):
                yield name, ((of, isinstance(sign, ast.In | ast.NotIn)),), isinstance(sign, ast.In | ast.Eq)
