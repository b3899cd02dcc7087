"""The OpenAI Agents SDK: a tool gets exactly the arguments that were judged."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import json
import pathlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import pytest

pytest.importorskip("agents.testing")

from agents import FunctionTool, ToolGuardrailFunctionOutput, ToolInputGuardrail
from agents.testing import ScriptedModel
from agents.tool_context import ToolContext
from pydantic import BaseModel, Field, PlainSerializer, PrivateAttr, SecretStr

from guardagent.errors import InputError
from tests.frameworks.openai_agents.runs import agent_of, calls, outputs, ran, refund, tool
from tests.frameworks.scenarios import APPROVED, AT_MOST_ONE, AUTHENTICATED, LIMIT, OVER_LIMIT, Shop, guard_of


def _by_hand(shop: Shop) -> FunctionTool:
    """Returns a tool that parses its JSON arguments itself and coerces them."""

    async def invoke(context: Any, text: str) -> str:
        arguments = json.loads(text)
        amount = arguments.get("Amount", arguments.get("amount", 500))
        return shop.refund(arguments["order_id"], int(amount) if isinstance(amount, str) else amount)

    properties = {"order_id": {"type": "string"}, "amount": {"type": "number", "default": 500}}
    schema = {"type": "object", "properties": properties, "required": ["order_id"]}
    return FunctionTool("refund", "", schema, invoke, strict_json_schema=False)


def _any_type(shop: Shop) -> FunctionTool:
    """Returns a tool whose amount has no type, and which accepts additional arguments."""

    def refund(order_id: str, amount: Any = 500, **others: Any) -> str:
        return shop.refund(order_id, others.get("Amount", amount))

    return tool(refund)


MAKERS = {"function": lambda shop: tool(shop.refund), "by hand": _by_hand, "any type": _any_type}


@pytest.mark.parametrize("name", OVER_LIMIT)
@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("rules", [LIMIT, APPROVED])
def test_no_spelling_of_500_bypasses_a_limit(tmp_path: Path, name: str, maker: str, rules: str) -> None:
    """However the model writes the amount, the shop pays at most 100 and nothing that needs approval."""
    shop = Shop()
    agent = agent_of(guard_of(tmp_path, rules), [MAKERS[maker](shop)], calls(("refund", OVER_LIMIT[name])), calls("x"))
    ran(agent)
    assert shop.most <= 100


def test_validated_values_are_judged(tmp_path: Path) -> None:
    """The string "50" reaches a function with an integer parameter as 50 and is allowed."""
    shop = Shop()
    ran(agent_of(guard_of(tmp_path, LIMIT), [tool(shop.refund)], calls(refund("50")), calls("x")))
    assert shop.refunds == [("W1", 50)]


def test_undeclared_names_are_refused(tmp_path: Path) -> None:
    """The SDK would drop it without an error."""
    shop, arguments = Shop(), {"order_id": "W1", "amount": 50, "Amount": 60}
    ran(agent_of(guard_of(tmp_path, LIMIT), [tool(shop.refund)], calls(("refund", arguments)), calls("x")))
    assert shop.refunds == []


def test_an_alias_of_an_argument_is_judged_by_its_name(tmp_path: Path) -> None:
    """The rules see the function's `amount`, whatever alias the model uses."""
    shop = Shop()

    def refund(order_id: str, amount: Annotated[int, Field(alias="amt")]) -> str:
        return shop.refund(order_id, amount)

    turns = [calls(("refund", {"order_id": "W1", "amt": amount})) for amount in (500, 50)]
    ran(agent_of(guard_of(tmp_path, LIMIT), [tool(refund)], *turns, calls("x")))
    assert shop.refunds == [("W1", 50)]


def test_duplicate_keys_are_refused_with_the_reason(tmp_path: Path) -> None:
    """The error names the duplicate key."""
    text = '{"order_id": "W1", "amount": 50, "amount": 60}'
    shop = Shop()
    result = ran(agent_of(guard_of(tmp_path, LIMIT), [tool(shop.refund)], calls(("refund", text)), calls("x")))
    assert shop.refunds == []
    assert "'amount' appears twice" in outputs(result)[0]


def test_a_guardrail_that_changes_the_call_is_judged(tmp_path: Path) -> None:
    """If a tool_input_guardrail changes 50 to 500 before the check, 500 is judged."""
    shop = Shop()

    def raises(data: Any) -> Any:
        data.context.tool_call.arguments = '{"order_id": "W1", "amount": 500}'
        return ToolGuardrailFunctionOutput.allow()

    refunding = tool(shop.refund, tool_input_guardrails=[ToolInputGuardrail(guardrail_function=raises)])
    ran(agent_of(guard_of(tmp_path, LIMIT), [refunding], calls(refund(50)), calls("x")))
    assert shop.refunds == []


def test_a_middleware_around_the_guarded_tool_is_judged(tmp_path: Path) -> None:
    """A wrapper of `on_invoke_tool` that changes the amount is refused; one that changes nothing is not."""
    for text, paid in (("500", []), ("60", []), ("50", [("W1", 50)])):
        shop = Shop()
        agent = agent_of(guard_of(tmp_path, AT_MOST_ONE), [tool(shop.refund)], calls(refund(50)), calls("x"))
        agent.tools[0].on_invoke_tool = _changing(agent.tools[0].on_invoke_tool, text)
        ran(agent)
        assert shop.refunds == paid


def _changing(inner: Any, text: str) -> Any:
    async def changes(context: Any, arguments: str) -> Any:
        return await inner(context, arguments.replace("50", text))

    return changes


class Money(BaseModel):
    """An amount with a default, which a model coerces."""

    value: int = 500
    currency: str = "EUR"


class Kind(enum.Enum):
    """The reason for a refund."""

    BROKEN = "broken"


@dataclasses.dataclass
class Order:
    """An order."""

    id: str


def test_models_dataclasses_and_enums_are_judged_by_their_fields(tmp_path: Path) -> None:
    """The function gets its own types, and the rules see plain values."""
    shop = Shop()
    limit = LIMIT.replace("refund(amount=a), a <= 100", "refund(money=m), m.value <= 100")

    def refund(context: ToolContext[Any], order: Order, money: Money, *, kind: Kind = Kind.BROKEN) -> str:
        assert context.tool_name == "refund"
        assert isinstance(kind, Kind)
        return shop.refund(order.id, money.value)

    arguments = [{"value": "50"}, {}, {"value": 500}]
    turns = [calls(("refund", {"order": {"id": "W1"}, "money": money})) for money in arguments]
    ran(agent_of(guard_of(tmp_path, limit), [tool(refund)], *turns, calls("x")))
    assert shop.refunds == [("W1", 50)]


def test_variadic_arguments_are_judged(tmp_path: Path) -> None:
    """A positional-only name that is also among the variadic arguments is refused; other names are allowed."""
    shop = Shop()

    def refund(amount: int, /, **others: Any) -> str:
        return shop.refund("W1", max(amount, others.get("amount", 0)))

    arguments = [{"amount": 500, "others": {"amount": 50}}, {"amount": 50, "others": {"note": "x"}}]
    turns = [calls(("refund", argument)) for argument in arguments]
    ran(agent_of(guard_of(tmp_path, LIMIT), [tool(refund)], *turns, calls("x")))
    assert shop.refunds == [("W1", 50)]


def test_a_tool_with_an_output_schema(tmp_path: Path) -> None:
    """A denial need not match the tool's output schema."""
    shop = Shop()

    def refund(order_id: str, amount: int) -> Money:
        shop.refund(order_id, amount)
        return Money(value=amount)

    turns = [calls(("refund", {"order_id": "W1", "amount": amount})) for amount in (500, 50)]
    result = ran(agent_of(guard_of(tmp_path, LIMIT), [tool(refund, output_type=Money)], *turns, calls("x")))
    assert shop.refunds == [("W1", 50)]
    assert "at most 100" in outputs(result)[0]


class Rounded(BaseModel):
    """A model whose serializer hides the value and whose validator sets a private attribute."""

    value: Annotated[int, PlainSerializer(lambda value: 1)]
    fee: int = Field(0, exclude=True)
    _total: int = PrivateAttr(0)

    def model_post_init(self, context: Any) -> None:
        """Computes the total."""
        self._total = self.value + self.fee


@pytest.mark.parametrize("field", ["value", "fee", "_total"])
def test_no_serializer_hides_what_a_tool_gets(tmp_path: Path, field: str) -> None:
    """Fields with a serializer, excluded fields and private attributes are all judged."""
    shop = Shop()

    def refund(money: Rounded) -> str:
        return shop.refund("W1", money._total)

    limit = LIMIT.replace("refund(amount=a), a <= 100", f"refund(money=m), m.{field} <= 100")
    turns = [calls(("refund", {"money": {"value": 50, "fee": fee, "_total": 1}})) for fee in (450, 0)]
    if field == "value":
        turns[0] = calls(("refund", {"money": {"value": 500}}))
    ran(agent_of(guard_of(tmp_path, limit), [tool(refund)], *turns, calls("x")))
    assert shop.refunds == [("W1", 50)]


@dataclasses.dataclass
class Signed:
    """A dataclass whose constructor sets an attribute that is not a field."""

    id: str
    key: dataclasses.InitVar[int] = 0

    def __post_init__(self, key: int) -> None:
        """Sets an attribute that is not a field."""
        self.paid = key


def test_attributes_beside_dataclass_fields_are_judged(tmp_path: Path) -> None:
    """Rules see every attribute that the tool can read."""
    shop = Shop()

    def refund(order: Signed) -> str:
        return shop.refund(order.id, order.paid)

    limit = LIMIT.replace("refund(amount=a), a <= 100", "refund(order=o), o.paid <= 100")
    turns = [calls(("refund", {"order": {"id": "W1", "key": key}})) for key in (500, 50)]
    ran(agent_of(guard_of(tmp_path, limit), [tool(refund)], *turns, calls("x")))
    assert shop.refunds == [("W1", 50)]


@pytest.mark.parametrize("rules", [LIMIT, APPROVED])
def test_opaque_values_are_refused(tmp_path: Path, rules: str) -> None:
    """A compiled pattern cannot be judged by a rule or shown to a reviewer."""
    shop = Shop()

    def refund(amount: int, note: re.Pattern[str]) -> str:
        return shop.refund(str(note), amount)

    turns = [calls(("refund", {"amount": 5, "note": "W1"})), calls("x")]
    result = ran(agent_of(guard_of(tmp_path, rules), [tool(refund)], *turns))
    assert shop.refunds == []
    assert "note of refund is a" in outputs(result)[0]


def test_opaque_types_are_refused_at_attach(tmp_path: Path) -> None:
    """Secrets, also nested ones, and iterators are refused before any call."""

    class Login(BaseModel):
        code: SecretStr

    def pay(amount: int, pin: Any) -> None: ...

    for kind, named in ((SecretStr, "SecretStr"), (list[Login], "SecretStr"), (Iterable[str], "Iterable")):
        pay.__annotations__["pin"] = kind
        with pytest.raises(InputError, match=f"pin of tool 'pay' is a {named}"):
            agent_of(guard_of(tmp_path, LIMIT), [tool(pay), tool(Shop().refund)])


def test_dates_and_paths_are_judged_as_strings(tmp_path: Path) -> None:
    """Rules see the JSON form; the function gets its own types, also after an edit."""
    shop: Any = Shop()

    def refund(day: dt.date, where: pathlib.Path, amount: decimal.Decimal) -> Any:
        return shop.refund((day, where), amount)

    rule = 'forall(refund(day=d, where=w, amount=a), d == "2026-01-31" && w == "/srv/a" && a <= 100)'
    arguments = {"day": "2026-01-31", "where": "/srv/a", "amount": "9.50"}
    turns = [calls(("refund", {**arguments, **more})) for more in ({"amount": "500"}, {"day": "2026-02-01"}, {})]
    agent = agent_of(guard_of(tmp_path, LIMIT.replace("forall(refund(amount=a), a <= 100)", rule)), [tool(refund)])
    agent.model = ScriptedModel([*turns, calls("x")])
    ran(agent)
    assert shop.refunds == [((dt.date(2026, 1, 31), pathlib.Path("/srv/a")), decimal.Decimal("9.50"))]


def test_unfinished_work_is_awaited_or_refused(tmp_path: Path) -> None:
    """A coroutine is awaited before its call is recorded; a generator is refused at attach."""
    shop = Shop()

    async def slowly() -> str:
        return shop.authenticate("a@b.c", "0000")

    def authenticate() -> Any:
        return slowly()

    tools, turns = [tool(authenticate), tool(shop.refund)], [calls(("authenticate", {})), calls(refund(5)), calls("x")]
    ran(agent_of(guard_of(tmp_path, AUTHENTICATED), tools, *turns))
    assert shop.refunds == []

    def lazily() -> Iterable[str]:
        yield shop.authenticate("a@b.c")

    with pytest.raises(InputError, match="is a generator"):
        agent_of(guard_of(tmp_path, AUTHENTICATED), [tool(lazily, "authenticate"), tool(shop.refund)])
