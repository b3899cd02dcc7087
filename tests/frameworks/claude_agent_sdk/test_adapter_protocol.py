"""Claude Agent SDK: what the guard does if the program at the other end is old, odd or repeats itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("claude_agent_sdk")

import claude_agent_sdk
from claude_agent_sdk import CLIConnectionError, PermissionResultAllow, PermissionResultDeny

from guardagent.enforcement import ToolGuard
from guardagent.frameworks.claude_agent_sdk import guarded, query
from guardagent.testing.conformance.host import NoSecrets
from tests.frameworks.claude_agent_sdk.scripted_program import SESSION, ScriptedProgram
from tests.frameworks.claude_agent_sdk.sessions import shop_options
from tests.frameworks.scenarios import APPROVED, AT_MOST_ONE, LIMIT, Shop, guard_of

REFUND = "mcp__shop__refund"
ALIASES = {REFUND: "refund"}
Script = Callable[[ScriptedProgram], Awaitable[None]]
pytestmark = pytest.mark.filterwarnings("ignore::claude_agent_sdk.CanUseToolShadowedWarning")


async def talked(guard: Any, tmp_path: Path, script: Script, shop: Shop | None = None, **options: Any) -> list[Any]:
    """Runs a session with a scripted program. Returns its messages."""
    arefund = (shop or Shop()).arefund
    attached = guarded(shop_options("", tmp_path, {"refund": arefund}, **options), guard)
    program = ScriptedProgram(script)
    return [message async for message in claude_agent_sdk.query(prompt="please", options=attached, transport=program)]


def args_of(amount: Any, order_id: str = "W1") -> dict[str, Any]:
    return {"order_id": order_id, "amount": amount}


def test_a_tool_runs_only_what_was_released_and_once(tmp_path: Path) -> None:
    """Not without its hook, not with other arguments, not under another name, and not a second time."""
    shop, errors = Shop(), list[Any]()

    async def script(program: ScriptedProgram) -> None:
        await program.connect_server("shop")
        errors.append(await program.call("shop", "refund", args_of(50), "t0"))
        for call_id, amount in (("t1", 500), ("t2", 60), ("t3", 50), ("t4", 50), ("t5", 50)):
            await program.propose(REFUND, args_of(50), call_id)
            errors.append(await program.call("shop", "refund", args_of(amount), call_id))

    asyncio.run(talked(guard_of(tmp_path, LIMIT, aliases=ALIASES), tmp_path, script, shop))
    assert [error.get("isError", False) for error in errors] == [True, True, True, False, False, False]
    assert shop.refunds == [("W1", 50)] * 3  # each was judged anew; none without
    shop.refunds.clear()

    async def repeats(program: ScriptedProgram) -> None:
        await program.connect_server("shop")
        await program.propose(REFUND, args_of(50), "t3")
        errors[:] = [await program.call("shop", "refund", args_of(50), "t3") for _ in range(2)]

    asyncio.run(talked(guard_of(tmp_path, LIMIT, aliases=ALIASES), tmp_path, repeats, shop))
    assert [error.get("isError", False) for error in errors] == [False, True]
    assert shop.refunds == [("W1", 50)]


def test_one_id_is_one_call(tmp_path: Path) -> None:
    """A second call with the id of another call of its message is denied."""
    answers: list[Any] = []

    async def script(program: ScriptedProgram) -> None:
        answers.append(await program.propose("Bash", {"command": "true"}, "t1"))
        answers.append(await program.propose("Bash", {"command": "false"}, "t1"))

    asyncio.run(talked(guard_of(tmp_path, LIMIT, aliases=ALIASES), tmp_path, script))
    assert "permissionDecision" not in answers[0]
    assert answers[1]["permissionDecision"] == "deny"
    assert "repeats the id" in answers[1]["permissionDecisionReason"]


def test_numbers_as_the_program_writes_them(tmp_path: Path) -> None:
    """It writes 50.0 as 50, which is the same number, and `true` is not 1."""
    shop, results = Shop(), list[Any]()

    async def script(program: ScriptedProgram) -> None:
        await program.connect_server("shop")
        for call_id, amount, sent in (("t1", 50.0, 50), ("t2", 1, True)):
            await program.propose(REFUND, args_of(amount), call_id)
            results.append(await program.call("shop", "refund", args_of(sent), call_id))

    asyncio.run(talked(guard_of(tmp_path, LIMIT, aliases=ALIASES), tmp_path, script, shop))
    assert [result.get("isError", False) for result in results] == [False, True]
    assert shop.refunds == [("W1", 50)]


def test_an_old_program_is_refused(tmp_path: Path) -> None:
    """One that would run a call whose hook fails does not connect."""

    async def script(_program: ScriptedProgram) -> None: ...

    async def run() -> None:
        options = guarded(shop_options("", tmp_path, {}), guard_of(tmp_path, AT_MOST_ONE, aliases=ALIASES))
        program = ScriptedProgram(script, honors_on_failure=False)
        async for _ in claude_agent_sdk.query(prompt="please", options=options, transport=program):
            pass

    with pytest.raises(CLIConnectionError, match="on_failure"):
        asyncio.run(run())


@pytest.mark.parametrize("odd", [{}, {"tool_name": "Bash"}, {"tool_name": "Bash", "tool_input": "x"}])
def test_odd_input_of_a_hook_denies(odd: dict[str, Any], tmp_path: Path) -> None:
    """The guard denies input that it cannot read; no hook raises."""
    answers: list[Any] = []

    async def script(program: ScriptedProgram) -> None:
        answers.extend(await program.hook("PreToolUse", tool_use_id="t1", **odd))
        answers.extend(await program.hook("PostToolUse", **odd))
        answers.extend(await program.hook("PostToolUseFailure", **odd))
        answers.extend(await program.hook("PostToolBatch", tool_calls=[1]))

    asyncio.run(talked(guard_of(tmp_path, LIMIT, aliases=ALIASES), tmp_path, script))
    assert answers[0]["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert not any("error" in answer for answer in answers)


@pytest.mark.parametrize("error", [SystemExit(1), asyncio.CancelledError(), RuntimeError("who?")])
def test_a_function_of_the_operator_that_fails_denies(error: BaseException, tmp_path: Path) -> None:
    """The hook answers, whatever the function raises: the turn is blocked, and so is each call."""
    answers: list[Any] = []

    def fails() -> str:
        raise error

    async def run() -> None:
        async def script(program: ScriptedProgram) -> None:
            answers.extend(await program.hook("UserPromptSubmit", prompt="please"))
            answers.append(await program.propose("Bash", {"command": "true"}, "t1"))

        guard = guard_of(tmp_path, LIMIT, aliases=ALIASES)
        options = guarded(shop_options("", tmp_path, {"refund": Shop().arefund}), guard, conversation=fails)
        async for _ in claude_agent_sdk.query(prompt="please", options=options, transport=ScriptedProgram(script)):
            pass

    asyncio.run(asyncio.wait_for(run(), 5))
    assert [answers[0]["decision"], answers[1]["permissionDecision"]] == ["block", "deny"]


def test_an_answer_of_the_reviewer_covers_only_what_was_shown(tmp_path: Path) -> None:
    """The host's question about other arguments, about another tool or about no call of the guard is denied."""
    guard, answers, seen = guard_of(tmp_path, APPROVED, aliases=ALIASES), list[Any](), list[Any]()

    async def yes(tool: str, args: dict[str, Any], context: Any) -> Any:
        seen.append((args["amount"], context.decision_reason))
        return PermissionResultAllow()

    async def script(program: ScriptedProgram) -> None:
        answers.append(await program.can_use(REFUND, args_of(900), "t0"))
        for call_id, tool, amount in (("t1", REFUND, 900), ("t2", "Bash", 500), ("t3", REFUND, 500)):
            assert (await program.propose(REFUND, args_of(500), call_id))["permissionDecision"] == "ask"
            answers.append(await program.can_use(tool, args_of(amount), call_id))
        answers.append(await program.can_use(REFUND, args_of(500), "t1"))

    asyncio.run(talked(guard, tmp_path, script, can_use_tool=yes))
    assert [answer["behavior"] for answer in answers] == ["deny", "deny", "deny", "allow", "deny"]
    assert [amount for amount, _ in seen] == [500]
    assert "amount = 500" in seen[0][1]


def test_a_call_that_the_host_refuses_is_withdrawn(tmp_path: Path) -> None:
    """It never ran, so it may be proposed again; one that the reviewer changes is judged in its new form."""
    guard, answers = guard_of(tmp_path, LIMIT + _ONCE, aliases=ALIASES), list[Any]()
    decisions = iter(
        [
            PermissionResultDeny(message="not now"),
            PermissionResultAllow(updated_input=args_of(500)),
            PermissionResultAllow(updated_input=args_of(60)),
        ]
    )

    async def reviewer(_tool: str, _args: dict[str, Any], _context: Any) -> Any:
        return next(decisions)

    async def script(program: ScriptedProgram) -> None:
        for call_id in ("t1", "t2", "t3", "t4"):
            propose = await program.propose(REFUND, args_of(50), call_id)
            if "permissionDecision" in propose:
                answers.append(propose)
                continue
            answers.append(await program.can_use(REFUND, propose["updatedInput"], call_id))

    asyncio.run(talked(guard, tmp_path, script, can_use_tool=reviewer))
    assert [answer.get("behavior") for answer in answers] == ["deny", "deny", "allow", None]
    assert (answers[0]["message"], answers[2]["updatedInput"]) == ("not now", args_of(60))
    assert "at most 100" in answers[1]["message"]
    assert "once" in answers[3]["permissionDecisionReason"]  # t3 is in flight
    assert [event.args["amount"] for event in guard.session(SESSION).history] == [60]


@pytest.mark.parametrize(("amount", "sent"), [(500, 60), (50, 40), (500, 5000)])
def test_a_reviewer_that_changes_the_arguments_in_place_edits_the_call(tmp_path: Path, amount: int, sent: int) -> None:
    """The SDK would send the changed arguments, so these are judged, and run, whether or not a rule had asked."""
    shop, guard = Shop(), guard_of(tmp_path, APPROVED, aliases=ALIASES)
    answers = list[Any]()

    async def reviewer(_tool: str, args: dict[str, Any], _context: Any) -> Any:
        args["amount"] = sent
        return PermissionResultAllow()

    async def script(program: ScriptedProgram) -> None:
        await program.connect_server("shop")
        await program.propose(REFUND, args_of(amount), "t1")
        answers.append(await program.can_use(REFUND, args_of(amount), "t1"))
        if answers[0]["behavior"] == "allow":
            await program.call("shop", "refund", answers[0]["updatedInput"], "t1")

    asyncio.run(talked(guard, tmp_path, script, shop, can_use_tool=reviewer))
    assert [answer["behavior"] for answer in answers] == ["deny" if sent > 1000 else "allow"]
    assert shop.refunds == ([] if sent > 1000 else [("W1", sent)])


def test_a_reviewer_that_fails_denies(tmp_path: Path) -> None:
    """Whether a rule or the host had asked; the call is not in flight."""
    guard, answers = guard_of(tmp_path, APPROVED, aliases=ALIASES), list[Any]()

    async def fails(_tool: str, _args: dict[str, Any], _context: Any) -> Any:
        raise RuntimeError("the pager is off")

    async def script(program: ScriptedProgram) -> None:
        for call_id, amount in (("t1", 50), ("t2", 500)):
            await program.propose(REFUND, args_of(amount), call_id)
            answers.append(await program.can_use(REFUND, args_of(amount), call_id))

    asyncio.run(talked(guard, tmp_path, script, can_use_tool=fails))
    assert [answer["behavior"] for answer in answers] == ["deny", "deny"]
    assert not guard.session(SESSION).in_flight


def test_a_call_that_was_changed_after_its_verdict_is_not_trusted(tmp_path: Path) -> None:
    """The host reports other arguments than the judged ones: nobody knows what that call has done."""
    guard = guard_of(tmp_path, AT_MOST_ONE, aliases={"Bash": "refund"})

    async def script(program: ScriptedProgram) -> None:
        await program.propose("Bash", args_of(1), "t1")
        await program.hook(
            "PostToolUse", tool_name="Bash", tool_input=args_of(2), tool_use_id="t1", tool_response={"stdout": "ok"}
        )

    asyncio.run(talked(guard, tmp_path, script))
    assert [event.status for event in guard.session(SESSION).history] == ["unknown"]


def test_an_operators_hook_stops_a_call_and_does_not_change_it(tmp_path: Path) -> None:
    """A call that it denies is not in flight, whichever of the two hooks answers first."""
    guard, answers = guard_of(tmp_path, LIMIT, aliases=ALIASES), list[Any]()

    def hook(output: dict[str, Any], wait: float) -> Any:
        async def own(_found: Any, _id: Any, _context: Any) -> dict[str, Any]:
            await asyncio.sleep(wait)
            return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **output}}

        return {"PreToolUse": [claude_agent_sdk.HookMatcher(hooks=[own])]}

    async def script(program: ScriptedProgram) -> None:
        hook = await program.hook("PreToolUse", tool_name=REFUND, tool_input=args_of(50), tool_use_id="t1")
        answers.append([answer["hookSpecificOutput"].get("permissionDecision") for answer in hook])

    async def in_place(hook_input: Any, _id: Any, _context: Any) -> dict[str, Any]:
        hook_input["tool_input"]["amount"] = 90
        return {"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": hook_input["tool_input"]}}

    for wait in (0, 0.1):
        for output in ({"permissionDecision": "deny"}, {"updatedInput": args_of(90)}):
            asyncio.run(talked(guard, tmp_path, script, hooks=hook(output, wait)))
    changing = {"PreToolUse": [claude_agent_sdk.HookMatcher(hooks=[in_place])]}
    asyncio.run(talked(guard, tmp_path, script, hooks=changing))
    assert all("deny" in answer for answer in answers)
    assert not guard.session(SESSION).in_flight
    asyncio.run(talked(guard, tmp_path, script, hooks=hook({"updatedInput": args_of(50)}, 0)))
    assert answers[-1] == [None, None]


def test_an_abandoned_check_releases_nothing(tmp_path: Path) -> None:
    """If the session ends while the approver thinks, his late yes runs nothing."""
    shop = Shop()

    async def run() -> ToolGuard:
        requested, answer = asyncio.Event(), asyncio.Event()

        async def approver(_request: Any) -> bool:
            requested.set()
            await answer.wait()
            return True

        async def script(program: ScriptedProgram) -> None:
            await program.connect_server("shop")
            await program.propose(REFUND, args_of(500), "t1")
            await program.call("shop", "refund", args_of(500), "t1")

        guard = guard_of(tmp_path, APPROVED, aliases=ALIASES, approver=approver)
        running = asyncio.ensure_future(talked(guard, tmp_path, script, shop))
        await requested.wait()
        running.cancel()
        answer.set()
        await asyncio.gather(running, return_exceptions=True)
        return guard

    guard = asyncio.run(run())
    assert shop.refunds == []
    assert not guard.session(SESSION).history


_ONCE = """  - id: once
    temporal: forall(refund(order_id=o), count(f:refund(order_id=o)) == 0)
    message: An order is refunded once.
"""


@pytest.mark.parametrize("part", ["delta", "content_block"])
def test_the_text_of_a_turn_that_is_cut_off_is_judged(part: str, tmp_path: Path) -> None:
    """Also beside whole messages."""

    async def script(program: ScriptedProgram) -> None:
        whole = {"id": "m", "model": "x", "content": [{"type": "text", "text": "Let me look."}]}
        program.emit("assistant", message=whole)
        program.emit("stream_event", event={"type": "part", part: {"type": "text", "text": "The PIN is 47x11"}})

    messages = asyncio.run(_answered(tmp_path, script))
    assert "47x11" not in str(messages)
    assert "withheld" in messages[-1].result


def test_the_result_of_a_task_in_the_background_is_withheld(tmp_path: Path) -> None:
    """It is for the agent that began it."""

    async def script(program: ScriptedProgram) -> None:
        patch = {"status": "completed", "result": "The PIN is 47x11"}
        program.emit("system", subtype="task_updated", task_id="t", patch=patch)

    messages = asyncio.run(_answered(tmp_path, script))
    assert messages[0].status == "completed"
    assert "47x11" not in str(messages)


async def _answered(tmp_path: Path, script: Script) -> list[Any]:
    guard = guard_of(tmp_path, LIMIT, aliases=ALIASES, answers=NoSecrets())
    attached = guarded(shop_options("", tmp_path, {"refund": Shop().arefund}), guard)
    return [message async for message in query(prompt="please", options=attached, transport=ScriptedProgram(script))]
