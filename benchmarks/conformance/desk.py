"""The host of an agent: makes the proposed calls, with a guard or without."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from benchmarks.conformance.shop import TOOLS
from benchmarks.conformance.tasks import Call
from guardagent import InputError, Policies, load_policies
from guardagent.generation.tool_set import ToolSet
from guardagent.session.replan import judge_jointly
from guardagent.types import Permit


@dataclass(frozen=True, slots=True)
class CallDecision:
    """The decision on a call: `refused` is the reason if it is not made; `permit` is the guard's permit.

    `judged` is false if the call was not judged because another call of the turn was refused.
    """

    call: Call
    refused: str = ""
    allowed: bool = True
    judged: bool = True
    permit: Permit | None = None


class ShopDesk(Protocol):
    """Decides on turns, and records the outputs of the calls."""

    def decide(self, turn: Sequence[Call]) -> list[CallDecision]: ...

    def record(self, decided: CallDecision, output: Any) -> None: ...


class UnguardedDesk:
    """Allows every call."""

    def decide(self, turn: Sequence[Call]) -> list[CallDecision]:
        return [CallDecision(call) for call in turn]

    def record(self, decided: CallDecision, output: Any) -> None:
        """Does nothing."""


class GuardedDesk:
    """Validates arguments strictly and judges turns by a session: all calls of a turn are made, or none.

    Attributes:
        seconds: the session's CPU time for each judged call, including its record; its share in a turn.
        validation: the CPU time for validating its arguments.
    """

    def __init__(self, rules: Policies, database: Mapping[str, Any], confirmed: Sequence[str]) -> None:
        self._session = rules.session(state=database, facts={"confirmed": list(confirmed)})
        self.seconds: list[float] = []
        self.validation: list[float] = []

    def record(self, decided: CallDecision, output: Any) -> None:
        started = time.process_time()
        self._session.record(output, permit=decided.permit)
        self.seconds[-1] += time.process_time() - started

    def decide(self, turn: Sequence[Call]) -> list[CallDecision]:
        started = time.process_time()
        read = [_read(call) for call in turn]
        self.validation += [(time.process_time() - started) / len(turn)] * len(turn)
        if any(isinstance(args, str) for args in read):
            return [
                CallDecision(call, args, allowed=False)
                if isinstance(args, str)
                else CallDecision(call, _NOT_RUN, judged=False)
                for call, args in zip(turn, read, strict=True)
            ]
        proposed = [(tool, args) for (tool, _), args in zip(turn, read, strict=True) if not isinstance(args, str)]
        started = time.process_time()
        checked, verdicts = judge_jointly(self._session, proposed, {})
        self.seconds += [(time.process_time() - started) / len(turn)] * len(turn)
        verdict_of = {id(call): verdict for call, verdict in zip(checked, verdicts, strict=True)}
        made = all(id(call) in verdict_of and not verdict_of[id(call)].label for call in proposed)
        decided = []
        for call, proposed_call in zip(turn, proposed, strict=True):
            verdict = verdict_of.get(id(proposed_call))
            if verdict is None:
                decided.append(CallDecision(call, _NOT_RUN, judged=False))
                continue
            reason = verdict.feedback() if verdict.label else "" if made else _NOT_RUN
            decided.append(
                CallDecision(call, reason, allowed=not verdict.label, permit=verdict.permit if made else None)
            )
        return decided


_NOT_RUN = "not made, because another call of this turn is refused"


@cache
def shop_rules() -> Policies:
    """The policies of policy.yaml."""
    return load_policies(Path(__file__).parent / "policy.yaml")


@cache
def _tool_set() -> ToolSet:
    return ToolSet(TOOLS)


def _read(call: Call) -> dict[str, Any] | str:
    """The arguments of a call, or the reason why it is invalid."""
    tool, arguments = call
    try:
        return (
            _tool_set().parse(tool, arguments) if isinstance(arguments, str) else _tool_set().validate(tool, arguments)
        )
    except InputError as error:
        return str(error)
