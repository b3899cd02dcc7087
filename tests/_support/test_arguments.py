"""The form of a call's arguments: each name has one meaning for every reader."""

from __future__ import annotations

from typing import Any

import pytest

from guardagent._support.arguments import ambiguous_names, bind_arguments
from guardagent.enforcement import HostCall, run
from guardagent.errors import InputError, ToolDenied
from guardagent.policy.load import compile_rules
from tests.enforcement.guards import LIMIT, guard

AMBIGUOUS: dict[str, Any] = {
    "arguments": {"amount": 5, "Amount": 500},
    "an object inside": {"amount": 5, "to": {"iban": "A", "IBAN": "B"}},
    "a list of objects": {"amount": 5, "to": [{"iban": "A"}, {"iban": "A", "Iban": "B"}]},
    "a list of lists": {"amount": 5, "to": [[{"iban": "A", "Iban": "B"}]]},
    "a space": {"amount": 5, "amount ": 500},
    "full width": {"amount": 5, "\uff21mount": 500},
    "long s": {"amount": 5, "opts": {"sum": 1, "\u017fum": 2}},
    "no text": {"amount": 5, "by": {1: "A", "1": "B"}},
}


@pytest.mark.parametrize("args", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_names_that_some_reader_treats_as_equal_deny_everywhere(args: dict[str, Any]) -> None:
    """The tool may read the other one of the two, even if the rule is about another argument."""
    paid: list[Any] = []
    with pytest.raises(ToolDenied, match="have both"):
        run(guard(LIMIT), HostCall("refund", args, "c"), paid.append)
    assert paid == []
    assert compile_rules([LIMIT]).session().check("refund", args).label


@pytest.mark.parametrize(
    "args",
    [
        {"headers": {"Content-Type": "a", "content-length": 1, "X-Id": "b"}},
        {"a": {"x": 1}, "b": {"X": 1}},
        {"rows": [{"id": 1}, {"ID": 1}]},
        {"": 1, "a": 2},
        {"rows": ({"id": 1, "n": 2},)},
    ],
)
def test_other_names_are_allowed(args: dict[str, Any]) -> None:
    """One name may appear in several objects, in any spelling."""
    assert ambiguous_names(args) is None


def test_the_message_has_the_path() -> None:
    """So a model can correct it."""
    assert ambiguous_names({"to": [{"a": 1}, {"a": 1, "A": 2}]}) == "both 'a' and 'A' in 'to[1]'"


def test_a_value_that_contains_itself_is_denied() -> None:
    """There is no traceback."""
    args: dict[str, Any] = {"amount": 5}
    args["again"] = args
    assert compile_rules([LIMIT]).session().check("refund", args).errors


def _pays(order: str, amount: int = 50) -> None: ...


def _pays_by_place(order: str, /, amount: int = 50) -> None: ...


def _pays_with_more(order: str, **more: int) -> None: ...


@pytest.mark.parametrize("args", [{"amount": 50, "order": "W1"}, {"order": "W1"}])
def test_arguments_are_those_that_the_function_gets(args: dict[str, Any]) -> None:
    """In the order of its parameters and with its defaults, whether or not all of them are given."""
    assert [*bind_arguments(_pays, "pay", args).items()] == [("order", "W1"), ("amount", 50)]


def test_a_name_of_further_arguments_is_no_parameter() -> None:
    """An argument that is called like the mapping of further arguments is one of these."""
    assert bind_arguments(_pays_with_more, "pay", {"order": "W1", "more": 1}) == {"order": "W1", "more": 1}


def test_an_argument_without_a_name_cannot_be_named() -> None:
    """A complete set of names does not fit a function that takes one of them by position only."""
    with pytest.raises(InputError, match="positional"):
        bind_arguments(_pays_by_place, "pay", {"order": "W1", "amount": 50})
