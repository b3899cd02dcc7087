"""Many interleaved conversations in one process get the same verdicts as each one alone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guardagent.enforcement import HostCall, Outcome, ToolGuard
from tests.enforcement.guards import AUTHENTICATED, LIMIT, ONCE, guard
from tests.tiers import examples

CONVERSATIONS = 50
RULES = (AUTHENTICATED, LIMIT, ONCE, "forall(refund(), count(f:authenticate(), failed(f)) < 3)")
Seen = dict[str, list[tuple[int, tuple[str, ...]]]]  # conversation -> the verdict and reasons of each call


@dataclass(frozen=True)
class Proposed:
    """A call of a conversation, with its outcome if it runs."""

    conversation: str
    tool: str
    order: str
    amount: int
    ends: str

    def call(self) -> HostCall:
        args = {"order": self.order, "amount": self.amount} if self.tool == "refund" else {}
        return HostCall(self.tool, args, self.conversation)

    def outcome(self) -> Outcome:
        ended = {"ok": Outcome("done"), "failed": Outcome("no", failed=True)}
        return ended.get(self.ends) or Outcome.of_error(asyncio.CancelledError())


PROPOSALS = st.lists(
    st.builds(
        Proposed,
        st.integers(0, CONVERSATIONS - 1).map(lambda number: f"c{number}"),
        st.sampled_from(["authenticate", "refund", "refund", "look"]),
        st.sampled_from(["W1", "W2"]),
        st.sampled_from([50, 100, 101]),
        st.sampled_from(["ok", "ok", "ok", "failed", "cancelled"]),
    ),
    max_size=120,
)


def happens(tool_guard: ToolGuard, proposed: Proposed, seen: Seen) -> None:
    """Proposes a call, and runs it if it is allowed."""
    call = proposed.call()
    verdict = tool_guard.before(call)
    seen.setdefault(proposed.conversation, []).append((verdict.label, verdict.rules))
    if verdict.label == 0:
        tool_guard.use(call)
        tool_guard.after(call, proposed.outcome())


async def ahappens(tool_guard: ToolGuard, proposed: Proposed, seen: Seen) -> None:
    call = proposed.call()
    verdict = await tool_guard.abefore(call)
    seen.setdefault(proposed.conversation, []).append((verdict.label, verdict.rules))
    if verdict.label == 0:
        await tool_guard.ause(call)
        await asyncio.sleep(0)
        await tool_guard.aafter(call, proposed.outcome())


def alone(proposals: Sequence[Proposed]) -> Seen:
    """Returns the verdicts of each conversation under its own guard."""
    seen: Seen = {}
    guards: dict[str, ToolGuard] = {}
    for proposed in proposals:
        happens(guards.setdefault(proposed.conversation, guard(*RULES)), proposed, seen)
    return seen


def by_conversation(proposals: Sequence[Proposed]) -> list[list[Proposed]]:
    proposeds: dict[str, list[Proposed]] = {}
    for proposed in proposals:
        proposeds.setdefault(proposed.conversation, []).append(proposed)
    return list(proposeds.values())


def one_after_the_other(tool_guard: ToolGuard, proposals: Sequence[Proposed], seen: Seen) -> None:
    for proposed in proposals:
        happens(tool_guard, proposed, seen)


def in_threads(tool_guard: ToolGuard, proposals: Sequence[Proposed], seen: Seen) -> None:
    groups = by_conversation(proposals)
    if not groups:
        return
    together = threading.Barrier(len(groups))

    def converse(group: list[Proposed]) -> None:
        together.wait(10)
        one_after_the_other(tool_guard, group, seen)

    with ThreadPoolExecutor(len(groups)) as pool:
        list(pool.map(converse, groups))


def in_tasks(tool_guard: ToolGuard, proposals: Sequence[Proposed], seen: Seen) -> None:
    async def converse(group: list[Proposed]) -> None:
        for proposed in group:
            await ahappens(tool_guard, proposed, seen)

    async def main() -> None:
        await asyncio.gather(*map(converse, by_conversation(proposals)))

    asyncio.run(main())


def options(*, in_the_pool: bool) -> dict[str, Any]:
    """Returns the guard's options: with a host function, checks run in threads; else they run in the caller."""
    return {"facts": lambda call: {}} if in_the_pool else {}


@pytest.mark.parametrize("in_the_pool", [False, True])
@pytest.mark.parametrize("how", [one_after_the_other, in_threads, in_tasks])
@settings(max_examples=examples(20))
@given(PROPOSALS)
def test_no_history_leaks(how: Callable[..., None], in_the_pool: bool, proposals: list[Proposed]) -> None:
    """Interleaved in any order, every conversation gets the verdicts that it gets alone."""
    seen: Seen = {}
    tool_guard = guard(*RULES, **options(in_the_pool=in_the_pool))
    how(tool_guard, proposals, seen)
    assert seen == alone(proposals)
    for name in seen:
        assert all(event.tool in ("authenticate", "refund", "look") for event in tool_guard.session(name).history)


@pytest.mark.parametrize("in_the_pool", [False, True])
def test_fifty_threads_of_one_conversation_pay_once(in_the_pool: bool) -> None:
    """Agents that share a conversation cannot evade a rule with concurrent calls."""
    once_guard = guard(ONCE, **options(in_the_pool=in_the_pool))
    together, paid = threading.Barrier(50), []

    def pay(number: int) -> None:
        call = HostCall("refund", {"order": "W1", "amount": 1}, "c", agent=f"agent {number}")
        together.wait(10)
        if once_guard.before(call).label == 0:
            paid.append(once_guard.use(call))
            once_guard.after(call, Outcome())

    with ThreadPoolExecutor(50) as pool:
        list(pool.map(pay, range(50)))
    assert len(paid) == 1
    assert len(once_guard.session("c").history) == 1
