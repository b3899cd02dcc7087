"""Models and dataclasses are read at every depth, without running any code of theirs."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from typing import Any

import pytest
from pydantic import BaseModel, RootModel

from guardagent.session.session import Session
from guardagent.types.values import readable, readable_copy
from tests.session.test_session import session_of


class Colour(Enum):
    RED = "red"


class Line(BaseModel, extra="allow"):
    sku: str
    count: int = 1


class Lines(RootModel[list[Line]]):
    pass


@dataclass
class Box:
    lines: Any
    colour: Colour = Colour.RED
    packed: datetime = datetime(2026, 1, 2, tzinfo=UTC)


@dataclass(slots=True)
class Order:
    boxes: dict[str, Box]
    parent: Any = None

    @property
    def total(self) -> int:
        raise AssertionError("a property is not a field")


class Unreadable:
    def __getattr__(self, name: str) -> Any:
        raise AssertionError("nothing of it runs")


def order() -> Order:
    return Order({"b1": Box([Line.model_validate({"sku": "a", "count": 2, "gift": True}), Line(sku="b")])})


CONDITIONS = {
    "{}.boxes.b1.lines[0].count == 2 && {}.boxes.b1.lines[0].gift == true": True,
    'any(x in {}.boxes.b1.lines, x.sku == "b")': True,
    '{}.boxes.b1.colour == "red" && {}.boxes.b1.packed == "2026-01-02T00:00:00+00:00"': True,
    'len({}.boxes.b1.lines) == 2 && "b1" in keys({}.boxes)': True,
    '{}.boxes["b1"].lines[1].count > 1': False,
    "{}.total == 1": None,
    "{}.boxes.b1.lines[0].price == 1": None,
}


def outcome(session: Session) -> bool | None:
    verdict = session.check("ask", reserve=False)
    return None if verdict.errors else verdict.label == 0


@pytest.mark.parametrize("condition", CONDITIONS)
def test_fields_are_read_in_state_outputs_and_facts(condition: str) -> None:
    """A field that does not exist is unknown, and a property is no field."""
    in_state = session_of(f"forall(ask(), {condition.replace('{}', 'state.o')})", state={"o": order()})
    in_fact = session_of(f"forall(ask(), {condition.replace('{}', 'fact(o)')})", facts={"o": order()})
    in_output = session_of(f"forall(ask(), {condition.replace('{}', 'output(last(get()))')})")
    in_output.check("get")
    in_output.record(order())
    outcomes = {outcome(session) for session in (in_state, in_fact, in_output)}
    assert outcomes == {CONDITIONS[condition]}


def test_a_state_can_be_a_model_and_a_function_can_return_one() -> None:
    """Root models are their root; a model equals a mapping of its fields."""
    functions = {"of": lambda state, name: state.boxes[name]}
    session = session_of(
        "forall(ask(), state(of('b1')).lines[0].sku == state.boxes.b1.lines[0].sku)",
        state=Order({"b1": Box(Lines([Line(sku="a")]))}),
        functions=functions,
    )
    assert outcome(session) is True
    equal = session_of("forall(ask(line=x), x == state.line)", state={"line": Line(sku="a")})
    assert equal.check("ask", {"line": {"sku": "a", "count": 1}}).label == 0
    assert equal.check("ask", {"line": {"sku": "b", "count": 1}}).rules == ("rule 1",)


@pytest.mark.parametrize("rule", ["state.o.x == 1", "state.o[0] == 1", "state.o == 1", "all(y in state.os, y.x == 1)"])
def test_an_unreadable_type_is_named(rule: str) -> None:
    """Nothing of such an object runs, and the call is denied."""
    session = session_of(f"forall(ask(), {rule})", state={"o": Unreadable(), "os": [Unreadable()]})
    assert "'Unreadable'" in session.check("ask").errors[0]


def test_an_output_is_copied_when_it_is_recorded() -> None:
    """Later changes of the object do not reach the history, which can be saved."""
    session = session_of("G !tool:never")
    made = order()
    session.check("get")
    session.record(made)
    made.boxes["b1"].lines[0].count = 9
    assert session.history[0].output["boxes"]["b1"]["lines"][0]["count"] == 2
    assert b'"gift":true' in session.snapshot(b"sixteen bytes at least")


def test_cycles_and_shared_objects_end() -> None:
    """An object that contains itself has no form there; shared objects are copied once."""
    child = Order({})
    child.parent = child
    copy = readable_copy([child])
    assert copy[0]["parent"] is child
    deep: Any = 1
    for _ in range(60):
        deep = Box([deep, deep])
    lines = readable_copy(deep)["lines"]
    assert lines[0] is lines[1]


def test_a_field_without_a_value_is_missing() -> None:
    """A deleted or unset field is not read from the class."""

    @dataclass
    class Half:
        a: int = field(init=False)
        b: int = 2

    half = Half()
    assert readable(half) == {"b": 2}
    assert readable(Half) is Half
    assert dataclasses.is_dataclass(Half)
