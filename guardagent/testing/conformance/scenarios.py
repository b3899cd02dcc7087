"""The list of scenarios. Each checks what the shop really did, whatever the host's messages show.

Each also allows a call, so that a host that runs nothing at all fails.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from guardagent.enforcement import Approval, EnforcementPoint
from guardagent.testing.conformance.host import (
    REFUSALS,
    SECRET,
    Call,
    HandOff,
    HostUnderTest,
    MakeStop,
    OneId,
    Operator,
    Process,
    Reply,
    Script,
    Shop,
    SubAgent,
    Turn,
    as_object,
)

LIMIT = """
  - id: limit
    temporal: forall(refund(amount=a), a <= 100)
    message: A refund is at most 100.
"""
ORDER = """
  - id: authenticated
    temporal: G(tool:refund -> O tool:authenticate)
    message: Authenticate the customer first.
"""
ONCE = """
  - id: once
    temporal: forall(refund(order_id=o), count(f:refund(order_id=o), !failed(f)) == 0)
    message: An order is refunded once.
"""
IN_TIME = """
timeouts: {refund: 3s}
"""
APPROVED = """
  - id: large
    temporal: forall(refund(amount=a), a <= 100)
    message: More than 100 needs a person's approval.
    on_violation: escalate
  - id: never
    temporal: forall(refund(amount=a), a <= 1000)
    message: Nobody refunds more than 1000.
"""

ANSWERS = f"""
  - id: secret
    temporal: forall(answer(text=t), !(t matches /(?s:.*){SECRET}(?s:.*)/))
    message: Do not tell a PIN.
  - id: refunded
    temporal: before(answer(), true, f:refund(), true)
    message: Pay before you say so.
"""

LOGIN: Call = ("authenticate", {"email": "ann@example.com"})
LOOK: Call = ("get_order", {"order_id": "A"})
YES = Approval("approve", by="ann")


class NotConformingError(AssertionError):
    """The shop did something forbidden in a scenario, or omitted something that was required."""


class ScenarioStage:
    """The environment of a scenario: a host, and a shop in a folder.

    Args:
        host: the host under test.
        folder: an empty folder.
        scenario: the name, for messages.
        make_guard, make_stop: as of `Operator`.
    """

    def __init__(
        self,
        host: HostUnderTest,
        folder: Path,
        scenario: str,
        make_guard: Callable[..., EnforcementPoint] | None = None,
        make_stop: MakeStop | None = None,
    ) -> None:
        self.shop, self._made = Shop(folder), {"make_guard": make_guard, "make_stop": make_stop}
        self._host, self._folder, self._scenario = host, folder, scenario

    def operator(self, *rules: str, **options: Any) -> Operator:
        """Configures an operator with these rules."""
        path = self._folder / "policies.yaml"
        path.write_text(f"version: 1\nfailed_output: ^Error\npolicies:{''.join(rules)}")
        return Operator(self.shop, path, **{"ledger": self._folder / "ledger.db", **self._made, **options})

    def stoppable(self, *rules: str) -> Operator:
        """Configures an operator who can stop calls."""
        return self.operator(*rules, stops=self._folder / "stops.json")

    def process(self, operator: Operator) -> AbstractAsyncContextManager[Process]:
        """Starts one more process of the operator."""
        return self._host.process(operator)

    def one_process(self, *rules: str, **options: Any) -> AbstractAsyncContextManager[Process]:
        """Starts the only process of a new operator."""
        return self.process(self.operator(*rules, **options))

    def paid(self, *expected: tuple[str, int]) -> None:
        """Requires that the shop has paid exactly these refunds, in any order."""
        self.expect(sorted(self.shop.refunds) == sorted(expected), f"refunds {list(expected)}", self.shop.refunds)

    async def mid_tool(
        self, process: Process, order: str, *further: Turn, beside: Sequence[Call] = (), **options: Any
    ) -> asyncio.Future[Reply]:
        """Starts a run whose refund is paid and has not returned.

        Args:
            process: the process.
            order: the order.
            further: the turns after it.
            beside: further calls in the turn of the refund.
            options: as of `Process.run`.
        """
        self.shop.hold(order)
        running = asyncio.ensure_future(process.run([[refund(order), *beside], *further], **options))
        while (order, 50) not in self.shop.refunds:
            self.expect(not running.done(), f"a refund of {order}", self.shop.refunds)
            await asyncio.sleep(0.01)
        return running

    def question_of(self, reply: Reply) -> Any:
        """Returns the approval request that a run waits for."""
        self.expect(reply.question is not None, "a question to a person", reply)
        return reply.question

    def expect(self, holds: bool, expected: str, actual: Any) -> None:  # noqa: FBT001
        if not holds:
            raise NotConformingError(f"{self._host.name}, {self._scenario}: expected {expected}; found {actual!r}")


Scenario = Callable[[ScenarioStage], Awaitable[None]]
SCENARIOS: dict[str, Scenario] = {}
"""Name -> scenario."""


def scenario(name: str) -> Callable[[Scenario], Scenario]:
    def listed(function: Scenario) -> Scenario:
        SCENARIOS[name] = function
        return function

    return listed


def refund(order: str, amount: int = 50) -> Call:
    return ("refund", {"order_id": order, "amount": amount})


async def approved(process: Process, reply: Reply, approval: Approval = YES) -> Reply:
    """Gives every approval request of a run the same answer. Returns the run's reply."""
    while reply.question is not None:
        reply = await process.answer(reply.question, approval)
    return reply


@scenario("order")
async def order(stage: ScenarioStage) -> None:
    """A call does not run before its prerequisite."""
    async with stage.one_process(ORDER) as process:
        await process.run([[refund("A")], [LOGIN], [refund("B")]])
    stage.paid(("B", 50))


@scenario("limits")
async def limits(stage: ScenarioStage) -> None:
    """An amount over the limit is not paid in any spelling; a later amount within it is."""
    default: Call = ("refund", {"order_id": "A"})
    folded: Call = ("refund", {"order_id": "A", "amount": 50, "Amount": 500})
    text: Call = ("refund", {"order_id": "A", "amount": "500"})
    async with stage.one_process(LIMIT) as process:
        await process.run([[refund("A", 500), folded], [default], [text], [refund("B")]])
    stage.expect(all(float(amount) <= 100 for _, amount in stage.shop.refunds), "at most 100", stage.shop.refunds)
    stage.expect(("B", 50) in stage.shop.refunds, "a refund of B", stage.shop.refunds)


@scenario("conversations")
async def conversations(stage: ScenarioStage) -> None:
    """A call in one conversation satisfies no rule in another."""
    async with stage.one_process(ORDER) as process:
        await process.run([[LOGIN]], conversation="c1")
        await process.run([[refund("A")]], conversation="c2")
        await process.run([[refund("B")]], conversation="c1")
    stage.paid(("B", 50))


@scenario("parallel")
async def parallel(stage: ScenarioStage) -> None:
    """Of two equal refunds, in one message or in parallel requests, one is paid; of eight different ones, all are."""
    many = [f"M{number}" for number in range(8)]
    async with stage.one_process(ONCE) as process:
        await process.run([[refund("A"), refund("A")]])
        await asyncio.gather(*(process.run([[refund("B")]]) for _ in range(2)))
        await process.run([[refund(order_id) for order_id in many]])
    stage.paid(("A", 50), ("B", 50), *((order_id, 50) for order_id in many))


REPEATED = "repeats the id of another call"


@scenario("repeated ids")
async def repeated_ids(stage: ScenarioStage) -> None:
    """Of calls with one id in a message only the first may run, and the model reads why the others did not."""
    pairs = (
        (("A", 50), ("A", 50)),
        (("B", 50), ("C", 50)),
        (("D", 5000), ("E", 50)),
        (("F", 50), ("G", 5000)),
        (("H", 500), ("H", 500)),
        (("I", 500), ("J", 50)),
        (("K", 50), ("L", 500)),
    )
    async with stage.one_process(APPROVED) as process:
        for first, second in pairs:
            reply = await process.run([OneId([refund(*first), refund(*second)])], conversation=first[0])
            if reply.question is not None:
                stage.expect(first[1] == 500, f"no question about {first} and {second}", reply.question)
                reply = await process.answer(reply.question, YES)
            stage.expect(reply.question is None, "no second question", reply.question)
            read = process.model_input()
            stage.expect(REPEATED in read, "why the second did not run", read[-1000:])
        await process.run([[refund("M"), refund("N")]], conversation="M")
    stage.paid(*((order, amount) for (order, amount), _ in pairs if amount < 5000), ("M", 50), ("N", 50))


@scenario("cancel")
async def cancel(stage: ScenarioStage) -> None:
    """A call that is cancelled while its tool runs may have done its work, and is not repeated."""
    async with stage.one_process(ONCE) as process:
        running = await stage.mid_tool(process, "A")
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        stage.shop.let_go("A")
        await process.run([[refund("A")], [refund("B")]])
    stage.paid(("A", 50), ("B", 50))


@scenario("retry")
async def retry(stage: ScenarioStage) -> None:
    """A call whose answer was lost may have done its work; neither the host nor the model can repeat it."""
    async with stage.one_process(ONCE, retries=2) as process:
        stage.shop.fall_silent()
        with suppress(TimeoutError, ConnectionError):  # some hosts let pass what a tool raises
            await process.run([[refund("A")], [refund("A")]])
        stage.shop.speak_again()
        await process.run([[refund("A")], [refund("B")]])
    stage.paid(("A", 50), ("B", 50))


@scenario("too long")
async def too_long(stage: ScenarioStage) -> None:
    """A call that runs longer than the policy lets it is given up. It may have done its work, and is not repeated."""
    async with stage.one_process(ONCE, IN_TIME) as process:
        running = await stage.mid_tool(process, "A", [refund("A")])
        ended, _ = await asyncio.wait({running}, timeout=60)
        stage.expect(bool(ended), "an end of the run while its tool goes on", "none")
        await asyncio.gather(running, return_exceptions=True)  # some hosts let pass what a tool raises
        stage.shop.let_go("A")
        await process.run([[refund("A")], [refund("B")]])
    stage.paid(("A", 50), ("B", 50))


@scenario("resume")
async def resume(stage: ScenarioStage) -> None:
    """One of three calls in a message waits for approval; after the run resumes, each was paid once."""
    async with stage.one_process(APPROVED) as process:
        waiting = await process.run([[refund("A", 10), refund("B", 500), refund("C", 20)]])
        stage.expect(("B", 500) not in stage.shop.refunds, "no refund of B before the answer", stage.shop.refunds)
        await approved(process, waiting)
    stage.paid(("A", 10), ("B", 500), ("C", 20))


@scenario("approve twice")
async def approve_twice(stage: ScenarioStage) -> None:
    """One approval allows one execution, even after parallel clicks, a late click and one in another process."""
    operator = stage.operator(APPROVED)
    async with stage.process(operator) as process, stage.process(operator) as other:
        question = stage.question_of(await process.run([[refund("A", 500)]]))
        stage.paid()
        for clicks in ((process, process), (process,), (other,)):
            answers = (click.answer(question, YES) for click in clicks)
            await asyncio.gather(*answers, return_exceptions=True)
    stage.paid(("A", 500))


@scenario("edit")
async def edit(stage: ScenarioStage) -> None:
    """An edited call is judged with its new arguments."""
    async with stage.one_process(APPROVED) as process:
        for name, amount in (("A", 60), ("B", 5000)):
            question = stage.question_of(await process.run([[refund(name, 500)]]))
            await process.answer(question, Approval("edit", {"order_id": name, "amount": amount}))
    stage.paid(("A", 60))


@scenario("edited call is told")
async def edited_call_is_reported(stage: ScenarioStage) -> None:
    """The model reads which arguments ran, not only those that it has proposed."""
    async with stage.one_process(APPROVED) as process:
        question = stage.question_of(await process.run([[refund("A", 500)]]))
        await process.answer(question, Approval("edit", {"order_id": "A", "amount": 61}))
        read = process.model_input()
        stage.expect("reviewer changed this call" in read and "amount=61" in read, "what ran", read[-1000:])
        question = stage.question_of(await process.run([[refund("B", 500)]], conversation="c2"))
        await process.answer(question, YES)
        read = process.model_input()
        stage.expect("reviewer changed this call" not in read, "no word of an edit", read[-1000:])
    stage.paid(("A", 61), ("B", 500))


@scenario("contradicting approval")
async def contradicting_approval(stage: ScenarioStage) -> None:
    """An answer that names another call is refused, whoever gives it."""
    async with stage.one_process(APPROVED) as process:
        for name, approval in (
            ("A", replace(YES, of="0" * 64)),
            ("B", Approval("edit", {"order_id": "B", "amount": 50}, of="0" * 64)),
        ):
            question = stage.question_of(await process.run([[refund(name, 500)]], conversation=name))
            await asyncio.gather(process.answer(question, approval), return_exceptions=True)
        await approved(process, await process.run([[refund("C", 500)]], conversation="c3"))
    stage.paid(("C", 500))


MALFORMED: tuple[Any, ...] = (
    '{"order_id": "A", "amount": 500',
    '{"order_id": "A", "amount": ',
    '{"order_id": "A',
    "{",
    "}",
    '{"order_id": "A", "amount": 500,}',
    "{'order_id': 'A', 'amount': 500}",
    '{order_id: "A", amount: 500}',
    '[{"order_id": "A", "amount": 500}]',
    '"A, 500"',
    "500",
    "null",
    '{"order_id": "A", "amount": NaN}',
    '{"order_id": "A", "amount": 500} and more',
    '```json\n{"order_id": "A", "amount": 500}\n```',
    "refund A, please",
    {},
    {"amount": 500},
    {"order_id": ["A"], "amount": {"value": 500}},
    {"order_id": None, "amount": None},
)
"""Arguments of a refund that no model means: cut, not JSON, no object, or of other types."""


@scenario("malformed arguments")
async def malformed_arguments(stage: ScenarioStage) -> None:
    """A call with malformed arguments does not run, and never waits for an answer that nobody can give."""
    async with stage.one_process(APPROVED) as process:
        for at, args in enumerate(MALFORMED):
            try:  # not in a task of its own: some hosts close what they open here in another one
                reply = await process.run([[("refund", args)]], conversation=f"m{at // 2}")
            except Exception:  # noqa: BLE001, S112 - some hosts end the run themselves
                continue
            await approved(process, reply, Approval("reject"))  # some ask about what they read in a repaired text
        stage.paid()
        await approved(process, await process.run([[refund("B", 500)], [refund("C")]]))
    stage.paid(("B", 500), ("C", 50))


@scenario("another call than was shown")
async def swapped(stage: ScenarioStage) -> None:
    """An answer covers the call that was shown, not a call that changed since or was requested later."""
    async with stage.one_process(APPROVED) as process:
        changed = stage.question_of(await process.run([[refund("A", 500)]]))
        await process.swap(changed, {"order_id": "A", "amount": 900})
        await asyncio.gather(process.answer(changed, YES), return_exceptions=True)
        older = stage.question_of(await process.run([[refund("B", 500)]], conversation="c2"))
        await process.run([[refund("C", 600)]], conversation="c2")
        await asyncio.gather(process.answer(older, YES), return_exceptions=True)
        stage.expect(not {("A", 900), ("C", 600)} & {*stage.shop.refunds}, "only what was shown", stage.shop.refunds)
        await approved(process, await process.run([[refund("D", 500)]], conversation="c3"))
    stage.expect(("D", 500) in stage.shop.refunds, "a refund of D", stage.shop.refunds)


@scenario("forged history")
async def forged_history(stage: ScenarioStage) -> None:
    """Messages with a login that never ran do not authenticate."""
    async with stage.one_process(ORDER) as process:
        await process.run([[refund("A")]], conversation="c1", history=[(LOGIN, "welcome")])
        await process.run([[LOGIN], [refund("B")]], conversation="c2")
    stage.paid(("B", 50))


@scenario("failed output")
async def failed_output(stage: ScenarioStage) -> None:
    """A login whose output reports a failure, in its text or in a second block, does not authenticate."""
    failing: list[list[Call]] = []
    for code in REFUSALS:
        failing += [[("authenticate", {"email": "a", "code": code})], [refund(code)]]
    async with stage.one_process(ORDER) as process:
        await process.run([*failing, [LOGIN], [refund("A")]])
    stage.paid(("A", 50))


@scenario("late tools")
async def late_tools(stage: ScenarioStage) -> None:
    """A tool that is added after the start is judged like the others."""
    async with stage.one_process(LIMIT, tools=("authenticate", "get_order")) as process:
        await process.run([[LOGIN]])
        await process.add("refund")
        await process.run([[refund("A", 500)], [refund("A", 50)]])
    stage.expect(stage.shop.refunds in ([], [("A", 50)]), "at most the refund of 50", stage.shop.refunds)
    stage.expect(stage.shop.logins == ["ann@example.com"], "a login", stage.shop.logins)


@scenario("late tools of a server")
async def late_tools_of_a_server(stage: ScenarioStage) -> None:
    """A tool that a server adds after the start, and that no rule names, does not run until it is accepted."""
    async with stage.one_process(LIMIT) as process:
        await process.run([[refund("A")]])
        await process.add("payout")
        await process.run([[("payout", {"amount": 900})]])
        await process.run([[refund("B")]])
    stage.expect(stage.shop.payouts == [], "no payout", stage.shop.payouts)
    stage.paid(("A", 50), ("B", 50))


@scenario("hand-off")
async def hand_off(stage: ScenarioStage) -> None:
    """The agent that takes over is guarded, in the same conversation."""
    async with stage.one_process(ORDER, LIMIT) as process:
        await process.run([[LOGIN], HandOff([[refund("A", 500)], [refund("A", 50)]])])
    stage.paid(("A", 50))


@scenario("sub-agent")
async def sub_agent(stage: ScenarioStage) -> None:
    """A sub-agent's calls count in the conversation of its root."""
    async with stage.one_process(ONCE) as process:
        await process.run([[refund("A")], SubAgent([[refund("A")], [refund("B")]])])
        await process.run([[refund("B")]])
    stage.paid(("A", 50), ("B", 50))


@scenario("sub-agent under another id")
async def sub_agent_under_another_id(stage: ScenarioStage) -> None:
    """A sub-agent with its own conversation id counts in the root's conversation, or does not run."""
    await _separate_sub_agent(stage, "other id")


@scenario("sub-agent in a thread of its own")
async def sub_agent_in_a_thread(stage: ScenarioStage) -> None:
    """A sub-agent in a thread that inherits nothing counts in the root's conversation, or does not run."""
    await _separate_sub_agent(stage, "thread")


async def _separate_sub_agent(stage: ScenarioStage, where: Literal["other id", "thread"]) -> None:
    async with stage.one_process(ONCE) as process:
        await process.run([[refund("A")], SubAgent([[refund("A")]], where), [refund("B")]])
    stage.paid(("A", 50), ("B", 50))


@scenario("streaming")
async def streaming(stage: ScenarioStage) -> None:
    """Calls in a streamed run are judged, and no part of an answer is shown before it is judged, also by rules."""
    for judge, rules in (("guard", (LIMIT,)), ("rules", (LIMIT, ANSWERS))):
        async with stage.one_process(*rules, answers=judge == "guard", ledger=None) as process:
            talk: Script = [[refund(judge, 500)], [refund(judge)], f"The PIN is {SECRET}."]
            calls = await process.run(talk, stream=True, conversation=judge)
            plain = await process.run([[refund(f"{judge} 2")], "You have 50 back."], stream=True, conversation="c2")
        stage.expect(SECRET not in calls.shown, "no secret in the stream", calls.shown)
        stage.expect("50 back" in plain.shown, "the harmless answer in the stream", plain.shown)
    stage.paid(*((order, 50) for order in ("guard", "guard 2", "rules", "rules 2")))


@scenario("restart")
async def restart(stage: ScenarioStage) -> None:
    """After a restart a conversation continues with its history; a call that was in flight is not repeated."""
    operator = stage.operator(ORDER, LIMIT, ONCE)
    async with stage.process(operator) as process:
        await process.run([[LOGIN], [refund("A")]])
        running = await stage.mid_tool(process, "B")
        async with stage.process(operator) as other:  # the first has hung, or so it seems
            await other.run([[refund("A")], [refund("B")], [refund("C", 500)], [refund("D")]])
        stage.shop.let_go("B")
        await asyncio.gather(running, return_exceptions=True)
    async with stage.process(operator) as process:
        await process.run([[refund("A")], [refund("B")], [refund("E")]])
    stage.paid(("A", 50), ("B", 50), ("D", 50), ("E", 50))


@scenario("restart without a ledger")
async def restart_without_a_ledger(stage: ScenarioStage) -> None:
    """Rules that read no history still decide if the conversation shows calls that the new process never saw."""
    operator = stage.operator(LIMIT, ledger=None)
    async with stage.process(operator) as process:
        await process.run([[LOGIN], [refund("A")]])
    async with stage.process(operator) as process:
        await process.run([[refund("B", 500)], [refund("C")]])
    stage.paid(("A", 50), ("C", 50))


@scenario("final answer")
async def final_answer(stage: ScenarioStage) -> None:
    """An answer with a secret is withheld, whether a model wrote it or a tool whose output is the answer."""
    async with stage.one_process(LIMIT, answers=True, direct=frozenset({"get_order"})) as process:
        spoken = await process.run([f"The PIN is {SECRET}."])
        direct = await process.run([[LOOK]], conversation="c2")
        plain = await process.run(["You have 50 back."], conversation="c3")
    for reply in (spoken, direct):
        stage.expect(SECRET not in reply.shown, "no secret in the answer", reply.shown)
    stage.expect("50 back" in plain.shown, "the harmless answer", plain.shown)


@scenario("rules about the answer")
async def rules_about_the_answer(stage: ScenarioStage) -> None:
    """An answer is a step of the rules: it is withheld if it breaks one, or lacks an earlier call."""
    async with stage.one_process(LIMIT, ANSWERS, direct=frozenset({"get_order"})) as process:
        secret = await process.run([[refund("A")], f"The PIN is {SECRET}."])
        direct = await process.run([[refund("B")], [LOOK]], conversation="c2")
        early = await process.run(["You have 50 back."], conversation="c3")
        plain = await process.run([[refund("C")], "You have 50 back."], conversation="c4")
    for reply in (secret, direct):
        stage.expect(SECRET not in reply.shown, "no secret in the answer", reply.shown)
    stage.expect("50 back" not in early.shown, "no answer before the refund", early.shown)
    stage.expect("50 back" in plain.shown, "the harmless answer", plain.shown)
    stage.paid(("A", 50), ("B", 50), ("C", 50))


@scenario("stopped while a call waits")
async def stopped_while_a_call_waits(stage: ScenarioStage) -> None:
    """After a person stops a tool, an approval lets no waiting call of it run; other tools run on."""
    operator = stage.stoppable(APPROVED)
    async with stage.process(operator) as process:
        question = stage.question_of(await process.run([[refund("A", 500)]]))
        operator.stop(tool="refund")
        await asyncio.gather(process.answer(question, YES), return_exceptions=True)
        async with stage.process(operator) as other:
            await asyncio.gather(other.answer(question, YES), return_exceptions=True)
        await approved(process, await process.run([[refund("B")], [LOGIN]], conversation="c2"))
    stage.paid()
    stage.expect(stage.shop.logins == ["ann@example.com"], "a login", stage.shop.logins)


@scenario("stopped in flight")
async def stopped_in_flight(stage: ScenarioStage) -> None:
    """After a person stops everything while a call runs, no further call runs, in no conversation and no process."""
    operator = stage.stoppable(LIMIT)
    async with stage.process(operator) as process:
        running = await stage.mid_tool(process, "A", [refund("B")], [LOGIN])
        operator.stop()
        with suppress(Exception):  # some hosts end the run by an error
            await process.run([[refund("C")], [LOGIN]], conversation="c2")
        async with stage.process(operator) as other:
            with suppress(Exception):
                await other.run([[refund("C")], [LOGIN]])
        stage.shop.let_go("A")
        await asyncio.gather(running, return_exceptions=True)
    stage.paid(("A", 50))
    stage.expect(stage.shop.logins == [], "no login", stage.shop.logins)


@scenario("stopped between parallel calls")
async def stopped_between_parallel_calls(stage: ScenarioStage) -> None:
    """If a person stops a tool after the first call of a message has begun, the others do not begin."""
    operator, begun, allowed = stage.stoppable(LIMIT), set[tuple[Any, Any]](), set[tuple[Any, Any]]()

    def stop() -> None:
        in_flight = [as_object(args) for _, args in operator.stop(tool="refund")]
        allowed.update((args["order_id"], args["amount"]) for args in in_flight)
        time.sleep(0.05)  # a call that had begun in another thread gets into the book
        begun.update(stage.shop.refunds)

    stage.shop.when_paid["A"] = stop
    async with stage.process(operator) as process:
        running = await stage.mid_tool(process, "A", [refund("C")], beside=[refund("B"), LOGIN])
        if not begun:  # the tools are in another process
            stop()
        stage.shop.let_go("A")
        await asyncio.gather(running, return_exceptions=True)
    paid = {*stage.shop.refunds}
    stage.expect(begun <= paid <= begun | allowed, f"refunds {begun}, or of {allowed}", paid)
    stage.expect(stage.shop.logins == ["ann@example.com"], "a login", stage.shop.logins)


@scenario("stopped while streaming")
async def stopped_while_streaming(stage: ScenarioStage) -> None:
    """After a person stops a tool in a streamed run, its calls do not run, and the stream goes on without them."""
    operator = stage.stoppable(LIMIT, ANSWERS)
    async with stage.process(operator) as process:
        running = await stage.mid_tool(process, "A", [refund("B")], [LOGIN], "You have 50 back.", stream=True)
        operator.stop(tool="refund")
        stage.shop.let_go("A")
        reply = await running
    stage.expect("50 back" in reply.shown, "the answer in the stream", reply.shown)
    stage.paid(("A", 50))
    stage.expect(stage.shop.logins == ["ann@example.com"], "a login", stage.shop.logins)
