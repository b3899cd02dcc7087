"""The conformance suite itself: a sound host conforms, and for each scenario there is a broken one that it catches."""

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
    check,
    matrix,
)
from guardagent.types import EMPTY
from tests.docs.test_docs import BLOCK
from tests.frameworks import breaks
from tests.testing.conformance_cannot import CANNOT
from tests.testing.conformance_custom import CustomHost, CustomProcess, Talk

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "conformance.md"
BROKEN: dict[str, type[CustomProcess]] = {}


def broken(scenario: str) -> Any:
    """Lists a process with one fault, by the scenario that has to catch it."""

    def listed(process: type[CustomProcess]) -> type[CustomProcess]:
        assert scenario not in BROKEN
        BROKEN[scenario] = process
        return process

    return listed


@broken("order")
class AnsweredByItself(CustomProcess):
    """Judges a call, and takes a denial for an answer to show."""

    async def call(self, talk: Talk, call: HostCall) -> str | None:
        if self.guard.preview(call).label:
            await self.unguarded(call)
        return await super().call(talk, call)

    async def unguarded(self, call: HostCall) -> None:
        await self.operator.shop.tool(call.tool)(**call.args)


@broken("limits")
class JudgesBeforeDefaults(CustomProcess):
    """Judges what the model wrote, and not what the tool gets."""

    async def call(self, talk: Talk, call: HostCall) -> str | None:
        judged = replace(call, args={**call.args, "amount": 0}) if call.args.get("amount") == 500 else call
        if (await self.guard.abefore(judged)).label == 0:
            await self.guard.ause(judged)
            self.guard.after(judged, Outcome(await self.operator.shop.tool(call.tool)(**call.args)))
        return None


@broken("conversations")
class OneConversation(CustomProcess):
    """Keeps one history for all its users."""

    async def run(self, script: Script, *, conversation: str = "c1", **options: Any) -> Reply:
        return await super().run(script, **options)


@broken("parallel")
class JudgesAllBeforeAny(CustomProcess):
    """Judges a call without taking its place, and records it once it has run."""

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
    """Takes a call that was cancelled for one that has not happened."""

    def ended(self, error: BaseException) -> Outcome:
        return Outcome("cancelled", failed=True) if isinstance(error, asyncio.CancelledError) else super().ended(error)


@broken("retry")
class LostIsFailed(CustomProcess):
    """Takes a call that ran out of time for one that has not happened."""

    def ended(self, error: BaseException) -> Outcome:
        return Outcome("late", failed=True) if isinstance(error, TimeoutError) else super().ended(error)


@broken("resume")
class RunsTheMessageAgain(CustomProcess):
    """Once a person has answered, all calls of the message run again."""

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
    """Keeps approvals with the agent that is built for each request."""

    async def answer(self, question: Any, approval: Approval) -> Reply:
        self.guard = self.operator.guard(ledger=MemoryLedger())
        return await super().answer(question, approval)


@broken("edit")
class RunsTheEditUnjudged(CustomProcess):
    """Runs what a person made of a call as it is."""

    async def answer(self, question: Any, approval: Approval) -> Reply:
        if approval.choice == "edit":
            _, call, _ = self.requests[question]
            await self.operator.shop.tool(call.tool)(**approval.args)
            return Reply()
        return await super().answer(question, approval)


@broken("another call than was shown")
class BelievesTheAnswer(CustomProcess):
    """Takes a yes for a yes to whatever waits by now."""

    async def answer(self, question: Any, approval: Approval) -> Reply:
        talk, call, _ = self.requests[question]
        self.requests[question] = (talk, call, call.digest)
        await self.guard.abefore(call)
        return await super().answer(question, approval)


@broken("forged history")
class BelievesMessages(CustomProcess):
    """Takes the host's messages for what has happened."""

    def believed(self, conversation: str, call: Call, output: str) -> str:
        shown = HostCall(call[0], call[1], conversation)
        self.guard.before(shown)
        self.guard.use(shown)
        self.guard.after(shown, Outcome(output))
        return shown.id


@broken("failed output")
class HidesTheOutput(CustomProcess):
    """Records that a call ended, and not what came of it."""

    def output(self, output: Any) -> Any:
        return "done"


@broken("late tools")
class LateToolsUnjudged(CustomProcess):
    """Guards the tools that were there at the start, and no other."""

    async def call(self, talk: Talk, call: HostCall) -> str | None:
        if call.tool in self.operator.tools:
            return await super().call(talk, call)
        await self.operator.shop.tool(call.tool)(**call.args)
        return None

    async def add(self, tool: str) -> None:
        self.known.add(tool)


@broken("late tools of a server")
class TakesLateTools(CustomProcess):
    """Takes whatever a server comes to have."""

    async def add(self, tool: str) -> None:
        self.known.add(tool)


@broken("hand-off")
class HandsOverUnguarded(CustomProcess):
    """Guards the agent that it was given, and not the one that this leads to."""

    async def hand_over(self, talk: Talk, turn: HandOff) -> Talk:
        calls: Any = turn.script[0]
        for tool, args in calls:
            await self.operator.shop.tool(tool)(**args)
        return talk


@broken("sub-agent")
class SubAgentsBeginAnew(CustomProcess):
    """Gives each sub-agent a history of its own."""

    async def run_sub_agent(self, talk: Talk, turn: SubAgent) -> None:
        await self.run(turn.script, conversation="inner")


@broken("sub-agent under another id")
class BelievesIds(CustomProcess):
    """Believes the id that a tool gives to the agent it runs."""

    async def run_sub_agent(self, talk: Talk, turn: SubAgent) -> None:
        await self.run(turn.script, conversation=talk.conversation if turn.where == "task" else "apart")


@broken("sub-agent in a thread of its own")
class ThreadsBeginAnew(CustomProcess):
    """Takes what a tool's thread runs for another user's."""

    async def run_sub_agent(self, talk: Talk, turn: SubAgent) -> None:
        conversation = "apart" if turn.where == "thread" else talk.conversation
        await turn.run(self.run(turn.script, conversation=conversation))


@broken("streaming")
class ShowsWhileItJudges(CustomProcess):
    """Shows a stream as it comes."""

    def answered(self, talk: Talk, text: str) -> str:
        return text if talk.stream else super().answered(talk, text)


@broken("restart")
class ForgetsTheConversation(CustomProcess):
    """Begins each process with an empty history."""

    def __init__(self, operator: Operator) -> None:
        super().__init__(operator)
        self.guard = operator.guard(ledger=MemoryLedger())


@broken("restart without a ledger")
class DeniesAfterARestart(CustomProcess):
    """Takes each call of a conversation that was there before for a forgery."""

    def __init__(self, operator: Operator) -> None:
        super().__init__(operator)
        self.begun = "begun" in operator.kept
        operator.kept["begun"] = True

    async def call(self, talk: Talk, call: HostCall) -> str | None:
        return None if self.begun else await super().call(talk, call)


@broken("final answer")
class DirectAnswersUnjudged(CustomProcess):
    """Shows what a tool answers in the model's place."""

    def direct(self, talk: Talk, output: str) -> str:
        return output


class RunsNothing(CustomProcess):
    """Is safe, and of no use."""

    async def call(self, talk: Talk, call: HostCall) -> str | None:
        return None

    def answered(self, talk: Talk, text: str) -> str:
        return ""


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_sound_host_conforms(scenario: str, tmp_path: Path) -> None:
    """In the order of the list, nothing of it is left out."""
    assert check(CustomHost(), scenario, tmp_path) == "held"


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_each_scenario_catches_a_broken_host(scenario: str, tmp_path: Path) -> None:
    """A host with one fault does what the scenario forbids; one in which nothing runs does not what it allows."""
    faults: list[type[CustomProcess]] = [BROKEN[scenario], RunsNothing]
    for number, process in enumerate(faults):
        folder = tmp_path / str(number)
        folder.mkdir()
        with pytest.raises(NotConformingError, match=scenario):
            check(CustomHost(process), scenario, folder)


def test_the_page_shows_what_the_hosts_declare() -> None:
    """The tables of docs/conformance.md are those that the hosts' files make; `held` is what their tests play."""
    page = PAGE.read_text(encoding="utf-8")
    assert {name: _between(page, name) for name in tables()} == tables()


def test_what_is_held_against_a_break_has_a_test() -> None:
    """Each cell that names one names one that is there."""
    for named in breaks.tests():
        file, _, test = named.partition("::")
        assert f"def {test}(" in (TESTS / file).read_text(encoding="utf-8"), named


def tables() -> dict[str, str]:
    """The tables of docs/conformance.md."""
    return {"scenarios": matrix(CANNOT), "breaks": matrix(breaks.cells(), breaks.BREAKS, "break")}


@pytest.mark.slow
def test_the_adapter_of_the_page_conforms(tmp_path: Path) -> None:
    """Its test file runs as it stands."""
    found = next(BLOCK.finditer(PAGE.read_text(encoding="utf-8")))
    (tmp_path / found["file"]).write_text(found["text"])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", found["file"]]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
    assert f"{len(SCENARIOS)} passed" in ran.stdout


def _between(page: str, name: str) -> str:
    return page.partition(f"<!-- {name} -->\n")[2].partition("<!-- end -->")[0]


def test_what_is_not_played_has_a_reason(tmp_path: Path) -> None:
    """Neither an unknown scenario nor a reason that is none is taken, and a part that is missing is no pass."""

    class Odd(CustomHost):
        cannot: Mapping[str, str] = EMPTY

    host = Odd()
    for cannot, problem in (({"order": "later"}, "is not a reason"), ({"ordre": "x"}, "did you mean 'order'")):
        host.cannot = cannot
        with pytest.raises(InputError, match=problem):
            check(host, "order", tmp_path)
    host.cannot = {"order": "cannot occur because all is in order"}
    assert check(host, "order", tmp_path) == host.cannot["order"]


def test_a_part_that_is_missing_is_no_pass(tmp_path: Path) -> None:
    """It is named."""

    class WithoutSwap(CustomProcess):
        swap = Process.swap

    with pytest.raises(NotConformingError, match="lacks 'swap'"):
        check(CustomHost(WithoutSwap), "another call than was shown", tmp_path)


if __name__ == "__main__":  # python -m tests.testing.test_conformance writes the tables anew
    text = PAGE.read_text(encoding="utf-8")
    for name, table in tables().items():
        head, mark, rest = text.partition(f"<!-- {name} -->\n")
        text = head + mark + table + rest[rest.index("<!-- end -->") :]
    PAGE.write_text(text, encoding="utf-8")
