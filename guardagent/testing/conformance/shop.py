"""A shop whose tools have side effects. Its book records what the tools of all processes really did."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

SECRET = "47x11"  # noqa: S105 - of nobody; no random identifier has an x
"""A secret that `get_order` returns and no answer may contain."""

REFUSALS: dict[str, Any] = {  # code -> the ways in which a login says that it failed
    "text": "Error: wrong code",
    "list": ["Your login.", "Error: wrong code"],
}


class Shop:
    """A shop. `Shop(folder)` in another process, such as a server's, is the same shop.

    Args:
        folder: the folder of its book.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._book = folder / "book.jsonl"

    # --- its tools

    async def authenticate(self, email: str, code: str = "right") -> Any:
        """Lets a customer in; a code out of REFUSALS does not."""
        if code in REFUSALS:
            return REFUSALS[code]
        self._note("authenticate", email)
        return "welcome"

    async def refund(self, order_id: str, amount: int = 500) -> str:
        """Pays an order back: 500 unless another amount is given."""
        self._note("refund", order_id, amount)
        while self._flag(f"held {order_id}").exists():  # noqa: ASYNC110 - another process may let go
            await asyncio.sleep(0.01)
        if self._flag("silent").exists():
            self.lose_answer()
        return f"refunded {amount} of {order_id}"

    async def get_order(self, order_id: str) -> str:
        """Returns the secret, which no answer may contain."""
        return f"{order_id}, PIN {SECRET}"

    async def payout(self, amount: int) -> str:
        """Pays an amount; no rule names this tool."""
        self._note("payout", amount)
        return "paid"

    def tool(self, name: str) -> Callable[..., Any]:
        """One of the above."""
        found: Callable[..., Any] = getattr(self, name)
        return found

    def lose_answer(self) -> None:
        """Loses the answer of a tool that did its work. A server's process ends here instead."""
        raise TimeoutError("no answer in time")

    # --- what was done

    @property
    def refunds(self) -> list[tuple[Any, Any]]:
        """(order, amount) of each refund that was paid."""
        return [(line[1], line[2]) for line in self._lines() if line[0] == "refund"]

    @property
    def logins(self) -> list[Any]:
        """The customers that logged in."""
        return [line[1] for line in self._lines() if line[0] == "authenticate"]

    @property
    def payouts(self) -> list[Any]:
        """The amounts that `payout` paid."""
        return [line[1] for line in self._lines() if line[0] == "payout"]

    # --- what a scenario sets

    def hold(self, order_id: str) -> None:
        """A refund of this order does not come back once it has paid, until the shop lets go."""
        self._flag(f"held {order_id}").touch()

    def let_go(self, order_id: str) -> None:
        """Ends the effect of the method above."""
        self._flag(f"held {order_id}").unlink()

    def fall_silent(self) -> None:
        """The answer of a refund is lost once it has paid."""
        self._flag("silent").touch()

    def speak_again(self) -> None:
        """Ends the effect of the method above."""
        self._flag("silent").unlink()

    def _lines(self) -> list[Any]:
        return [json.loads(line) for line in self._book.read_text().splitlines()] if self._book.exists() else []

    def _note(self, *what: Any) -> None:
        with self._book.open("a") as book:
            book.write(json.dumps(what) + "\n")

    def _flag(self, name: str) -> Path:
        return self.folder / name
