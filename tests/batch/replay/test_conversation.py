"""A replay decides only what holds for every value that the log could have held."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from guardagent.batch.replay.conversation import (
    STATE,
    LoggedCall,
    LogStep,
    RecordedFacts,
    ReplayedConversation,
    ReplayPolicy,
    RuleAnswers,
    is_complete,
    recorded_value,
)
from guardagent.errors import InputError
from guardagent.policy.load import compile_rules
from guardagent.types import freeze
from tests.policy.data_cases import FUNCTIONS, TAGS, Case, Changed, Ended, Maker
from tests.policy.naive_data import Step
from tests.tiers import slow_after

RUNS, CASES = 8, 300
HIDDEN: dict[str, Any] = {"redacted": "without a key there is no digest"}


class Mask:
    """Hides random values, as a log does."""

    def __init__(self, seed: int, share: float) -> None:
        self._chance, self._share = Random(seed), share  # noqa: S311 - a fixed seed

    def hidden(self) -> bool:
        return self._chance.random() < self._share

    def value(self, value: Any) -> Any:
        if self.hidden():
            return HIDDEN
        if isinstance(value, Mapping):
            return {key: self.value(item) for key, item in value.items()}
        return [self.value(item) for item in value] if isinstance(value, list) else value

    def args(self, args: Mapping[str, Any]) -> Any:
        return {name: self.value(value) for name, value in args.items()}

    def facts(self, facts: Mapping[str, Any]) -> Any:
        return RecordedFacts(
            {name: recorded_value(self.value(fact)) for name, fact in facts.items() if not self.hidden()}
        )


def answers(candidate: ReplayPolicy, case: Case, mask: Mask | None) -> list[RuleAnswers]:
    """The answers to all calls of a case, and at its end; with a mask, to what a log holds of them."""

    def recorded(step: Step) -> LoggedCall:
        facts = {**case.facts, **step.facts}
        if mask is None:
            return LoggedCall({}, step.tool, freeze(step.args), freeze(facts))
        args = recorded_value(mask.args(step.args))
        return LoggedCall({}, step.tool, args, mask.facts(facts), complete=is_complete(args))

    def settle(call: LoggedCall, output: Any, status: Any) -> None:
        output = freeze(output) if mask is None else recorded_value(mask.value(output))
        conversation.settle(LogStep("outcome", "c", call, status=status, output=output))

    hides_state = mask is not None and mask.hidden()
    conversation = ReplayedConversation(candidate, STATE if hides_state else case.state)
    rule_answers: list[RuleAnswers] = []
    open_calls: list[LoggedCall] = []
    for move in [*case.moves, case.call]:
        if isinstance(move, Changed):
            if not hides_state and not open_calls:
                conversation.change_state(move.state)
        elif isinstance(move, Ended):
            if open_calls:
                settle(open_calls.pop(0), move.output, move.status)
        else:
            assert isinstance(move, Step), "a recorded conversation has no trial checks"
            call = recorded(move)
            answer, judged = conversation.judge(call)
            rule_answers.append(answer)
            conversation.reserve(judged)
            if move.status is None:
                open_calls.append(call)
            else:
                settle(call, move.output, move.status)
    return [*rule_answers, conversation.end()]


@pytest.mark.parametrize("run", slow_after(1, range(RUNS)))
def test_an_answer_is_the_same_for_every_value_that_the_log_hides(run: int) -> None:
    """Rules, histories and hidden values are random; each answer is decided often, and often undecidable."""
    maker, seen = Maker(9000 + run), Counter[str]()
    for number in range(CASES):
        case = maker.case(maker.rule())
        try:
            candidate = ReplayPolicy(compile_rules([case.rule], functions=FUNCTIONS, tags=TAGS))
        except InputError:
            continue
        whole = answers(candidate, case, None)
        masked = answers(candidate, case, Mask(run * CASES + number, 0.15))
        for exact, known in zip(whole, masked, strict=True):
            if not exact.undecidable and not known.undecidable:
                assert known.rules == exact.rules, case
            seen["undecidable" if known.undecidable else str(sorted(set(known.rules.values())))] += 1
    assert all(seen[kind] > 10 for kind in ("undecidable", "[]", "['deny']", "['unknown']")), seen
