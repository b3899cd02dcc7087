"""A shop with a model behind a scripted server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from guardagent import GuardedTurn, Session, guarded_chat, load_policies
from guardagent.models.backends.openai import Backend
from tests.conftest import Write
from tests.models.conftest import Serve, serve
from tests.models.server import Script, ScriptedServer

__all__ = ["serve"]

RULES = """
    version: 1
    policies:
      - id: known
        temporal: G(tool:refund -> O tool:find)
        message: Find the customer first.
      - id: small
        temporal: forall(refund(amount=a), a <= 100)
        message: At most 100.
        remedy: Refund less.
      - id: once
        temporal: forall(pay(), count(f:pay(), !failed(f)) < 1)
        message: Pay once.
      - id: gone
        temporal: G !tool:delete
        message: Nothing is deleted.
        on_violation: halt
      - id: asked
        temporal: forall(close(), false)
        message: A person closes accounts.
        on_violation: escalate
    """
FIND, REFUND, TOO_MUCH = ("find", {"name": "Ann"}), ("refund", {"amount": 50}), ("refund", {"amount": 500})
ASK = [{"role": "user", "content": "Refund me."}]


def tool(name: str, /, **properties: Any) -> dict[str, Any]:
    """A tool, all of whose arguments are required but those with a default."""
    required = [key for key, schema in properties.items() if "default" not in schema]
    schema = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


TOOLS = [
    tool("find", name={"type": "string"}),
    tool("refund", amount={"type": "number"}, note={"type": "string", "default": "none"}),
    tool("pay", to={"type": "string", "pattern": "^[a-z]+$"}),
    tool("delete", id={"type": "integer"}),
    tool("close", id={"type": "integer"}),
]


@pytest.fixture
def session(write: Write) -> Session:
    """A session of a shop in which the customer is already found."""
    session = load_policies(write("shop.yaml", RULES)).session()
    session.check(*FIND)
    session.record("c1")
    return session


Chat = Callable[..., tuple[GuardedTurn, ScriptedServer]]


@pytest.fixture
def chat(serve: Serve, session: Session) -> Chat:
    """Asks a model whose answers are a script, over HTTP."""

    def ask(script: Script, **options: Any) -> tuple[GuardedTurn, ScriptedServer]:
        server = serve(script)
        model = Backend("test", retries=1, timeout=20, prices=(1, 1))
        return guarded_chat(model, ASK, TOOLS, session, **options), server

    return ask
