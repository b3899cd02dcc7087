"""The OpenAI Agents SDK: one approval covers one execution of the shown call, in any deployment.

Each request builds its agent anew. Each process has one guard, and the state of a run is stored as JSON.
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

from agents import Agent, RunContextWrapper, RunState
from agents.testing import ScriptedModel

from guardagent.enforcement import Approval, ApprovalRequest, SqliteLedger
from guardagent.errors import InputError
from guardagent.frameworks.openai_agents import answer, request
from tests.frameworks.openai_agents.runs import agent_of, arun, calls, outputs, ran, refund, shop_tools, tool
from tests.frameworks.scenarios import APPROVED, LIMIT, Shop, guard_of

PAID = [("W1", 500)]
Answer = Callable[[RunState[Any], Any], Any]


def approve(state: RunState[Any], item: Any) -> None:
    """Approves a call with the SDK's own method."""
    state.approve(item)


def always(state: RunState[Any], item: Any) -> None:
    """Approves a call and all later calls of the tool with the SDK's own method."""
    state.approve(item, always_approve=True)


def edit(amount: int) -> Answer:
    """Returns an answer that edits the amount."""
    return lambda state, item: answer(state, item, Approval("edit", {"order_id": "W1", "amount": amount}))


@pytest.mark.parametrize(("agents", "waits"), [("inner", True), ("outer", False)])
def test_a_call_of_an_agent_as_a_tool_is_previewed_as_its_own(tmp_path: Path, agents: str, *, waits: bool) -> None:
    """A rule for the inner agent asks about its call, with the digest of the request; one for the outer agent not."""
    rules = APPROVED.replace("escalate\n", f"escalate\n    applies_to: {{agents: [{agents}]}}\n")
    shop, guard = Shop(), guard_of(tmp_path, rules)
    turns = [calls(refund(500)), calls("done")]
    inner = Agent("inner", tools=shop_tools(shop), model=ScriptedModel(turns))
    outer = agent_of(
        guard,
        [inner.as_tool("delegate", "delegates")],
        calls(("delegate", {"input": "x"})),
        calls("done"),
        name="outer",
    )
    waiting = ran(outer).interruptions
    assert [request(item).agent for item in waiting] == ["inner"] * waits
    assert all(request(item).digest for item in waiting)
    assert shop.refunds == ([] if waits else PAID)


class Service:
    """A process of a web service; of its objects, only the guard outlives a request.

    `options` are those of ToolGuard, `tools` those of its tools.
    """

    def __init__(self, folder: Path, shop: Shop, rules: str = APPROVED, tools: Any = None, **options: Any) -> None:
        self.shop, self.guard, self.tools = shop, guard_of(folder, rules, **options), tools or {}

    def agent(self, *turns: list[Any]) -> Any:
        """Builds an agent, as each request does."""
        return agent_of(self.guard, shop_tools(self.shop, **self.tools), *turns)

    def asks(self, *proposed: Any) -> str:
        """Plays the first request and returns the state of a run that waits for approval."""
        return str(ran(self.agent(calls(*proposed or [refund(500)]))).to_state().to_string())

    async def state(self, agent: Any, text: str) -> RunState[Any]:
        """Restores the state of a run in another request."""
        context = RunContextWrapper({"conversation_id": "c1"})
        return await RunState.from_string(agent, text, context_override=context)

    async def aresumes(self, text: str, reply: Answer | None = approve, *turns: list[Any]) -> Any:
        """Plays the second request, after the reviewer has answered."""
        agent = self.agent(*turns, calls("done"))
        state = await self.state(agent, text)
        if reply is not None:
            reply(state, state.get_interruptions()[0])
        return await arun(agent, state, context=None)

    def resumes(self, text: str, reply: Answer | None = approve, *turns: list[Any]) -> Any:
        """As `aresumes`."""
        return asyncio.run(self.aresumes(text, reply, *turns))


APPROVAL_SOURCES = {
    "by a rule": {},
    "by the operator": {"rules": LIMIT.replace("100", "900"), "tools": {"needs_approval": True}},
}


@pytest.mark.parametrize("requests", APPROVAL_SOURCES)
@pytest.mark.parametrize("reply", [approve, always, lambda state, item: answer(state, item, "approve")])
@pytest.mark.parametrize("at_once", ["no", "tasks", "threads"])
def test_an_approval_is_used_once(tmp_path: Path, requests: str, reply: Answer, at_once: str) -> None:
    """A state that is resumed three times, in sequence or in parallel, pays once."""
    service = Service(tmp_path, Shop(), **APPROVAL_SOURCES[requests])  # type: ignore[arg-type]
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


@pytest.mark.parametrize("requests", APPROVAL_SOURCES)
@pytest.mark.parametrize("reply", [approve, always])
def test_processes_that_share_a_ledger_pay_once(tmp_path: Path, requests: str, reply: Answer) -> None:
    """Three processes resume the stored state of one request."""
    shop = Shop()
    services = [
        Service(tmp_path, shop, ledger=SqliteLedger(tmp_path / "ledger"), **APPROVAL_SOURCES[requests])  # type: ignore[arg-type]
        for _ in range(3)
    ]
    text = services[0].asks()
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda service: service.resumes(text, reply), services[::-1]))
    assert shop.refunds == PAID


def test_an_operator_may_trust_the_hosts_approvals(tmp_path: Path) -> None:
    """Without a shared ledger it is refused; with `this host's` each process uses it once."""
    text = Service(tmp_path, Shop()).asks()
    for options, paid in (({}, []), ({"approvals": "this host's"}, PAID)):
        service = Service(tmp_path, Shop(), **options)
        reply = [outputs(service.resumes(text))[0] for _ in range(2)]
        assert service.shop.refunds == paid
        assert "this host's" in reply[0] or paid
    assert "used already" in reply[1]


def _edited(text: str, old: str, new: str) -> str:
    """Changes every occurrence in a stored state, including those that the SDK compares."""
    state = json.loads(text.replace(old, new))
    state["context"]["tool_invocations"] = {}
    return json.dumps(state)


@pytest.mark.parametrize("change", [('\\"amount\\": 500', '\\"amount\\": 900'), ('\\"W1\\"', '\\"W2\\"')])
def test_a_call_edited_in_the_state_does_not_run(tmp_path: Path, change: tuple[str, str]) -> None:
    """The changed call has the same id, but the reviewer has not seen it."""
    service = Service(tmp_path, Shop())
    text = service.asks()
    service.resumes(_edited(text, *change))
    assert service.shop.refunds == []
    service.resumes(text)
    assert service.shop.refunds == PAID


def test_a_substituted_call_does_not_run(tmp_path: Path) -> None:
    """A call of another tool that replaces the shown one does not run."""
    rules = APPROVED + "  - id: wire\n    temporal: G !tool:wire\n    on_violation: escalate\n"
    service = Service(tmp_path, Shop(), rules)
    text = service.asks().replace('"name": "refund"', '"name": "wire"').replace('\\"order_id\\": \\"W1\\", ', "")
    service.resumes(_edited(text, '"tool_name": "refund"', '"tool_name": "wire"'))
    assert (service.shop.wired, service.shop.refunds) == ([], [])


def test_an_approval_in_a_state_does_not_cover_a_changed_call(tmp_path: Path) -> None:
    """A small refund that no rule escalated is changed into a large one, which no reviewer has approved."""
    service = Service(tmp_path, Shop(), tools={"needs_approval": True})
    text = service.asks(refund(5))
    service.resumes(_edited(text, '\\"amount\\": 5', '\\"amount\\": 500'))
    assert service.shop.refunds == []


def test_an_operators_approval_lifts_no_rule(tmp_path: Path) -> None:
    """An approval for `needs_approval` does not count for a rule that escalates the call."""
    requests: list[ApprovalRequest] = []

    def rejects(approval_request: ApprovalRequest) -> bool:
        requests.append(approval_request)
        return False

    service = Service(tmp_path, Shop(), tools={"needs_approval": True}, approver=rejects)
    service.resumes(service.asks())
    assert (service.shop.refunds, len(requests)) == ([], 1)


def test_a_standing_approval_lifts_no_rule_for_later_calls(tmp_path: Path) -> None:
    """The shown call runs; later calls are denied, in this run and in the next."""
    service = Service(tmp_path, Shop())
    reply = outputs(service.resumes(service.asks(), always, calls(refund(600)), calls(refund(500))))
    assert service.shop.refunds == PAID
    assert "standing approval" in reply[-1]


def test_of_two_interruptions_one_is_approved(tmp_path: Path) -> None:
    """The other call still waits; answered later, it runs once, too."""
    service = Service(tmp_path, Shop())
    first = service.resumes(service.asks(refund(500), refund(600)))
    assert service.shop.refunds == PAID
    text = first.to_state().to_string()
    for _ in range(2):
        service.resumes(text)
    assert service.shop.refunds == [*PAID, ("W1", 600)]


def test_an_answer_to_an_older_request_approves_nothing(tmp_path: Path) -> None:
    """A rejected call stays rejected if its old state is approved later; an answer must name its request."""
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


def test_the_original_of_an_edited_call_never_runs(tmp_path: Path) -> None:
    """This process pays the edited 60 once; a process that does not know the edit pays nothing."""
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


def test_a_request_in_another_process_has_the_same_digest(tmp_path: Path) -> None:
    """With the run's state, a request in another process has the same digest and can be answered there."""
    shop, ledger = Shop(), SqliteLedger(tmp_path / "ledger")
    here, there = (Service(tmp_path, shop, ledger=ledger) for _ in range(2))
    asking = ran(here.agent(calls(("refund", {"order_id": "W1"})))).to_state()
    shown = request(asking.get_interruptions()[0])

    def approves(state: RunState[Any], item: Any) -> None:
        requests = request(item, state)
        assert (requests.digest, requests.args) == (shown.digest, shown.args)
        answer(state, item, {"choice": "approve", "of": requests.digest})

    there.resumes(asking.to_string(), approves)
    assert shop.refunds == PAID


def test_a_conversation_continues_after_a_restart(tmp_path: Path) -> None:
    """With a ledger file, earlier logins and approval requests still count."""
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
    """If the state before the call is resumed again, the approval is already used."""
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


def test_answers_do_not_mix_conversations_with_equal_call_ids(tmp_path: Path) -> None:
    """Some models number their calls; an answer in one conversation does not count in the other."""
    service = Service(tmp_path, Shop())
    same = calls(refund(500))
    agent = service.agent(same, same, calls("done"), calls("done"))
    first, second = (ran(agent, conversation=name).to_state() for name in ("a", "b"))
    for state, reply in ((first, Approval("reject")), (second, Approval("approve"))):
        answer(state, state.get_interruptions()[0], reply)
        ran(agent, state, context=None)
    assert service.shop.refunds == PAID
    assert not service.guard.session("a").history


def test_an_agent_as_a_tool_resumes_in_another_request(tmp_path: Path) -> None:
    """The inner call is resumed with newly built agents, and the outer call is one event."""
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
