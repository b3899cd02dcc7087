"""Acquits traces by columns: proves of many traces at once that they keep all rules, without a session for each.

An acquitted trace has a plain allowance as its verdict. Any other trace is left to a session, also where it keeps all
rules: an acquittal is a proof, and its absence says nothing.

- *Letter*. The kind of an event is its tool, action, decision and tags. The kinds of a log are few, and a policy is
  asked about each of them once. The letter of an event is its kind and whether it succeeded.
- *Table*. All propositional rules step together through one table of their product automaton, which grows by the
  transitions that traces take. A step is one look-up for all traces.
- *Values*. Equal values have equal codes. A monitor judges one call of each combination of the codes that its rule
  reads, so its own functions decide, with unknown values and exact numbers as in a session.
- *Joins*. A term over earlier calls, such as the partner of `before`, compares codes. The calls of a query are sorted
  by their index key and their place. Two binary searches give the number, or by running totals the sum, of those before
  a call in its trace. `after` looks for its partner behind the call.
- *Fallback*. An event is in doubt if a monitor reports anything for it, if a value is unknown or cannot be indexed, or
  if its kind concerns a rule that cannot be expressed so: one that reads the time, the state, sources, counters across
  conversations, or the first or last call. A trace with such an event is not acquitted.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from guardagent.batch.acquittal import checks
from guardagent.batch.acquittal.product_table import ProductTable
from guardagent.policy.evaluation.monitor_interface import Monitor, SessionCall
from guardagent.policy.language import ANSWER, ast
from guardagent.policy.monitors.propositional import PropositionalMonitor
from guardagent.policy.policies import Policies
from guardagent.types import EMPTY

_MAX_KINDS = 50_000  # kinds of events that are kept; names and tags are unbounded


@dataclass(frozen=True, slots=True)
class _KindPlan:
    """The part of a policy that concerns a kind of event.

    Attributes:
        needs_session: whether such an event cannot be judged by columns.
        letter, unsuccessful: its letters in the table, after a success and otherwise.
        monitors: the numbers of the monitors that judge it.
        arguments: the declared arguments of the tool; None allows any.
    """

    needs_session: bool
    letter: int
    unsuccessful: int
    monitors: frozenset[int]
    arguments: frozenset[str] | None


class Acquittal:
    """Proves of traces that they keep all rules of a policy.

    Attributes:
        is_possible: whether any trace can be acquitted.
        reads_facts, reads_zone: whether a rule reads the facts of the host, or the time zone of the clock.
    """

    def __init__(self, policies: Policies) -> None:
        self._policies, self._product = policies, policies.product
        self._table = ProductTable(self._product)
        self._checks: dict[int, checks.Check | None] = {
            number: checks.check_of(monitor, policies.history_queries)
            for number, monitor in enumerate(policies.monitors)
            if not isinstance(monitor, PropositionalMonitor)
        }
        unproved = (policies.monitors[number] for number, check in self._checks.items() if check is None)
        self.is_possible = (
            not policies.is_scoped
            and policies.sources is None
            and not policies.counters
            and not policies.requests
            and all(map(_holds_without_calls, unproved))
        )
        trees = (tree for rule in policies.rules for tree in rule.rules if not isinstance(tree, ast.SolverRule))
        nodes = {type(node) for tree in trees for node in ast.walk(tree)}
        self.reads_facts, self.reads_zone = ast.Fact in nodes, ast.Zone in nodes
        self._kinds: dict[checks.EventKind, _KindPlan] = {}
        self._lock = threading.Lock()  # checks hold the values of the block that they judge

    def acquitted(self, columns: checks.EventColumns) -> checks.Bools:
        """The traces that certainly keep all rules, so that their verdict is a plain allowance."""
        count = len(columns.ends)
        if not self.is_possible or not count:
            return np.zeros(count, np.bool_)
        with self._lock:
            return self._judged(columns)

    def _judged(self, columns: checks.EventColumns) -> checks.Bools:
        plans = list(map(self._plan, columns.names))
        block = checks.CodedColumns(columns)
        block.doubt |= np.array([plan.needs_session for plan in plans], np.bool_)[columns.kinds]
        for number, check in self._checks.items():
            if check is not None:
                check.doubt(block, np.array([number in plan.monitors for plan in plans], np.bool_))
        self._doubt_undeclared(block, plans)
        letters = np.array([(plan.unsuccessful, plan.letter) for plan in plans], np.int64).reshape(len(plans), 2)
        acquitted = self._table.accepted(
            letters[columns.kinds, (columns.status == checks.OK).astype(np.int64)], columns.ends
        )
        acquitted[block.trace[block.doubt]] = False
        acquitted[np.diff(columns.ends, prepend=0) == 0] = False  # a check marks events
        return acquitted

    def _doubt_undeclared(self, block: checks.CodedColumns, plans: Sequence[_KindPlan]) -> None:
        args = block.columns.args
        for number, plan in enumerate(plans):
            if plan.arguments is not None and not plan.needs_session:
                for row in np.flatnonzero(block.columns.kinds == number).tolist():
                    if not args[row].keys() <= plan.arguments:
                        block.doubt[row] = True

    def _plan(self, kind: checks.EventKind) -> _KindPlan:
        plan = self._kinds.get(kind)
        if plan is None:
            plan = self._new_plan(kind)
            if len(self._kinds) < _MAX_KINDS:
                self._kinds[kind] = plan
        return plan

    def _new_plan(self, kind: checks.EventKind) -> _KindPlan:
        call = SessionCall(kind.tool, EMPTY).labelled(kind.action, kind.decision, kind.tags)
        applicability = self._policies.applicability(call)
        data = [(number, monitor) for number, monitor in applicability.monitors if number in self._checks]
        unproved = any(self._checks[number] is None and monitor.reports(call) for number, monitor in data) or any(
            isinstance(monitor, PropositionalMonitor) and monitor.reads_arguments(call)
            for _, monitor in applicability.monitors
        )
        needs_session = kind.tool == ANSWER or applicability.problem is not None or not applicability.listed or unproved
        ok, other = (self._product.letters[(*kind, ok)].parts for ok in (True, False))
        return _KindPlan(
            needs_session,
            self._table.letter(ok),
            self._table.letter(other),
            frozenset(number for number, _ in data),
            applicability.arguments,
        )


@lru_cache(8)
def acquittal(policies: Policies) -> Acquittal:
    """The acquittal by a policy, with what it has learned about kinds of events."""
    return Acquittal(policies)


def _holds_without_calls(monitor: Monitor) -> bool:
    """Whether a rule other than a propositional one holds at the end of a conversation without calls."""
    return monitor.ended(checks.rule_context(), monitor.start()) is None
