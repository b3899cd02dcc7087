"""Whether a mutant means the same as its rule, as far as lint decides it."""

from __future__ import annotations

from dataclasses import replace

from guardagent.policy.file.rule_keys import RuleSource
from guardagent.policy.lint.redundant import redundant_data, redundant_solver, redundant_steps
from guardagent.policy.lint.steps import SearchLimitError
from guardagent.policy.lint.target import LintTarget
from guardagent.policy.mutants_pieces.mutant import Mutant, compiled
from guardagent.policy.policies import Policies

SECONDS = 0.5  # of CPU: a mutant that is not proved to be equivalent only asks for another case
_CHECKS = (redundant_steps, redundant_data, redundant_solver)


def is_equivalent(policies: Policies, source: RuleSource, mutant: Mutant) -> bool:
    """Whether it is proved that a mutant means the same as its rule.

    Args:
        policies: the policies with the rule.
        source: the rule as written.
        mutant: one of its mutants.
    """
    rules = (source, replace(mutant.source, id=f"{source.id} (mutant)"))
    both = compiled(policies, rules)
    assert both.source is not None, "they were compiled from a file"
    target = LintTarget(both.source, both.functions, both, seconds=SECONDS)
    try:
        return any(one.kind == "duplicate" for check in _CHECKS for one in check(target))
    except SearchLimitError:
        return False
