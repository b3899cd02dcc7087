"""The judgement of a proposed call: the violated rules, and the checks that could not be made."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from guardagent.errors import GuardError, error_text
from guardagent.policy.evaluation.clock import ClockError
from guardagent.policy.evaluation.monitor_interface import MonitorResult
from guardagent.policy.evaluation.state_functions import StateFunctionError
from guardagent.policy.language.values import Unknown
from guardagent.policy.monitors.rule import RuleMetadata
from guardagent.types import EMPTY, Decision, Verdict

Broken = tuple[tuple[RuleMetadata, MonitorResult], ...]  # (the rule, its violation)


class Judgement:
    """The judgement of a proposed call.

    Attributes:
        results: the result of each unsatisfied monitor, by number.
        broken: the rules that the call would violate.
        errors: the checks that could not be made, with causes.
        reasons: the errors for people and the model; the author's message comes first.
        withheld: details for the operator that errors and reasons leave out.
        request_verdicts: the verdicts of the `request:` policies.
        undecided: rule id -> the unknown value that left it undecided; None for a check that failed. The empty id
            stands for the checks beyond the rules.
        only_arguments_missing: whether missing arguments are the only causes of errors.
    """

    # Most judgements have one of these values; all are immutable, and replaced where something is added.
    results: Mapping[int, MonitorResult] = MappingProxyType({})
    broken: Broken = ()
    errors: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()
    request_verdicts: tuple[Verdict, ...] = ()
    undecided: Mapping[str, Unknown | None] = EMPTY
    only_arguments_missing = True

    def fail(self, problem: str, source: RuleMetadata | None = None) -> None:
        """Records a check that could not be made."""
        self.only_arguments_missing = False
        self._add_error(problem, source)

    def _add_error(self, problem: str, source: RuleMetadata | None) -> None:
        rule, error = ("", problem) if source is None else (source.id, f"{source.id}: {problem}")
        self.undecided = {**self.undecided, rule: self.undecided.get(rule)}
        self.errors += (error,)
        line = source.message_line if source is not None else ""
        self.reasons += (f"{line} (could not be checked: {problem})" if line else f"could not be checked: {error}",)

    def crashed(self, source: RuleMetadata, error: Exception, *, shown: bool = False) -> None:
        """Records the crash of a rule. Messages of foreign errors are withheld: they may contain anything."""
        ours = isinstance(error, StateFunctionError | ClockError) or (shown and isinstance(error, GuardError))
        self.fail(str(error) if ours else f"the check raised {type(error).__name__}", source)
        detail = error.detail if isinstance(error, StateFunctionError | ClockError) else error_text(error)
        if detail != str(error):
            self.withheld += (f"{source.id}: {detail}",)

    def unknown(self, source: RuleMetadata, result: MonitorResult) -> None:
        """Records a rule that cannot be decided, with the unknown values."""
        value = result.value
        assert isinstance(value, Unknown)
        self.undecided = {**self.undecided, source.id: value}
        self.only_arguments_missing = self.only_arguments_missing and value.absent
        self._add_error("; ".join(value.why), source)
        self.withheld += tuple([f"{source.id}: {one}" for one in result.explain().withheld])

    def decision(self, lifted: Decision | None = None) -> Decision:
        """The most severe decision. `lifted`: violations with this decision are approved and do not count."""
        broken = self.broken
        if len(broken) == 1 and not self.errors and lifted is None:  # the common case
            return broken[0][0].on_violation
        decisions = [source.on_violation for source, _ in broken if source.on_violation is not lifted]
        if self.errors:
            decisions.append(Decision.DENY)
        return decisions[0] if len(decisions) == 1 else max(decisions, default=Decision.ALLOW)
