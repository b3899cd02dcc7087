"""The OpenAI Agents SDK: what a guarded agent really does, with the SDK's scripted model."""

from __future__ import annotations

import asyncio
import functools
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("agents.testing")

from agents import Agent, Runner, SQLiteSession, ToolsToFinalOutputResult, Usage, function_tool
from agents.testing import ScriptedModel

from guardagent.enforcement import Approval, ToolGuard
from guardagent.errors import InputError
from guardagent.frameworks.openai_agents import GuardedRunner, RunHalted, answer, conversation, guarded, request
from tests.frameworks.guarded_runs import Ran, guarded_run_test
from tests.frameworks.openai_agents.runs import agent_of, arun, calls, config, outputs, ran, refund, shop_tools, tool
from tests.frameworks.scenarios import APPROVED, AT_MOST_ONE, AUTHENTICATED, LIMIT, MISSPELT, TOKENS, Shop, guard_of

LOGIN = ("authenticate", {"email": "a@b.c", "code": "1234"})


def run(
    guard: ToolGuard, shop: Shop, *turns: Any, named: str | None = "c1", awaited: bool = False, way: str = "run"
) -> Ran:
    """Runs a guarded agent in some way of the host."""
    tools = [tool(shop.arefund if awaited else shop.refund, "refund"), tool(shop.wire), tool(shop.authenticate)]
    agent = agent_of(guard, tools, *(calls(*([turn] if isinstance(turn, str) else turn)) for turn in turns))
    where = {"context": {"conversation_id": named}, "run_config": config(named)} if named else {}

    async def work() -> Any:
        if way == "run":
            return await Runner.run(agent, "please", **where)
        streamed = Runner.run_streamed(agent, "please", **where)
        await _read(streamed)
        return streamed

    result = Runner.run_sync(agent, "please", **where) if way == "run_sync" else asyncio.run(work())
    return Ran(result.final_output, [str(call.input) for call in agent.model.calls])


RUNS = {way: functools.partial(run, way=way) for way in ("run", "run_sync", "run_streamed")}
test_guarded_run = guarded_run_test(RUNS, RunHalted, written=True)


# --- deny, replan, give up


def test_a_denial_does_not_stop_the_agent(tmp_path: Path) -> None:
    """`stop_on_first_tool` and `stop_at_tool_names` stop at a tool's output, but not at a denial."""
    for stops in ("stop_on_first_tool", {"stop_at_tool_names": ["refund"]}):
        shop = Shop()
        turns = [calls(refund(500)), calls(refund(50))]
        agent = agent_of(guard_of(tmp_path, LIMIT), shop_tools(shop), *turns, tool_use_behavior=stops)
        assert ran(agent).final_output == "refunded 50 of W1"
        assert shop.refunds == [("W1", 50)]


def test_the_operators_tool_use_behavior_is_kept(tmp_path: Path) -> None:
    """A function as `tool_use_behavior` is still called."""
    shop = Shop()

    def ends(context: Any, results: list[Any]) -> ToolsToFinalOutputResult:
        return ToolsToFinalOutputResult(is_final_output=True, final_output=f"{len(results)} done")

    agent = agent_of(guard_of(tmp_path, LIMIT), shop_tools(shop), calls(refund(50)), tool_use_behavior=ends)
    assert ran(agent).final_output == "1 done"
    assert shop.refunds == [("W1", 50)]


# --- history


def test_an_exception_is_a_failure_although_the_model_gets_a_message(tmp_path: Path) -> None:
    """The message of `failure_error_function` is not recorded as an output."""
    shop = Shop()

    def authenticate(email: str) -> str:
        raise ConnectionError(email)

    tools = [tool(authenticate), tool(shop.refund)]
    turns = [calls(("authenticate", {"email": "a"})), calls(refund(5)), calls("done")]
    result = ran(agent_of(guard_of(tmp_path, AUTHENTICATED), tools, *turns))
    assert shop.refunds == []
    assert "An error occurred" in outputs(result)[0]


def test_a_cancelled_stream_leaves_its_call_in_flight(tmp_path: Path) -> None:
    """It may have paid, so the retry is denied."""
    shop = Shop(waits=True)
    turns = [calls(refund(5)), calls(refund(5)), calls("done")]
    agent = agent_of(guard_of(tmp_path, AT_MOST_ONE), [tool(shop.arefund, "refund")], *turns)

    async def cancelled() -> None:
        result = Runner.run_streamed(agent, "please", context={"conversation_id": "c1"}, run_config=config())
        reading = asyncio.create_task(_read(result))
        await shop.started.wait()
        result.cancel()
        await reading
        await asyncio.sleep(0)
        shop.waits = False
        await arun(agent)

    asyncio.run(cancelled())
    assert shop.refunds == [("W1", 5)]


async def _read(result: Any) -> None:
    async for _ in result.stream_events():
        pass


def test_a_call_that_timed_out_stays_in_flight(tmp_path: Path) -> None:
    """The SDK reports the timeout to the model and continues; a second refund is denied."""
    shop = Shop(waits=True)
    slow = tool(shop.arefund, "refund", timeout=0.05)
    result = ran(agent_of(guard_of(tmp_path, AT_MOST_ONE), [slow], calls(refund(5)), calls(refund(5)), calls("done")))
    assert shop.refunds == [("W1", 5)]
    assert "timed out" in outputs(result)[0]


# --- approvals


def _interrupted(tmp_path: Path, *turns: list[Any], **options: Any) -> tuple[Shop, Any, Any]:
    shop = Shop()
    agent = agent_of(guard_of(tmp_path, APPROVED, **options), shop_tools(shop), *turns)
    return shop, agent, ran(agent)


def test_an_escalated_call_waits_and_runs_once_when_approved(tmp_path: Path) -> None:
    """The interruption shows every argument; a second identical call needs another approval."""
    shop, agent, result = _interrupted(tmp_path, calls(refund(500)), calls(refund(500)), calls("done"))
    assert shop.refunds == []
    requests = request(result.interruptions[0])
    assert requests.args == {"order_id": "W1", "amount": 500}
    assert "needs a person's" in requests.text()
    state = result.to_state()
    state.approve(result.interruptions[0])
    again = ran(agent, state)
    assert shop.refunds == [("W1", 500)]
    assert len(again.interruptions) == 1


def test_a_standing_approval_covers_no_second_call(tmp_path: Path) -> None:
    """With `always_approve` the SDK skips the request, so the guard denies the call."""
    shop, agent, result = _interrupted(tmp_path, calls(refund(500)), calls(refund(500)), calls("done"))
    state = result.to_state()
    state.approve(result.interruptions[0], always_approve=True)
    ended = ran(agent, state)
    assert shop.refunds == [("W1", 500)]
    assert "standing approval" in outputs(ended)[-1]


def test_a_rejected_call_does_not_run(tmp_path: Path) -> None:
    """The model gets the reviewer's reason."""
    shop, agent, result = _interrupted(tmp_path, calls(refund(500)), calls("done"))
    state = result.to_state()
    answer(state, result.interruptions[0], Approval("reject", reason="too much"))
    assert "too much" in outputs(ran(agent, state))[0]
    assert shop.refunds == []


SCHEMA = {
    "type": "object",
    "properties": {"amount": {"type": "integer"}},
    "required": ["amount"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("output", "options", "edited", "expected"),
    [
        ("paid", {}, 60, "paid"),
        ({"amount": 1}, {}, 60, "amount"),
        (7, {}, 60, "7"),
        (None, {}, 60, ""),
        ('{"amount": 1}', {"output_json_schema": SCHEMA}, 60, '{"amount": 1}'),
        (ValueError("no such order"), {}, 60, "error occurred"),
        (ValueError("no such order"), {"output_json_schema": SCHEMA}, 60, "error occurred"),
        (ValueError("no such order"), {"failure_error_function": lambda _, error: str(error)}, 60, "no such order"),
        ("paid", {}, 500, "paid"),
        ({"amount": 1}, {}, 500, "amount"),
        ('{"amount": 1}', {"output_json_schema": SCHEMA}, 500, '{"amount": 1}'),
        (ValueError("no such order"), {}, 500, "error occurred"),
    ],
    ids=str,
)
def test_the_model_reads_what_ran_in_place_of_its_call(
    tmp_path: Path, output: Any, options: dict[str, Any], edited: int, expected: str
) -> None:
    """Also if the tool raises. The SDK accepts nothing beside an output that has a schema."""

    def pay(order_id: str, amount: int = 500) -> Any:
        if isinstance(output, Exception):
            raise output
        return output

    guard = guard_of(tmp_path, APPROVED)
    agent = agent_of(guard, [tool(pay, "refund", **options)], calls(refund(500)), calls("done"))
    state = ran(agent).to_state()
    edit = Approval("edit", {"order_id": "W1", "amount": edited})
    answer(state, state.get_interruptions()[0], "approve" if edited == 500 else edit)
    (read,) = outputs(ran(agent, state))
    note = f'A reviewer changed this call. This ran: refund(order_id="W1", amount={edited})'
    is_noted = edited == 60 and (isinstance(output, Exception) or "output_json_schema" not in options)
    assert read.endswith(note) if is_noted else "reviewer changed" not in read
    assert (read.count(note), expected in read) == (is_noted, True)


def test_no_approval_is_requested_where_it_would_not_help(tmp_path: Path) -> None:
    """2000 violates a rule that no approval lifts, so it is denied without an interruption."""
    shop, _, result = _interrupted(tmp_path, calls(refund(2000)), calls("done"))
    assert (result.interruptions, shop.refunds, result.final_output) == ([], [], "done")


def test_resuming_without_an_answer_runs_nothing(tmp_path: Path) -> None:
    """A state without an answer is interrupted again."""
    shop, agent, result = _interrupted(tmp_path, calls(refund(500)), calls("done"))
    again = ran(agent, result.to_state())
    assert (len(again.interruptions), shop.refunds) == (1, [])


def test_the_operators_own_approval_is_kept(tmp_path: Path) -> None:
    """A tool with `needs_approval` is interrupted even if no rule escalates."""
    shop = Shop()
    tools = shop_tools(shop, needs_approval=True)
    result = ran(agent_of(guard_of(tmp_path, APPROVED), tools, calls(refund(5)), calls("done")))
    assert (len(result.interruptions), shop.refunds) == (1, [])


# --- conversations


def test_the_conversation_is_found_in_several_places(tmp_path: Path) -> None:
    """It comes from the context, the group, the SDK's session in GuardedRunner, or `conversation`."""
    shop, guard = Shop(), guard_of(tmp_path, AT_MOST_ONE)
    agent = agent_of(guard, shop_tools(shop), *([calls(refund(5)), calls("done")] * 6))

    async def five() -> None:
        await Runner.run(agent, "please", context={"session_id": "a"})
        await Runner.run(agent, "please", run_config=config("b"))
        await GuardedRunner.run(agent, "please", session=SQLiteSession("c"))
        with conversation("d"):
            await Runner.run(agent, "please")
        await Runner.run(agent, "please", context={"session_id": "a"})

    asyncio.run(five())
    GuardedRunner.run_sync(agent, "please", session=SQLiteSession("e"))
    assert len(shop.refunds) == 5
    assert all(guard.session(name).history for name in "abcde")


def test_a_session_continues_over_runs(tmp_path: Path) -> None:
    """The login of the first run counts in the second, whose input contains it."""
    shop = Shop()
    turns = [calls(LOGIN), calls("welcome"), calls(refund(5)), calls("done")]
    agent, session = agent_of(guard_of(tmp_path, AUTHENTICATED), shop_tools(shop), *turns), SQLiteSession("c1")
    GuardedRunner.run_sync(agent, "log me in", session=session)
    GuardedRunner.run_sync(agent, "refund", session=session)
    assert shop.refunds == [("W1", 5)]


def test_calls_that_never_ran_do_not_end_a_conversation(tmp_path: Path) -> None:
    """The next run recognises the calls that the SDK or the guard refused."""
    shop = Shop()
    twice = ("refund", '{"order_id": "W1", "amount": 5, "amount": 5}')
    agent = agent_of(
        guard_of(tmp_path, LIMIT), shop_tools(shop), calls(twice), calls("no"), calls(refund(5)), calls("done")
    )
    first = ran(agent)
    ran(agent, [*first.to_input_list(), {"role": "user", "content": "again"}])
    assert shop.refunds == [("W1", 5)]


# --- attaching


def test_a_misspelt_tool_is_refused(tmp_path: Path) -> None:
    """A rule about `refnud` would never deny anything."""
    with pytest.raises(InputError, match="did you mean 'refund'"):
        agent_of(guard_of(tmp_path, MISSPELT), shop_tools(Shop()))


def test_two_guards_are_refused(tmp_path: Path) -> None:
    """An agent or tool has one guard; attaching the same guard twice changes nothing."""
    guard, tools = guard_of(tmp_path, LIMIT), shop_tools(Shop())
    agent = agent_of(guard, tools)
    assert guarded(agent, guard) is agent
    with pytest.raises(InputError, match="another guard"):
        guarded(agent, guard_of(tmp_path, LIMIT))
    with pytest.raises(InputError, match="another guard"):
        agent_of(guard_of(tmp_path, LIMIT), agent.tools)


def test_tools_that_are_added_later_and_clones_are_guarded(tmp_path: Path) -> None:
    """Tools of a clone and appended tools are judged like the others."""
    shop = Shop()
    agent = agent_of(guard_of(tmp_path, LIMIT), [], calls(refund(500)), calls("done"))
    agent.tools.append(tool(shop.refund))
    ran(agent)
    turns = agent_of(guard_of(tmp_path, LIMIT), [], calls(refund(500)), calls("done"))
    ran(turns.clone(tools=[tool(shop.refund)]))
    assert shop.refunds == []


def test_the_original_tool_is_not_changed(tmp_path: Path) -> None:
    """The agent gets guarded copies, so another agent may use the tool without a guard or with its own."""
    refunding = function_tool(Shop().refund)
    before = refunding.on_invoke_tool
    guarded(Agent("clerk", tools=[refunding]), guard_of(tmp_path, LIMIT))
    assert refunding.on_invoke_tool is before


# --- the usage of models


class Metered(ScriptedModel):
    """A scripted model each of whose responses uses 100 tokens."""

    async def get_response(self, *args: Any, **options: Any) -> Any:
        response = await super().get_response(*args, **options)
        response.usage = Usage(requests=1, input_tokens=60, output_tokens=40, total_tokens=100)
        return response


def test_the_tokens_of_a_conversation_are_limited(tmp_path: Path) -> None:
    """They add up over runs; the run states them before the tools run."""
    guard, shop = guard_of(tmp_path, TOKENS), Shop()
    for named in ("c1", "c1", "c2"):
        agent = Agent("clerk", tools=shop_tools(shop), model=Metered([calls(refund(50)), calls("done")]))
        ran(guarded(agent, guard), conversation=named)
    assert len(shop.refunds) == 2
