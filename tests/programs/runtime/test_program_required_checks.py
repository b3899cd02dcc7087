from pathlib import Path
from typing import Any

import pytest

from guardagent import ContentError, Toolbox
from guardagent.programs.program import RequiredCheck

HERE = Path("specification.md")


def test_the_inner_calls_compute_the_arguments() -> None:
    """Calls are made innermost first, with input, output, facts and the specification's data."""
    made: list[Any] = []

    def call(name: str, *args: Any, **kwargs: Any) -> Any:
        made.append((name, args, kwargs))
        return name

    check = RequiredCheck.parse(
        'check_a(f(input, "x"), facts.role, facts.get("missing"), limit=table)', {"table": 7}, HERE
    )
    check.run(call, {"input": "IN", "output": "OUT", "facts": {"role": "r"}, "table": 7})
    assert made == [("f", ("IN", "x"), {}), ("check_a", ("f", "r", None), {"limit": 7})]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("columns_read(output)", "expected a call of a check_… function"),
        ("check_access(", "not an expression"),
        ("check_access(outptu)", "unknown name 'outptu'; did you mean 'output'"),
        ("check_access(__import__('os').system('x'))", "not supported"),
        ("check_access(facts.role.upper())", "not supported"),
        ("check_access([x for x in output])", "not supported"),
    ],
)
def test_anything_but_plain_calls_is_an_error_at_load(text: str, says: str) -> None:
    """It is data of the operator, evaluated without Python's eval."""
    with pytest.raises(ContentError, match=says):
        RequiredCheck.parse(text, {}, HERE)


def test_an_unknown_function_is_an_error_before_any_run() -> None:
    """A required check that cannot be made must not wait for the first check to be found out."""
    with pytest.raises(ContentError, match="unknown toolbox function 'colums_read'; did you mean 'columns_read'"):
        RequiredCheck.parse("check_access(input, colums_read(output))", {}, HERE).bind(Toolbox.load())


def test_a_missing_fact_is_an_error_unless_read_with_get() -> None:
    """A misspelt or missing fact must not read as None and pass."""
    check = RequiredCheck.parse("check_a(facts.baned)", {}, HERE)
    with pytest.raises(ValueError, match="the fact 'baned' is missing; did you mean 'banned'"):
        check.run(lambda *_: None, {"facts": {"banned": True}})


@pytest.mark.parametrize(
    "call", ["check_access(input)", "check_access(input, output, output)", "check_access(input, x=1)"]
)
def test_arguments_that_do_not_fit_are_an_error_before_any_run(call: str) -> None:
    """The message shows the signature."""
    with pytest.raises(ContentError, match="expected 'check_access"):
        RequiredCheck.parse(call, {}, HERE).bind(Toolbox.load())
