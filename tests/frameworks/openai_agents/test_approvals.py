"""The OpenAI Agents SDK: one approval is for one run of the call that a person was shown, however a service is built.

Each request builds its agent anew, with one guard per process, and the state of the run is JSON in between.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("agents.testing")

from agents import RunContextWrapper, RunState

from guardagent.enforcement import Approval, ApprovalRequest, SqliteLedger
from guardagent.errors import InputError
from guardagent.frameworks.openai_agents import answer, request
from tests.frameworks.openai_agents.runs import agent_of, arun, calls, outputs, ran, refund, shop_tools, tool
from tests.frameworks.scenarios import APPROVED, LIMIT, Shop, guard_of

PAID = [("W1", 500)]
Answer = Callable[[RunState[Any], Any], Any]


def approve(state: RunState[Any], item: Any) -> None:
    """As the SDK has it."""
    state.approve(item)


def always(state: RunState[Any], item: Any) -> None:
    """As the SDK has it, for all calls of the tool to come."""
    state.approve(item, always_approve=True)


def edit(amount: int) -> Answer:
    """To another amount."""
    return lambda state, item: answer(state, item, Approval("edit", {"order_id": "W1", "amount": amount}))


class Service:
    """A process of a web service: its guard outlives the requests, and nothing else does.

    `options` are those of ToolGuard, `tools` those of its tools.
    """

    def __init__(self, folder: Path, shop: Shop, rules: str = APPROVED, tools: Any = None, **options: Any) -> None:
        self.shop, self.guard, self.tools = shop, guard_of(folder, rules, **options), tools or {}

    def agent(self, *turns: list[Any]) -> Any:
        """As each request builds it."""
        return agent_of(self.guard, shop_tools(self.shop, **self.tools), *turns)

    def asks(self, *proposed: Any) -> str:
        """A first request: the state of a run that waits for a person."""
        return str(ran(self.agent(calls(*proposed or [refund(500)]))).to_state().to_string())

    async def state(self, agent: Any, text: str) -> RunState[Any]:
        """The state of a run, for another request."""
        context = RunContextWrapper({"conversation_id": "c1"})
        return await RunState.from_string(agent, text, context_override=context)

    async def aresumes(self, text: str, reply: Answer | None = approve, *turns: list[Any]) -> Any:
        """A second request: a person has answered."""
        agent = self.agent(*turns, calls("done"))
        state = await self.state(agent, text)
        if reply is not None:
            reply(state, state.get_interruptions()[0])
        return await arun(agent, state, context=None)

    def resumes(self, text: str, reply: Answer | None = approve, *turns: list[Any]) -> Any:
        """As `aresumes`."""
        return asyncio.run(self.aresumes(text, reply, *turns))


ASKED = {"by a rule": {}, "by the operator": {"rules": LIMIT.replace("100", "900"), "tools": {"needs_approval": True}}}


@pytest.mark.parametrize("requests", ASKED)
@pytest.mark.parametrize("reply", [approve, always, lambda state, item: answer(state, item, "approve")])
@pytest.mark.parametrize("at_once", ["no", "tasks", "threads"])
def test_an_approval_is_used_once(tmp_path: Path, requests: str, reply: Answer, at_once: str) -> None:
    """One state that is resumed three times, one after the other or at once, pays once."""
    service = Service(tmp_path, Shop(), **ASKED[requests])  # type: ignore[arg-type]
    text = service.asks()
    assert service.shop.refunds == []

    async def together() -> None:
        await asyncio.gather(*(service.aresumes(text, reply) for _ in range(3)))

    if at_once == "tasks":
        asyncio.run(together())
    else:
        with ThreadPoolExecutor(3 if at_once == "threads" else 1) as pool:
            list(pool.map(lambda _: service.resumes(text, reply), range(3)))
    assert service.shop.refunds == PAID


@pytest.mark.parametrize("requests", ASKED)
@pytest.mark.parametrize("reply", [approve, always])
def test_processes_that_share_a_ledger_pay_once(tmp_path: Path, requests: str, reply: Answer) -> None:
    """One has asked, and all three of them resume the state that is stored."""
    shop = Shop()
    services = [
        Service(tmp_path, shop, ledger=SqliteLedger(tmp_path / "ledger"), **ASKED[requests])  # type: ignore[arg-type]
        for _ in range(3)
    ]
    text = services[0].asks()
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda service: service.resumes(text, reply), services[::-1]))
    assert shop.refunds == PAID


def test_an_approval_of_elsewhere_counts_where_the_operator_says_so(tmp_path: Path) -> None:
    """Without a shared ledger it is refused; with `this host's` it is used once in each process."""
    text = Service(tmp_path, Shop()).asks()
    for options, paid in (({}, []), ({"approvals": "this host's"}, PAID)):
        service = Service(tmp_path, Shop(), **options)
        reply = [outputs(service.resumes(text))[0] for _ in range(2)]
        assert service.shop.refunds == paid
        assert "this host's" in reply[0] or paid
    assert "used already" in reply[1]


def _edited(text: str, old: str, new: str) -> str:
    """A stored state in which somebody has changed every place, also what the SDK holds it against."""
    state = json.loads(text.replace(old, new))
    state["context"]["tool_invocations"] = {}
    return json.dumps(state)


@pytest.mark.parametrize("change", [('\\"amount\\": 500', '\\"amount\\": 900'), ('\\"W1\\"', '\\"W2\\"')])
def test_a_state_that_was_edited_after_the_question(tmp_path: Path, change: tuple[str, str]) -> None:
    """The call keeps its id: nobody was shown what it is now."""
    service = Service(tmp_path, Shop())
    text = service.asks()
    service.resumes(_edited(text, *change))
    assert service.shop.refunds == []
    service.resumes(text)
    assert service.shop.refunds == PAID


def test_another_call_in_the_place_of_the_one_that_was_shown(tmp_path: Path) -> None:
    """Of another tool, for which nobody was asked."""
    rules = APPROVED + "  - id: wire\n    temporal: G !tool:wire\n    on_violation: escalate\n"
    service = Service(tmp_path, Shop(), rules)
    text = service.asks().replace('"name": "refund"', '"name": "wire"').replace('\\"order_id\\": \\"W1\\", ', "")
    service.resumes(_edited(text, '"tool_name": "refund"', '"tool_name": "wire"'))
    assert (service.shop.wired, service.shop.refunds) == ([], [])


def test_an_approval_that_somebody_wrote_into_a_state(tmp_path: Path) -> None:
    """A call of a small refund that no rule asked about becomes a large one, approved by nobody but the state."""
    service = Service(tmp_path, Shop(), tools={"needs_approval": True})
    text = service.asks(refund(5))
    service.resumes(_edited(text, '\\"amount\\": 5', '\\"amount\\": 500'))
    assert service.shop.refunds == []


def test_an_operators_approval_lifts_no_rule(tmp_path: Path) -> None:
    """What a person says of `needs_approval` is no answer to a rule that was asked by nobody."""
    requests: list[ApprovalRequest] = []

    def rejects(one: ApprovalRequest) -> bool:
        requests.append(one)
        return False

    service = Service(tmp_path, Shop(), tools={"needs_approval": True}, approver=rejects)
    service.resumes(service.asks())
    assert (service.shop.refunds, len(requests)) == ([], 1)


def test_a_standing_approval_lifts_no_rule_for_later_calls(tmp_path: Path) -> None:
    """The call that was shown runs; those after it are denied, in this run and in the next."""
    service = Service(tmp_path, Shop())
    reply = outputs(service.resumes(service.asks(), always, calls(refund(600)), calls(refund(500))))
    assert service.shop.refunds == PAID
    assert "standing approval" in reply[-1]


def test_of_two_interruptions_one_is_approved(tmp_path: Path) -> None:
    """The other still waits; answered later, each runs once."""
    service = Service(tmp_path, Shop())
    first = service.resumes(service.asks(refund(500), refund(600)))
    assert service.shop.refunds == PAID
    text = first.to_state().to_string()
    for _ in range(2):
        service.resumes(text)
    assert service.shop.refunds == [*PAID, ("W1", 600)]


def test_an_answer_to_an_older_question(tmp_path: Path) -> None:
    """What was rejected stays so, although the state of then is approved later; an answer names its question."""
    service = Service(tmp_path, Shop())
    text = service.asks()
    service.resumes(text, lambda state, item: answer(state, item, Approval("reject")))
    service.resumes(text)
    older = request(ran(service.agent(calls(refund(700)))).interruptions[0]).digest
    newer = service.asks()
    with pytest.raises(InputError, match="another request"):
        service.resumes(newer, lambda state, item: answer(state, item, {"choice": "approve", "of": older}))
    assert service.shop.refunds == []
    service.resumes(
        newer, lambda state, item: answer(state, item, {"choice": "approve", "of": request(item, state).digest})
    )
    assert service.shop.refunds == PAID


def test_an_edit_is_never_run_as_it_was(tmp_path: Path) -> None:
    """Here 60 is paid, once; a process that knows nothing of the edit pays nothing."""
    shop, ledger = Shop(), SqliteLedger(tmp_path / "ledger")
    here, there = (Service(tmp_path, shop, ledger=ledger) for _ in range(2))
    text, stored = here.asks(), []

    async def answered() -> None:
        state = await here.state(here.agent(), text)
        edit(60)(state, state.get_interruptions()[0])
        stored.append(state.to_string())

    asyncio.run(answered())
    for service in (there, here, here, there):
        service.resumes(stored[0], None)
    assert shop.refunds == [("W1", 60)]


def test_what_is_shown_elsewhere(tmp_path: Path) -> None:
    """With the run's state, a request in another process names the same call; it is answered by name there."""
    shop, ledger = Shop(), SqliteLedger(tmp_path / "ledger")
    here, there = (Service(tmp_path, shop, ledger=ledger) for _ in range(2))
    asking = ran(here.agent(calls(("refund", {"order_id": "W1"})))).to_state()
    shown = request(asking.get_interruptions()[0])

    def said(state: RunState[Any], item: Any) -> None:
        requests = request(item, state)
        assert (requests.digest, requests.args) == (shown.digest, shown.args)
        answer(state, item, {"choice": "approve", "of": requests.digest})

    there.resumes(asking.to_string(), said)
    assert shop.refunds == PAID


def test_a_conversation_goes_on_after_a_restart(tmp_path: Path) -> None:
    """With a ledger in a file: a login of before counts, and so does the question that was asked."""
    rules = APPROVED + "  - id: in\n    temporal: G(tool:refund -> O tool:authenticate)\n"
    texts: list[str] = []
    for turns in ([calls(("authenticate", {"email": "a@b.c"})), calls(refund(500))], [], []):
        service = Service(tmp_path, Shop(), rules, ledger=SqliteLedger(tmp_path / "ledger"))
        if turns:
            texts.append(ran(service.agent(*turns)).to_state().to_string())
            continue
        service.resumes(texts[0])
        texts.append(str(service.shop.refunds))
    assert texts[1:] == [str(PAID), "[]"]


def test_a_call_that_was_cancelled_is_not_run_again(tmp_path: Path) -> None:
    """The state of before it ran is resumed once more: the approval was used, whatever came of the call."""
    shop, guard = Shop(waits=True), guard_of(tmp_path, APPROVED)

    async def resumed(text: str) -> None:
        agent = agent_of(guard, [tool(shop.arefund, "refund")], calls("done"))
        state = await RunState.from_string(agent, text, context_override=RunContextWrapper({"session_id": "c1"}))
        await arun(agent, state, context=None)

    async def cancelled() -> None:
        state = (await arun(agent_of(guard, [tool(shop.arefund, "refund")], calls(refund(500))))).to_state()
        state.approve(state.get_interruptions()[0])
        text = state.to_string()
        running = asyncio.create_task(resumed(text))
        await shop.started.wait()
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        shop.waits = False
        await resumed(text)

    asyncio.run(cancelled())
    assert shop.refunds == PAID


def test_two_conversations_with_calls_of_one_id(tmp_path: Path) -> None:
    """Some models number their calls: what is said in one conversation is not said in the other."""
    service = Service(tmp_path, Shop())
    same = calls(refund(500))
    agent = service.agent(same, same, calls("done"), calls("done"))
    first, second = (ran(agent, conversation=name).to_state() for name in ("a", "b"))
    for state, reply in ((first, Approval("reject")), (second, Approval("approve"))):
        answer(state, state.get_interruptions()[0], reply)
        ran(agent, state, context=None)
    assert service.shop.refunds == PAID
    assert not service.guard.session("a").history


def test_an_agent_as_a_tool_goes_on_in_another_request(tmp_path: Path) -> None:
    """What waits inside is resumed with agents that were built anew; the outer call is one event."""
    shop, guard = Shop(), guard_of(tmp_path, APPROVED)

    def built(*inner: list[Any]) -> Any:
        clerk = agent_of(guard, shop_tools(shop), *inner)
        asks = calls(("ask_clerk", {"input": "go on"}))
        return agent_of(guard, [clerk.as_tool("ask_clerk", "")], *([] if len(inner) == 1 else [asks]), calls("x"))

    text = ran(built(calls(refund(500)), calls("ok"))).to_state().to_string()
    for _ in range(2):
        agent = built(calls("ok"))

        async def resumed(agent: Any = agent) -> None:
            state = await RunState.from_string(agent, text, context_override=RunContextWrapper({"session_id": "c1"}))
            state.approve(state.get_interruptions()[0])
            await arun(agent, state, context=None)

        asyncio.run(resumed())
    assert shop.refunds == PAID
    assert [event.tool for event in guard.session("c1").history][:2] == ["ask_clerk", "refund"]
    assert not guard.session("c1").in_flight
