"""Judges cases and traces, compares their verdicts with the expected ones, and finds the rules that they cover.

A case ends with a proposed call, which is judged. A trace is judged to its end, for rules that only the end can
violate.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from guardagent._support.files import is_in_pack
from guardagent.batch.audit import UNKNOWN_OUTCOME, judge_trace
from guardagent.batch.json_object import JsonObject, KeyType
from guardagent.batch.records import Case, Trace, read_case, read_trace
from guardagent.errors import ContentError, name_hint
from guardagent.policy.evaluation.history_index import AnyTool
from guardagent.policy.evaluation.monitor_interface import SessionCall
from guardagent.policy.file.policy_file import PolicyFile
from guardagent.policy.file.policy_keys import PERMITTED_FILES
from guardagent.policy.language import ast
from guardagent.policy.language.parser import named_arguments, tools_read_whole
from guardagent.policy.load import load_policies, read_policy_files
from guardagent.policy.monitors.eventual import ExistsMonitor, ResponseMonitor
from guardagent.policy.monitors.propositional import PropositionalMonitor
from guardagent.policy.policies import Policies
from guardagent.session.counters import new_counters
from guardagent.session.session import Session
from guardagent.types import EMPTY, Event, Verdict, rule_of_error, thaw

if TYPE_CHECKING:
    from guardagent.batch.results import Result


def session_of(policies: Policies, case: Case) -> Session:
    """A session in which the history of a case has happened.

    Counters across conversations begin at zero, and the history counts.
    """
    session = policies.session(
        state=case.state,
        facts=case.facts,
        clock=lambda: case.now,
        counters=new_counters(policies),
        principal=case.principal,
        messages=case.messages,
        on_difference=False,
    )
    for event in case.history:
        session.observe(event, judge=False)
    return session


def judge_case(policies: Policies, case: Case) -> Verdict:
    """Judges the proposed call alone: violations in the history are not reported again.

    A violation that depends on the unknown outcome of an earlier call has a reason more, which says so, and what could
    not be checked in a history whose times go back.
    """
    verdict = _check(policies, case)
    instants = (*(event.time for event in case.history), case.now)
    times = [each.timestamp() if isinstance(each, datetime) else each for each in instants if each is not None]
    if verdict.errors and any(later < earlier for earlier, later in pairwise(times)):
        verdict = verdict.changed(reasons=(*verdict.reasons, _GOES_BACK))
    unknown = sorted({event.tool for event in case.history if event.tool and event.status == "unknown"})
    if not unknown or not verdict.violations:
        return verdict
    history = tuple(replace(event, status="ok") if event.status == "unknown" else event for event in case.history)
    if not set(verdict.rules).difference(_check(policies, replace(case, history=history)).rules):
        return verdict
    hint = f"{UNKNOWN_OUTCOME}{', '.join(map(repr, unknown))} is unknown; if it succeeded, give the call "
    hint += "'\"failed\": false', or the policy 'failed_output'"
    return verdict.changed(reasons=(*verdict.reasons, hint))


_GOES_BACK = "a call, or 'now', is earlier than a call before it, so its time is unknown; expected the calls by time"


def _check(policies: Policies, case: Case) -> Verdict:
    return session_of(policies, case).check(case.proposed.tool, case.proposed.args, reserve=False)


def read_expectation(text: str, path: Path | str, line: int, failed_output: Any = None) -> Case:
    """Reads a case that has an expectation.

    Raises:
        ContentError: the line is not a case, or expects nothing.
    """
    case = read_case(text, path, line, failed_output)
    if case.label is None and case.rules is None:
        raise ContentError("has no expectation; expected 'label', 'rules' or both", path, line)
    return case


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference between the expectation of a case and its verdict.

    Attributes:
        label: (expected, found); None if they are equal, or no label was expected.
        missing: rules that were expected but not violated.
        unexpected: rules that were violated but not expected.
    """

    label: tuple[int, int] | None = None
    missing: tuple[str, ...] = ()
    unexpected: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.label or self.missing or self.unexpected)


def difference(result: Result) -> Difference:
    """Compares a verdict with the expectation of its case."""
    label = result.expected_label
    rules, expected = set(result.rules), set(result.rules if result.expected_rules is None else result.expected_rules)
    return Difference(
        None if label in (None, result.label) else (int(label or 0), result.label),
        tuple(sorted(expected - rules)),
        tuple(sorted(rules - expected)),
    )


def unknown_rule_hint(rule: str, known: Iterable[str]) -> str:
    """A hint that no policy has this id, with the nearest id; empty if one has it."""
    names = list(known)
    return "" if rule in names else f" (no such policy{name_hint(rule, names)})"


LABELS = ("0 (may proceed)", "1 (may not)")


def difference_lines(result: Result, known: Collection[str]) -> list[str]:
    """The difference between the expectation of a case and its verdict, for people; empty if there is none.

    Args:
        result: the result of the case.
        known: the ids of the policy's rules.
    """
    change = difference(result)
    if not change:
        return []
    if change.label is not None:
        label = f"expected {LABELS[change.label[0]]}, got {LABELS[change.label[1]]}"
    else:
        label = LABELS[result.label]
    missing = (
        f"  rule {rule!r}: expected to be violated{unknown_rule_hint(rule, known)}, but is not"
        for rule in change.missing
    )
    unexpected = (f"  rule {rule!r}: violated, but not expected" for rule in change.unexpected)
    reasons = (f"  reason: {reason}" for reason in json.loads(result.row)["reasons"])
    return [f"  label: {label}", *missing, *unexpected, *reasons]


# --- the rules that cases cover

RuleOutcome = Literal["satisfied", "violated", "undecided"]


def rule_results(
    policies: Policies, proposed: Event, violated: Collection[str], errors: Collection[str]
) -> dict[str, RuleOutcome]:
    """The result of each rule that judges a call, or that its verdict names, in the order of the file.

    Args:
        policies: the policy.
        proposed: the call: its tool and arguments.
        violated: the rules that the verdict names.
        errors: the checks that could not be made. One of no rule leaves all rules undecided.
    """
    call = SessionCall(proposed.tool, proposed.args)
    judging = {policies.rule_of[number].id for number, _ in policies.applicability(call).monitors}
    judging.update(source.id for source, _ in policies.requests)
    undecided = {rule_of_error(error, policies.ids) for error in errors}
    return {
        rule: "violated" if rule in violated else "undecided" if "" in undecided or rule in undecided else "satisfied"
        for rule in policies.ids
        if rule in judging or rule in violated or rule in undecided
    }


def rule_causes(policies: Policies, verdict: Verdict, rule: str) -> Iterator[str]:
    """Yields why a rule of a policy is violated or undecided, a line each, and what to do."""
    for violation in verdict.violations:
        if violation.policy == rule:
            evidence = violation.evidence if isinstance(violation.evidence, Mapping) else {}
            yield violation.message
            yield from (f"{name}: {evidence[name]}" for name in ("needed", "missing") if name in evidence)
            yield from [f"to comply: {violation.remedy}"] if violation.remedy else []
    yield from (error for error in verdict.errors if rule_of_error(error, policies.ids) == rule)


def explained(policies: Policies, case: Case) -> dict[str, Any]:
    """Judges a case, with what each rule that judges the call says, and what it reads of the call.

    Returns:
        `decision`, `label`, `violated`, `reasons`, `errors`; `rules`: the `result`, `read` and `causes` of each; and
        `due`: the obligations that the call adds if it succeeds. All of it is JSON.
    """
    call, verdict = case.proposed, judge_case(policies, case)
    session, parts = session_of(policies, case), {rule.id: rule.rules for rule in policies.rules}
    before = session.obligations
    session.observe(replace(call, status="ok"), judge=False)
    rules = {
        rule: {
            "result": result,
            "read": dict(_read_by(parts.get(rule, ()), case)),
            "causes": list(rule_causes(policies, verdict, rule)),
        }
        for rule, result in rule_results(policies, call, verdict.rules, verdict.errors).items()
    }
    due = {rule: text for rule, text in session.obligations.items() if rule not in before}
    json = {"decision": str(verdict.decision), "label": verdict.label, "violated": list(verdict.rules)}
    return json | {"reasons": list(verdict.reasons), "errors": list(verdict.errors), "rules": rules, "due": due}


def _read_by(parts: Iterable[ast.Rule], case: Case) -> Iterator[tuple[str, Any]]:
    """Yields the arguments of the proposed call and the facts that a rule names, with their values.

    A rule that takes the arguments of such a call as a whole, as those of packs do, names them all.
    """
    call = case.proposed
    for part in parts:
        if any(tool == call.tool or tool.startswith("@") for tool in tools_read_whole(part)):
            yield from thaw(call.args).items()
        for argument in named_arguments(part):
            if argument.name in call.args or call.tool in argument.tools:
                yield argument.name, thaw(call.args.get(argument.name, "(missing)"))
        for node in ast.walk(part):
            if isinstance(node, ast.Fact):
                yield f"fact({node.path[0]})", thaw(case.facts.get(node.path[0]))


@dataclass(slots=True)
class PolicyCoverage:
    """The coverage of one policy.

    A case *violates* a rule that is among the violated rules of its verdict. It *satisfies* a rule that judges its
    proposed call (it names the tool, or a label of the call) and is neither violated nor undecided. A rule that only
    the end of a conversation can violate, such as `after`, cannot be violated by a case: its satisfaction counts.

    Attributes:
        rules: the ids of all rules.
        end_only: the rules that only the end of a conversation can violate.
        bans: the rules that no call that they judge satisfies, such as `G !tool:wipe`: only their violation counts.
        violated, satisfied: rules with a case.
        cases: the number of cases.
    """

    rules: tuple[str, ...]
    end_only: frozenset[str]
    bans: frozenset[str] = frozenset()
    violated: set[str] = field(default_factory=set)
    satisfied: set[str] = field(default_factory=set)
    cases: int = 0

    @property
    def never_violated(self) -> list[str]:
        return [rule for rule in self.rules if rule not in self.violated and rule not in self.end_only]

    @property
    def never_satisfied(self) -> list[str]:
        return [rule for rule in self.rules if rule not in self.satisfied and rule not in self.bans]

    def lines(self, policy: str) -> Iterator[str]:
        """Yields a summary line, and one for each kind of gap."""
        covered = len(set(self.rules) - set(self.never_violated) - set(self.never_satisfied))
        yield f"{policy}: {covered} of {len(self.rules)} rules covered by {self.cases} cases"
        for what, rules in (("never violated", self.never_violated), ("never satisfied", self.never_satisfied)):
            if rules:
                yield f"  {what} by a case: {', '.join(rules)}"


class RuleCoverage:
    """The coverage of all policies of a run."""

    def __init__(self) -> None:
        self.policies: dict[str, PolicyCoverage] = {}

    def add(self, content: dict[str, Any]) -> None:
        """Adds the result of `covered_rules`."""
        known = PolicyCoverage(tuple(content["rules"]), frozenset(content["end_only"]), frozenset(content["bans"]))
        policy = self.policies.setdefault(content["policy"], known)
        policy.violated.update(content["violated"])
        policy.satisfied.update(content["satisfied"])
        policy.cases += 1

    def clear(self) -> None:
        self.policies.clear()

    @property
    def is_full(self) -> bool:
        return not any(policy.never_violated or policy.never_satisfied for policy in self.policies.values())

    def lines(self) -> list[str]:
        return [line for policy, coverage in sorted(self.policies.items()) for line in coverage.lines(policy)]


def covered_rules(policies: Policies, path: str, proposed: Event, verdict: dict[str, Any]) -> dict[str, Any]:
    """Returns what a case covers, as JSON.

    Args:
        policies: the policy.
        path: its file, for people.
        proposed: the proposed call of the case.
        verdict: the verdict as JSON.
    """
    results = rule_results(policies, proposed, verdict["rules"], verdict["errors"])
    return {
        "policy": path,
        "rules": list(policies.ids),
        "end_only": sorted(_end_only(policies)),
        "bans": sorted(_bans(policies)),
        "violated": sorted(set(verdict["rules"])),
        "satisfied": sorted(rule for rule, result in results.items() if result == "satisfied"),
    }


def _bans(policies: Policies) -> Iterator[str]:
    from guardagent.policy.lint.target import subject_of  # heavy, and only needed for coverage

    target = subject_of(policies)
    for rule in policies.rules:
        steps = [monitor for monitor in rule.monitors if isinstance(monitor, PropositionalMonitor) and rule.simple]
        calls = (SessionCall(tool, EMPTY) for tool in rule.tools - target.banned_by(rule))
        permitted = any(all(monitor.permits(call) for monitor in steps) for call in calls)
        if rule.tools and not permitted and not isinstance(rule.tools, AnyTool):
            yield rule.id


def _end_only(policies: Policies) -> Iterator[str]:
    for rule in policies.rules:
        if not any(_can_be_violated_by_a_call(monitor) for monitor in rule.monitors):
            yield rule.id


def _can_be_violated_by_a_call(monitor: Any) -> bool:
    if isinstance(monitor, PropositionalMonitor):
        return any(monitor.automaton.violated)
    return not isinstance(monitor, ExistsMonitor | ResponseMonitor)


# --- cases and traces with an expected verdict

_LABEL = {"label": KeyType(int, "0 or 1"), "rules": KeyType(list, "a list of the ids of policies")}
_OF_CASES = ("proposed", "history", "now", "context", "user_confirmed", "messages")


@dataclass(frozen=True, slots=True)
class ExpectedTrace:
    """A trace with its expectation, as `label` and `rules` of a case."""

    trace: Trace
    label: int | None = None
    rules: tuple[str, ...] | None = None

    @property
    def id(self) -> str | int:
        return self.trace.id


Expectation = Case | ExpectedTrace


def read_expected(text: str, path: Path | str, line: int, failed_output: Any = None) -> Expectation:
    """Reads a case, or a trace with `events` instead of `proposed`, that has an expectation; as `read_expectation`.

    Raises:
        ContentError: the line is neither, or expects nothing.
    """
    record = JsonObject.of_line(text, path, line, _LABEL)
    if "events" not in record.values:
        return read_expectation(text, path, line, failed_output)
    if lost := [key for key in _OF_CASES if key in record.values]:
        raise ContentError(f"has 'events' and {lost[0]!r}, which only a case has; expected one of them", path, line)
    label, rules = record.values.get("label"), record.strings("rules")
    if label not in (None, 0, 1):
        raise record.wrong("label", label, "0 or 1")
    if label is None and rules is None:
        raise ContentError("has no expectation; expected 'label', 'rules' or both", path, line)
    return ExpectedTrace(read_trace(text, path, line, failed_output), label, rules)


def calls_of(expected: Expectation) -> tuple[Event, ...]:
    """Returns the events of a case or trace, a proposed call as the last one."""
    if isinstance(expected, Case):
        return (*expected.history, expected.proposed)
    return tuple(step.event for step in expected.trace.steps)


def judge_expected(policies: Policies, expected: Expectation) -> Verdict:
    """Judges the proposed call of a case, or the whole of a trace with its end."""
    if isinstance(expected, Case):
        return judge_case(policies, expected)
    return judge_trace(policies, expected.trace)


# --- candidates: policies that somebody pastes for a live one, and that refer to the files of that one only

MEMORY_BYTES = 4 * 2**30  # of addresses, of a process that judges a candidate


def read_candidate(files: Sequence[Path], text: str) -> Policies:
    """Reads the text of a candidate. It calls no model.

    Args:
        files: the files of the live policy.
        text: the candidate.

    Raises:
        InputError: it is not a policy, or refers to other files than the live policy and packs do. Of such a file
            nothing is read: who pastes a policy does not choose the code that runs here.
    """
    from guardagent.batch.replay.conversation import NoModel  # here: a check needs no replay

    known = set(_paths(read_policy_files(files)))

    def permits(path: Path) -> bool:
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            return path.resolve() in known or is_in_pack(path.resolve())
        return False

    token = PERMITTED_FILES.set(permits)
    try:
        return load_policies(text=text, folder=files[0].resolve().parent, model=NoModel())
    finally:
        PERMITTED_FILES.reset(token)


def explainer(files: Sequence[Path], text: str) -> Callable[[str], dict[str, Any]]:
    """Reads a candidate in a process of its own, which cannot fill the memory. Returns `explain_line` for it."""
    from guardagent.sandbox.hardening import limit_resource  # here: a check needs no sandbox

    limit_resource("RLIMIT_AS", MEMORY_BYTES)
    return partial(explain_line, read_candidate(files, text))


def explain_line(policies: Policies, line: str) -> dict[str, Any]:
    """Judges a case in a line of JSON, as `explained`.

    Raises:
        ContentError: the line is not a case.
    """
    return explained(policies, read_case(line, "the case", 1, policies.failed_output))


def _paths(file: PolicyFile) -> Iterator[Path]:
    """Yields the files that a policy refers to, and loads none of them."""
    for path in (*file.files, *file.toolbox):
        yield path.resolve()
    for rule in file.rules:
        yield from (path.resolve() for path in rule.files)
    if file.shadow is not None:
        yield from _paths(file.shadow)
