"""Tools as people write them, imported by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass
class Address:
    city: str


def refund(order_id: str, amount: float, to: Literal["card", "cash"] = "card") -> dict[str, float]:
    """Refund an order.

    Args:
        order_id: The order,
            as printed.
        amount (float): In dollars.
        to: Where it goes.
    """
    return {order_id: amount}


def move(address: list[Address], **others: Any) -> None:
    """Move.

    :param address: the new one
    """


class Tool:
    """A tool object; `schema` is what frameworks call it."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


class Agent:
    tools = (refund, Tool(name="ask", description="Ask.", params_json_schema={"type": "object"}))


SCHEMA = {"type": "object", "properties": {"x": {"type": "string"}}}


class Arguments:
    @staticmethod
    def model_json_schema() -> dict[str, Any]:
        return SCHEMA


FRAMEWORKS = [
    Tool(name="a", description="d", tool_call_schema=Arguments, input_schema={"type": "object"}),
    Tool(name="b", description="d", args_schema=Arguments),
    Tool(name="c", description="d", inputSchema=SCHEMA, outputSchema={"type": "string"}),
    Tool(metadata=Tool(name="e", description="d", get_parameters_dict=lambda: SCHEMA)),
    Tool(name="f", description="d", schema={"name": "f", "parameters": SCHEMA}),
    Tool(name="g", description="d", parameters=SCHEMA),
    Tool(name="h", description="d", function_schema=Tool(json_schema=SCHEMA)),
    {"name": "i", "description": "d", "input_schema": SCHEMA},
]

agent = Agent()
by_name = {"pay": refund}
a_number = [refund, 5]
nothing: list[Any] = []


def odd(lock: Tool) -> None:
    """Take what has no schema."""


def positional(x: int, /) -> None:
    """Take what has no name."""
