"""Finds calls that `after` and `exists` require and that other rules never allow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from guardagent.policy.evaluation.terms import is_own, names_in
from guardagent.policy.evaluation.tool_sets import ANY
from guardagent.policy.language import ast
from guardagent.policy.language.printer import text_of
from guardagent.policy.lint.data_rules import analysis_of, is_over_data
from guardagent.policy.lint.descriptions import rules_of
from guardagent.policy.lint.finding import LintFinding
from guardagent.policy.lint.minimal_set import minimal_set
from guardagent.policy.lint.open_patterns import conjuncts, opened
from guardagent.policy.lint.target import LintTarget
from guardagent.policy.logic.analysis import PolicyAnalysis
from guardagent.policy.logic.rule_tree import RuleTree
from guardagent.policy.monitors.rule import Rule


def required_calls(target: LintTarget) -> Iterator[LintFinding]:
    """Yields a finding for each obligation that no allowed call can fulfil."""
    analysis = analysis_of(target)
    common = [rule for rule in target.blocking if is_over_data(rule)]
    for rule in common if analysis is not None else ():
        tree = RuleTree(rule.rules)
        for part in tree.atomic_rules if tree.is_conjunction else ():
            if isinstance(part.rule, ast.After | ast.Exists) and not part.negated:
                assert analysis is not None
                yield from _of_obligation(rule, part.rule, common, analysis, target)


def _of_obligation(
    rule: Rule, duty: ast.After | ast.Exists, rules: Sequence[Rule], analysis: PolicyAnalysis, target: LintTarget
) -> Iterator[LintFinding]:
    partner = duty.partner if isinstance(duty, ast.After) else duty.pattern
    needed = target.rule_of(rule, _fulfilling(duty))

    def never(some: Sequence[Rule]) -> bool:
        return all(analysis.is_never_allowed(tool, some, others=[needed]) for tool in needed.tools)

    trigger = None if isinstance(duty, ast.Exists) else _creating(duty, rule, target)
    if needed.tools and ANY not in partner.tools and never(rules) and not _is_idle(trigger, rules, analysis):
        least = [one for one in minimal_set(rules, never) if one is not rule]
        yield _finding(rule, partner, trigger, least, analysis)


def _is_idle(trigger: Rule | None, rules: Sequence[Rule], analysis: PolicyAnalysis) -> bool:
    """Whether no allowed call creates the obligation."""
    return trigger is not None and all(
        analysis.is_never_allowed(tool, rules, others=[trigger]) for tool in trigger.tools
    )


# --- the calls, as rules that only they satisfy


def _creating(duty: ast.After, rule: Rule, target: LintTarget) -> Rule:
    return target.rule_of(rule, opened(duty.pattern, [duty.condition]))


def _fulfilling(duty: ast.After | ast.Exists) -> ast.Forall:
    """Returns a rule that every call satisfies that fulfils the obligation.

    Of the conditions, it has those about arguments and the call that created it: others can change until the outcome.
    """
    if isinstance(duty, ast.Exists):
        return opened(duty.pattern, _settled(duty.condition, names_in(duty.pattern), duty.pattern.label))
    names = names_in(duty.partner) | names_in(duty.pattern)
    about = [*_settled(duty.condition, names_in(duty.pattern), duty.pattern.label)]
    wanted = _settled(duty.partner_condition, names | {duty.pattern.label or ""}, duty.partner.label)
    joint = [one for one in wanted if names_in(one) & ({duty.pattern.label} | names_in(duty.pattern))]
    some = ast.SomeCall(duty.pattern, ast.And((*about, *joint)), ok=True)
    return opened(duty.partner, [*(one for one in wanted if one not in joint), some])


def _settled(condition: ast.Term, names: set[str], label: str | None) -> list[ast.Term]:
    """The parts of a condition on a proposed call that hold or fail for good."""
    return [
        one for one in conjuncts(condition) if is_own(one, names | {label or ""}) and not _reads_outcome(one, label)
    ]


def _reads_outcome(term: ast.Term, label: str | None) -> bool:
    own = ast.Label(label or "")
    return any(
        (isinstance(one, ast.TimeOf) and one.call == own)
        or (isinstance(one, ast.OfCall) and one.call == own and one.what not in ("args", "tool"))
        for one in ast.walk(term)
    )


# --- the finding


def _finding(
    rule: Rule, partner: ast.Pattern, trigger: Rule | None, least: Sequence[Rule], analysis: PolicyAnalysis
) -> LintFinding:
    others = tuple(one.id for one in least)
    who = f"{rules_of(others)} " if others else "the rule itself "
    excludes = f"{who}exclude{'' if len(least) > 1 else 's'} every {text_of(partner)} that would do"
    if trigger is None:
        message = f"no conversation can end well: rule '{rule.id}' requires a call, but {excludes}"
        example = "no call at all, or any calls: a violation at the end"
        return LintFinding("contradictory", rule.id, None, message, example, others)
    tool = min(trigger.tools, default=ANY)
    message = f"after '{tool}' succeeded, nothing can meet the obligation of rule '{rule.id}': {excludes}"
    found = analysis.example(tool, satisfied=[trigger, *least])
    call = found.description if found else f"{tool}()"
    example = f"{call}: creates the obligation, which stays pending at the end, whatever follows"
    return LintFinding("contradictory", rule.id, tool, message, example, others)
