"""The central types: a `Check` answers an `Event` in a `Context` with a `Verdict`; and how verdicts are formatted.

Values in messages are JSON, with exact numbers in decimal notation. The message for the model that proposed the step
has the step once, then a line for each cause. A line begins with the message of the rule's author. Only values that the
conversation has seen, or that the caller passed, follow it: the maker of the verdict has left out all others.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, asdict, dataclass, field, fields, make_dataclass
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from json.encoder import encode_basestring
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeVar

from guardagent._terminal import strip_control_characters

_Number = TypeVar("_Number", int, float)

EMPTY: Mapping[str, Any] = MappingProxyType({})
new: Callable[..., Any] = object.__new__
"""Makes an object without `__init__`, whose call takes several times as long; the fields are set afterwards."""
new_tuple: Callable[..., Any] = tuple.__new__
"""Makes a named tuple of its values."""
Functions = Mapping[str, Callable[..., Any]]
"""Functions by name, such as those of a toolbox."""


class Decision(StrEnum):
    """The outcome for a step. Ordered by severity: allow < warn < deny < escalate < halt."""

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
    `agent_run`, its input is `args["input"]` and its log is the `output`. `time` is the time of a call's check: seconds
    since the epoch, or a datetime with its zone.
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
    time: float | dt.datetime | None = field(default=None, compare=False)
    principal: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "args", freeze(self.args))


@dataclass(frozen=True, slots=True)
class Context:
    """The information besides the event: earlier events, the state, and facts that the host knows."""

    history: tuple[Event, ...] = ()
    state: Any = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "facts", freeze(self.facts))


@dataclass(frozen=True, slots=True)
class Violation:
    """One violated rule: its id, a message for people, the evidence, and a remedy when one is known."""

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


class ToolCall(NamedTuple):
    """One recorded call of a toolbox function: its caller, arguments, and result or error."""

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
    """One step in generating a verdict (paper, Sections 4.2 and 4.3), for debugging a decision.

    Attributes:
        name: the kind of step.
        prompt: the messages sent to a model, if any.
        text: the result: the retrieved demonstrations, a model's answer, or the code that ran.
        error: the error in the result, if any.
        kind: the kind of that error, for code.
        calls: the toolbox calls of a run.
        vote: the index of the plan that the step belongs to, from 0.
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
    """The model usage of a verdict.

    Attributes:
        calls: requests for an answer, whether or not it came.
        cached: the number of them that a response cache answered.
        prompt_tokens, completion_tokens: as the models count them; None if one did not report them.
        cost: in US dollars; None if a price is unknown.
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


NO_USAGE = Usage()


def _known_sum(first: _Number | None, second: _Number | None) -> _Number | None:
    return None if first is None or second is None else first + second


class Denial(NamedTuple):
    """A call and its withheld values, which a session keeps beside the verdict.

    Attributes:
        tool, args: the call; empty if the verdict is about no call.
        withheld: values that the rules looked at and that no model may see.
        rules: the violated rules, while nobody has read the violations.
        text: makes the reasons, the violations and the denial with the withheld values when somebody reads them; always
            the same. None once the verdict has them.
    """

    tool: str = ""
    args: Mapping[str, Any] = EMPTY
    withheld: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    text: Callable[[], tuple[tuple[str, ...], tuple[Violation, ...], Denial]] | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of every check: a decision and its reasons.

    `errors` names what could not be checked, which denies. `details` is machine-readable output of the check,
    `answer` the agent's answer if it may pass, `risk` a risk level if the rule has one. `calls` are the toolbox calls,
    and `story` the steps in which a model wrote the code: both explain the verdict, and its JSON has them only on
    request. `usage` is the model usage.

    A session makes the reasons and violations of a denial when somebody reads, copies or compares them, from values
    that were fixed at the verdict. Until then the verdict holds the arguments of the call, and the values and earlier
    calls that the violated rules looked at.
    """

    decision: Decision
    reasons: tuple[str, ...] = ()
    violations: tuple[Violation, ...] = ()
    errors: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    answer: str | None = None
    risk: str | None = None
    checked_by: str = "program"
    usage: Usage = NO_USAGE
    elapsed_ms: float = 0.0
    calls: tuple[ToolCall, ...] = ()
    story: tuple[Step, ...] = ()
    grant: Grant | None = field(default=None, repr=False, compare=False)
    denial: Denial | None = field(default=None, repr=False, compare=False)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Makes the reasons and violations that are not made yet. Threads that do so at once make equal ones."""
            if name not in ("reasons", "violations"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            text = self.denial.text
            if text is None:  # another thread was faster
                return object.__getattribute__(self, name)
            reasons, violations, denial = text()
            _SET_REASONS(self, reasons)
            _SET_VIOLATIONS(self, violations)
            _SET_DENIAL(self, denial)
            return reasons if name == "reasons" else violations

    def __getstate__(self) -> list[Any]:
        return [dict(value) if type(value) is MappingProxyType else value for value in _values_of(self)]

    @property
    def withheld(self) -> tuple[str, ...]:
        """Values left out of the rest of the verdict, which goes to a model: for the operator alone."""
        return self.denial.withheld if self.violations is not None and self.denial is not None else ()

    @property
    def permit(self) -> Any:
        """The permit with which the host records the outcome of the allowed call; None if none is in flight."""
        return self.grant.permit() if self.grant is not None else None

    @property
    def rules(self) -> tuple[str, ...]:
        """The sorted ids of the violated policies."""
        denial = self.denial
        if denial is not None and denial.text is not None:
            return denial.rules
        return tuple(sorted({violation.policy for violation in self.violations}))

    def feedback(self) -> str:
        """Returns the message for the model that proposed the step: why it does not proceed, and a remedy.

        Empty when the step may proceed and there is nothing to report.
        """
        return denial_message(self)

    @property
    def model_calls(self) -> int:
        return self.usage.calls

    @property
    def label(self) -> int:
        """0 when the step may proceed (allow, warn), else 1: the paper's O_l (Section 4.1)."""
        return int(_SEVERITY[self.decision] > _SEVERITY[Decision.WARN])

    def to_dict(self, *, explain: bool = False) -> dict[str, Any]:
        """Returns the verdict as plain JSON values, in the public key order.

        Adds `usage` if a model was called; with `explain` also `withheld`, `calls` and `story`.
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
        return text.encode("utf-8", "backslashreplace").decode()  # a lone surrogate becomes its JSON escape

    def timed(self, elapsed_ms: float) -> Verdict:
        return self.changed(elapsed_ms=elapsed_ms)

    def changed(self, **values: Any) -> Verdict:
        """Returns a copy with other values, like `dataclasses.replace` in less than half the time."""
        if not values.keys() <= _NAME_SET:
            raise TypeError(f"a verdict has no field {', '.join(map(repr, sorted(values.keys() - _NAME_SET)))}")
        changed: Any = map(values.get, _NAMES, _values_of(self))
        return quick_verdict(*changed)


def _default_of(dataclass_field: Field[Any]) -> dict[str, Any]:
    defaults = {"default": dataclass_field.default, "default_factory": dataclass_field.default_factory}
    return {name: value for name, value in defaults.items() if value is not MISSING}


def _mutable_twin(kind: type) -> Any:
    """Returns a dataclass with the same slots that is not frozen."""
    return make_dataclass(
        f"_{kind.__name__}",
        [(data_field.name, Any, field(**_default_of(data_field))) for data_field in fields(kind)],
        slots=True,
    )


_NAMES = [field.name for field in fields(Verdict)]
_NAME_SET = frozenset(_NAMES)
_values_of = attrgetter(*_NAMES)
_SET_REASONS, _SET_VIOLATIONS, _SET_DENIAL = (
    vars(Verdict)[name].__set__ for name in ("reasons", "violations", "denial")
)
_VerdictTwin, _ViolationTwin, _EventTwin = _mutable_twin(Verdict), _mutable_twin(Violation), _mutable_twin(Event)


def quick_verdict(
    decision: Decision,
    reasons: tuple[str, ...],
    violations: tuple[Violation, ...],
    errors: tuple[str, ...],
    details: Mapping[str, Any],
    answer: str | None,
    risk: str | None,
    checked_by: str,
    usage: Usage,
    elapsed_ms: float,
    calls: tuple[ToolCall, ...],
    story: tuple[Step, ...],
    grant: Grant | None,
    denial: Denial | None = None,
) -> Verdict:
    """Makes a Verdict from all its values in a fifth of the time, for sessions, which make one per call.

    A frozen dataclass sets each field by a separate call. This fills a mutable twin and changes its class, which works
    because both have the same slots. A call of the twin's own class would take longer than all of this.
    """
    twin: Any = new(_VerdictTwin)
    if denial is None or denial.text is None:  # otherwise it makes them when somebody reads them
        twin.reasons, twin.violations = reasons, violations
    twin.decision, twin.errors = decision, errors
    twin.details, twin.answer, twin.risk, twin.checked_by = details, answer, risk, checked_by
    twin.usage, twin.elapsed_ms, twin.calls, twin.story = usage, elapsed_ms, calls, story
    twin.grant, twin.denial = grant, denial
    twin.__class__ = Verdict
    return twin  # type: ignore[no-any-return]


def quick_violation(policy: str, message: str, evidence: Any, remedy: str | None) -> Violation:
    """Makes a Violation in the same way."""
    twin: Any = new(_ViolationTwin)
    twin.policy, twin.message, twin.evidence, twin.remedy = policy, message, evidence, remedy
    twin.__class__ = Violation
    return twin  # type: ignore[no-any-return]


def quick_event(
    tool: str,
    args: Mapping[str, Any],
    output: Any,
    status: Literal["ok", "failed", "unknown"] | None,
    action: str | None = None,
    decision: str | None = None,
    tags: frozenset[str] = frozenset(),
    time: float | dt.datetime | None = None,
) -> Event:
    """Makes an Event in the same way, from arguments that are frozen and that nobody else changes."""
    twin: Any = new(_EventTwin)
    twin.tool, twin.args, twin.output, twin.status = tool, args, output, status
    twin.action, twin.decision, twin.tags, twin.time = action, decision, tags, time
    twin.agent = twin.id = twin.principal = None
    twin.__class__ = Event
    return twin  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class Permit:
    """Permits one call. Any change voids it; it is used once, before the call runs.

    Attributes:
        policy: the digest of the policy.
        session: the id of the session.
        place: the place of the call in the history, from 1.
        expires: the expiry in seconds since the epoch.
        nonce: a secret random value.
    """

    tool: str
    args: Mapping[str, Any]
    policy: str
    session: str
    place: int
    expires: float
    nonce: str = field(repr=False)


class Grant(Protocol):
    """A session's record of an allowed call."""

    def permit(self) -> Permit | None: ...


def json_text(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except ValueError:  # Python refuses to print an integer with that many digits
        return json.dumps(_printable(value), ensure_ascii=False, default=str)


def _printable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _printable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_printable(item) for item in value]
    return hex(value) if isinstance(value, int) and value.bit_length() > 10_000 else value


Check = Callable[[Event, Context], Verdict]
"""The common type of policies, guard programs and structural checks."""


def unchecked_verdict(error: str, **values: Any) -> Verdict:
    """Returns the denial of a step that could not be checked; `error` is the cause."""
    error = strip_control_characters(error)
    return Verdict(Decision.DENY, reasons=(f"could not be checked: {error}",), errors=(error,), **values)


ATOMS = frozenset({str, int, float, bool, type(None)})
"""The types of immutable JSON values."""
MAPPINGS = frozenset({dict, MappingProxyType})


def dict_of(value: Mapping[Any, Any]) -> dict[Any, Any]:
    """Returns a mapping as a new dictionary; one behind a proxy in half the time of `dict(value)`."""
    if type(value) is MappingProxyType:
        try:
            copy = value.copy()
        except AttributeError:  # the mapping behind it is no dictionary
            return dict(value)
        if type(copy) is dict:
            return copy
    return dict(value)


def freeze(value: Any, other: Callable[[Any], Any] | None = None) -> Any:
    """Returns a read-only deep copy of a JSON-like value; `other` copies values of other types."""
    if type(value) in ATOMS:  # most values; a check for Mapping is slow
        return value
    if type(value) in MAPPINGS or isinstance(value, Mapping):
        copy = dict_of(value)
        for key, item in copy.items():
            if type(item) not in ATOMS:
                copy[key] = freeze(item, other)
        return MappingProxyType(copy)
    if isinstance(value, list | tuple):
        return tuple([item if type(item) in ATOMS else freeze(item, other) for item in value])
    return value if other is None else other(value)


@dataclass(frozen=True, slots=True, eq=False)
class FrozenMapping(Mapping[str, Any]):
    """A mapping that is frozen at every level, so that it can be kept without another copy."""

    value: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.value[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.value)

    def __len__(self) -> int:
        return len(self.value)


def thaw(value: Any) -> Any:
    """Returns the plain JSON value of a frozen one, always as a copy."""
    if type(value) in ATOMS:
        return value
    if type(value) in MAPPINGS or isinstance(value, Mapping):
        copy = dict_of(value)
        for key, item in copy.items():
            if type(item) not in ATOMS:
                copy[key] = thaw(item)
        return copy
    if isinstance(value, list | tuple):
        return [item if type(item) in ATOMS else thaw(item) for item in value]
    return value


_SORTED = json.JSONEncoder(
    sort_keys=True, default=lambda value: thaw(value) if isinstance(value, Mapping) else repr(value)
)


def sorted_json(value: Any) -> str:
    """Returns a value as text; two values of JSON have the same text only if they are equal, with their types."""
    return _SORTED.encode(value)


def _plain(value: Any) -> Any:
    """Returns the arguments or result of a toolbox function as JSON values; anything else becomes its string."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


MAX_DIGITS = 400  # of a decimal, before or after its point


def format_value(value: Any, limit: int = 60) -> str:
    """Returns a value as readable text of at most `limit` characters."""
    if type(value) is str:  # the common case
        text = encode_basestring(value)
    elif isinstance(value, Fraction):
        return _format_fraction(value)
    elif isinstance(value, Decimal):
        return str(value)
    else:
        text = _format_json(value)
    return text if len(text) <= limit else f"{text[:limit]}…"


def _format_json(value: Any) -> str:
    try:
        return str(value) if type(value) is int else json.dumps(value, ensure_ascii=False, default=_simplified)
    except (TypeError, ValueError, RecursionError):
        return f"a {type(value).__name__}"


def _format_fraction(value: Fraction) -> str:
    try:
        return str(value.numerator) if value.denominator == 1 else f"{float(value):.12g}"
    except (OverflowError, ValueError):
        return f"a number of more than {MAX_DIGITS} digits"


def _simplified(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    return format_value(value) if isinstance(value, Fraction | Decimal) else str(value)


MAX_DETAIL = 400  # characters

_HEADS = {
    Decision.ALLOW: "This is allowed",
    Decision.WARN: "This is allowed, with a warning",
    Decision.DENY: "This is not allowed",
    Decision.ESCALATE: "This is not allowed unless a reviewer approves it",
    Decision.HALT: "This is not allowed, and the run is halted",
}
_RULE_KEYS = {
    "call", "needed", "missing", "because", "rules", "core", "reasons", "in flight", "obliged by", "event", "sources",
}  # fmt: skip


def denial_message(verdict: Verdict, *, call: bool = True) -> str:
    """Returns the message; empty when the step may proceed and there is nothing to report.

    Args:
        verdict: the verdict on the step.
        call: whether to name the step, which is redundant if the model sees it anyway.
    """
    lines = list(dict.fromkeys(map(_one_line, _lines(verdict))))
    if not lines:
        return ""
    denial = verdict.denial
    step = f": {call_text(denial.tool, denial.args)}" if call and denial is not None and denial.tool else ":"
    return "\n".join([f"{_HEADS[verdict.decision]}{step}", *[f"- {line}" for line in lines]])


def call_text(tool: str, args: Mapping[str, Any]) -> str:
    """Returns a call in one line, with long values truncated."""
    return _truncate(_one_line(f"{tool}({', '.join(f'{name}={format_value(value)}' for name, value in args.items())})"))


def _lines(verdict: Verdict) -> Iterator[str]:
    for violation in verdict.violations:
        yield f"{violation.policy}: {_violation(violation)}"
    for error in verdict.errors:
        yield _error(error, verdict.reasons)
    if verdict.label and not verdict.violations and not verdict.errors:
        yield from verdict.reasons


def _violation(violation: Violation) -> str:
    details = "; ".join(_evidence_lines(violation))
    text = f"{violation.message.strip()} ({_truncate(details)})" if details else violation.message.strip()
    if not violation.remedy:
        return text
    return f"{text}{'' if text.endswith(('.', '!', '?', ')')) else '.'} To comply: {violation.remedy}"


def _evidence_lines(violation: Violation) -> Iterator[str]:
    """Yields the facts that the evidence adds to the message."""
    evidence = violation.evidence
    if not isinstance(evidence, Mapping) or not evidence.keys() <= _RULE_KEYS or not _has_origins(evidence):
        if evidence:
            yield f"seen: {json_text(thaw(evidence))}"
        return
    needed = [evidence.get("needed"), *evidence.get("rules", ())]
    yield from (f"needed: {rule}" for rule in needed if rule and rule not in violation.message)
    yield from evidence.get("reasons", ())
    yield from (text for text in map(origin_text, evidence.get("sources", ())) if text not in violation.message)
    if open_calls := evidence.get("in flight"):
        yield f"outcome still unknown: {', '.join(dict.fromkeys(open_call['tool'] for open_call in open_calls))}"


def origin_text(origin: Mapping[str, Any]) -> str:
    """Returns where a value came from, in words."""
    return f"{origin['value']} came from {' and '.join(origin['from'])}"


def _has_origins(evidence: Mapping[str, Any]) -> bool:
    """Whether the sources are those of rules; programs of others can give any."""
    origins = evidence.get("sources", ())
    return isinstance(origins, list | tuple) and all(
        isinstance(origin, Mapping) and origin.keys() == {"value", "labels", "from"} for origin in origins
    )


def _error(error: str, reasons: tuple[str, ...]) -> str:
    """Returns a line on a rule that could not be checked, with its author's message if a reason has one."""
    for rule, problem in ((error[: end.start()], error[end.end() :]) for end in re.finditer(": ", error)):
        start = f"could not be checked: {problem} (rule: "
        if text := next((reason for reason in reasons if problem and reason.startswith(start)), None):
            return f"{rule}: {text}"
    return f"could not be checked: {error}"


def rule_of_error(error: str, ids: Iterable[str]) -> str:
    """Returns the rule, one of `ids`, that an error of a verdict names; empty for an error of none of them."""
    return max((rule for rule in ids if error.startswith(f"{rule}: ")), key=len, default="")


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _truncate(text: str) -> str:
    return text if len(text) <= MAX_DETAIL else f"{text[:MAX_DETAIL]}…"
