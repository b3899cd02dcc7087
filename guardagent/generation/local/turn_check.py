"""What a session says of the calls of one turn, before any of them exists for it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from guardagent.generation.local.result import GeneratedCall
from guardagent.generation.local.tool_schemas import ToolSchema
from guardagent.policy.logic.reasoner import Reasoner
from guardagent.session.session import Session
from guardagent.types import Verdict, freeze


class TurnChecker:
    """Judges the calls of one turn, in order, against the history that they would make.

    They are tried in a copy of the session, and take their places when the turn ends.

    Args:
        session: judges; None lets everything pass.
        tools: by name.
        is_parallel: whether the calls may run in any order; then each must be allowed in every order.
        facts: what the host knows at this turn.
        agent: which agent writes.

    Attributes:
        calls: those that were accepted, with their arguments.
        denied: the last verdict on a call that was not.
        rules: how often calls violated each rule, by its id.
        questions: how often it was asked whether a call can still comply.
        checks: how often a whole call was judged.
    """

    def __init__(
        self,
        session: Session | None,
        tools: Mapping[str, ToolSchema],
        *,
        is_parallel: bool = False,
        facts: Mapping[str, Any] | None = None,
        agent: str | None = None,
    ) -> None:
        self.calls: list[tuple[str, Mapping[str, Any]]] = []
        self.denied: Verdict | None = None
        self.rules: Counter[str] = Counter()
        self.questions = self.checks = self.unchecked = 0
        self._session, self._tools, self._is_parallel, self._facts, self._agent = (
            session, tools, is_parallel, facts, agent,
        )  # fmt: skip
        self._trial: Session | None = None  # made with the first call
        self._answers: dict[str, bool] = {}

    def can_comply(self, tool: str, args: Mapping[str, Any]) -> bool:
        """Whether some completion of a call may be allowed: false only where it is known that none is."""
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
        """The verdict on a whole call, after those that were accepted; None where nothing judges."""
        if self._session is None:
            return None
        self.checks += 1
        trial = self._trial_session(self._session)
        if self._is_parallel and self.calls:
            return self._session.fork().check_all([*self.calls, (tool, args)], **self._options)[-1]
        return trial.check(tool, args, reserve=False, **self._options)

    def accept(self, tool: str, args: Mapping[str, Any]) -> None:
        """Takes a call in that was judged, as those after it will see it."""
        self.calls.append((tool, args))
        if self._trial is not None:
            self._trial.check(tool, args, **self._options)

    def mark(self) -> int:
        """A point to which calls can be taken back that were accepted."""
        return len(self.calls)

    def rollback(self, mark: int) -> None:
        """Takes back the calls that were accepted since."""
        if self._trial is not None and len(self.calls) > mark:
            self._trial.rollback(self._trial.mark() - (len(self.calls) - mark))
        del self.calls[mark:]

    def deny(self, verdict: Verdict) -> None:
        self.denied = verdict
        self.rules.update(verdict.rules)
        self.unchecked += not verdict.rules

    def reserve(self) -> tuple[GeneratedCall, ...] | None:
        """The accepted calls, which take their places in the session; None where one may not, and so none does."""
        if self._session is None:
            return tuple(GeneratedCall(tool, freeze(args)) for tool, args in self.calls)
        if self._is_parallel:
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
        """Withdraws placed calls that do not run: another thread's call came between, and had one denied."""
        for verdict in verdicts:
            if verdict.permit is not None and not verdict.label:
                session.withdraw(verdict.permit, "it was written together with a call that is denied by now")

    @property
    def _options(self) -> dict[str, Any]:
        return {"facts": self._facts, "agent": self._agent}

    def _trial_session(self, session: Session) -> Session:
        if self._trial is None:
            self._trial = session.fork()
        return self._trial
