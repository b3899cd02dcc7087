"""The OpenAI Agents SDK: a tool never gets other arguments than those that were judged."""

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
    """A tool that reads its JSON text itself, and coerces."""

    async def invoke(context: Any, text: str) -> str:
        arguments = json.loads(text)
        amount = arguments.get("Amount", arguments.get("amount", 500))
        return shop.refund(arguments["order_id"], int(amount) if isinstance(amount, str) else amount)

    properties = {"order_id": {"type": "string"}, "amount": {"type": "number", "default": 500}}
    schema = {"type": "object", "properties": properties, "required": ["order_id"]}
    return FunctionTool("refund", "", schema, invoke, strict_json_schema=False)


def _any_type(shop: Shop) -> FunctionTool:
    """A tool whose amount has no type, and that takes what is left over."""

    def refund(order_id: str, amount: Any = 500, **others: Any) -> str:
        return shop.refund(order_id, others.get("Amount", amount))

    return tool(refund)


MAKERS = {"function": lambda shop: tool(shop.refund), "by hand": _by_hand, "any type": _any_type}


@pytest.mark.parametrize("name", OVER_LIMIT)
@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("rules", [LIMIT, APPROVED])
def test_no_way_of_writing_500_gets_past_a_limit(tmp_path: Path, name: str, maker: str, rules: str) -> None:
    """Whatever a model writes, the shop never pays more than 100, nor is it paid for having been asked about."""
    shop = Shop()
    agent = agent_of(guard_of(tmp_path, rules), [MAKERS[maker](shop)], calls(("refund", OVER_LIMIT[name])), calls("x"))
    ran(agent)
    assert shop.most <= 100


def test_what_validation_makes_of_a_text_is_judged(tmp_path: Path) -> None:
    """A text of "50" reaches a function that takes a number as 50, and is in order."""
    shop = Shop()
    ran(agent_of(guard_of(tmp_path, LIMIT), [tool(shop.refund)], calls(refund("50")), calls("x")))
    assert shop.refunds == [("W1", 50)]


def test_a_name_that_is_not_declared_is_refused(tmp_path: Path) -> None:
    """The SDK would drop it: the model is told instead."""
    shop, arguments = Shop(), {"order_id": "W1", "amount": 50, "Amount": 60}
    ran(agent_of(guard_of(tmp_path, LIMIT), [tool(shop.refund)], calls(("refund", arguments)), calls("x")))
    assert shop.refunds == []


def test_an_alias_of_an_argument_is_judged_by_its_name(tmp_path: Path) -> None:
    """The rules know the function's `amount`, whatever the model calls it."""
    shop = Shop()

    def refund(order_id: str, amount: Annotated[int, Field(alias="amt")]) -> str:
        return shop.refund(order_id, amount)

    turns = [calls(("refund", {"order_id": "W1", "amt": amount})) for amount in (500, 50)]
    ran(agent_of(guard_of(tmp_path, LIMIT), [tool(refund)], *turns, calls("x")))
    assert shop.refunds == [("W1", 50)]


def test_duplicate_keys_are_refused_with_the_reason(tmp_path: Path) -> None:
    """The model is told which name stood twice."""
    text = '{"order_id": "W1", "amount": 50, "amount": 60}'
    shop = Shop()
    result = ran(agent_of(guard_of(tmp_path, LIMIT), [tool(shop.refund)], calls(("refund", text)), calls("x")))
    assert shop.refunds == []
    assert "'amount' appears twice" in outputs(result)[0]


def test_a_guardrail_that_changes_the_call_is_judged(tmp_path: Path) -> None:
    """A tool_input_guardrail that runs first and makes 500 of 50 changes what is judged, not what runs."""
    shop = Shop()

    def raises(data: Any) -> Any:
        data.context.tool_call.arguments = '{"order_id": "W1", "amount": 500}'
        return ToolGuardrailFunctionOutput.allow()

    refunding = tool(shop.refund, tool_input_guardrails=[ToolInputGuardrail(guardrail_function=raises)])
    ran(agent_of(guard_of(tmp_path, LIMIT), [refunding], calls(refund(50)), calls("x")))
    assert shop.refunds == []


def test_a_middleware_around_the_guarded_tool_is_judged(tmp_path: Path) -> None:
    """Whoever wraps `on_invoke_tool` afterwards and makes 500, or 60, of 50 is refused; who changes nothing is not."""
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
    """An amount, coerced and completed by a model."""

    value: int = 500
    currency: str = "EUR"


class Kind(enum.Enum):
    """Why."""

    BROKEN = "broken"


@dataclasses.dataclass
class Order:
    """An order."""

    id: str


def test_models_dataclasses_and_enums_are_judged_by_their_fields(tmp_path: Path) -> None:
    """The function gets its own types, the rules plain values."""
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
    """A name that is positional only and stands among the others too is refused; names of their own pass."""
    shop = Shop()

    def refund(amount: int, /, **others: Any) -> str:
        return shop.refund("W1", max(amount, others.get("amount", 0)))

    arguments = [{"amount": 500, "others": {"amount": 50}}, {"amount": 50, "others": {"note": "x"}}]
    turns = [calls(("refund", one)) for one in arguments]
    ran(agent_of(guard_of(tmp_path, LIMIT), [tool(refund)], *turns, calls("x")))
    assert shop.refunds == [("W1", 50)]


def test_a_tool_with_an_output_schema(tmp_path: Path) -> None:
    """A denial is not held to the schema of what the tool gives."""
    shop = Shop()

    def refund(order_id: str, amount: int) -> Money:
        shop.refund(order_id, amount)
        return Money(value=amount)

    turns = [calls(("refund", {"order_id": "W1", "amount": amount})) for amount in (500, 50)]
    result = ran(agent_of(guard_of(tmp_path, LIMIT), [tool(refund, output_type=Money)], *turns, calls("x")))
    assert shop.refunds == [("W1", 50)]
    assert "at most 100" in outputs(result)[0]


class Rounded(BaseModel):
    """An amount that is written otherwise than it is, and paid by what only a validator knows."""

    value: Annotated[int, PlainSerializer(lambda value: 1)]
    fee: int = Field(0, exclude=True)
    _total: int = PrivateAttr(0)

    def model_post_init(self, context: Any) -> None:
        """Adds it up."""
        self._total = self.value + self.fee


@pytest.mark.parametrize("field", ["value", "fee", "_total"])
def test_no_serializer_hides_what_a_tool_gets(tmp_path: Path, field: str) -> None:
    """A field that is serialised otherwise, one that is left out, and one that a validator has set are all judged."""
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
    """An order with what its constructor keeps to itself."""

    id: str
    key: dataclasses.InitVar[int] = 0

    def __post_init__(self, key: int) -> None:
        """Keeps it."""
        self.paid = key


def test_what_a_dataclass_keeps_beside_its_fields_is_judged(tmp_path: Path) -> None:
    """The tool can read it, and so can the rules."""
    shop = Shop()

    def refund(order: Signed) -> str:
        return shop.refund(order.id, order.paid)

    limit = LIMIT.replace("refund(amount=a), a <= 100", "refund(order=o), o.paid <= 100")
    turns = [calls(("refund", {"order": {"id": "W1", "key": key}})) for key in (500, 50)]
    ran(agent_of(guard_of(tmp_path, limit), [tool(refund)], *turns, calls("x")))
    assert shop.refunds == [("W1", 50)]


@pytest.mark.parametrize("rules", [LIMIT, APPROVED])
def test_what_cannot_be_shown_is_refused(tmp_path: Path, rules: str) -> None:
    """A pattern: no rule could judge it, and no person could be shown it."""
    shop = Shop()

    def refund(amount: int, note: re.Pattern[str]) -> str:
        return shop.refund(str(note), amount)

    turns = [calls(("refund", {"amount": 5, "note": "W1"})), calls("x")]
    result = ran(agent_of(guard_of(tmp_path, rules), [tool(refund)], *turns))
    assert shop.refunds == []
    assert "note of refund is a" in outputs(result)[0]


def test_what_no_rule_can_be_shown_is_refused_at_attach(tmp_path: Path) -> None:
    """A secret, also within a model, and what can be read once: before anybody proposes a call."""

    class Login(BaseModel):
        code: SecretStr

    def pay(amount: int, pin: Any) -> None: ...

    for kind, named in ((SecretStr, "SecretStr"), (list[Login], "SecretStr"), (Iterable[str], "Iterable")):
        pay.__annotations__["pin"] = kind
        with pytest.raises(InputError, match=f"pin of tool 'pay' is a {named}"):
            agent_of(guard_of(tmp_path, LIMIT), [tool(pay), tool(Shop().refund)])


def test_dates_ids_and_paths_are_judged_as_their_text(tmp_path: Path) -> None:
    """As JSON has them; the function gets its own types, also of an edit."""
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


def test_a_function_whose_work_is_not_done_when_it_returns(tmp_path: Path) -> None:
    """A coroutine is awaited before its call is recorded; a generator, which nobody runs, is refused at attach."""
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
