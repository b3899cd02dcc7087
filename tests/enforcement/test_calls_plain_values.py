"""Plain values: rules see what an object holds, not what its serializer returns."""

from __future__ import annotations

import math
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from ipaddress import IPv4Address
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from typing_extensions import TypedDict

from guardagent.enforcement.calls import opaque_type, plain_arguments, plain_value
from guardagent.errors import InputError
from guardagent.types import thaw

pytest.importorskip("pydantic")

import pydantic


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


class Word(StrEnum):
    YES = "yes"


class Point(NamedTuple):
    x: int
    y: Decimal


class Opts(TypedDict):
    key: pydantic.SecretStr


@dataclass
class Order:
    id: str
    lines: list[Point] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.total = sum(line.x for line in self.lines)


@dataclass(slots=True)
class Slotted:
    a: int


class Tricky(pydantic.BaseModel):
    """A model that uses every way of hiding a value from a serializer."""

    model_config = pydantic.ConfigDict(extra="allow")
    amount: int
    hidden: int = pydantic.Field(5, exclude=True)
    named: int = pydantic.Field(7, alias="n", serialization_alias="m")

    @pydantic.field_serializer("amount")
    def _small(self, _: int) -> int:
        return 1

    @pydantic.model_serializer
    def _nothing(self) -> dict[str, Any]:
        return {}


class Whole(pydantic.RootModel[list[int]]):
    pass


class Secretive(pydantic.BaseModel):
    inner: list[Opts]


class Text(str):  # noqa: SLOT000 - it needs attributes
    """A string subclass that can have attributes."""


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (
            Tricky.model_validate({"amount": 500, "n": 8, "more": 9}),
            {"amount": 500, "hidden": 5, "named": 8, "more": 9},
        ),
        (
            Tricky.model_validate({"amount": 1, "copy": 5, "__a": 6}),
            {"amount": 1, "hidden": 5, "named": 7, "copy": 5, "__a": 6},
        ),
        (Whole([1, 2]), [1, 2]),
        (Order("a", [Point(1, Decimal("2.50"))]), {"id": "a", "lines": [{"x": 1, "y": Decimal("2.5")}], "total": 1}),
        (Slotted(1), {"a": 1}),
        ([Colour.RED, Level.LOW, Word.YES], ["red", 1, "yes"]),
        (
            {"d": datetime(2024, 1, 2, 3, tzinfo=UTC), "e": date(2024, 1, 2)},
            {"d": "2024-01-02T03:00:00+00:00", "e": "2024-01-02"},
        ),
        ([time(1, 2), timedelta(days=1), timedelta(milliseconds=1500)], ["01:02:00", 86400, Decimal("1.5")]),
        (
            [UUID(int=1), ZoneInfo("UTC"), IPv4Address("10.0.0.1")],
            ["00000000-0000-0000-0000-000000000001", "UTC", "10.0.0.1"],
        ),
        ([Path("/a"), PurePosixPath("b")], ["/a", "b"]),
        ([b"ann", bytearray(b"b"), b"\xff"], ["ann", "b", {"base64": "/w=="}]),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset({"b", "a"}), ["a", "b"]),
        ({1: "a", Word.YES: "b"}, {"1": "a", "yes": "b"}),
        ((deque([1]), OrderedDict(a=1), defaultdict(int, b=2)), [[1], {"a": 1}, {"b": 2}]),
        (pydantic.TypeAdapter(pydantic.HttpUrl).validate_python("HTTP://Ann@Example.org"), "http://Ann@example.org/"),
        (Text("a"), "a"),
    ],
)
def test_values_become_plain_values(value: Any, shown: Any) -> None:
    """Serializers are never called."""
    assert plain_value(value) == shown


def _holds_itself() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


def _with_more() -> Any:
    text = Text("a")
    text.more = "b"  # type: ignore[attr-defined]
    return text


@pytest.mark.parametrize(
    ("value", "reply"),
    [
        ({"a": [object()]}, r"a\[0\] is a object"),
        ({"key": pydantic.SecretStr("x")}, "key is a SecretStr"),
        (Order.__new__(Order), "missing fields"),
        (Tricky.model_validate({"amount": 1, "n": 2, "named": 3}), "a key of"),
        (Tricky.model_validate({"amount": 1, "more": pydantic.SecretBytes(b"x")}), "more is a SecretBytes"),
        (math.nan, "finite"),
        (Decimal("Infinity"), "finite"),
        ({1: "a", "1": "b"}, "a key of"),
        ({1.5: "a"}, "a key of"),
        (_holds_itself(), "contains itself"),
        (_with_more(), "Text"),
        (1j, "complex"),
        (range(3), "range"),
        (memoryview(b"a"), "memoryview"),
    ],
)
def test_values_that_would_lose_information_are_refused(value: Any, reply: str) -> None:
    """The error names the location of the value."""
    with pytest.raises(InputError, match=reply):
        plain_value(value)


def test_plain_values_are_copies() -> None:
    """The owner of the value cannot change what was judged."""
    value = {"a": [1]}
    shown = plain_value(value)
    value["a"].append(2)
    assert shown == {"a": [1]}


@pytest.mark.parametrize(
    ("annotation", "opaque"),
    [
        (list[pydantic.SecretStr | None], "SecretStr"),
        (dict[str, Opts], "SecretStr"),
        (Secretive, "SecretStr"),
        (pydantic.Secret[int], "Secret"),
        (list[Iterable[int]], "Iterable"),
        (Callable[[], int], "Callable"),
        (Annotated[int, pydantic.Field(gt=0)] | Tricky | Order, None),
        (Any, None),
        ("unknown", None),
    ],
)
def test_opaque_types_are_found(annotation: Any, opaque: str | None) -> None:
    """They are found in the annotation, before any call."""
    assert (opaque_type(annotation) or "").startswith(opaque or "")
    assert (opaque_type(annotation) is None) == (opaque is None)


def test_arguments_are_frozen() -> None:
    """Frozen arguments have the same contents and order, and no part of them can be changed."""
    lines = [Point(1, Decimal(2))]
    args = {"order": Order("W1", lines), "mixed": {"a", (1, 2), Point(3, Decimal(4))}, "raw": b"\xff"}
    shown = plain_arguments(args)
    assert thaw(shown) == {name: plain_value(value) for name, value in args.items()}
    lines.append(Point(5, Decimal(6)))
    assert len(shown["order"]["lines"]) == 1
    for part in (shown["order"], shown["order"]["lines"][0], shown["raw"]):
        with pytest.raises(TypeError):
            part["x"] = 0
