"""The cost of a guard per call of a plain function: `@guarded`, and a message of one call in the tool loop."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

_CONVERSATIONS = 10


def refund(order_id: str, amount: int = 500) -> str:
    return f"refunded {amount} of {order_id}"


def authenticate() -> str:
    return "welcome"


def measure(calls: int) -> tuple[list[float], list[float]]:
    """Seconds of each call, alternating unguarded and guarded."""
    guarded = _tools()[0]
    return _in_turn(lambda at: refund(f"W{at}", amount=50), lambda at: guarded(f"W{at}", amount=50), calls)


def measure_loop(calls: int) -> tuple[list[float], list[float]]:
    """Like `measure`, for a message: the unguarded loop parses the arguments and calls the function."""
    from guardagent.frameworks.python import run_tool_calls

    tools = _tools()
    guard = tools.guard

    def plain(at: int) -> Any:
        return {"role": "tool", "tool_call_id": f"c{at}", "content": refund(**json.loads(_arguments(at)))}

    def loop(at: int) -> Any:
        call = {"id": f"c{at}", "type": "function", "function": {"name": "refund", "arguments": _arguments(at)}}
        return run_tool_calls([call], tools, guard)

    return _in_turn(plain, loop, calls)


def measure_in_thread(calls: int) -> tuple[list[float], list[float]]:
    """Like `measure`, with an approval function, so that each check runs in a thread with a deadline."""
    guarded = _tools(facts=lambda call: {"agent": call.agent})[0]
    return _in_turn(lambda at: refund(f"W{at}", amount=50), lambda at: guarded(f"W{at}", amount=50), calls)


MEASURES = {
    "python, @guarded": measure,
    "python, @guarded, with a function for facts": measure_in_thread,
    "python, tool loop": measure_loop,
}


class _Tools(list[Callable[..., Any]]):
    guard: Any


def _tools(**options: Any) -> _Tools:
    from benchmarks.limit_guard import AUTHENTICATED, limit_guard
    from guardagent.frameworks.python import conversation, guard_tools

    guard = limit_guard(AUTHENTICATED, **options)
    tools = _Tools(guard_tools([refund, authenticate], guard))
    tools.guard = guard
    for at in range(_CONVERSATIONS):
        with conversation(f"c{at}"):
            tools[1]()
    return tools


def _arguments(at: int) -> str:
    return json.dumps({"order_id": f"W{at}", "amount": 50})


def _in_turn(plain: Callable[[int], Any], guarded: Callable[[int], Any], calls: int) -> tuple[list[float], list[float]]:
    from guardagent.frameworks.python import conversation

    taken: tuple[list[float], list[float]] = ([], [])
    for at in range(calls):
        with conversation(f"c{at % _CONVERSATIONS}"):
            for call, seconds in zip((plain, guarded), taken, strict=True):
                started = time.perf_counter()
                call(at)
                seconds.append(time.perf_counter() - started)
    return taken
