"""Judges the write calls of finished trajectories by a policy, as a guard would have met them.

A call that is denied has not happened: neither the history nor the state has it afterwards. The calls after it are
judged as they were made, though the agent might have made others.
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
from guardagent.session.session import Session
from guardagent.types import EMPTY, Decision, Event, Verdict

State = MutableMapping[str, MutableMapping[str, Any]]
Absorb = Callable[[State, RecordedCall], None]


@dataclass(frozen=True, slots=True)
class TrajectoryGuard:
    """What judges.

    Attributes:
        policies: the rules.
        writes: the tools whose calls are judged.
        state: the records at the beginning of every trial; None where nothing is known of them.
        absorb: brings the state up to date with a call that went well.
        facts: what the host knows in every trial; those of a trajectory win.
    """

    policies: Policies
    writes: frozenset[str]
    state: Mapping[str, Any] | None = None
    absorb: Absorb = lambda _state, _call: None
    facts: Mapping[str, Any] = field(default_factory=lambda: EMPTY)

    def verdicts(self, trajectory: Trajectory) -> list[Verdict | None]:
        """The verdict on each call of a trial; None for those that write nothing, which are not judged."""
        state = None if self.state is None else _copied(self.state)
        session = self.policies.session(state=state, facts={**self.facts, **trajectory.facts})
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
        """A call is only asked about, which halts nothing; so a halt is remembered here."""
        halted = next((one for one in before if one is not None and one.decision is Decision.HALT), None)
        return halted or session.check(call.tool, call.args, reserve=False)


def _event(call: RecordedCall) -> Event:
    return Event(call.tool, call.args, call.output, None if call.answered else "unknown")


def _copied(state: Mapping[str, Any]) -> dict[str, Any]:
    """Of each kind of records a new mapping: whole records are replaced, and none is changed."""
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in state.items()}


def read_state(path: Path) -> dict[str, Any]:
    """The records of a JSON object, or of a folder with a NAME.json for each of its keys.

    Raises:
        InputError: there are none.
    """
    if path.is_dir():
        files = sorted(path.glob("*.json"))
        if not files:
            raise ContentError("holds no NAME.json; expected one per kind of records", path)
        return {file.stem: parse_json(read_text(file, limit=MAX_DATA_BYTES), file) for file in files}
    return read_object(path)


def read_object(path: Path) -> dict[str, Any]:
    """A JSON object.

    Raises:
        InputError: it is none.
    """
    value = parse_json(read_text(path, limit=MAX_DATA_BYTES), path)
    if not isinstance(value, dict):
        raise ContentError(f"is a {type(value).__name__}; expected a JSON object", path)
    return value
