"""Random cases for two drafts, with values from their text alone."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

from guardagent.batch.cases import judge_case
from guardagent.batch.records import Case
from guardagent.policy.policies import Policies
from guardagent.types import Decision, Event
from guardagent.types.values import read_principal

NOW = dt.datetime(2026, 3, 4, 16, 30, tzinfo=dt.UTC)
_UNITS = {"m": 60, "h": 3600, "s": 1}


class RandomCases:
    """Makes cases with the names and constants of a text, and values next to them."""

    def __init__(self, text: str, random: Random) -> None:
        self._random = random
        self._tools = sorted({*re.findall(r"\b([a-z_]+)\(", text), *re.findall(r"tool:(\w+)", text), "something"})
        self._arguments = sorted({*re.findall(r"(\w+)=", text), *re.findall(r"args(?:\(\w+\))?\.(\w+)", text)})
        self._facts = sorted(set(re.findall(r"fact\(([\w.]+)\)", text)))
        self._fields = sorted(set(re.findall(r"\)\.(\w+)", text)))
        numbers = [int(match) for match in re.findall(r"\b(\d+)\b", text)]
        self._ages = [int(size) * _UNITS[unit] for size, unit in re.findall(r"\b(\d+)([mhs])\b", text)] or [60]
        words = [word for pair in re.findall(r'"([^"\\]*)"|\((\w+)\)', text) for word in pair if word]
        self._values = [number + more for number in numbers for more in (0, 1, -1, 0.01)] + [
            *words,
            "A",
            "B",
            True,
            False,
            1,
        ]
        self._roles = [*words, "guest", "other"]

    def __iter__(self) -> Iterator[Case]:
        while True:
            yield self._case()

    def _case(self) -> Case:
        pick, chance = self._random.choice, self._random.random
        calls = sorted((self._age() for _ in range(pick((0, 0, 1, 1, 2, 3, 4)))), reverse=True)
        some = [pick(self._tools) for _ in range(pick((1, 2, 3)))]
        history = tuple(self._call(pick(some), age) for age in calls)
        roles = {"id": pick(("A", "B")), "roles": [role for role in self._roles if chance() < 0.4]}
        facts = {name: self._fact() for name in self._facts if chance() < 0.85}
        nested = {"user_confirmed": None, "context": {}, **facts}
        now = NOW + dt.timedelta(hours=pick((0, 0, 0, -8, 1)), minutes=pick((0, 30, 29)), days=pick((0, 0, 1, 3)))
        return Case(
            "random",
            tuple(Event(step.tool, step.args, step.output, step.status, time=now - dt.timedelta(seconds=age))
                  for step, age in zip(history, calls, strict=True)),
            Event(pick(self._tools), self._args()),
            None,
            nested,
            now=now,
            principal=read_principal(roles) if chance() < 0.8 else None,
        )  # fmt: skip

    def _age(self) -> int:
        return max(0, self._random.choice(self._ages) + self._random.choice((0, 0, 1, -1)))

    def _fact(self) -> Any:
        age = self._random.choice(self._ages) + self._random.choice((0, 1, -1))
        return self._random.choice([*self._values, ["A"], NOW.timestamp() - age])

    def _args(self) -> dict[str, Any]:
        return {name: self._random.choice(self._values) for name in self._arguments if self._random.random() < 0.9}

    def _call(self, tool: str, _age: int) -> Event:
        status: Any = self._random.choice(("ok", "ok", "ok", "failed", "unknown"))
        output = {name: self._random.choice(self._values) for name in self._fields}
        return Event(tool, self._args(), output if status != "unknown" else None, status)


def outcome(policies: Policies, case: Case) -> str:
    """Returns the outcome of a case by `judge_case`."""
    verdict = judge_case(policies, case)
    if verdict.label:
        if verdict.errors and not verdict.rules:
            return "unchecked"
        return "escalated" if policies.can_be_approved(verdict) else "denied"
    return "warned" if verdict.rules else "allowed"


def can_happen(policies: Policies, case: Case) -> bool:
    """Whether no call of the history was denied when it was proposed."""
    for at, event in enumerate(case.history):
        assert isinstance(event.time, dt.datetime)
        earlier = Case("earlier", case.history[:at], event, None, case.facts, now=event.time, principal=case.principal)
        if judge_case(policies, earlier).decision in (Decision.DENY, Decision.HALT):
            return False
    return True


def text_of(drafts: Sequence[str | Mapping[str, Any] | Sequence[Any]]) -> str:
    """Returns the text of drafts."""
    return json.dumps(drafts).replace("\\n", " ").replace('\\"', '"')
