"""Drafts of a rule, the conversations on which two of them can differ, and the results of a comparison.

A draft is the set of rules that one translation of a sentence consists of. A witness is a case, or a trace if its end
is judged. The search changes a scenario, the same conversation as a plain tree of values, one value at a time.
"""

from __future__ import annotations

import copy
import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

from guardagent.errors import InputError
from guardagent.policy.equivalence.canonical import as_data, as_steps, canonical, parts_of
from guardagent.policy.equivalence.places import without_names
from guardagent.policy.evaluation.operands import Library
from guardagent.policy.language import ast
from guardagent.policy.lint.steps import RuleAutomaton
from guardagent.policy.load import load_policies
from guardagent.policy.monitors.rule import Rule
from guardagent.policy.policies import Policies
from guardagent.policy.scope import EscalationStage, Scope
from guardagent.types import Decision, Event, Verdict, thaw

# --- witnesses

NO_FACTS: Mapping[str, Any] = {"user_confirmed": None, "context": {}}
"""The facts that every case has."""

Path = tuple[str | int, ...]
"""The place of a value in a witness, such as `("proposed", "args", "amount")`."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A constant of the drafts that a value of the witness is compared with."""

    path: Path
    value: Any


@dataclass(frozen=True, slots=True)
class Witness:
    """A conversation, with what the host knows about it.

    Attributes:
        history: the earlier calls, in order.
        proposed: the call to judge; None if the conversation ends and its obligations are judged.
        facts, state, principal: as in a case; None if unknown.
        now: the time of the proposed call; None if unknown.
        limits: the constants of the drafts near its values, for questions about it.
        windows: the durations in the drafts, in seconds.
        missing: the tools that a draft requires in the history, and that were not called.
        unknown: what a draft needs to know and does not, in natural language.
        messages: the chat messages so far.
    """

    history: tuple[Event, ...] = ()
    proposed: Event | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    state: Mapping[str, Any] | None = None
    principal: Mapping[str, Any] | None = None
    now: dt.datetime | None = None
    limits: tuple[Limit, ...] = field(default=(), compare=False)
    windows: tuple[float, ...] = field(default=(), compare=False)
    missing: tuple[str, ...] = field(default=(), compare=False)
    unknown: tuple[str, ...] = field(default=(), compare=False)
    messages: tuple[Mapping[str, Any], ...] = ()

    @property
    def is_case(self) -> bool:
        """Whether it can be written as a case: a call is judged, and no call has an action, a decision or tags."""
        calls = [*self.history, self.proposed]
        return all(call is not None and not (call.action or call.decision or call.tags) for call in calls)

    def record(self, id: str = "witness") -> dict[str, Any]:  # noqa: A002 - the key of the format
        """The witness as a line of a file of cases; of a file of traces if it is not a case."""
        known = {"facts": self.facts, "state": self.state, "principal": self.principal}
        entry = {"id": id, **{name: thaw(value) for name, value in known.items() if value}}
        history = [_case_call(event) for event in self.history]
        if self.is_case:
            assert self.proposed is not None
            proposed = {"tool": self.proposed.tool, "args": thaw(self.proposed.args)}
            now = {} if self.now is None else {"now": self.now.isoformat()}
            messages = {"messages": list(self.messages)} if self.messages else {}
            return {**entry, "history": history, "proposed": proposed, **now, **messages}
        last = [] if self.proposed is None else [_case_call(self.proposed, self.now)]
        return {**entry, "events": [*history, *last]}


def _case_call(event: Event, now: dt.datetime | None = None) -> dict[str, Any]:
    """A call as in a case or a trace; a call without an outcome has neither an output nor `failed`."""
    return dict(_keys(event, event.time or now))


def _keys(event: Event, time: Any) -> Iterator[tuple[str, Any]]:
    yield "tool", event.tool
    yield "args", thaw(event.args)
    if event.status in ("ok", "failed"):
        yield "output", thaw(event.output)
        yield "failed", event.status == "failed"
    for name in ("action", "decision"):
        if getattr(event, name):
            yield name, getattr(event, name)
    if event.tags:
        yield "tags", sorted(event.tags)
    if time is not None:
        yield "time", time.isoformat() if isinstance(time, dt.datetime) else time


# --- results

Outcome = Literal["allowed", "warned", "escalated", "denied", "ended", "unchecked"]
"""Allowed, perhaps with a warning; denied until a person approves, denied, denied with the end of the conversation; or
denied since a value is unknown."""


@dataclass(frozen=True, slots=True)
class Same:
    """The drafts are proved to give the same outcome in every conversation in which only permitted calls ran.

    Attributes:
        by: how it is proved: `identical`, `automata` or `solver`.
        other_differences: differences of messages, in natural language.
        labels_only: whether it is proved only that the same calls may run: one draft may deny a call because a value is
            unknown, and the other because it violates a rule. A search found no such call.
    """

    by: str
    other_differences: tuple[str, ...] = ()
    labels_only: bool = False


@dataclass(frozen=True, slots=True)
class Different:
    """The drafts differ: both verdicts on the witness are those of real sessions.

    Attributes:
        witness: a smallest conversation on which they differ, as far as it was found.
        first, second: the verdicts of the first and the second draft.
        outcomes: what they do.
        other_differences: as for `Same`.
        labels_only: whether it is proved that the same calls may run: both drafts deny the call, one of them because a
            value is unknown.
    """

    witness: Witness
    first: Verdict
    second: Verdict
    outcomes: tuple[Outcome, Outcome]
    other_differences: tuple[str, ...] = ()
    labels_only: bool = False


@dataclass(frozen=True, slots=True)
class Undecided:
    """No difference was found, and equality is not proved.

    Attributes:
        why: what could not be decided, and how far the search went.
        other_differences: as for `Same`.
    """

    why: str
    other_differences: tuple[str, ...] = ()


Comparison = Same | Different | Undecided


def outcome_of(policies: Policies, verdict: Verdict) -> Outcome:
    """The outcome of a verdict of policies; a denial without a violation is unchecked: a value is unknown."""
    if not verdict.label:
        return "warned" if verdict.rules else "allowed"
    if verdict.errors and not verdict.rules:
        return "unchecked"
    if verdict.decision is Decision.HALT:
        return "ended"
    return "escalated" if policies.can_be_approved(verdict) else "denied"


# --- drafts

Group = tuple[Decision, tuple[EscalationStage, ...], Scope | None]
"""The response to violations, who may approve them, and the principals that the rules concern."""


@dataclass(frozen=True, eq=False)
class Part:
    """A rule of a conjunction, in a canonical spelling."""

    rule: ast.Rule
    source: Rule

    @property
    def group(self) -> Group:
        source = self.source.source
        return source.on_violation, source.escalate_to, source.applies_to

    @property
    def text(self) -> str:
        """Its canonical text; equal texts mean equal rules."""
        return f"{id(self.rule)}" if isinstance(self.rule, ast.SolverRule) else repr(self.rule)


class ComparedDraft:
    """A draft.

    Args:
        rules: policies, a formula, a rule as in a policy file, or a list of such rules.

    Raises:
        InputError: the rules are invalid.
    """

    def __init__(self, rules: Any) -> None:
        self.policies = _policies_of(rules)

    @cached_property
    def parts(self) -> Sequence[Part]:
        wholes = [
            (without_names(logic_rule, self.policies), rule)
            for rule in self.policies.rules
            for logic_rule in rule.rules
        ]
        return [Part(canonical(read), rule) for whole, rule in wholes for read in parts_of(whole)]

    @cached_property
    def data_parts(self) -> Sequence[Part] | None:
        """The parts without formulas about steps, or None if one has no such form."""
        parts = [(as_data(part.rule), part.source) for part in self.parts]
        if any(rule is None for rule, _ in parts):
            return None
        return [Part(canonical(rule), source) for rule, source in parts if rule is not None]

    def automata(self, parts: Sequence[Part]) -> list[RuleAutomaton] | None:
        """The automata of parts, or None if one is not about the order of steps only."""
        steps = [(as_steps(part.rule), part.source) for part in parts]
        if any(rule is None for rule, _ in steps):
            return None
        try:
            rules = [Rule(source.source, [rule], self._library) for rule, source in steps if rule is not None]
            return [RuleAutomaton(rule, self.policies.tags, calls_may_fail=True) for rule in rules]
        except InputError:  # an automaton is too large
            return None

    @property
    def _library(self) -> Library:
        return Library(self.policies.functions, self.policies.tags, None)

    @cached_property
    def tools(self) -> frozenset[str]:
        """The tools that its rules mention."""
        return frozenset(tool for rule in self.policies.rules for tool in rule.mentioned_tools) - {"*"}

    @property
    def frame(self) -> tuple[Any, ...]:
        """Declarations that decide beside the rules: drafts with different ones cannot be proved equal."""
        policies = self.policies
        listed = None if policies.unlisted == "allow" else frozenset(rule.mentioned_tools for rule in policies.rules)
        declared = (
            None if policies.source is None or policies.source.tools is None else tuple(policies.source.tools.items())
        )
        toolbox = None if policies.source is None else policies.source.toolbox
        return listed, declared, policies.failed_output and policies.failed_output.pattern, policies.sources, toolbox

    @property
    def has_solver_rules(self) -> bool:
        """Whether sets of tools may be named in the expressions of solver rules."""
        return any(isinstance(part.rule, ast.SolverRule) for part in self.parts)

    @property
    def problem(self) -> str:
        """The reason that the draft can only be compared with one in the same words; empty if there is none."""
        if self.policies.requests:
            return "a draft has a guard request, which a model or program judges"
        return "a draft counts across conversations" if self.policies.counters else ""


def _policies_of(rules: Any) -> Policies:
    if isinstance(rules, Policies):
        return rules
    files = [rules] if isinstance(rules, str | Mapping) else list(rules) if isinstance(rules, Sequence) else []
    if not files or not all(isinstance(file, str | Mapping) for file in files):
        kind = type(rules).__name__
        raise InputError(f"a draft is a {kind}; expected policies, a rule as in a policy file, or a list of such rules")
    written = [
        {"id": f"rule {at}", "temporal": file} if isinstance(file, str) else file for at, file in enumerate(files, 1)
    ]
    return load_policies(data={"version": 1, "policies": written})


# --- scenarios

ABSENT: Any = type("Absent", (), {"__repr__": lambda _: "ABSENT"})()
"""The value of a place that has none."""

Scenario = dict[str, Any]
"""`history` and `proposed` (`tool`, `args`, `output`, `status`, `age`), `facts`, `state`, `principal`, `now`,
`messages`.

`age` is the number of seconds before `now`; None if the time is unknown.
"""


def witness_of(scenario: Scenario) -> Witness:
    """The witness of a scenario."""
    now = scenario["now"]
    history = tuple(_event(call, now) for call in scenario["history"])
    proposed = scenario["proposed"]
    return Witness(
        history,
        None if proposed is None else Event(proposed["tool"], proposed["args"], **_labels(proposed)),
        scenario["facts"],
        scenario["state"] or None,
        scenario["principal"] or None,
        now,
        messages=tuple(scenario.get("messages", ())),
    )


def _event(call: Mapping[str, Any], now: dt.datetime | None) -> Event:
    age = call["age"]
    time = None if now is None or age is None else now - dt.timedelta(seconds=age)
    output = call.get("output") if call["status"] != "unknown" else None
    return Event(call["tool"], call["args"], output, call["status"], time=time, **_labels(call))


def _labels(call: Mapping[str, Any]) -> dict[str, Any]:
    return {name: call[name] for name in ("action", "decision", "tags") if name in call}


def scenario_of(witness: Witness) -> Scenario:
    """The scenario of a witness."""
    return {
        "history": [_call_values(event, witness.now) for event in witness.history],
        "proposed": None if witness.proposed is None else _call_values(witness.proposed, None),
        "facts": thaw(witness.facts),
        "state": thaw(witness.state or {}),
        "principal": thaw(witness.principal or {}),
        "now": witness.now,
        "messages": list(witness.messages),
    }


def _call_values(event: Event, now: dt.datetime | None) -> dict[str, Any]:
    age = (now - event.time).total_seconds() if isinstance(event.time, dt.datetime) and now is not None else None
    labels = {name: getattr(event, name) for name in ("action", "decision", "tags") if getattr(event, name)}
    values = {"tool": event.tool, "args": thaw(event.args), "output": thaw(event.output), **labels}
    return {**values, "status": event.status or "ok", "age": age}


def value_at(scenario: Any, path: Path) -> Any:
    """The value at a path, or ABSENT."""
    for key in path:
        value = scenario.get(key, ABSENT) if isinstance(scenario, Mapping) else ABSENT
        if isinstance(scenario, list) and isinstance(key, int) and key < len(scenario):
            value = scenario[key]
        scenario = value
    return scenario


def changed(scenario: Scenario, path: Path, value: Any) -> Scenario:
    """A copy with another value at a path; ABSENT removes it."""
    copy_ = copy.deepcopy(scenario)
    at: Any = copy_
    for key, following in pairwise(path):
        if isinstance(at, dict) and not isinstance(at.get(key), dict | list):
            at[key] = {} if isinstance(following, str) else []
        at = at[key]
    if value is ABSENT:
        at.pop(path[-1], None) if isinstance(at, dict) else None
    else:
        at[path[-1]] = value
    return copy_


def paths_of(scenario: Scenario) -> Iterator[Path]:
    """Yields the paths of the values of arguments, outputs, facts, the state and the principal."""
    parts: list[Path] = [("history", at, name) for at in range(len(scenario["history"])) for name in ("args", "output")]
    parts += [("proposed", "args")] if scenario["proposed"] is not None else []
    for part in (*parts, ("facts",), ("state",), ("principal",)):
        yield from (path for path, _ in leaves(value_at(scenario, part), part))


def leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """Yields the known values in a value, with their paths."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from leaves(part, (*path, key))
    elif value is not None:
        yield path, value
