"""The conformance suite: a correct host passes, and each scenario detects a host with one fault."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from guardagent.enforcement import Approval, HostCall, MemoryLedger, Outcome
from guardagent.errors import InputError
from guardagent.testing.conformance import (
    SCENARIOS,
    Call,
    HandOff,
    NotConformingError,
    Operator,
    Process,
    Reply,
    Script,
    SubAgent,
    as_object,
    check,
)
from guardagent.types import EMPTY
from tests.docs.test_docs import BLOCK
from tests.testing import conformance_tables
from tests.testing.conformance_custom import CustomHost, CustomProcess, Talk
from tests.testing.conformance_tables import tables

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "conformance.md"
BROKEN: dict[str, type[CustomProcess]] = {}


def broken(scenario: str) -> Any:
    """Registers a process with one fault under the scenario that must detect it."""

    def listed(process: type[CustomProcess]) -> type[CustomProcess]:
        assert scenario not in BROKEN
        BROKEN[scenario] = process
        return process

    return listed


@broken("repeated ids")
class OwnIds(CustomProcess):
    """Gives each call an id of its own, whatever the model does."""

    def ids(self, turn: Any) -> list[str]:
        return [f"own {at}" for at, _ in enumerate(turn)]


@broken("order")
class AnsweredByItself(CustomProcess):
    """Judges a call, but runs it even if it is denied."""

    async def call(self, talk: Talk, call: HostCall) -> str | None:
        if self.guard.preview(call).label:
            await self.unguarded(call)
        return await super().call(talk, call)

    async def unguarded(self, call: HostCall) -> None:
        await self.operator.shop.tool(call.tool)(**call.args)


@broken("limits")
class JudgesBeforeDefaults(CustomProcess):
    """Judges the arguments of the model instead of those that the tool gets."""

    async def call(self, talk: Talk, call: HostCall) -> str | None:
        judged = replace(call, args={**call.args, "amount": 0}) if call.args.get("amount") == 500 else call
        if (await self.guard.abefore(judged)).label == 0:
            await self.guard.ause(judged)
            self.guard.after(judged, Outcome(await self.operator.shop.tool(call.tool)(**call.args)))
        return None


@broken("conversations")
class OneConversation(CustomProcess):
    """Keeps one history for all users."""

    async def run(self, script: Script, *, conversation: str = "c1", **options: Any) -> Reply:
        return await super().run(script, **options)


@broken("parallel")
class JudgesAllBeforeAny(CustomProcess):
    """Judges a call without recording it as in flight, and records it only after it has run."""

    async def call(self, talk: Talk, call: HostCall) -> str | None:
        if (await self.guard.apreview(call)).label:
            return None
        output = await self.operator.shop.tool(call.tool)(**call.args)
        if (await self.guard.abefore(call)).label == 0:
            await self.guard.ause(call)
            await self.guard.aafter(call, Outcome(output))
        return None


@broken("cancel")
class CancelledIsFailed(CustomProcess):
    """Records a cancelled call as failed."""

    def ended(self, error: BaseException) -> Outcome:
        return Outcome("cancelled", failed=True) if isinstance(error, asyncio.CancelledError) else super().ended(error)


@broken("retry")
class LostIsFailed(CustomProcess):
    """Records a call that timed out as failed."""

    def ended(self, error: BaseException) -> Outcome:
        return Outcome("late", failed=True) if isinstance(error, TimeoutError) else super().ended(error)


@broken("too long")
class LateIsFailed(CustomProcess):
    """Gives a tool up in time, and says that it did nothing."""

    def ended(self, error: BaseException) -> Outcome:
        return Outcome("late", failed=True) if isinstance(error, TimeoutError) else super().ended(error)


@broken("resume")
class RunsTheMessageAgain(CustomProcess):
    """Runs all calls of the message again after an approval."""

    async def run(self, script: Script, **options: Any) -> Reply:
        self.first: Any = script[0]
        return await super().run(script, **options)

    async def answer(self, question: Any, approval: Approval) -> Reply:
        talk = self.requests[question][0]
        again = [self.proposed(talk, *call) for call in self.first]
        await asyncio.gather(*(self.call(talk, call) for call in again if call and call.args["amount"] <= 100))
        return await super().answer(question, approval)


@broken("approve twice")
class ForgetsApprovals(CustomProcess):
    """Keeps approvals with the agent, which is built anew for each request."""

    async def answer(self, question: Any, approval: Approval) -> Reply:
        self.guard = self.operator.guard(ledger=MemoryLedger())
        return await super().answer(question, approval)


@broken("edit")
class RunsTheEditUnjudged(CustomProcess):
    """Runs an edited call without judging it again."""

    async def answer(self, question: Any, approval: Approval) -> Reply:
        if approval.choice == "edit":
            _, call, _ = self.requests[question]
            await self.operator.shop.tool(call.tool)(**approval.args)
            return Reply()
        return await super().answer(question, approval)


@broken("edited call is told")
class HidesEdits(CustomProcess):
    """Runs an edited call, and leaves the model with its own arguments."""

    def noted(self, call: HostCall, edited: HostCall) -> str:
        return ""


@broken("contradicting approval")
class IgnoresTheNamedCall(CustomProcess):
    """Applies an answer to the request that it was given to, whichever call the answer names."""

    async def answer(self, question: Any, approval: Approval) -> Reply:
        return await super().answer(question, replace(approval, of=None))


@broken("malformed arguments")
class RepairsArguments(CustomProcess):
    """Makes arguments of its own of malformed ones."""

    def parsed(self, args: Mapping[str, Any] | str) -> Mapping[str, Any]:
        return {"order_id": "A", "amount": 50} if isinstance(args, str) else args


@broken("another call than was shown")
class BelievesTheAnswer(CustomProcess):
    """Applies an approval to the call that waits now instead of the one that was shown."""

    async def answer(self, question: Any, approval: Approval) -> Reply:
        talk, call, _ = self.requests[question]
        self.requests[question] = (talk, call, call.digest)
        await self.guard.abefore(call)
        return await super().answer(question, approval)


@broken("forged history")
class BelievesMessages(CustomProcess):
    """Takes the calls in the host's messages for the history."""

    def believed(self, conversation: str, call: Call, output: str) -> str:
        shown = HostCall(call[0], as_object(call[1]), conversation)
        self.guard.before(shown)
        self.guard.use(shown)
        self.guard.after(shown, Outcome(output))
        return shown.id


@broken("failed output")
class HidesTheOutput(CustomProcess):
    """Records that a call ended, but not its output."""

    def output(self, output: Any) -> Any:
        return "done"


@broken("late tools")
class LateToolsUnjudged(CustomProcess):
    """Guards only the tools that existed at the start."""

    async def call(self, talk: Talk, call: HostCall) -> str | None:
        if call.tool in self.operator.tools:
            return await super().call(talk, call)
        await self.operator.shop.tool(call.tool)(**call.args)
        return None

    async def add(self, tool: str) -> None:
        self.known.add(tool)


@broken("late tools of a server")
class TakesLateTools(CustomProcess):
    """Accepts every tool that a server adds later."""

    async def add(self, tool: str) -> None:
        self.known.add(tool)


@broken("hand-off")
class HandsOverUnguarded(CustomProcess):
    """Guards the first agent, but not the one that it hands over to."""

    async def hand_over(self, talk: Talk, turn: HandOff) -> Talk:
        calls: Any = turn.script[0]
        for tool, args in calls:
            await self.operator.shop.tool(tool)(**args)
        return talk


@broken("sub-agent")
class SubAgentsBeginAnew(CustomProcess):
    """Keeps a separate history for each sub-agent."""

    async def run_sub_agent(self, talk: Talk, turn: SubAgent) -> None:
        await self.run(turn.script, conversation="inner")


@broken("sub-agent under another id")
class BelievesIds(CustomProcess):
    """Uses the conversation id that a tool passes to its sub-agent."""

    async def run_sub_agent(self, talk: Talk, turn: SubAgent) -> None:
        await self.run(turn.script, conversation=talk.conversation if turn.where == "task" else "apart")


@broken("sub-agent in a thread of its own")
class ThreadsBeginAnew(CustomProcess):
    """Treats a sub-agent in a tool's thread as another user."""

    async def run_sub_agent(self, talk: Talk, turn: SubAgent) -> None:
        conversation = "apart" if turn.where == "thread" else talk.conversation
        await turn.run(self.run(turn.script, conversation=conversation))


@broken("streaming")
class ShowsWhileItJudges(CustomProcess):
    """Streams an answer before it is judged."""

    def answered(self, talk: Talk, text: str) -> str:
        return text if talk.stream else super().answered(talk, text)


@broken("restart")
class ForgetsTheConversation(CustomProcess):
    """Starts each process with an empty history."""

    def __init__(self, operator: Operator) -> None:
        super().__init__(operator)
        self.guard = operator.guard(ledger=MemoryLedger())


@broken("restart without a ledger")
class DeniesAfterARestart(CustomProcess):
    """Treats the calls of every conversation from before a restart as forged."""

    def __init__(self, operator: Operator) -> None:
        super().__init__(operator)
        self.begun = "begun" in operator.kept
        operator.kept["begun"] = True

    async def call(self, talk: Talk, call: HostCall) -> str | None:
        return None if self.begun else await super().call(talk, call)


@broken("final answer")
class DirectAnswersUnjudged(CustomProcess):
    """Shows a tool's direct answer without judging it."""

    def direct(self, talk: Talk, output: str) -> str:
        return output


@broken("rules about the answer")
class RulesForgetTheAnswer(CustomProcess):
    """Judges an answer only where the operator has a guard of answers."""

    def answered(self, talk: Talk, text: str) -> str:
        return text if getattr(self.guard, "answers", None) is None else super().answered(talk, text)


@broken("stopped while a call waits")
class RunsWhatIsApproved(CustomProcess):
    """Runs an approved call without asking the guard once more."""

    async def answer(self, question: Any, approval: Approval) -> Reply:
        talk, call, _ = self.requests[question]
        await self.operator.shop.tool(call.tool)(**call.args)
        talk.waiting = []
        return await self.go_on(talk)


@broken("stopped in flight")
class StopsOneProcess(CustomProcess):
    """Looks at a stop file of its own, which nobody else knows."""

    def __init__(self, operator: Operator) -> None:
        super().__init__(operator)
        self.guard = operator.guard(stop_file=operator.shop.folder / "own.json")


@broken("stopped between parallel calls")
class RunsWhatWasJudged(CustomProcess):
    """Judges all calls of a message, and then runs those that were allowed without their permits."""

    judged = 0

    async def call(self, talk: Talk, call: HostCall) -> str | None:
        is_allowed = (await self.guard.abefore(call)).label == 0
        self.judged += 1
        while self.judged < 3 or not (call.args.get("order_id") == "A" or self.operator.shop.refunds):  # noqa: ASYNC110 - until two conditions hold
            await asyncio.sleep(0.01)
        if is_allowed:
            await self.operator.shop.tool(call.tool)(**call.args)
        return None


@broken("stopped while streaming")
class StreamsUnguarded(CustomProcess):
    """Guards only the first calls of a streamed run."""

    async def call(self, talk: Talk, call: HostCall) -> str | None:
        if talk.stream and self.operator.shop.refunds:
            await self.operator.shop.tool(call.tool)(**call.args)
            return None
        return await super().call(talk, call)


class RunsNothing(CustomProcess):
    """Runs no call at all, which is safe but useless."""

    async def call(self, talk: Talk, call: HostCall) -> str | None:
        return None

    def answered(self, talk: Talk, text: str) -> str:
        return ""


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_sound_host_conforms(scenario: str, tmp_path: Path) -> None:
    """A host without faults passes every scenario."""
    assert check(CustomHost(), scenario, tmp_path) == "held"


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_each_scenario_catches_a_broken_host(scenario: str, tmp_path: Path) -> None:
    """A host with the fault runs forbidden calls; a host that runs nothing does not run the allowed ones."""
    faults: list[type[CustomProcess]] = [BROKEN[scenario], RunsNothing]
    for number, process in enumerate(faults):
        folder = tmp_path / str(number)
        folder.mkdir()
        with pytest.raises(NotConformingError, match=scenario):
            check(CustomHost(process), scenario, folder)


def test_the_page_shows_what_the_hosts_declare() -> None:
    """The tables of docs/conformance.md match the declarations of the hosts' tests."""
    page = PAGE.read_text(encoding="utf-8")
    assert {name: _between(page, name) for name in tables()} == tables()


def test_named_tests_exist() -> None:
    """Each table cell that names a test names an existing one."""
    for named in sorted(conformance_tables.tests()):
        file, _, test = named.partition("::")
        assert f"def {test}(" in (TESTS / file).read_text(encoding="utf-8"), named


@pytest.mark.slow
def test_the_adapter_of_the_page_conforms(tmp_path: Path) -> None:
    """The page's test file passes unchanged."""
    match = next(BLOCK.finditer(PAGE.read_text(encoding="utf-8")))
    (tmp_path / match["file"]).write_text(match["text"])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", match["file"]]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
    assert f"{len(SCENARIOS)} passed" in ran.stdout


def _between(page: str, name: str) -> str:
    return page.partition(f"<!-- {name} -->\n")[2].partition("<!-- end -->")[0]


def test_skipped_scenarios_have_a_valid_reason(tmp_path: Path) -> None:
    """Unknown scenarios and invalid reasons are refused."""

    class Odd(CustomHost):
        cannot: Mapping[str, str] = EMPTY

    host = Odd()
    for cannot, problem in (({"order": "later"}, "is not a reason"), ({"ordre": "x"}, "did you mean 'order'")):
        host.cannot = cannot
        with pytest.raises(InputError, match=problem):
            check(host, "order", tmp_path)
    host.cannot = {"order": "cannot occur because all is in order"}
    assert check(host, "order", tmp_path) == host.cannot["order"]


def test_a_missing_part_is_a_failure(tmp_path: Path) -> None:
    """The error names the missing part."""

    class WithoutSwap(CustomProcess):
        swap = Process.swap

    with pytest.raises(NotConformingError, match="lacks 'swap'"):
        check(CustomHost(WithoutSwap), "another call than was shown", tmp_path)


if __name__ == "__main__":  # python -m tests.testing.test_conformance rewrites the tables
    text = PAGE.read_text(encoding="utf-8")
    for name, table in tables().items():
        head, mark, rest = text.partition(f"<!-- {name} -->\n")
        text = head + mark + table + rest[rest.index("<!-- end -->") :]
    PAGE.write_text(text, encoding="utf-8")
