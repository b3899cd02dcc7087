"""The central types: what is checked (`Event`, `Context`), by what (`Check`), and the answer (`Verdict`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, asdict, dataclass, field, fields, make_dataclass
from enum import StrEnum
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from guardagent._terminal import strip_control_characters

_Number = TypeVar("_Number", int, float)

EMPTY: Mapping[str, Any] = MappingProxyType({})


class Decision(StrEnum):
    """What happens to a step. Ordered by severity: allow < warn < deny < escalate < halt."""

    ALLOW = "allow"
    WARN = "warn"
    DENY = "deny"
    ESCALATE = "escalate"
    HALT = "halt"

    @property
    def severity(self) -> int:
        return _SEVERITY[self]

    def __lt__(self, other: object) -> bool:
        return _SEVERITY[self] < _severity(other)

    def __le__(self, other: object) -> bool:
        return _SEVERITY[self] <= _severity(other)

    def __gt__(self, other: object) -> bool:
        return _SEVERITY[self] > _severity(other)

    def __ge__(self, other: object) -> bool:
        return _SEVERITY[self] >= _severity(other)


_SEVERITY = {decision: rank for rank, decision in enumerate(Decision)}


def _severity(decision: object) -> int:
    return _SEVERITY[decision if type(decision) is Decision else Decision(str(decision))]


@dataclass(frozen=True, slots=True)
class Event:
    """One step of an agent.

    A tool call has its `tool` and `args`. The finished run of an agent is a step too: its tool is
    `agent_run`, its input is `args["input"]` and its log is the `output`.
    """

    tool: str
    args: Mapping[str, Any] = field(default_factory=dict)
    output: Any = None
    status: Literal["ok", "failed", "unknown"] | None = None
    action: str | None = None
    decision: str | None = None
    tags: frozenset[str] = frozenset()
    agent: str | None = None
    id: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "args", freeze(self.args))


@dataclass(frozen=True, slots=True)
class Context:
    """What a check may look at besides the event: earlier events, the state, and facts the host knows."""

    history: tuple[Event, ...] = ()
    state: Any = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "facts", freeze(self.facts))


@dataclass(frozen=True, slots=True)
class Violation:
    """One rule that is broken: its id, a message for people, the evidence, and what would mend it."""

    policy: str
    message: str
    evidence: Any = None
    remedy: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {
            "policy": self.policy,
            "message": self.message,
            "evidence": thaw(self.evidence),
            "remedy": self.remedy,
        }


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One recorded call of a toolbox function: who made it, what went in and what came out, or the error."""

    name: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    result: Any = None
    error: str | None = None
    made_by: Literal["program", "host"] = "program"

    @property
    def is_check(self) -> bool:
        return self.name.startswith("check_")

    @property
    def denied(self) -> bool:
        return self.is_check and self.error is None and bool(self.result[0])

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "args": _plain(self.args),
            "kwargs": _plain(self.kwargs),
            "result": _plain(self.result),
            "error": self.error,
            "made_by": self.made_by,
        }


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation with a model."""

    role: Literal["system", "user", "assistant"]
    content: str


StepName = Literal["retrieve", "plan", "code", "debug", "run", "judge"]


@dataclass(frozen=True, slots=True)
class Step:
    """One step on the way to a generated verdict (paper, Sections 4.2 and 4.3), for whoever must debug a decision.

    Attributes:
        name: what was done.
        prompt: what a model was asked, where one was.
        text: what came of it: the demonstrations that were retrieved, a model's answer, or the code that ran.
        error: what was wrong with it.
        kind: what kind of error that is, for code.
        calls: the toolbox calls of a run.
        vote: which of several plans it belongs to, from 0.
    """

    name: StepName
    prompt: tuple[Message, ...] = ()
    text: str = ""
    error: str | None = None
    kind: str | None = None
    calls: tuple[ToolCall, ...] = ()
    vote: int = 0

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "vote": self.vote,
            "prompt": [asdict(message) for message in self.prompt],
            "text": self.text,
            "error": self.error,
            "kind": self.kind,
            "calls": [call.to_dict() for call in self.calls],
        }


@dataclass(frozen=True, slots=True)
class Usage:
    """What models were asked for a verdict, and what that took.

    Attributes:
        calls: answers that were asked for, whether or not they came.
        cached: how many of them a response cache gave.
        prompt_tokens, completion_tokens: as the models count them; None where one did not say.
        cost: in US dollars; None where a price is not known.
        seconds: the time spent waiting for models.
    """

    calls: int = 0
    cached: int = 0
    prompt_tokens: int | None = 0
    completion_tokens: int | None = 0
    cost: float | None = 0.0
    seconds: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.calls + other.calls,
            self.cached + other.cached,
            _known_sum(self.prompt_tokens, other.prompt_tokens),
            _known_sum(self.completion_tokens, other.completion_tokens),
            _known_sum(self.cost, other.cost),
            self.seconds + other.seconds,
        )


def _known_sum(first: _Number | None, second: _Number | None) -> _Number | None:
    return None if first is None or second is None else first + second


class Denial(NamedTuple):
    """What a session keeps of a call that it has something to say of, besides the verdict's own parts.

    Attributes:
        tool, args: the call; empty where it is about no call.
        withheld: values that the rules looked at and that no model may see.
    """

    tool: str = ""
    args: Mapping[str, Any] = EMPTY
    withheld: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer of every check: a decision and its reasons.

    `errors` names what could not be checked (which denies). `details` is what the check has to say for
    machines, `answer` the agent's answer where it may pass, `risk` a risk level where the rule has one.
    `calls` are the toolbox calls that were made, and `story` what happened where a model wrote the code: both are for
    whoever must explain the verdict, and no part of its JSON unless that is asked for. `usage` is what models took.
    """

    decision: Decision
    reasons: tuple[str, ...] = ()
    violations: tuple[Violation, ...] = ()
    errors: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    answer: str | None = None
    risk: str | None = None
    checked_by: str = "program"
    usage: Usage = Usage()
    elapsed_ms: float = 0.0
    calls: tuple[ToolCall, ...] = ()
    story: tuple[Step, ...] = ()
    grant: Grant | None = field(default=None, repr=False, compare=False)
    denial: Denial | None = field(default=None, repr=False, compare=False)

    @property
    def withheld(self) -> tuple[str, ...]:
        """What the rest of the verdict leaves out, since it goes to a model: for the operator alone."""
        return self.denial.withheld if self.denial is not None else ()

    @property
    def permit(self) -> Any:
        """What the host shows to have the outcome of an allowed call recorded; None where nothing is in flight."""
        return self.grant.permit() if self.grant is not None else None

    @property
    def rules(self) -> tuple[str, ...]:
        """The ids of the policies that are violated, sorted."""
        return tuple(sorted({violation.policy for violation in self.violations}))

    def feedback(self) -> str:
        """What to hand back to the model that proposed the step: why it does not proceed, and what would mend it.

        Empty where the step may proceed and nothing is to be said of it.
        """
        from guardagent.types.denial_message import denial_message

        return denial_message(self)

    @property
    def model_calls(self) -> int:
        return self.usage.calls

    @property
    def label(self) -> int:
        """0 when the step may proceed (allow, warn), else 1: the paper's O_l (Section 4.1)."""
        return 0 if self.decision <= Decision.WARN else 1

    def to_dict(self, *, explain: bool = False) -> dict[str, Any]:
        """The verdict as plain JSON values, in the public key order.

        Where a model was asked, `usage` is added; with `explain` also `withheld`, `calls` and `story`.
        """
        verdict = {
            "label": self.label,
            "decision": str(self.decision),
            "reasons": list(self.reasons),
            "violations": [violation.to_dict() for violation in self.violations],
            "details": thaw(self.details),
            "answer": self.answer,
            "risk": self.risk,
            "errors": list(self.errors),
            "checked_by": self.checked_by,
            "model_calls": self.model_calls,
            "elapsed_ms": round(self.elapsed_ms, 3),
        }
        if self.usage.calls:
            verdict["usage"] = {**asdict(self.usage), "seconds": round(self.usage.seconds, 3)}
        if explain:
            verdict["withheld"] = list(self.withheld)
            verdict["calls"] = [call.to_dict() for call in self.calls]
            verdict["story"] = [step.to_dict() for step in self.story]
        return verdict

    def to_json(self, *, explain: bool = False) -> str:
        text = json_text(self.to_dict(explain=explain))
        return text.encode("utf-8", "backslashreplace").decode()  # half a character becomes its escape, which JSON has

    def timed(self, elapsed_ms: float) -> Verdict:
        return self.changed(elapsed_ms=elapsed_ms)

    def changed(self, **values: Any) -> Verdict:
        """A copy with other values; as `dataclasses.replace`, in less than half of the time."""
        if not values.keys() <= _NAME_SET:
            raise TypeError(f"a verdict has no {', '.join(sorted(values.keys() - _NAME_SET))}")
        return quick_verdict(*map(values.get, _NAMES, _values_of(self)))


def _default_of(one: Field[Any]) -> dict[str, Any]:
    defaults = {"default": one.default, "default_factory": one.default_factory}
    return {name: value for name, value in defaults.items() if value is not MISSING}


def _mutable_twin(kind: type) -> Any:
    """A dataclass with the same slots that is not frozen."""
    return make_dataclass(
        f"_{kind.__name__}", [(one.name, Any, field(**_default_of(one))) for one in fields(kind)], slots=True
    )


_NAMES = [one.name for one in fields(Verdict)]
_NAME_SET = frozenset(_NAMES)
_values_of = attrgetter(*_NAMES)
_VerdictTwin, _ViolationTwin = _mutable_twin(Verdict), _mutable_twin(Violation)


def quick_verdict(*values: Any) -> Verdict:
    """A Verdict of all its values, made in a third of the time: for sessions, which make one at every call.

    A frozen dataclass sets each field by a call of its own. Here a twin that is not frozen is filled and then becomes
    the verdict, which is possible as both have the same slots.
    """
    twin: Any = _VerdictTwin(*values)
    twin.__class__ = Verdict
    return twin  # type: ignore[no-any-return]


def quick_violation(*args: Any) -> Violation:
    """A Violation, in the same way."""
    twin: Any = _ViolationTwin(*args)
    twin.__class__ = Violation
    return twin  # type: ignore[no-any-return]


class Grant(Protocol):
    """What a session keeps of a call that it allowed."""

    def permit(self) -> Any: ...


def json_text(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except ValueError:  # a number with so many digits that Python does not print it
        return json.dumps(_printable(value), ensure_ascii=False, default=str)


def _printable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _printable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_printable(item) for item in value]
    return hex(value) if isinstance(value, int) and value.bit_length() > 10_000 else value


Check = Callable[[Event, Context], Verdict]
"""The one shape of everything that judges: policies, guard programs, structural checks."""


def unchecked_verdict(error: str, **values: Any) -> Verdict:
    """The denial of a step that could not be checked; `error` is the cause."""
    error = strip_control_characters(error)
    return Verdict(Decision.DENY, reasons=(f"could not be checked: {error}",), errors=(error,), **values)


_ATOMS = frozenset({str, int, float, bool, type(None)})
_MAPPINGS = frozenset({dict, MappingProxyType})


def freeze(value: Any) -> Any:
    """A read-only deep copy of a JSON-like value."""
    if type(value) in _ATOMS:  # most values; asking for a Mapping is slow
        return value
    if type(value) in _MAPPINGS or isinstance(value, Mapping):
        copy = dict(value)
        for key, item in copy.items():
            if type(item) not in _ATOMS:
                copy[key] = freeze(item)
        return MappingProxyType(copy)
    if isinstance(value, list | tuple):
        return tuple(freeze(item) for item in value)
    return value


@dataclass(frozen=True, slots=True, eq=False)
class FrozenMapping(Mapping[str, Any]):
    """A mapping that was frozen already, all of it, so that nobody has to copy it again to keep it."""

    value: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.value[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.value)

    def __len__(self) -> int:
        return len(self.value)


def thaw(value: Any) -> Any:
    """The plain JSON value of a frozen one: always a copy."""
    if type(value) in _ATOMS:
        return value
    if type(value) in _MAPPINGS or isinstance(value, Mapping):
        copy = dict(value)
        for key, item in copy.items():
            if type(item) not in _ATOMS:
                copy[key] = thaw(item)
        return copy
    if isinstance(value, list | tuple):
        return [thaw(item) for item in value]
    return value


def _plain(value: Any) -> Any:
    """JSON values of what went through a toolbox function, which may be anything: the rest as its text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)
