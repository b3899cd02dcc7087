"""Plain Python: guarded functions. The tests check what the shop really did."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from guardagent import Decision, InputError, ToolDenied, ToolGuard, load_policies
from guardagent.enforcement import Approval, Outcome
from guardagent.frameworks.python import attach, conversation, current_conversation, guard_tools, guarded
from tests.frameworks.scenarios import (
    APPROVED,
    ASKS,
    AT_MOST_ONE,
    AUTHENTICATED,
    HALTED,
    LIMIT,
    MISSPELT,
    Shop,
    guard_of,
)

HALT = Decision.HALT


def denied(call: Callable[..., Any], *args: Any, **named: Any) -> ToolDenied:
    with pytest.raises(ToolDenied) as error:
        call(*args, **named)
    return error.value


def guarded_shop(tmp_path: Path, policy: str, *names: str, **options: Any) -> tuple[Shop, list[Any]]:
    """Returns a shop and its guarded tools of these names."""
    shop = Shop()
    guard = guard_of(tmp_path, policy, **options)
    return shop, guard_tools([getattr(shop, name) for name in names], guard, conversation="c")


# --- the scenarios of every host --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "paid"),
    [
        (True, [("W1", 500)]),
        (False, []),
        ({"choice": "edit", "args": {"order_id": "W1", "amount": 70}}, [("W1", 70)]),
        ({"choice": "edit", "args": {"order_id": "W1", "amount": 7000}}, []),
        ({"choice": "edit", "args": {"order_id": "W1"}}, []),
        ({"choice": "edit", "args": {"order_id": "W1", "amount": 70, "Amount": 7}}, []),
        ({"choice": "edit", "args": {"order_id": "W1", "amount": "70"}}, []),
    ],
    ids=str,
)
def test_a_reviewer_approves_rejects_or_edits(reply: Any, paid: list[Any], tmp_path: Path) -> None:
    """An argument missing from an edit gets the tool's default, 500, and needs another approval."""
    answers = iter([reply])
    shop, (refund,) = guarded_shop(tmp_path, APPROVED, "refund", approver=lambda request: next(answers, False))
    if paid:
        refund("W1", 500)
    else:
        denied(refund, "W1", 500)
    assert shop.refunds == paid


def test_without_an_approver_nothing_is_approved(tmp_path: Path) -> None:
    """The verdict tells the caller that the call needs approval."""
    shop, (refund,) = guarded_shop(tmp_path, APPROVED, "refund")
    assert denied(refund, "W1").verdict.decision is Decision.ESCALATE
    assert shop.refunds == []


def test_halt_stops_everything(tmp_path: Path) -> None:
    """No later tool of this conversation runs."""
    shop, (wire, refund) = guarded_shop(tmp_path, HALTED, "wire", "refund")
    assert denied(wire, 5).verdict.decision is HALT
    denied(refund, "W1", 5)
    assert (shop.wired, shop.refunds) == ([], [])


def test_a_call_that_is_cancelled_and_retried_pays_once(tmp_path: Path) -> None:
    """The call was cancelled after it had paid, so it stays in flight."""
    shop = Shop(waits=True)
    guard = guard_of(tmp_path, AT_MOST_ONE)
    refund = guarded(guard, conversation="c", name="refund")(shop.arefund)

    async def main() -> None:
        task = asyncio.ensure_future(refund("W1", 5))
        await shop.started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        shop.waits = False
        with pytest.raises(ToolDenied):
            await refund("W1", 5)

    asyncio.run(main())
    assert shop.refunds == [("W1", 5)]


def test_a_call_that_is_interrupted_stays_in_flight(tmp_path: Path) -> None:
    """A KeyboardInterrupt inside the tool passes through."""
    guard, paid = guard_of(tmp_path, AT_MOST_ONE), []

    @guarded(guard, conversation="c")
    def refund(order_id: str) -> None:
        paid.append(order_id)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        refund("W1")
    denied(refund, "W1")
    assert paid == ["W1"]


# --- arguments --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "args",
    [
        {"amount": 500},
        {"amount": "500"},
        {"amount": "5_00"},
        {},
        {"amount": 50, "Amount": 500},
        {"amount": float("inf")},
        {"amount": float("nan")},
        {"amount": [500]},
        {"amount": None},
        {"amount": True},
        {"value": 500},
        {"order_id": "W2", "amount": 500},
    ],
    ids=repr,
)
def test_nothing_gets_past_a_limit(args: dict[str, Any], tmp_path: Path) -> None:
    """The limit holds for positional, named, string, missing and additional arguments."""
    shop, (refund,) = guarded_shop(tmp_path, LIMIT, "refund")
    denied(refund, **{"order_id": "W1", **args})
    denied(refund, "W1", **args)
    denied(refund, "W1", *args.values(), 500)
    assert shop.refunds == []


def test_a_middleware_outside_is_judged_and_one_inside_is_refused(tmp_path: Path) -> None:
    """A decorator that would change the amount after the check is refused when the tool is attached."""
    paid: list[int] = []

    def raises_it(fn: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fn)
        def more(order_id: str, amount: int) -> Any:
            return fn(order_id, amount * 10)

        return more

    def refund(order_id: str, amount: int) -> None:
        paid.append(amount)

    guard = guard_of(tmp_path, LIMIT)
    outside = raises_it(guarded(guard, conversation="c")(refund))
    denied(outside, "W1", 50)
    with pytest.raises(InputError, match="decorated"):
        guarded(guard, conversation="c")(raises_it(refund))
    with pytest.raises(InputError, match="decorated"):
        guard_tools([outside], guard)
    assert paid == []


def test_the_tool_gets_a_copy(tmp_path: Path) -> None:
    """A change by another thread after the check has no effect, and mutable defaults stay shared between calls."""
    paid: list[Any] = []
    lines = [{"amount": 50}]

    def turns(conversation: str) -> dict[str, Any]:
        return {"answer": lambda: lines[0].update(amount=500) is None}

    guard = guard_of(tmp_path, ASKS, state=turns)

    @guarded(guard, conversation="c")
    def refund(order_id: str, lines: list[dict[str, int]], seen: list[int] = []) -> None:  # noqa: B006 - the subject of this test
        paid.append(lines)
        seen.append(1)
        paid.append(len(seen))

    refund("W1", lines)
    refund("W2", [{"amount": 5}])
    assert lines == [{"amount": 500}]
    assert paid == [[{"amount": 50}], 1, [{"amount": 5}], 1]


def holds_itself() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


class Text(str):
    """A string subclass, whose methods could lie."""

    __slots__ = ()


@pytest.mark.parametrize(
    "value",
    [object(), b"5", {1}, Shop(), {5: 5}, holds_itself(), Text("W1"), 1j, Decision.ALLOW],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_json_value_is_denied(value: Any, tmp_path: Path) -> None:
    """Such a value cannot be copied or judged; nested values are denied, too."""
    shop, (refund,) = guarded_shop(tmp_path, LIMIT, "refund")
    denied(refund, value, 5)
    denied(refund, {"deep": [value]}, 5)
    assert shop.refunds == []


def test_unjudged_arguments_are_passed_on(tmp_path: Path) -> None:
    """An argument listed as `unjudged` is passed on unchanged; all others are judged."""
    guard, shop = guard_of(tmp_path, LIMIT), Shop()

    @guarded(guard, conversation="c", unjudged=["shop"])
    def refund(shop: Shop, order_id: str, amount: int = 500) -> None:
        shop.refund(order_id, amount)

    refund(shop, "W1", amount=5)
    denied(refund, shop, "W1")
    denied(refund, shop=shop, order_id="W1")
    assert shop.refunds == [("W1", 5)]
    assert dict(guard.session("c").history[0].args) == {"order_id": "W1", "amount": 5}


def test_variadic_arguments_are_judged_by_name(tmp_path: Path) -> None:
    """Arguments of `**more` are judged by their names."""
    guard, paid = guard_of(tmp_path, LIMIT), []

    @guarded(guard, conversation="c")
    def refund(order_id: str, **more: Any) -> None:
        paid.append(more)

    refund("W1", amount=5)
    denied(refund, "W1", amount=500)
    denied(refund, "W1")
    assert paid == [{"amount": 5}]


# --- kinds of functions -----------------------------------------------------------------------------------------------


def test_methods_are_guarded_in_their_class(tmp_path: Path) -> None:
    """Instance, class and static methods are judged without their instance or class."""
    guard = guard_of(tmp_path, LIMIT.replace("refund(", "refund|refund_all|refund_one("))

    class Till:
        paid: list[Any] = []  # noqa: RUF012 - shared on purpose

        @guarded(guard, conversation="c")
        def refund(self, amount: int = 500) -> None:
            self.paid.append(amount)

        @classmethod
        @guarded(guard, conversation="c")
        def refund_all(cls, amount: int = 500) -> None:
            cls.paid.append(amount)

        @staticmethod
        @guarded(guard, conversation="c")
        def refund_one(amount: int = 500) -> None:
            Till.paid.append(amount)

    till = Till()
    for number, call in enumerate([till.refund, Till.refund_all, till.refund_all, Till.refund_one, till.refund_one], 1):
        call(number)
        denied(call)
        denied(call, amount=500)
    Till.refund(till, 6)
    denied(Till.refund, till)
    assert Till.paid == [1, 2, 3, 4, 5, 6]


def generator() -> Iterator[int]:
    yield 1


async def agenerator() -> Any:
    yield 1


def listed(*amounts: int) -> None: ...


def by_place(amount: int, /) -> None: ...


def with_odd_default(amount: Any = object) -> None: ...


@pytest.mark.parametrize(
    ("fn", "why"),
    [
        (generator, "is a generator"),
        (agenerator, "is a generator"),
        (listed, "by position only"),
        (by_place, "by position only"),
        (with_odd_default, "the default of amount"),
        (lambda amount: None, "not a named function"),
        (functools.partial(by_place, 5), "not a named function"),
        (7, "not a named function"),
        (dict.fromkeys, "by position only|signature"),
    ],
)
def test_functions_that_cannot_be_judged_are_errors_at_attach(fn: Any, why: str, tmp_path: Path) -> None:
    """The error gives the reason."""
    with pytest.raises(InputError, match=why):
        guard_tools([fn], guard_of(tmp_path, LIMIT))


def test_an_invalid_guard_is_an_error_at_attach() -> None:
    """The arguments of `guard_tools` in the wrong order cause this error."""
    rule = {"id": "never", "temporal": "G !tool:drop", "message": "Nothing is dropped."}
    guard = ToolGuard(load_policies(data={"version": 1, "policies": [rule]}))
    with pytest.raises(InputError, match="the guard is a list; expected the functions, and then their guard"):
        guard_tools(guard, [print])  # type: ignore[arg-type]


def test_a_callable_with_a_name_is_a_tool(tmp_path: Path) -> None:
    """Partial functions and callable objects can be tools."""
    shop = Shop()

    class Refund:
        def __call__(self, order_id: str, amount: int = 500) -> str:
            return shop.refund(order_id, amount)

    tools: list[Callable[..., Any]] = [functools.partial(shop.refund, order_id="W1"), Refund()]
    for number, fn in enumerate(tools):
        refund = guarded(guard_of(tmp_path, LIMIT), name="refund", conversation="c")(fn)
        refund(order_id="W1", amount=number)
        denied(refund, order_id="W1")
        denied(refund, "W1", amount=500)
    assert shop.refunds == [("W1", 0), ("W1", 1)]


def test_a_returned_coroutine_is_refused(tmp_path: Path) -> None:
    """A plain function that returns a coroutine is refused, and the coroutine never runs."""
    shop = Shop()
    guard = guard_of(tmp_path, LIMIT)

    def refund(order_id: str, amount: int) -> Awaitable[str]:
        return shop.arefund(order_id, amount)

    with pytest.raises(InputError, match="whose work is not done"):
        guarded(guard, conversation="c")(refund)("W1", 5)
    assert (shop.refunds, guard.session("c").history[0].status) == ([], "failed")


def test_unfinished_work_has_an_unknown_outcome(tmp_path: Path) -> None:
    """A function that leaves its work to a thread may still pay, so a second call is denied."""
    shop = Shop()
    rule = AT_MOST_ONE.replace("count(f:refund(order_id=o)) ==", "count(f:refund(order_id=o), !failed(f)) ==")
    with ThreadPoolExecutor(1) as pool:

        def refund(order_id: str, amount: int) -> Any:
            return pool.submit(shop.refund, order_id, amount)

        pays = guarded(guard_of(tmp_path, rule), conversation="c")(refund)
        with pytest.raises(TimeoutError, match="whose work is not done"):
            pays("W1", 5)
        denied(pays, "W1", 5)
    assert shop.refunds == [("W1", 5)]


def test_a_lazy_result_is_refused(tmp_path: Path) -> None:
    """A `map` would log in only when somebody reads it."""
    shop = Shop()
    guard = guard_of(tmp_path, AUTHENTICATED)

    def authenticate(emails: list[str]) -> Iterator[str]:
        return map(shop.authenticate, emails)

    with pytest.raises(InputError, match="returned a map"):
        guarded(guard, conversation="c")(authenticate)(["a@b.c"])
    denied(guarded(guard, conversation="c")(shop.refund), "W1", 5)


def test_each_try_of_a_retry_is_judged(tmp_path: Path) -> None:
    """Retries around the guard are denied, since the first try may have paid."""
    shop = Shop()

    def refund(order_id: str, amount: int) -> None:
        shop.refund(order_id, amount)
        raise TimeoutError

    pays = guarded(guard_of(tmp_path, AT_MOST_ONE), conversation="c")(refund)
    for _ in range(3):
        with suppress(TimeoutError, ToolDenied):
            pays("W1", 5)
    assert shop.refunds == [("W1", 5)]


def test_a_tool_that_raises_has_failed(tmp_path: Path) -> None:
    """The exception passes through, and `outcome` can determine a failure from the output."""
    shop = Shop()
    guard = guard_of(tmp_path, LIMIT)
    break_down = guarded(guard, conversation="c")(shop.break_down)
    refund = guarded(guard, conversation="c", outcome=lambda reply: Outcome(reply, failed="5" in reply))(shop.refund)
    with pytest.raises(ConnectionError):
        break_down()
    refund("W1", 5)
    assert [event.status for event in guard.session("c").history] == ["failed", "failed"]


# --- conversations ----------------------------------------------------------------------------------------------------


def test_a_missing_conversation_is_an_error(tmp_path: Path) -> None:
    """The error explains the remedy and nothing runs, also in a thread that the program starts."""
    shop = Shop()
    (refund,) = guard_tools([shop.refund], guard_of(tmp_path, LIMIT))
    names: list[Any] = [None, "", 7]
    for name in names:
        with pytest.raises(InputError, match="with conversation"):
            guarded(guard_of(tmp_path, LIMIT), conversation=functools.partial(lambda value: value, name))(shop.refund)(
                "W1", 5
            )
    with pytest.raises(InputError, match="with conversation"):
        refund("W1", 5)
    with conversation("c"), ThreadPoolExecutor(1) as pool, pytest.raises(InputError):
        pool.submit(refund, "W1", 5).result()
    assert shop.refunds == []


def test_two_conversations_do_not_mix(tmp_path: Path) -> None:
    """This holds for conversations interleaved in one thread and in tasks."""
    shop = Shop()
    guard = guard_of(tmp_path, AUTHENTICATED)
    refund, authenticate = guard_tools([shop.refund, shop.authenticate], guard)
    with conversation("a"):
        authenticate("ann@example.com")
        with conversation("b"):
            denied(refund, "W1", 5)
        refund("W1", 5)
    assert current_conversation() is None

    async def converse(name: str) -> list[Any]:
        with conversation(name):
            if name == "c":
                authenticate("cem@example.com")
            await asyncio.sleep(0)
            try:
                return [refund(name, 1)]
            except ToolDenied:
                return []

    async def main() -> Any:
        return await asyncio.gather(*map(converse, "cdcd"))

    assert asyncio.run(main()) == [["refunded 1 of c"], [], ["refunded 1 of c"], []]


def test_sub_agents_share_the_conversation(tmp_path: Path) -> None:
    """Calls, tasks and `to_thread` threads of a tool that is an agent belong to the root's conversation."""
    shop = Shop()
    guard = guard_of(tmp_path, AUTHENTICATED)
    refund, authenticate = guard_tools([shop.refund, shop.authenticate], guard)

    @guarded(guard)
    async def clerk(order_id: str) -> Any:
        with conversation(current_conversation() or "", agent="clerk"):
            return await asyncio.create_task(asyncio.to_thread(refund, order_id, 5))

    async def main() -> None:
        with conversation("root", agent="boss"):
            with pytest.raises(ToolDenied):
                await clerk("W1")
            authenticate("ann@example.com")
            await clerk("W1")

    asyncio.run(main())
    assert shop.refunds == [("W1", 5)]
    agents = [(event.tool, event.agent) for event in guard.session("root").history]
    assert agents == [("clerk", "boss"), ("authenticate", "boss"), ("clerk", "boss"), ("refund", "clerk")]


@pytest.mark.parametrize("where", ["task", "thread", "copied"])
def test_a_sub_agent_has_no_conversation_of_its_own(tmp_path: Path, where: str) -> None:
    """Whatever conversation id it passes, the calls of the root count."""
    shop = Shop()
    guard = guard_of(tmp_path, AT_MOST_ONE)
    refund = guarded(guard)(shop.refund)

    def works() -> None:
        with conversation("mine"), suppress(ToolDenied):
            refund("W1", 6)
        with suppress(ToolDenied):
            guarded(guard, conversation="mine too")(shop.refund)("W1", 7)

    @guarded(guard)
    async def clerk() -> None:
        if where == "task":
            await asyncio.create_task(asyncio.to_thread(works))
        elif where == "thread":
            await asyncio.to_thread(works)
        else:
            thread = threading.Thread(target=contextvars.copy_context().run, args=(works,))
            thread.start()
            thread.join()

    with conversation("root"):
        refund("W1", 5)
        asyncio.run(clerk())
    assert shop.refunds == [("W1", 5)]


# --- attaching --------------------------------------------------------------------------------------------------------


def test_a_misspelt_tool_in_a_policy_is_clear_at_attach(tmp_path: Path) -> None:
    """`guard_tools` and `attach` raise at once; a decorated function raises at its first call, without running."""
    shop = Shop()
    guard = guard_of(tmp_path, MISSPELT)
    with pytest.raises(InputError, match=r"'refnud'.*did you mean 'refund'"):
        guard_tools([shop.refund], guard)
    refund = guarded(guard_of(tmp_path, MISSPELT), conversation="c")(shop.refund)
    for _ in range(2):
        with pytest.raises(InputError, match="did you mean 'refund'"):
            refund("W1", 5)
    with pytest.raises(InputError):
        attach(guard)
    assert shop.refunds == []


def test_attaching_reports_tools_without_rules(tmp_path: Path) -> None:
    """`attach` reports all functions that the guard decorates."""
    guard, shop = guard_of(tmp_path, LIMIT), Shop()
    guarded(guard)(shop.refund)
    guarded(guard)(shop.wire)
    assert attach(guard).tools_without_rules == ("wire",)


def test_two_tools_of_one_name_are_an_error(tmp_path: Path) -> None:
    """Rules could not distinguish them; the same function may be defined again."""
    guard = guard_of(tmp_path, LIMIT)
    guarded(guard, name="refund")(Shop().wire)
    guarded(guard, name="refund")(Shop().wire)
    with pytest.raises(InputError, match="two tools are named 'refund'"):
        guarded(guard)(Shop().refund)


def test_rules_apply_to_aliases(tmp_path: Path) -> None:
    """A function may have another name than in the rules."""
    shop, (wire,) = guarded_shop(tmp_path, LIMIT, "wire", aliases={"wire": "refund"})
    denied(wire, 500)
    wire(50)
    assert shop.wired == [50]


def test_a_guarded_function_keeps_its_metadata(tmp_path: Path) -> None:
    """Name, docstring and signature are kept for tools that generate schemas or documentation."""
    refund = guarded(guard_of(tmp_path, LIMIT))(Shop.refund)
    assert (refund.__name__, refund.__doc__) == (Shop.refund.__name__, Shop.refund.__doc__)
    assert inspect.signature(refund) == inspect.signature(Shop.refund)
    assert inspect.iscoroutinefunction(guarded(guard_of(tmp_path, LIMIT))(Shop.arefund))


def test_an_edit_cannot_change_unjudged_arguments(tmp_path: Path) -> None:
    """A reviewer can edit only the arguments that the model proposed."""
    shop = Shop()
    edit = Approval("edit", {"shop": 1, "order_id": "W1", "amount": 5})
    guard = guard_of(tmp_path, APPROVED, approver=lambda request: edit)

    @guarded(guard, conversation="c", unjudged=["shop"])
    def refund(shop: Shop, order_id: str, amount: int) -> None:
        shop.refund(order_id, amount)

    denied(refund, shop, "W1", 500)
    assert shop.refunds == []
