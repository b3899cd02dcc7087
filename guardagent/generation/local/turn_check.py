"""Checks the calls of one turn before any of them is reserved in the session."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from guardagent.generation.local.result import GeneratedCall
from guardagent.generation.local.tool_schemas import ClosedSchema
from guardagent.policy.logic.reasoner import Reasoner
from guardagent.session.session import Session
from guardagent.types import Verdict, freeze

ReserveCalls = Callable[[Sequence[tuple[str, Mapping[str, Any]]]], Sequence[Verdict]]
"""Reserves the calls of a turn elsewhere: returns a verdict for each. If one is denied, none is in flight."""


class TurnChecker:
    """Judges the calls of one turn, in order, against the history that they would produce.

    They are tried in a fork of the session, and reserved in the session itself when the turn ends.

    Args:
        session: judges the calls; None allows everything.
        tools: the tools by name.
        is_parallel: whether the calls may run in any order; then each must be allowed in every order.
        facts: the facts of this turn.
        agent: the name of the agent.
        reserve: reserves the calls in place of the session.

    Attributes:
        calls: the accepted calls with their arguments.
        denied: the verdict on the last denied call.
        rules: rule id -> the number of calls that violated it.
        questions: the number of queries whether a partial call can still comply.
        checks: the number of complete calls judged.
    """

    def __init__(
        self,
        session: Session | None,
        tools: Mapping[str, ClosedSchema],
        *,
        is_parallel: bool = False,
        facts: Mapping[str, Any] | None = None,
        agent: str | None = None,
        reserve: ReserveCalls | None = None,
    ) -> None:
        self.calls: list[tuple[str, Mapping[str, Any]]] = []
        self.denied: Verdict | None = None
        self.rules: Counter[str] = Counter()
        self.questions = self.checks = self.unchecked = 0
        self._session, self._tools, self._is_parallel, self._facts, self._agent = (
            session, tools, is_parallel, facts, agent,
        )  # fmt: skip
        self._reserve = reserve
        self._trial: Session | None = None  # created with the first call
        self._answers: dict[str, bool] = {}

    def can_comply(self, tool: str, args: Mapping[str, Any]) -> bool:
        """Whether some completion of a call may be allowed; false only if provably none is."""
        if self._session is None:
            return True
        key = json.dumps([len(self.calls), tool, dict(args)])
        if key not in self._answers:
            self.questions += 1
            open_args, more = self._tools[tool].open_arguments(args)
            possible = Reasoner(self._trial_session(self._session)).can_comply(
                tool, open_args, more=more, facts=self._facts
            )
            self._answers[key] = possible is not False
        return self._answers[key]

    def check(self, tool: str, args: Mapping[str, Any]) -> Verdict | None:
        """Judges a complete call after the accepted ones; None without a session."""
        if self._session is None:
            return None
        self.checks += 1
        trial = self._trial_session(self._session)
        if self._is_parallel and self.calls:
            return self._session.fork().check_all([*self.calls, (tool, args)], **self._options)[-1]
        return trial.check(tool, args, reserve=False, **self._options)

    def accept(self, tool: str, args: Mapping[str, Any]) -> None:
        """Adds a judged call to the history of the next ones."""
        self.calls.append((tool, args))
        if self._trial is not None:
            self._trial.check(tool, args, **self._options)

    def mark(self) -> int:
        """A mark for `rollback`."""
        return len(self.calls)

    def rollback(self, mark: int) -> None:
        """Removes the calls accepted since a mark."""
        if self._trial is not None and len(self.calls) > mark:
            self._trial.rollback(self._trial.mark() - (len(self.calls) - mark))
        del self.calls[mark:]

    def deny(self, verdict: Verdict) -> None:
        self.denied = verdict
        self.rules.update(verdict.rules)
        self.unchecked += not verdict.rules

    def reserve(self) -> tuple[GeneratedCall, ...] | None:
        """Reserves the accepted calls in the session; None if one is no longer allowed, so that none is reserved."""
        if self._session is None:
            return tuple(GeneratedCall(tool, freeze(args)) for tool, args in self.calls)
        verdicts: Sequence[Verdict]
        if self._reserve is not None:
            verdicts = self._reserve(self.calls)
        elif self._is_parallel:
            verdicts = self._session.check_all(self.calls, **self._options)
        else:
            verdicts = [self._session.check(tool, args, **self._options) for tool, args in self.calls]
        denied = [verdict for verdict in verdicts if verdict.label]
        if not denied:
            pairs = zip(self.calls, verdicts, strict=True)
            return tuple(GeneratedCall(tool, freeze(args), one, one.permit) for (tool, args), one in pairs)
        self.deny(max(denied, key=lambda verdict: verdict.decision.severity))
        self._withdraw(self._session, verdicts)
        return None

    @staticmethod
    def _withdraw(session: Session, verdicts: Sequence[Verdict]) -> None:
        """Withdraws reserved calls that will not run, because a concurrent call made one of the turn denied."""
        for verdict in verdicts:
            if verdict.permit is not None and not verdict.label:
                session.withdraw(verdict.permit, "it belongs to a turn with a call that is now denied")

    @property
    def _options(self) -> dict[str, Any]:
        return {"facts": self._facts, "agent": self._agent}

    def _trial_session(self, session: Session) -> Session:
        if self._trial is None:
            self._trial = session.fork()
        return self._trial
