"""LangChain and LangGraph: rules judge the values that the tool gets, whatever the types of its arguments."""

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
    """Returns the amounts that a tool with this argument type pays under a rule on the amount `a`."""
    paid: list[Any] = []

    def refund(order_id: str, amount: Any) -> str:
        """Pays."""
        paid.append(amount)
        return "ok"

    refund.__annotations__["amount"] = kind
    policy = LIMIT.replace("a <= 100", rule)
    made = StructuredTool.from_function(refund, parse_docstring=False)
    guarded_agent = agent(guard_of(folder, policy), says([("refund", {"order_id": "W1", "amount": arguments})]), [made])
    assert len(results(guarded_agent.invoke(user(), thread()))) == 1
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


@pytest.mark.parametrize(("kind", "arguments", "value"), CASES, ids=lambda value: getattr(value, "__name__", ""))
def test_no_serializer_hides_a_value(kind: Any, arguments: Any, value: str, tmp_path: Path) -> None:
    """The rule sees the same value as the tool: 500 is denied, and 50 is paid."""
    large, small = (_with(arguments, amount) for amount in (500, 50))
    assert refunds(kind, large, f"{value} <= 100", tmp_path) == []
    assert len(refunds(kind, small, f"{value} <= 100", tmp_path)) == 1


def _with(arguments: Any, amount: int) -> Any:
    """Returns the arguments with an amount in place of 0."""
    if isinstance(arguments, dict):
        return {name: _with(item, amount) for name, item in arguments.items()}
    if isinstance(arguments, list):
        return [_with(item, amount) for item in arguments]
    return type(arguments)(amount) if arguments in (0, "0") else arguments


def test_an_enum_is_judged_by_its_value(tmp_path: Path) -> None:
    """A rule compares the value that the model wrote."""
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
def test_values_with_a_string_form_are_judged_by_it(kind: Any, arguments: str, tmp_path: Path) -> None:
    """Rules compare the string form of the value."""
    assert len(refunds(kind, arguments, f'a == "{arguments}"', tmp_path)) == 1
    assert refunds(kind, arguments, f'a != "{arguments}"', tmp_path) == []


def test_the_functions_default_of_an_excluded_field_is_judged(tmp_path: Path) -> None:
    """The host drops an excluded field, so the function's own default is judged."""
    paid: list[int] = []

    class RefundArgs(BaseModel):
        order_id: str
        amount: int = Field(50, exclude=True)

    def refund(order_id: str, amount: int = 500) -> str:
        """Pays."""
        paid.append(amount)
        return "ok"

    made = StructuredTool.from_function(refund, args_schema=RefundArgs)
    agent(guard_of(tmp_path, LIMIT), says([("refund", {"order_id": "W1"})]), [made]).invoke(user(), thread())
    assert paid == []


@dataclasses.dataclass
class WithSecret:
    inner: list[SecretStr]


@pytest.mark.parametrize(
    "kind", [SecretStr, SecretBytes, Secret[int], SecretStr | None, dict[str, WithSecret], Iterator[int]]
)
def test_secret_types_are_refused_at_attach(kind: Any, tmp_path: Path) -> None:
    """Rules and reviewers would see only asterisks. Arguments that the host injects may be secrets."""

    def refund(order_id: str, amount: Any) -> str:
        """Pays."""
        return "ok"

    refund.__annotations__["amount"] = kind
    with pytest.raises(InputError, match=r"'amount' of the tool .*InjectedToolArg"):
        GuardMiddleware(guard_of(tmp_path, LIMIT), [StructuredTool.from_function(refund)])
    refund.__annotations__["amount"] = Annotated[kind, InjectedToolArg]
    GuardMiddleware(guard_of(tmp_path, LIMIT), [StructuredTool.from_function(refund)])


def test_secret_values_are_refused_at_the_call(tmp_path: Path) -> None:
    """A validator returns a secret, which the annotation does not show."""

    def secret(value: Any) -> Any:
        return SecretStr(str(value))

    assert refunds(Annotated[object, pydantic.AfterValidator(secret)], 500, "1 == 1", tmp_path) == []


def test_binary_data_is_judged_in_base64(tmp_path: Path) -> None:
    """Bytes that are not UTF-8 have no other string form."""
    assert refunds(pydantic.Base64Bytes, "/w==", 'a.base64 != "/w=="', tmp_path) == []
    assert refunds(pydantic.Base64Bytes, "/w==", 'a.base64 == "/w=="', tmp_path) == [b"\xff"]


@pytest.mark.parametrize("arguments", [{"amount": 50, "Amount": 500}, {"in": [{"id": 1, "ID": 2}]}])
def test_names_that_differ_in_case_only_are_refused_at_every_depth(arguments: Any, tmp_path: Path) -> None:
    """It is unknown which of the two the tool reads."""
    assert refunds(dict[str, Any], arguments, "1 == 1", tmp_path) == []
