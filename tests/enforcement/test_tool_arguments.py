"""Copies of arguments, and signatures of functions."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from guardagent.enforcement.calls import plain_arguments
from guardagent.enforcement.tool_arguments import (
    as_judged,
    bound_by_name,
    defaults_of,
    finished,
    named_by_schema,
    read_signature,
    refuse_opaque,
    same_arguments,
    takes_any_name,
    value_copy,
)
from guardagent.errors import InputError


def test_a_copy_shares_nothing_with_its_value() -> None:
    """A later change of the value does not change it."""
    value = {"items": [{"n": 1}]}
    copied = value_copy(value, "order")
    value["items"][0]["n"] = 2
    assert copied == {"items": [{"n": 1}]}


def test_a_value_that_cannot_be_judged_is_refused_with_its_place() -> None:
    """The message names the argument."""
    with pytest.raises(InputError, match=r"order\.lock"):
        value_copy({"lock": threading.Lock()}, "order")


@pytest.mark.parametrize("other", [{"n": True}, {"n": 1.0}, {"n": "1"}, {}])
def test_equal_arguments_have_equal_types(other: dict[str, object]) -> None:
    """Python's own comparison takes True for 1."""
    assert not same_arguments({"n": 1}, other)


def test_the_order_of_names_does_not_count() -> None:
    """Also not further inside."""
    assert same_arguments({"a": {"x": 1, "y": [2]}, "b": 3}, {"b": 3, "a": {"y": (2,), "x": 1}})


def test_the_judged_copies_run_unless_a_reviewer_has_edited_them() -> None:
    """An argument keeps its type of the program as long as it is the judged one."""
    own = {"paths": {"/a", "/b"}, "n": 1}
    plain = plain_arguments(own)
    assert as_judged({"paths": ["/a", "/b"], "n": 2}, own, plain) == {"paths": {"/a", "/b"}, "n": 2}


def test_arguments_are_bound_by_name_with_defaults() -> None:
    """Further names are arguments like the others."""

    def refund(order: str, amount: int = 5, **more: str) -> None: ...

    signature = read_signature(refund, "refund")
    assert bound_by_name(signature, ("W1",), {"note": "x"}, "refund") == {"order": "W1", "amount": 5, "note": "x"}
    assert defaults_of(signature) == {"amount": 5}
    assert takes_any_name(signature)
    with pytest.raises(InputError, match="do not fit"):
        bound_by_name(signature, (), {}, "refund")


def test_a_parameter_without_a_name_is_refused() -> None:
    """Rules read arguments by their names."""

    def refund(order: str, /) -> None: ...

    with pytest.raises(InputError, match="by position only"):
        read_signature(refund, "refund")
    assert not read_signature(refund, "refund", omit={"order"}).parameters


def test_arguments_get_their_names_from_a_schema() -> None:
    """One that is there twice is refused."""
    schema: dict[str, dict[str, dict[str, str]]] = {"properties": {"order": {}, "amount": {}}}
    assert named_by_schema(schema, ("W1",), {"amount": 5}, "refund") == {"order": "W1", "amount": 5}
    with pytest.raises(InputError, match="order, amount"):
        named_by_schema(schema, ("W1",), {"order": "W2"}, "refund")


def test_an_argument_that_can_be_read_once_is_refused_unless_it_is_hidden() -> None:
    """The advice names the option where there is one."""
    refuse_opaque("refund", {"orders": Iterator[str]}, {"orders"})
    with pytest.raises(InputError, match=r"unjudged"):
        refuse_opaque("refund", {"orders": Iterator[str]}, may_hide=True)


def test_work_that_is_not_done_is_no_output() -> None:
    """A generator never begins; a future may still end."""
    assert finished("refund", "done") == "done"
    with pytest.raises(InputError, match="not done"):
        finished("refund", (name for name in "ab"))

    async def pending() -> None:
        with pytest.raises(TimeoutError, match="not done"):
            finished("refund", asyncio.get_running_loop().create_future())

    asyncio.run(pending())
