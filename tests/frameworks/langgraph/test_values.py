"""LangChain and LangGraph: what is judged is what the tool gets, whatever types its arguments have."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import pytest

pytest.importorskip("langchain")
pytest.importorskip("langgraph")

import pydantic.dataclasses
from langchain_core.tools import InjectedToolArg, StructuredTool
from pydantic import BaseModel, ConfigDict, Field, RootModel, Secret, SecretBytes, SecretStr
from pydantic import field_serializer as shown_as
from pydantic import model_serializer as all_shown_as

from guardagent.errors import InputError
from guardagent.frameworks.langgraph import GuardMiddleware
from tests.frameworks.langgraph.agents import agent, results, says, thread, user
from tests.frameworks.scenarios import LIMIT, guard_of


class Disguised(BaseModel):
    value: int

    @shown_as("value")
    def shown(self, _: int) -> int:
        return 1


class Hidden(BaseModel):
    value: int = Field(exclude=True)


class Replaced(BaseModel):
    value: int

    @all_shown_as
    def shown(self) -> dict[str, int]:
        return {"value": 1}


@dataclasses.dataclass
class Wrapped:
    money: Disguised


@pydantic.dataclasses.dataclass
class DisguisedData:
    value: int

    @shown_as("value")
    def shown(self, _: int) -> int:
        return 1


@pydantic.dataclasses.dataclass(config=ConfigDict(extra="allow"))
class OpenData:
    note: str = ""


class OpenModel(BaseModel, extra="allow"):
    pass


class Amounts(RootModel[list[Disguised]]):
    pass


class Level(enum.Enum):
    low = 50
    high = 500


def refunds(kind: Any, arguments: Any, rule: str, folder: Path) -> list[Any]:
    """What a tool pays whose amount `a` is of this type, under a rule."""
    paid: list[Any] = []

    def refund(order_id: str, amount: Any) -> str:
        """Pays."""
        paid.append(amount)
        return "ok"

    refund.__annotations__["amount"] = kind
    policy = LIMIT.replace("a <= 100", rule)
    made = StructuredTool.from_function(refund, parse_docstring=False)
    found = agent(guard_of(folder, policy), says([("refund", {"order_id": "W1", "amount": arguments})]), [made])
    assert len(results(found.invoke(user(), thread()))) == 1
    return paid


CASES: list[tuple[Any, Any, str]] = [
    (Disguised, {"value": 0}, "a.value"),
    (Hidden, {"value": 0}, "a.value"),
    (Replaced, {"value": 0}, "a.value"),
    (Wrapped, {"money": {"value": 0}}, "a.money.value"),
    (DisguisedData, {"value": 0}, "a.value"),
    (OpenData, {"value": 0}, "a.value"),
    (OpenModel, {"value": 0}, "a.value"),
    (Amounts, [{"value": 0}], "a[0].value"),
    (dict[str, list[Disguised]], {"x": [{"value": 0}]}, "a.x[0].value"),
    (tuple[Disguised, int], [{"value": 0}, 1], "a[0].value"),
    (Decimal, "0", "a"),
    (set[int], [0], "a[0]"),
]


@pytest.mark.parametrize(("kind", "arguments", "value"), CASES, ids=lambda one: getattr(one, "__name__", ""))
def test_no_serializer_hides_a_value(kind: Any, arguments: Any, value: str, tmp_path: Path) -> None:
    """The rule sees 500 where the tool would get 500, and 50 is paid."""
    large, small = (_with(arguments, amount) for amount in (500, 50))
    assert refunds(kind, large, f"{value} <= 100", tmp_path) == []
    assert len(refunds(kind, small, f"{value} <= 100", tmp_path)) == 1


def _with(arguments: Any, amount: int) -> Any:
    """The arguments with an amount in place of 0."""
    if isinstance(arguments, dict):
        return {name: _with(item, amount) for name, item in arguments.items()}
    if isinstance(arguments, list):
        return [_with(item, amount) for item in arguments]
    return type(arguments)(amount) if arguments in (0, "0") else arguments


def test_an_enum_is_its_value(tmp_path: Path) -> None:
    """A rule compares it as the model wrote it."""
    assert refunds(Level, 500, "a <= 100", tmp_path) == []
    assert refunds(Level, 50, "a <= 100", tmp_path) == [Level.low]


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (dt.datetime, "2024-01-01T00:00:00"),
        (uuid.UUID, "7a3f9f4e-0000-4000-8000-000000000000"),
        (Path, "/a/b"),
        (bytes, "text"),
    ],
)
def test_what_has_a_text_is_judged_by_it(kind: Any, arguments: str, tmp_path: Path) -> None:
    """Equal texts are equal values."""
    assert len(refunds(kind, arguments, f'a == "{arguments}"', tmp_path)) == 1
    assert refunds(kind, arguments, f'a != "{arguments}"', tmp_path) == []


def test_the_default_of_a_field_that_is_left_out_is_what_the_function_gets(tmp_path: Path) -> None:
    """The host drops a field that is excluded; then the function's own default counts."""
    paid: list[int] = []

    class Given(BaseModel):
        order_id: str
        amount: int = Field(50, exclude=True)

    def refund(order_id: str, amount: int = 500) -> str:
        """Pays."""
        paid.append(amount)
        return "ok"

    made = StructuredTool.from_function(refund, args_schema=Given)
    agent(guard_of(tmp_path, LIMIT), says([("refund", {"order_id": "W1"})]), [made]).invoke(user(), thread())
    assert paid == []


@dataclasses.dataclass
class WithSecret:
    inner: list[SecretStr]


@pytest.mark.parametrize(
    "kind", [SecretStr, SecretBytes, Secret[int], SecretStr | None, dict[str, WithSecret], Iterator[int]]
)
def test_what_nobody_can_be_shown_is_refused_at_attach(kind: Any, tmp_path: Path) -> None:
    """Rule and person would see stars. The host may fill a secret in."""

    def refund(order_id: str, amount: Any) -> str:
        """Pays."""
        return "ok"

    refund.__annotations__["amount"] = kind
    with pytest.raises(InputError, match=r"amount of the tool .*InjectedToolArg"):
        GuardMiddleware(guard_of(tmp_path, LIMIT), [StructuredTool.from_function(refund)])
    refund.__annotations__["amount"] = Annotated[kind, InjectedToolArg]
    GuardMiddleware(guard_of(tmp_path, LIMIT), [StructuredTool.from_function(refund)])


def test_what_cannot_be_shown_is_refused_at_the_call(tmp_path: Path) -> None:
    """Where only the value tells: a validator makes a secret of the number."""

    def secret(value: Any) -> Any:
        return SecretStr(str(value))

    assert refunds(Annotated[object, pydantic.AfterValidator(secret)], 500, "1 == 1", tmp_path) == []


def test_bytes_that_are_no_text_are_judged_in_base64(tmp_path: Path) -> None:
    """They have no other text."""
    assert refunds(pydantic.Base64Bytes, "/w==", 'a.base64 != "/w=="', tmp_path) == []
    assert refunds(pydantic.Base64Bytes, "/w==", 'a.base64 == "/w=="', tmp_path) == [b"\xff"]


@pytest.mark.parametrize("arguments", [{"amount": 50, "Amount": 500}, {"in": [{"id": 1, "ID": 2}]}])
def test_names_that_differ_in_case_only_are_refused_at_every_depth(arguments: Any, tmp_path: Path) -> None:
    """Nobody knows which one the shop reads."""
    assert refunds(dict[str, Any], arguments, "1 == 1", tmp_path) == []
