"""The summary of a function without running it: its requests for approval, its calls and its results."""

from __future__ import annotations

import functools
import importlib.util
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from guardagent.workflow.python_source.bodies import FunctionSummary, KnownStrings, summarize
from guardagent.workflow.python_source.values import Values

from .returned_strings import RETURNS, sections

Load = Callable[[str], ModuleType]

HEAD = """
import enum, functools, operator, random
from dataclasses import dataclass
from typing import Literal, TypedDict
END = "__end__"
"""


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Load]:
    """Loads a source as a module from a file."""
    names: list[str] = []

    def load_text(source: str) -> ModuleType:
        name = f"looked_into_{len(names)}"
        path = tmp_path / f"{name}.py"
        path.write_text(HEAD + textwrap.dedent(source))
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        names.append(name)
        spec.loader.exec_module(module)
        return module

    yield load_text
    for name in names:
        del sys.modules[name]


def look(load: Load, source: str) -> FunctionSummary:
    """Returns the summary of the function `f` of a source."""
    return summarize(load(source).f)


@pytest.mark.parametrize("name", RETURNS)
def test_the_strings_that_a_function_can_return(load: Load, name: str) -> None:
    """The strings are exactly those that the code allows."""
    source, expected = RETURNS[name]
    assert look(load, source).strings == (expected, True)


UNKNOWN = sections("""
# a key of the state:
def f(s): return s["to"]

# a field that is a text:
class S(TypedDict):
    to: str
def f(s: S): return s['to']

# a text that is put together:
def f(s): return "node_" + s["n"]

# a text that grows:
def f(s):
    t = "a"
    while s: t += "b"
    return t

# a library's result:
import posixpath
def f(s): return posixpath.basename(s["x"])

# a method of what is not known:
def f(s): return s.next()

# a parameter that is given more:
def g(*a, **k): return k['to']
def f(s): return g(**s)

# a name from nowhere:
def f(s): return nowhere

# what is caught:
def f(s):
    try: return s()
    except ValueError as e: return e.args[0]

# an unpacked rest:
def f(s):
    a, *b = s
    return b

# a list that a helper fills:
def g(xs): xs.append("a")
def f(s):
    out = []
    g(out)
    return out

# a list by another name:
def f(s):
    out = []
    also = out
    also.append("a")
    return out

# a list that an inner function fills:
def f(s):
    out = []
    def g(): out.append("a")
    g()
    return out

# a list that is kept elsewhere:
def f(s):
    out = []
    s.keep = out
    s.fill()
    return out

# an object of a library called:
import operator
def f(s): return operator.itemgetter("x")(s)

# a recursion that adds to its text:
def g(n): return "a" if not n else g(n - 1) + "b"
def f(s): return g(s)
""")


@pytest.mark.parametrize("name", UNKNOWN)
def test_undetermined_results_are_unknown(load: Load, name: str) -> None:
    """A string that the code does not determine makes the result incomplete."""
    assert not look(load, UNKNOWN[name][0]).strings.complete


DECLARED = sections("""
# a literal: a b
def f(s) -> Literal["a", "b"]: return s

# a text: a
def f(s) -> "Literal['a']": return s

# a list of literals: a
def f(s) -> list[Literal["a"]]: return s

# a union: a
def f(s) -> Literal["a"] | list[str]: return s

# an alias: a b
Where = Literal["a", "b"]
def f(s) -> Where: return s

# an enumeration: a
class E(str, enum.Enum):
    A = "a"
def f(s) -> E: return s

# no literal:
def f(s) -> str: return s

# a name that is not there:
def f(s) -> 'Nowhere': return s
""")


@pytest.mark.parametrize("name", DECLARED)
def test_literals_of_the_return_annotation_are_found(load: Load, name: str) -> None:
    """Literals and enumerations in the return annotation are found in any form."""
    source, expected = DECLARED[name]
    literals = [part.values for part in look(load, source).return_types if part.values is not None]
    assert frozenset().union(*(KnownStrings.of(value).known for value in literals)) == expected


ASKS = sections("""
# directly:
def f(s): return input("ok?")

# in a helper:
def g(): return input()
def f(s): return {"x": g()}

# in a helper's helper:
def h(): input()
def g(): h()
def f(s): g()

# in a method:
class C:
    def ask(self): return input()
    def __call__(self, s): return self.ask()
f = C()

# in a decorator:
def gate(g):
    @functools.wraps(g)
    def inner(s):
        input()
        return g(s)
    return inner
@gate
def f(s): return s

# in what a decorator wraps:
def deco(g):
    @functools.wraps(g)
    def inner(s): return g(s)
    return inner
@deco
def f(s): return input()

# in a lambda:
f = lambda s: input()

# in an inner function:
def f(s):
    def ask(): return input()
    return ask()

# in a comprehension:
def f(s): return [input(x) for x in s]

# in what is handed on:
def ask(x): return input(x)
def f(s): return list(map(ask, s))

# at the terminal, hidden:
import getpass
def f(s): return getpass.getpass()

# by a class attribute:
class C:
    ask = staticmethod(input)
def f(s): return C.ask()
""")


@pytest.mark.parametrize("name", ASKS)
def test_a_prompt_at_the_terminal_is_found(load: Load, name: str) -> None:
    """A call of `input` is found anywhere in the function and its callees."""
    assert look(load, ASKS[name][0]).asks


NO_QUESTION = sections("""
# a name alone:
def human_approval(s): return s
f = human_approval

# its own input:
def input(x): return x
def f(s): return input(s)

# a parameter of that name:
def f(input): return input['x']

# a method of that name:
def f(s): return s.input()

# a text that says so:
def f(s):
    'calls input()'
    return 'input()'
""")


@pytest.mark.parametrize("name", NO_QUESTION)
def test_a_name_alone_is_not_a_prompt(load: Load, name: str) -> None:
    """A function that only has the name of a prompt does not ask."""
    assert not look(load, NO_QUESTION[name][0]).asks


def test_the_place_is_that_of_the_function_inside_its_decorators(load: Load) -> None:
    """File and line are those of the `def`, whatever wraps it."""
    source = "def deco(g): return functools.wraps(g)(lambda s: g(s))\n@deco\n@deco\ndef f(s): return s\n"
    module = load(source)
    body = summarize(functools.partial(module.f))
    assert body.file == module.__file__
    assert (HEAD + source).splitlines()[(body.line or 0) - 1].startswith("def f")


def test_a_function_without_source_is_read_by_its_compiled_names() -> None:
    """A function compiled from a string still shows whether it asks, and that the rest is unknown."""
    names: dict[str, Any] = {}
    exec("def g(): return input()\ndef f(s): return g()\ndef q(s): return {}", names)  # noqa: S102
    assert summarize(names["f"]).asks
    assert not summarize(names["q"]).asks
    assert not summarize(names["q"]).strings.complete


def test_nothing_is_run(load: Load) -> None:
    """Neither the function, nor its helpers, nor a property, nor a `__getattr__` is run."""
    source = """
    def boom(*_): raise SystemExit(9)
    class Trap:
        def __getattr__(self, name): boom()
        @property
        def to(self): boom()
        __call__ = __getitem__ = __iter__ = __eq__ = __hash__ = __bool__ = __len__ = boom
    trap = Trap()
    def f(s):
        boom()
        for x in trap: trap(x)
        return trap.to or trap.other or trap["x"] or [*trap]
    """
    assert not look(load, source).strings.complete


@pytest.mark.parametrize("value", [len, str.upper, int, object(), None, "text", print])
def test_any_value_can_be_summarized(value: object) -> None:
    """A value without code has an empty summary, and raises nothing."""
    assert summarize(value).return_values == Values()


def test_the_objects_whose_methods_are_called(load: Load) -> None:
    """A method of a live object counts, through a variable or a dictionary too."""
    source = """
    class Tool:
        def invoke(self, x): return x
    mail, web = Tool(), Tool()
    by_name = {"mail": mail, "web": web}
    def f(s):
        return by_name[s["name"]].invoke(s["args"])
    """
    module = load(source)
    uses = [(use.owner, use.method) for use in summarize(module.f).method_calls]
    assert (module.mail, "invoke") in uses
    assert (module.web, "invoke") in uses


HUMAN_INPUT = sections("""
# before: asked sure
input()
mail.send()

# after: sure
mail.send()
input()

# in the call's arguments: asked sure
mail.send(input())

# under a condition: sure
if s: input()
mail.send()

# in both branches: asked sure
if s: input()
else: input(1)
mail.send()

# in the same branch: asked
if s:
    input()
    mail.send()

# where the others have returned: asked
if s: input()
else: return
mail.send()

# where the others raise: asked sure
if s: input()
else: raise ValueError
mail.send()

# in a condition: asked
if input(): mail.send()

# until the answer is right: asked sure
while True:
    a = input()
    if a: break
mail.send()

# in a loop that may be empty: sure
for x in s: input()
mail.send()

# what may fail: sure
try: input()
except ValueError: pass
mail.send()

# by a helper: asked sure
ask()
mail.send()

# by a helper that may not: sure
may_ask()
mail.send()

# before a helper: asked sure
input()
send()

# as the first of an and: asked
return input() and mail.send()

# as the second of an and: sure
s and input()
mail.send()

# in every case: asked sure
match s:
    case 1: input()
    case _: input()
mail.send()

# in some cases: sure
match s:
    case 1: input()
mail.send()

# around it all: asked sure
with s: input()
mail.send()

# in the end: asked sure
try: s()
finally: input()
mail.send()

# in the end, where the question may raise: sure
try: input()
finally: mail.send()

# where an operand leaves out the next: sure
s or s.x or input()
mail.send()

# in the condition of a loop: asked sure
while input(): s()
mail.send()

# in a case with a condition: sure
match s:
    case x if x: input()
mail.send()
""")


@pytest.mark.parametrize("name", HUMAN_INPUT)
def test_human_approval_before_a_call_is_found(load: Load, name: str) -> None:
    """A call can come after approval on every path, and can be unconditional."""
    body, words = HUMAN_INPUT[name]
    head = """class Mail:
    def send(self, *a): pass
mail = Mail()
def ask(): return input()
def may_ask():
    if mail: input()
def send(): mail.send()
"""
    module = load(head + "def f(s):\n" + textwrap.indent(body, "    "))
    uses = [use for use in summarize(module.f).method_calls if use.owner is module.mail and use.method == "send"]
    assert all(use.after_approval for use in uses) == ("asked" in words)
    assert all(use.unconditional for use in uses) == ("sure" in words)


ALWAYS = sections("""
# at its beginning: always
input()
return s

# on one way only:
if s: return 1
input()

# on all ways: always
if s: return input()
return input()

# never:
return s

# in the end, behind a return: always
try: return s
finally: input()

# before it raises: always
if s: raise ValueError
input()
""")


@pytest.mark.parametrize("name", ALWAYS)
def test_human_approval_on_every_path_is_found(load: Load, name: str) -> None:
    """A path that raises does not count."""
    body, words = ALWAYS[name]
    assert look(load, "def f(s):\n" + textwrap.indent(body, "    ")).always_asks == ("always" in words)
