"""Fixtures of the adapter tests: a shop whose tools have side effects, policies, and arguments that probe a limit.

    shop = Shop()                            its tools: shop.authenticate, shop.refund, shop.arefund, shop.wire, ...
    guard = guard_of(tmp_path, LIMIT)        a ToolGuard under one of the policies below; options as of ToolGuard
    assert shop.refunds == [("W1", 50)]      what was really done, whatever anybody says

Append to this file; what is here is used by the tests of every host.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from guardagent.enforcement import ToolGuard

# --- policies ---------------------------------------------------------------------------------------------------------

LIMIT = """
version: 1
policies:
  - id: limit
    temporal: forall(refund(amount=a), a <= 100)
    message: A refund is at most 100.
    remedy: refund 100 or less
"""

AUTHENTICATED = """
version: 1
failed_output: ^Error
policies:
  - id: authenticated
    temporal: G(tool:refund -> O tool:authenticate)
    message: Authenticate the customer first.
"""

APPROVED = """
version: 1
policies:
  - id: large
    temporal: forall(refund(amount=a), a <= 100)
    message: More than 100 needs a person's approval.
    on_violation: escalate
  - id: never
    temporal: forall(refund(amount=a), a <= 1000)
    message: Nobody refunds more than 1000.
"""

TOKENS = """
version: 1
policies:
  - id: tokens
    temporal: forall(refund(), usage.tokens <= 150)
    message: The conversation has used its tokens.
"""

HALTED = """
version: 1
policies:
  - id: no_wire
    temporal: G !tool:wire
    message: No money leaves the bank.
    on_violation: halt
"""

AT_MOST_ONE = """
version: 1
policies:
  - id: once
    temporal: forall(refund(order_id=o), count(f:refund(order_id=o)) == 0)
    message: An order is refunded once.
"""

ASKS = """
version: 1
toolbox: asks.py
policies:
  - id: asks
    temporal: forall(refund(order_id=o), state(answer(o)) == true)
    message: The shop says no.
"""

MISSPELT = """
version: 1
policies:
  - id: limit
    temporal: forall(refnud(amount=a), a <= 100)
"""

PENDING = """
version: 1
policies:
  - id: wired
    temporal: tool:refund -> F tool:wire
    message: Wire what you refund.
"""

_ASKS_TOOLBOX = '''
def answer(state: dict, order_id: str) -> bool | None:
    """What the test says, raises or never says."""
    return state["answer"]()
'''


def policy_file(folder: Path, text: str) -> Path:
    """Writes a policy, and the toolbox of `ASKS`."""
    (folder / "asks.py").write_text(_ASKS_TOOLBOX)
    path = folder / "policies.yaml"
    path.write_text(text)
    return path


def guard_of(folder: Path, text: str, **options: Any) -> ToolGuard:
    """A guard under one of these policies."""
    return ToolGuard(policy_file(folder, text), **options)


# --- rule sets that do not work: guard_of(tmp_path, ASKS, **broken_rules()["raises"]) ---------------------------------


def broken_rules() -> dict[str, dict[str, Any]]:
    """Kind of fault -> options of a guard under `ASKS`. A refund must be denied under each, in less than a second."""

    def raises() -> bool:
        raise RuntimeError("the database is down")

    def hangs() -> bool:
        return threading.Event().wait(2)  # its thread ends some time after the test

    return {
        "raises": {"state": {"answer": raises}},
        "hangs": {"state": {"answer": hangs}, "deadline": 0.1},
        "wrong type": {"state": {"answer": object}},
        "no answer": {"state": {"answer": lambda: None}},
    }


# --- a shop -----------------------------------------------------------------------------------------------------------


@dataclass
class Shop:
    """A shop with tools for agents; its lists record the side effects.

    Attributes:
        refunds: (order, amount) of each refund that was paid.
        logins: the e-mail addresses of those who came in.
        wired: the amounts that left the bank.
        waits: makes `arefund` wait for ever once it has paid, so that it can be cancelled in mid-tool.
        started: set when `arefund` has paid.
    """

    refunds: list[tuple[Any, Any]] = field(default_factory=list)
    logins: list[str] = field(default_factory=list)
    wired: list[Any] = field(default_factory=list)
    waits: bool = False
    started: asyncio.Event = field(default_factory=asyncio.Event)

    def authenticate(self, email: str, code: str = "1234") -> str:
        """Logs a customer in; with a wrong code it fails and says so."""
        if code != "1234":
            return "Error: wrong code"
        self.logins.append(email)
        return "welcome"

    def refund(self, order_id: str, amount: int = 500) -> str:
        """Pays an order back: 500 unless another amount is given."""
        self.refunds.append((order_id, amount))
        return f"refunded {amount} of {order_id}"

    async def arefund(self, order_id: str, amount: int = 500) -> str:
        """As `refund`; register it under the name `refund`."""
        output = self.refund(order_id, amount)
        self.started.set()
        if self.waits:
            await asyncio.Event().wait()
        return output

    def wire(self, amount: int) -> str:
        """Sends money away."""
        self.wired.append(amount)
        return f"wired {amount}"

    def get_order(self, order_id: str) -> dict[str, Any]:
        """Looks an order up."""
        return {"order_id": order_id, "total": 90}

    def break_down(self) -> str:
        """Raises, as tools do."""
        raise ConnectionError("the till does not answer")

    @property
    def most(self) -> Any:
        """The largest amount that was refunded, as a number whatever its type; 0 where there was none."""
        return max((float(str(amount).replace("_", "")) for _, amount in self.refunds), default=0)


# --- arguments that try to get past a limit of 100 (acceptance 2) -----------------------------------------------------

OVER_LIMIT = {
    "number": '{"order_id": "W1", "amount": 500}',
    "text": '{"order_id": "W1", "amount": "500"}',
    "underscore": '{"order_id": "W1", "amount": "5_00"}',
    "exponent": '{"order_id": "W1", "amount": "5e2"}',
    "left out": '{"order_id": "W1"}',
    "beside, after": '{"order_id": "W1", "amount": 50, "Amount": 500}',
    "beside, before": '{"order_id": "W1", "Amount": 500, "amount": 50}',
    "twice, after": '{"order_id": "W1", "amount": 50, "amount": 500}',
    "twice, before": '{"order_id": "W1", "amount": 500, "amount": 50}',
    "not a number": '{"order_id": "W1", "amount": NaN}',
    "infinite": '{"order_id": "W1", "amount": Infinity}',
    "list": '{"order_id": "W1", "amount": [500]}',
    "escaped name": '{"order_id": "W1", "amount": 50, "\\u0061mount": 500}',
}
"""What a model may write as the arguments of `refund`, as JSON text. Under `LIMIT` the shop never pays more than 100:
`shop.most <= 100`. An alias of the argument and a middleware that changes 50 to 500 are the host's to add."""

REPLAN = [{"order_id": "W1", "amount": 500}, {"order_id": "W1", "amount": 50}]
"""What a model proposes under `LIMIT`: denied, and then in order. Afterwards `shop.refunds == [("W1", 50)]`."""

Tools = dict[str, Callable[..., Any]]


def tools_of(shop: Shop, *names: str) -> Tools:
    """Name -> function of the shop."""
    return {name: getattr(shop, name) for name in names}
