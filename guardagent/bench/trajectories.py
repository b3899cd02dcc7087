"""Recorded trajectories in the format of tau-bench, and the judgement of their write calls by a policy.

A file is a JSON array with one entry per trial of a task:

    {"task_id", "trial", "reward", "info": {"task": {"actions": [{"name", "kwargs"}]}}, "traj": [messages]}

The messages are chat messages with `tool_calls`. An entry may also have `facts`, an extension of the format: the facts
of a host in that conversation.

Calls are judged as a guard would have judged them. A denied call enters neither the history nor the state. The calls
after it are judged as recorded, although the agent might have made other calls.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from guardagent._support.files import MAX_DATA_BYTES, parse_json, read_text
from guardagent.bench.evaluation import Record
from guardagent.errors import ContentError
from guardagent.policy.policies import Policies
from guardagent.session.counters import new_counters
from guardagent.session.session import Session
from guardagent.types import EMPTY, Decision, Event, Verdict

_IN_TEXT = re.compile(r"^\s*Action:\s*\{", re.MULTILINE)  # calls in the text of models without tool_calls


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A call that an agent made.

    Attributes:
        tool, args: the call.
        output: the output of the tool.
        answered: whether there is an output.
    """

    tool: str
    args: Mapping[str, Any]
    output: Any = None
    answered: bool = True

    @property
    def failed(self) -> bool:
        """Whether the output is an error of a tau-bench tool; such a call changed nothing."""
        return isinstance(self.output, str) and self.output.startswith("Error")


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One trial of a task.

    Attributes:
        task, trial: the ids of task and trial.
        success: whether the reward is 1.
        calls: the calls of the agent, in order.
        expected: tau-bench's expected calls as (tool, args); None if no trial of the task has them.
        facts: the facts of a host.
    """

    task: int | str
    trial: int
    success: bool
    calls: tuple[RecordedCall, ...]
    expected: tuple[tuple[str, Mapping[str, Any]], ...] | None
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return f"{self.task}:{self.trial}"


def read_trajectories(path: Path) -> list[Trajectory]:
    """Reads the trajectories of a file, in order.

    Raises:
        ContentError: the file is invalid, or a trial appears twice.
    """
    entries = parse_json(read_text(path, limit=MAX_DATA_BYTES), path)
    if not isinstance(entries, list) or not entries:
        raise ContentError(
            "holds no trajectories; expected a JSON array of trajectories in the format of tau-bench", path
        )
    trajectories: dict[str, Trajectory] = {}
    for number, values in enumerate(entries, start=1):
        if not isinstance(values, dict):
            raise ContentError(f"entry {number} is a {type(values).__name__}; expected an object", path)
        record = Record(values, path, number, published=True)
        trajectory = _trajectory(record)
        if trajectory.id in trajectories:
            raise record.error(
                f"trial {trajectory.trial} of task {trajectory.task} appears twice; expected each trial once"
            )
        trajectories[trajectory.id] = trajectory
    return _with_expected(list(trajectories.values()))


def _with_expected(trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    """Fills in expected calls from other trials of the task: a trial that ended with an error has none."""
    known = {trajectory.task: trajectory.expected for trajectory in trajectories if trajectory.expected is not None}
    return [
        replace(trajectory, expected=known.get(trajectory.task)) if trajectory.expected is None else trajectory
        for trajectory in trajectories
    ]


def _trajectory(record: Record) -> Trajectory:
    messages = _objects(record.values.get("traj"), "traj", record)
    facts = record.values.get("facts") or {}
    if not isinstance(facts, dict):
        raise record.error("key 'facts' is not an object; expected an object of facts")
    return Trajectory(
        _value(record, "task_id", (int, str), "a number or a string"),
        _value(record, "trial", (int,), "a number"),
        abs(_value(record, "reward", (int, float), "a number") - 1) <= 1e-6,
        tuple(_calls(messages, record)),
        _expected(record),
        facts,
    )


def _value(record: Record, key: str, kinds: tuple[type, ...], expected: str) -> Any:
    value = record.values.get(key)
    if type(value) not in kinds:
        raise record.error(f"key {key!r} is {value!r:.60}; expected {expected}")
    return value


def _expected(record: Record) -> tuple[tuple[str, Mapping[str, Any]], ...] | None:
    task = record.mapping("info").get("task")
    if not isinstance(task, dict):
        return None
    actions = _objects(task.get("actions"), "info.task.actions", record)
    for action in actions:
        if not isinstance(action.get("name"), str) or not isinstance(action.get("kwargs"), dict):
            raise record.error("'info.task.actions' has an action without 'name' or 'kwargs'; expected both")
    return tuple((action["name"], action["kwargs"]) for action in actions)


def _objects(value: Any, key: str, record: Record) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise record.error(f"{key!r} is {value!r:.60}; expected a list of objects")
    return value


def _calls(messages: Sequence[dict[str, Any]], record: Record) -> Iterator[RecordedCall]:
    for at, message in enumerate(messages):
        if message.get("role") != "assistant":
            continue
        place = f"traj[{at}]"
        if message.get("function_call") or _IN_TEXT.search(str(message.get("content") or "")):
            raise record.error(
                f"{place!r} calls a tool in its text; expected 'tool_calls' (tau-bench's tool-calling agent)"
            )
        calls = _objects(message.get("tool_calls") or [], f"{place}.tool_calls", record)
        yield from _with_outputs([_call(call, place, record) for call in calls], calls, messages[at + 1 :])


def _call(call: Mapping[str, Any], place: str, record: Record) -> RecordedCall:
    function = call.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise record.error(f"'{place}.tool_calls' has a call without a function name; expected 'function.name'")
    args = function.get("arguments")
    if isinstance(args, str):
        try:
            args = parse_json(args, record.path)
        except ContentError as error:
            raise record.error(f"{place!r}: the arguments of {function['name']!r}: {error}") from None
    if not isinstance(args, dict):
        raise record.error(f"{place!r}: the arguments of {function['name']!r} are {args!r:.60}; expected an object")
    return RecordedCall(function["name"], args, answered=False)


def _with_outputs(
    calls_made: Sequence[RecordedCall], calls: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]
) -> Iterator[RecordedCall]:
    """Pairs the calls of a message with the outputs directly after it: by id if the ids are unique, else by order."""
    outputs: list[Mapping[str, Any]] = []
    for message in after:
        if message.get("role") != "tool":
            break
        outputs.append(message)
    by_id = {message.get("tool_call_id"): message for message in outputs}
    ids = [call.get("id") for call in calls]
    has_unique_ids = len(set(ids)) == len(ids) and all(id_ is not None for id_ in (*ids, *by_id))
    for at, recorded_call in enumerate(calls_made):
        output = by_id.get(ids[at]) if has_unique_ids else outputs[at] if at < len(outputs) else None
        yield recorded_call if output is None else replace(recorded_call, output=output.get("content"), answered=True)


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
        halted = next(
            (verdict for verdict in before if verdict is not None and verdict.decision is Decision.HALT), None
        )
        return halted or session.check(call.tool, call.args, reserve=False)


def _event(call: RecordedCall) -> Event:
    return Event(call.tool, call.args, call.output, None if call.answered else "unknown")


def _copied(state: Mapping[str, Any]) -> dict[str, Any]:
    """Shallow-copies the tables; `absorb` replaces records, never mutates them."""
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
