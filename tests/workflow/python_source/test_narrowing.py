"""Names that tests narrow: each string that a run of random functions returns is among those that are read."""

from __future__ import annotations

import ast
import contextlib
import random
import textwrap
from typing import Any

import pytest

from guardagent.workflow.python_source.bodies import KnownStrings
from guardagent.workflow.python_source.evaluator import Evaluator
from guardagent.workflow.python_source.scopes import CodeScope
from guardagent.workflow.python_source.values import Arguments, Function

from .returned_strings import sections

HEAD = """
import contextlib
from enum import Enum
KNOWN = ("a", "b")
class Kind(str, Enum):
    A = "a"
    B = "b"
"""

NARROWED = sections("""
# an element: a b c
def f(n): return n if n in KNOWN else "c"

# another value first: a b c
def f(n):
    if not n or n not in KNOWN:
        n = "c"
    return n

# equal to one of two: a b c
def f(n):
    if n == "a" or n == "b": return n
    return "c"

# left early: a b
def f(n):
    if n not in {"a": 1, "b": 2}: raise ValueError(n)
    return n

# the end of a loop: a b
def f(n):
    while (n := n.strip()) not in KNOWN: n += " "
    return n

# a member of an enumeration: a b
def f(n): return Kind(n).value

# part of a text: ?
def f(n): return n if n in "ab" else "c"

# bound again: ?
def f(n):
    if n in KNOWN:
        n = input()
        return n
    return "c"

# bound in the test: ?
def f(n):
    if n in KNOWN and (n := input()): return n
    return "c"

# a loop that ends early: ?
def f(n):
    while n not in KNOWN:
        if n == "z": break
    return n

# an error that is swallowed: ?
def f(n):
    if n not in KNOWN:
        with contextlib.suppress(ValueError): raise ValueError
    return n

# bound by a function inside: ?
def f(n):
    def g():
        nonlocal n
        n = "z"
    if n in KNOWN:
        g()
        return n
    return "c"
""")


def read(code: str) -> KnownStrings:
    """The strings that the function `f` can return."""
    tree = ast.parse(HEAD + code)
    function = next(node for node in tree.body if isinstance(node, ast.FunctionDef))
    return KnownStrings.of(Evaluator(live=False).return_values(Function(function, CodeScope(tree, None)), Arguments()))


@pytest.mark.parametrize("name", NARROWED)
def test_the_strings_that_are_left(name: str) -> None:
    code, expected = NARROWED[name]
    strings = read(code)
    assert (strings.known if strings.complete else {"?"}) == expected


class Writer:
    """Writes random functions of `n`."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - no secret

    def test(self, deep: int = 2) -> str:
        kind = self.chance.randrange(7 if deep else 4)
        if kind > 3:
            parts = f"({self.test(deep - 1)})", f"({self.test(deep - 1)})"
            return f"not {parts[0]}" if kind == 4 else f" {('and', 'or')[kind - 5]} ".join(parts)
        right = ("KNOWN", '{"b", "c"}', '["a"]') if kind < 2 else ('"a"', '"c"')
        return f"{self.chance.choice('nnnm')} {('in', 'not in', '==', '!=')[kind]} {self.chance.choice(right)}"

    def block(self, deep: int, *, loop: bool = False) -> str:
        return "\n".join(self.statement(deep, loop=loop) for _ in range(self.chance.randint(1, 3)))

    def statement(self, deep: int, *, loop: bool) -> str:
        inner = textwrap.indent(self.block(deep - 1, loop=loop), "    ") if deep else ""
        plain = ["n = 'd'", "n = m", "raise ValueError", "return 'c'", "pass", "return n", "n = next(later)"]
        several = [
            f"if {self.test()}:\n{inner}",
            f"if {self.test()}:\n{inner}\nelse:\n    {self.chance.choice(plain)}",
            f"while {self.test()}:\n    next(later)\n"
            + (textwrap.indent(self.block(deep - 1, loop=True), "    ") if deep else ""),
            f"try:\n{inner}\nexcept ValueError:\n    {self.chance.choice(plain)}",
            f"with contextlib.suppress(ValueError):\n{inner}",
            f"return n if {self.test()} else 'c'",
        ]
        return self.chance.choice([*plain, *(["break", "continue"] if loop else []), *(several * 2 if deep else [])])


@pytest.mark.parametrize("seed", range(400))
def test_no_run_returns_another_string(seed: int) -> None:
    code = f"def f(n, m, later):\n{textwrap.indent(Writer(seed).block(3), '    ')}\n    return 'c'\n"
    strings, names = read(code), dict[str, Any]()
    exec(HEAD + code, names)  # noqa: S102 - made here
    for first in "abcz":
        for second in "abcz":
            later = iter(random.Random(seed).choices("abcz", k=20))  # noqa: S311 - no secret
            with contextlib.suppress(ValueError, StopIteration):
                result = names["f"](first, second, later)
                assert not strings.complete or result in strings.known, code
