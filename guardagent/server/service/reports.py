"""Reports on the rules of a policy: denials, escalations and answers by day, rules without any, and slow rules.

Counts come from the log of a tenant and from its approvals. The newest entries of a log are read at the first report,
and from then on those that have come since; what is kept are the numbers. Times of rules are measured: the calls that
were logged last are judged again, each rule by itself, without effect.
"""

from __future__ import annotations

import csv
import io
import json
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from statistics import median_high
from typing import Any

from guardagent.batch.replay.conversation import STATE, RecordedFacts, recorded_value
from guardagent.log.verification import csv_cell
from guardagent.policy.evaluation.monitor_interface import Clock, SessionCall
from guardagent.policy.evaluation.screen import CallScreen
from guardagent.policy.monitors.conversation import ConversationState
from guardagent.policy.policies import Policies
from guardagent.server.approvals import ApprovalDesk
from guardagent.server.service.policies import JSON, PolicyCatalogue, PolicyReports
from guardagent.server.service.stores import LogQueries
from guardagent.types import EMPTY, freeze, rule_of_error

PERIODS = (7, 30, 90)
"""The numbers of days that a report may have."""
COUNTED = ("denied", "escalated", "warned", "approved", "rejected", "expired", "unknown")
"""What is counted; a rule that could not be checked denies as unknown."""
_MAX_APPROVALS = 20_000  # that a report looks at
_SAMPLE, _SAMPLE_SECONDS = 200, 0.5  # entries whose calls are judged again, and for how long
_LOOK_SECONDS = 60  # how old a look at approvals and times gets
_DECISIONS = {"deny": "denied", "halt": "denied", "escalate": "escalated", "warn": "warned"}
_ANSWERS = {**dict.fromkeys(("approved", "edited", "used"), "approved"), "rejected": "rejected", "expired": "expired"}

RuleCounts = Counter[tuple[str, str, str, str]]
"""Numbers by version or name of the policy, rule, day in UTC, and what happened (`COUNTED`)."""


@dataclass(slots=True)
class LogCounts:
    """The violations in the entries of a log that were read.

    Attributes:
        first, last: the numbers of the first and the last of these entries; 0 before any.
        since: the time of the first one.
        counts: their numbers, by the digests of policies.
    """

    first: int = 0
    last: int = 0
    since: str = ""
    counts: RuleCounts = field(default_factory=Counter)

    def read(self, log: LogQueries, tenant: str, rules: Collection[str] = ()) -> None:
        """Adds the entries that have come since. Older ones no longer count if some lie between them.

        Args:
            log: the log.
            tenant: whose entries.
            rules: the rules that errors can name.
        """
        counts, last, entry = RuleCounts(), self.last, None
        for entry in log.newest(tenant, self.last):
            last = max(last, entry.seq)
            if '"rules":["' in entry.text or '"errors":["' in entry.text:  # as every denial has one
                counts.update(_violations(json.loads(entry.text), rules))
        if entry is None:
            return
        if self.first and entry.seq == self.last + 1:
            counts.update(self.counts)
        else:
            self.first, self.since = entry.seq, str(json.loads(entry.text).get("time"))
        self.last, self.counts = last, counts


def _violations(fields: Mapping[str, Any], rules: Collection[str]) -> Iterator[tuple[str, str, str, str]]:
    """Yields those of a verdict on a call, an answer or an end, but not of a candidate.

    An error begins with the name of its rule, if it has one; a redacted error has none.
    """
    counted = _DECISIONS.get(str(fields.get("decision")))
    if fields.get("kind") != "shadow" and counted is not None:
        policy, day = str(fields.get("policy")), str(fields.get("time"))[:10]
        errors = map(str, fields.get("errors") or ()) if isinstance(fields.get("errors"), list) else ()
        unknown = (rule_of_error(error, rules) or error.partition(": ")[0] for error in errors if ": " in error)
        yield from ((policy, str(rule), day, counted) for rule in dict.fromkeys(fields.get("rules") or ()))
        yield from ((policy, rule, day, "unknown") for rule in dict.fromkeys(unknown))


class RuleReports:
    """The reports on rules, each for a tenant that may use the policy.

    Args:
        policies: the policies.
        versions: has their versions.
        log: the logs of tenants.
        approvals: the approvals of tenants.
    """

    def __init__(
        self, policies: PolicyCatalogue, versions: PolicyReports, log: LogQueries, approvals: ApprovalDesk
    ) -> None:
        self._policies, self._versions, self._log, self._approvals = policies, versions, log, approvals
        self._read = defaultdict[str, LogCounts](LogCounts)
        self._answered, self._measured = lru_cache(100)(self._answers), lru_cache(100)(self._times)
        self._reading = threading.Lock()

    def report(self, tenant: str, name: str, days: int) -> JSON:
        """Returns the numbers of each rule by day, the rules without any, and the times of rules in milliseconds.

        Args:
            tenant: the tenant.
            name: the policy.
            days: how many days, with today.

        Raises:
            UnknownItemError: the tenant has no such policy.
            GuardError: the log or the state cannot be read.
        """
        self._policies.settings(name, tenant)
        current, today = self._policies.current(name), datetime.now(UTC).date()
        dates = [(today - timedelta(days=ago)).isoformat() for ago in reversed(range(days))]
        with self._reading:
            named = {rule for known in self._policies.names(tenant) for rule in self._policies.current(known).ids}
            (read := self._read[tenant]).read(self._log, tenant, named)
            since = read.since if read.first > 1 and read.since[:10] >= dates[0] else ""
            look = int(time.monotonic() / _LOOK_SECONDS)
            sources = (read.counts, self._versions.digests(name)), (self._answered(tenant, look), {name})
            times = self._measured(tenant, name, look)
        rules: dict[str, dict[str, Counter[str]]] = {rule: defaultdict(Counter) for rule in current.ids}
        for counts, names in sources:
            for (source, rule, day, counted), count in counts.items():
                if source in names and day >= dates[0] and (rule in rules or counted != "unknown"):
                    rules.setdefault(rule, defaultdict(Counter))[counted][day] += count
        total = {rule: sum(by_day.total() for by_day in counts.values()) for rule, counts in rules.items()}
        return {
            "policy": name,
            "days": dates,
            "rules": {rule: rules[rule] for rule in sorted(rules, key=lambda rule: -total[rule])},
            "never": [rule for rule in current.ids if not total[rule]],
            "removed": [rule for rule in rules if rule not in current.ids],
            "times": {rule: times[rule] for rule in sorted(times, key=lambda rule: -median_high(times[rule]))},
            "since": since,
        }

    def _answers(self, tenant: str, _look: int) -> RuleCounts:
        """Returns the numbers of approvals that were decided, by their policies."""
        counts, cursor = RuleCounts(), None
        for _ in range(0, _MAX_APPROVALS, 500):
            approvals, cursor = self._approvals.page(tenant, cursor, 500)
            for approval in approvals:
                counted, steps = _ANSWERS.get(approval["status"]), approval["steps"]
                decided = steps[-1]["at"] if steps and counted != "expired" else approval["deadline"]
                day = datetime.fromtimestamp(decided, UTC).date().isoformat()
                counts.update((approval["policy"], rule, day, counted) for rule in approval["rules"] if counted)
            if cursor is None:
                break
        return counts

    def _times(self, tenant: str, name: str, _look: int) -> dict[str, list[float]]:
        current = self._policies.current(name)
        criteria = {"kind": "verdict", "policy": current.digest}
        return rule_times(current, self._log.entries(tenant, None, _SAMPLE, criteria))


def rule_times(policies: Policies, verdicts: Iterable[Mapping[str, Any]]) -> dict[str, list[float]]:
    """Judges logged calls again for half a second, each rule by itself, in the conversations as far as they are there.

    Args:
        policies: their rules.
        verdicts: entries of the log, in order.

    Returns:
        The milliseconds of each rule for each call that it judged but the first, which sets it up. No model is called.
    """
    begin = partial(ConversationState, policies, STATE, EMPTY, clock=Clock(lambda: None))
    conversations, times = defaultdict[str, ConversationState](begin), defaultdict[str, list[float]](list)
    until = time.perf_counter() + _SAMPLE_SECONDS
    for fields in verdicts:
        args = recorded_value(fields.get("args"))
        if not isinstance(args, Mapping) or time.perf_counter() > until:
            continue
        conversation = conversations[str(fields.get("conversation"))]
        call = _logged_call(policies, fields, args, len(conversation.calls) + 1)
        taken = defaultdict[str, float](float)
        for rule, judge in _checks(conversation, call):
            begun = time.perf_counter()
            judge()
            taken[rule] += 1000 * (time.perf_counter() - begun)
        for rule, milliseconds in taken.items():
            times[rule].append(milliseconds)
        if fields.get("label") == 0:
            conversation.reserve(call, None)
            conversation.settle(call, None, "ok")
    return {rule: several[1:] for rule, several in times.items() if len(several) > 1}


def _checks(conversation: ConversationState, call: SessionCall) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yields each rule that judges a call, with a function that judges it by this rule alone."""
    policies, every = conversation.policies, call.applicability
    for number, monitor in every.monitors:
        asks = getattr(monitor, "asks", None)
        if asks is None or not asks(call.tool):
            screen = CallScreen((), call)
            alone = replace(every, monitors=((number, monitor),), screen=screen, needs_more_checks=False)
            yield policies.rule_of[number].id, partial(conversation.judge, call, alone)
    for request in policies.requests:
        if not getattr(request[1], "asks_model", False):
            conversation.requests = (request,)
            yield request[0].id, partial(conversation.judge, call, replace(every, monitors=()))


def _logged_call(policies: Policies, fields: Mapping[str, Any], args: Mapping[str, Any], place: int) -> SessionCall:
    call, facts = SessionCall(str(fields.get("tool")), args, place), recorded_value(fields.get("facts"))
    call.labelled(fields.get("action"), None, frozenset(map(str, fields.get("tags") or ())))
    call.facts = RecordedFacts(facts if isinstance(facts, Mapping) else {})
    call.principal, call.agent = freeze(fields.get("principal")), fields.get("agent")
    call.applicability = policies.applicability(call)
    return call


# --- exports


def report_rows(report: Mapping[str, Any]) -> list[JSON]:
    """Returns the days on which a rule did something, the newest first, with the numbers."""
    days = [
        {"day": day, "policy": report["policy"], "rule": rule, **{name: counts[name][day] for name in COUNTED}}
        for day in reversed(report["days"])
        for rule, counts in report["rules"].items()
    ]
    return [row for row in days if any(row[name] for name in COUNTED)]


def as_csv(table: Iterable[Mapping[str, Any]]) -> str:
    """Returns rows as CSV, in which no spreadsheet takes a name for a formula."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("day", "policy", "rule", *COUNTED))
    writer.writerows([csv_cell(value) for value in row.values()] for row in table)
    return text.getvalue()
