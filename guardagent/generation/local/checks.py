"""The calls of one turn: as its result, as they are checked before any is reserved, and as tokens are masked for them.

An engine that cannot backtrack masks tokens that would complete a denied call. It looks ahead one token, plus any
tokens that the grammar forces. So no denied call is completed. But a call without an allowed continuation stays
incomplete, and the distribution is not that of the model conditioned on compliance.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict, Unpack

import numpy as np

from guardagent.errors import GuardError
from guardagent.generation.local.tool_schemas import ClosedSchema, read_tools
from guardagent.generation.local.turn import InvalidToken, MalformedCall, PartialCall, ToolChoice, TurnBuffer
from guardagent.generation.local.vocabulary import end_tokens, vocabulary_of
from guardagent.policy.logic.reasoner import Reasoner
from guardagent.session.session import Session
from guardagent.types import EMPTY, Permit, Verdict, freeze, thaw

Ended = Literal["end", "length", "gave up"]
ReserveCalls = Callable[[Sequence[tuple[str, Mapping[str, Any]]]], Sequence[Verdict]]
"""Reserves the calls of a turn elsewhere: returns a verdict for each. If one is denied, none is in flight."""
WIDTH = 64


@dataclass(frozen=True, slots=True)
class GeneratedCall:
    """A call that may run. It is in flight: record its outcome.

    Attributes:
        tool: the name of the tool.
        args: the judged arguments.
        verdict: the verdict; None without a session.
        permit: the permit for `session.record`.
    """

    tool: str
    args: Mapping[str, Any]
    verdict: Verdict | None = None
    permit: Permit | None = None


@dataclass(frozen=True, slots=True)
class GeneratedTurn:
    """One turn of a model.

    Attributes:
        text: the text without calls; after giving up, including the ending for the user.
        calls: the calls that may run, in order.
        ended: `end` if the model ended the turn, `length` at the token limit, or `gave up` without an allowed call.
        why: the reason, in natural language.
        verdict: the verdict on the last denied call.
        denied: rule id -> the number of generated calls that violated it.
        unchecked: the number of calls that could not be checked.
        tokens: the generated tokens, without discarded ones.
        backtracks: the number of backtracks.
        discarded: the number of discarded tokens.
        questions: the number of queries whether a partial call can still comply.
        checks: the number of complete calls judged.
    """

    text: str
    calls: tuple[GeneratedCall, ...] = ()
    ended: Ended = "end"
    why: str = ""
    verdict: Verdict | None = None
    denied: Mapping[str, int] = field(default_factory=lambda: EMPTY)
    unchecked: int = 0
    tokens: tuple[int, ...] = ()
    backtracks: int = 0
    discarded: int = 0
    questions: int = 0
    checks: int = 0

    @property
    def message(self) -> dict[str, Any]:
        """The turn as a chat message, for the next prompt."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.calls:
            message["tool_calls"] = [_tool_call(at, call) for at, call in enumerate(self.calls)]
        return message


def _tool_call(at: int, call: GeneratedCall) -> dict[str, Any]:
    function = {"name": call.tool, "arguments": thaw(call.args)}  # chat templates expect a mapping, not JSON text
    return {
        "type": "function",
        "id": f"call{at:05}",
        "function": function,
    }  # Mistral's templates require nine letters and digits


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
            return tuple(GeneratedCall(tool, freeze(args), pair, pair.permit) for (tool, args), pair in pairs)
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


class MaskOptions(TypedDict, total=False):
    """The options of a masked turn.

    Attributes:
        tool_format: the format of calls; `auto`, the default, detects it from the chat template.
        tool_choice: `auto`, `required` or `none`.
        parallel: whether the calls of the turn may run in any order; by default as the format defines.
        facts: the facts of this turn.
        agent: the name of the agent.
        ends: the tokens that end a turn; by default those of the tokenizer.
        width: the number of completing tokens to check, likeliest first; the others are masked.
        prompt: the prompt, or its last characters: the turn may begin in thinking that it opens. transformers shows the
            prompt; for other engines the caller states it.
    """

    tool_format: str
    tool_choice: ToolChoice
    parallel: bool | None
    facts: Mapping[str, Any] | None
    agent: str | None
    ends: Sequence[int] | None
    width: int
    prompt: str


class MaskedTurn:
    """The state of one sequence.

    Args:
        tokenizer: the model's fast tokenizer.
        tools: as for a chat template.
        session: judges the calls.
        options: see `MaskOptions`.

    Attributes:
        ends: the tokens that end the turn.
    """

    def __init__(self, tokenizer: Any, tools: Iterable[Any], session: Session, **options: Unpack[MaskOptions]) -> None:
        schemas, ends = read_tools(tools), options.get("ends")
        self.ends = list(ends) if ends is not None else end_tokens(tokenizer, None)
        self._vocabulary = vocabulary_of(tokenizer, self.ends)
        format_used = self._vocabulary.format(options.get("tool_format", "auto"))
        choice: ToolChoice = options.get("tool_choice", "auto") if schemas else "none"
        prompt = options.get("prompt", "")
        self._turn = TurnBuffer(self._vocabulary, format_used, list(schemas.values()), choice, prompt)
        parallel = options.get("parallel")
        is_parallel = format_used.is_parallel if parallel is None else parallel
        facts, agent = options.get("facts"), options.get("agent")
        self._checker = TurnChecker(session, schemas, is_parallel=is_parallel, facts=facts, agent=agent)
        self._width, self._is_over = options.get("width", WIDTH), False

    def read(self, tokens: Iterable[int]) -> None:
        """Reads generated tokens. One that was not allowed ends the turn: later calls do not count."""
        for token in tokens:
            self._is_over = self._is_over or token in self.ends or not self._push(token)

    def allowed(self, scores: Any) -> Any:
        """The mask of tokens that are allowed next; None if all are. Without an allowed continuation, the turn ends.

        Args:
            scores: the one-dimensional tensor of their scores.
        """
        bits = None if self._is_over else self._turn.allowed()
        if bits is None and not self._is_over:
            return None
        allowed = np.zeros(len(scores), dtype=bool)
        if bits is not None:
            bitmask = np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")[: len(allowed)].astype(bool)
            allowed[: len(bitmask)] = bitmask
            self._look_ahead(allowed, scores.detach().float().cpu().numpy())
        if not allowed.any():  # no allowed continuation: the turn ends with the calls completed so far
            allowed[self.ends] = True
        return allowed

    def reserve(self) -> tuple[GeneratedCall, ...]:
        """Reserves the calls in the session.

        Raises:
            GuardError: a call is no longer allowed, because the session has changed meanwhile.
        """
        calls = self._checker.reserve()
        if calls is None:
            raise GuardError("a call is no longer allowed, because the session has changed meanwhile")
        return calls

    # --- reading

    def _push(self, token: int) -> bool:
        try:
            partial_calls = self._turn.push(token)
        except (InvalidToken, MalformedCall):
            return False
        for written in partial_calls:
            if not self._accept(written):
                return False
            if written.is_complete:
                self._turn.accept()
        return True

    def _accept(self, written: PartialCall) -> bool:
        complies = self._complies(written)
        if complies and written.is_complete:
            self._checker.accept(written.tool, written.args)
        return complies

    def _complies(self, written: PartialCall) -> bool:
        if not written.is_complete:
            return self._checker.can_comply(written.tool, written.args)
        verdict = self._checker.check(written.tool, written.args)
        return verdict is None or not verdict.label

    # --- masking

    def _look_ahead(self, allowed: Any, scores: Any) -> None:
        """Masks tokens that lead to a violation: checks all if few are allowed, else those that complete a value."""
        looked_at = np.flatnonzero(allowed)
        if len(looked_at) > self._width:
            looked_at = np.flatnonzero(allowed[: self._vocabulary.size] & self._vocabulary.is_ending[: len(allowed)])
        likeliest = looked_at[np.argsort(-scores[looked_at], kind="stable")]
        allowed[likeliest[self._width :]] = False
        for token in likeliest[: self._width]:
            allowed[token] = token in self.ends or self._would_comply(int(token))

    def _would_comply(self, token: int) -> bool:
        try:
            partial_calls = self._turn.completed_by(token)
        except MalformedCall:
            return False
        mark = self._checker.mark()
        try:
            return all(self._accept(written) for written in partial_calls)
        finally:
            self._checker.rollback(mark)
