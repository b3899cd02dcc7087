"""Guarded agents of Strands for tests, with a model that follows a script."""

from __future__ import annotations

from typing import Any, Literal

from strands import Agent, tool

from guardagent.enforcement import EnforcementPoint
from guardagent.frameworks.strands import GuardIntervention, conversation, guarded
from tests.frameworks.scenarios import Shop
from tests.frameworks.strands.scripted_model import ScriptedModel, Turn

Form = Literal["intervention", "guarded"]


def refund(amount: Any, order_id: str = "W1") -> list[tuple[str, Any]]:
    """A turn of the model that proposes a refund."""
    return [("refund", {"order_id": order_id, "amount": amount})]


def tools_of(shop: Shop, *names: str) -> list[Any]:
    """The shop's functions as tools; an asynchronous one has the name of the other."""
    return [tool(name="refund" if name == "arefund" else name)(getattr(shop, name)) for name in names]


def agent_of(
    guard: EnforcementPoint, shop: Shop, *turns: Turn, form: Form = "intervention", tools: Any = None, **options: Any
) -> Any:
    """A guarded agent with the shop's tools."""
    agent_options = {
        "model": ScriptedModel(turns),
        "tools": tools_of(shop, "refund", "wire", "authenticate") if tools is None else tools,
        "callback_handler": None,
        **options,
    }
    if form == "guarded":
        return guarded(Agent(**agent_options), guard)
    return Agent(interventions=[GuardIntervention(guard)], **agent_options)


def ran(agent: Any, prompt: Any = "please", name: str = "c1", **options: Any) -> Any:
    """Runs an agent in a conversation. Returns the result."""
    with conversation(name):
        return agent(prompt, **options)


async def events_of(agent: Any, prompt: Any = "please", name: str = "c1", **options: Any) -> list[Any]:
    """Runs an agent in a conversation. Returns all that its stream shows."""
    with conversation(name):
        return [event async for event in agent.stream_async(prompt, **options)]


def answers_to(result: Any, answer: Any) -> list[Any]:
    """The same answer to each interrupt of a run."""
    return [{"interruptResponse": {"interruptId": interrupt.id, "response": answer}} for interrupt in result.interrupts]


def results(agent: Any) -> list[Any]:
    """The results of tools that the agent's messages show."""
    blocks = [block for message in agent.messages for block in message["content"]]
    return [block["toolResult"] for block in blocks if "toolResult" in block]
