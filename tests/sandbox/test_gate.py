"""The static gate: rejections have a line and an alternative."""

import ast
import sys

import pytest

from guardagent import ProgramError
from guardagent.sandbox import gate as _gate
from guardagent.sandbox.engines import monty
from guardagent.sandbox.gate import admit

FUNCTIONS = frozenset({"check_access", "columns_read", "field"})
HEAD = "def check(agent_input, agent_output, facts):\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("import os", "'os' is not available"),
        ("import maths", "did you mean 'math'"),
        ("from math import *", "list the imported names"),
        ("check_access = len", "'check_access' is a toolbox function"),
        ("for check_access in []: pass", "toolbox function"),
        ("with f() as check_access: pass", "toolbox function"),
        ("def f(check_access): pass", "toolbox function"),
        ("[0 for check_access in []]", "toolbox function"),
        ("import math as check_access", "toolbox function"),
        ("global check_access", "toolbox function"),
        ("x = (check_access := 1)", "toolbox function"),
        ("columns_read = lambda x: []\n    columns_read(1)", "'columns_read' is a toolbox function"),
        ("facts = {}", "'facts' is an input"),
        ("x = [agent_input := 1]", "'agent_input' is an input"),
        ("x = ().__class__", "'__class__' is out of reach"),
        ("x = f.gi_frame", "'gi_frame' is out of reach"),
        ("f(__globals__=1)", "reserved"),
        ("_getattr_ = 1", "'_getattr_' is reserved"),
        ("eval('1')", "'eval' is not available"),
        ("class A(metaclass=f): pass", "'metaclass' is not supported"),
        ("async def f(): pass", "write plain functions"),
        ("match f:\n        case object(__globals__=g): pass", "'__globals__' is reserved"),
        ("try: pass\n    except* ValueError: pass", "'TryStar' is not supported"),
        ("x = 1 +", "not Python"),
    ],
)
def test_a_rejection_has_a_line_and_a_reason(line: str, message: str) -> None:
    """A debugging round needs both."""
    with pytest.raises(ProgramError, match=message) as caught:
        admit(f"{HEAD}    {line}\n", FUNCTIONS)
    assert str(caught.value).startswith("line ")


@pytest.mark.parametrize(
    "line",
    [
        "from dataclasses import field\n    field()",  # another function of that name, and plainly so
        "for field in []: print(field)",  # a name of its own: the function is not called
        "x = check_access({}, {})",
        "def f(agent_input, facts): return facts",
        "return type(facts).__name__, facts.__class__.__name__",
        "_private = 1",
        "input = 1\n    return input",
    ],
)
def test_common_code_of_models_is_admitted(line: str) -> None:
    """Parameters, private names and the program's own names are not attacks."""
    admit(f"{HEAD}    {line}\n", FUNCTIONS)


def test_size_is_bounded() -> None:
    """It is checked before and after parsing."""
    with pytest.raises(ProgramError, match="at most 100,000"):
        admit(HEAD + "    x = 1\n" * 20_000, FUNCTIONS)
    with pytest.raises(ProgramError, match="more than 20,000 nodes"):
        admit(HEAD + "    x = [" + "1," * 30_000 + "]\n", FUNCTIONS)


def test_every_kind_of_node_is_decided() -> None:
    """Each node class of this Python has a visitor or is rejected by name."""
    kinds = {
        kind.__name__
        for kind in vars(ast).values()
        if isinstance(kind, type) and issubclass(kind, ast.AST) and not kind.__subclasses__() and kind._fields
    }
    visited = {name.removeprefix("visit_") for name in dir(_gate._ProgramGate) if name.startswith("visit_")}
    refused = "AsyncFunctionDef AsyncFor AsyncWith Await TryStar TypeAlias TypeVar ParamSpec TypeVarTuple"
    elsewhere = "Expression FunctionType Interactive Suite TypeIgnore Delete TemplateStr Interpolation"
    old = "Num Str Bytes NameConstant Ellipsis ExtSlice Index AugLoad AugStore Param"
    assert kinds <= visited | {*refused.split(), *elsewhere.split(), *old.split()}, sys.version


@pytest.mark.parametrize("module", sorted(monty.MISSING_NAMES))
def test_the_pinned_monty_lacks_every_listed_name(module: str) -> None:
    """A new release of Monty must shorten the list."""
    import pydantic_monty

    with pydantic_monty.Monty(max_processes=1) as pool, pool.checkout() as session:
        for name in monty.MISSING_NAMES[module].split():
            with pytest.raises(pydantic_monty.MontyError):
                session.feed_run(f"from {module} import {name}")


def test_syntax_that_monty_lacks_is_found_before_the_run() -> None:
    """So the default engine falls back before anything has run."""
    for line in ("class A(B): pass", "yield 1", "del x", "import statistics", "next(x)", "f.sub(lambda m: 1, x)"):
        assert "not supported by the engine 'monty'" in monty.first_gap(ast.parse(f"{HEAD}    {line}\n"))
