"""Judges the write calls of recorded trajectories by a policy, as a guard would have judged them.

A denied call enters neither the history nor the state. The calls after it are judged as recorded, although the agent
might have made other calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from guardagent._support.files import MAX_DATA_BYTES, parse_json, read_text
from guardagent.bench.trajectories import RecordedCall, Trajectory
from guardagent.errors import ContentError
from guardagent.policy.policies import Policies
from guardagent.session.counters import new_counters
from guardagent.session.session import Session
from guardagent.types import EMPTY, Decision, Event, Verdict

State = MutableMapping[str, MutableMapping[str, Any]]
Absorb = Callable[[State, RecordedCall], None]


@dataclass(frozen=True, slots=True)
class TrajectoryGuard:
    """A guard for recorded trajectories.

    Attributes:
        policies: the policies.
        writes: the tools whose calls are judged.
        state: the records at the beginning of every trial; None if unknown.
        absorb: applies a successful call to the state.
        facts: the facts of every trial; facts of a trajectory override them.
    """

    policies: Policies
    writes: frozenset[str]
    state: Mapping[str, Any] | None = None
    absorb: Absorb = lambda _state, _call: None
    facts: Mapping[str, Any] = field(default_factory=lambda: EMPTY)

    def verdicts(self, trajectory: Trajectory) -> list[Verdict | None]:
        """The verdict on each call of a trial; None for calls of other tools, which are not judged."""
        state = None if self.state is None else _copied(self.state)
        facts = {**self.facts, **trajectory.facts}
        session = self.policies.session(state=state, facts=facts, counters=new_counters(self.policies))
        verdicts: list[Verdict | None] = []
        for call in trajectory.calls:
            verdict = self._verdict_on(session, call, verdicts) if call.tool in self.writes else None
            verdicts.append(verdict)
            if verdict is None or verdict.label == 0:
                session.observe(_event(call), judge=False)
                if state is not None and not call.failed:
                    self.absorb(state, call)
        return verdicts

    def _verdict_on(self, session: Session, call: RecordedCall, before: list[Verdict | None]) -> Verdict:
        """Judges a call without reserving it. Since that never halts the session, an earlier halt is returned again."""
        halted = next((one for one in before if one is not None and one.decision is Decision.HALT), None)
        return halted or session.check(call.tool, call.args, reserve=False)


def _event(call: RecordedCall) -> Event:
    return Event(call.tool, call.args, call.output, None if call.answered else "unknown")


def _copied(state: Mapping[str, Any]) -> dict[str, Any]:
    """Copies each kind of records one level deep: `absorb` replaces whole records and changes none."""
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in state.items()}


def read_state(path: Path) -> dict[str, Any]:
    """Reads records from a JSON object, or from a folder with one NAME.json per key.

    Raises:
        InputError: there are no records.
    """
    if path.is_dir():
        files = sorted(path.glob("*.json"))
        if not files:
            raise ContentError("has no NAME.json; expected one JSON file per kind of records", path)
        return {file.stem: parse_json(read_text(file, limit=MAX_DATA_BYTES), file) for file in files}
    return read_object(path)


def read_object(path: Path) -> dict[str, Any]:
    """Reads a JSON object.

    Raises:
        InputError: the file is not a JSON object.
    """
    value = parse_json(read_text(path, limit=MAX_DATA_BYTES), path)
    if not isinstance(value, dict):
        raise ContentError(f"is a {type(value).__name__}; expected a JSON object", path)
    return value
