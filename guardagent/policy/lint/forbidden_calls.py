"""Rules that never decide, since other rules forbid every call that they judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from guardagent.policy.evaluation.tool_sets import ANY
from guardagent.policy.language import ast
from guardagent.policy.lint.data_rules import analysis_of, is_over_data
from guardagent.policy.lint.descriptions import join_words, rules_of
from guardagent.policy.lint.finding import LintFinding
from guardagent.policy.lint.implication import check_implication
from guardagent.policy.lint.minimal_set import minimal_set
from guardagent.policy.lint.scopes import is_within
from guardagent.policy.lint.steps import RuleAutomaton, SearchLimitError
from guardagent.policy.lint.target import LintTarget
from guardagent.policy.logic.rule_tree import AtomicRule, RuleTree
from guardagent.policy.monitors.rule import Rule
from guardagent.types import Decision


@lru_cache(4)
def rules_about_forbidden_calls(target: LintTarget) -> Mapping[str, LintFinding]:
    """Returns a finding for each such rule that is not a ban itself, by its id."""
    banned = {rule: tools for rule in target.denying if (tools := target.banned_by(rule))}
    found: dict[str, LintFinding] = {}
    for rule in target.rules:
        bans = [one for one, tools in banned.items() if _may_forbid(one, tools, rule)]
        if bans and _forbid_all(bans, rule, target) and not _is_ban(rule, target):
            least = minimal_set(bans, lambda some, rule=rule: _forbid_all(some, rule, target))  # type: ignore[misc]
            found[rule.id] = _finding(rule, least, target)
    return found


def _may_forbid(ban: Rule, tools: frozenset[str], rule: Rule) -> bool:
    return ban is not rule and bool(tools & rule.tools) and is_within(rule.source.applies_to, ban.source.applies_to)


def _forbid_all(bans: Sequence[Rule], rule: Rule, target: LintTarget) -> bool:
    """Whether bans forbid every call that a rule judges, or that obliges to another one."""
    tools = frozenset(tool for ban in bans for tool in target.banned_by(ban))
    if target.sources[rule.id].solver is not None:
        return rule.tools <= tools
    parts = RuleTree(rule.rules).atomic_rules
    if all(part.is_propositional for part in parts):
        return any(_implies(ban, rule, target) for ban in bans)
    return all(_decides_only_on(part, tools, target) for part in parts)


def _decides_only_on(part: AtomicRule, tools: frozenset[str], target: LintTarget) -> bool:
    match part.rule, part.negated:
        case (ast.Forall(pattern) | ast.Before(pattern) | ast.After(pattern), False) | (ast.Exists(pattern), True):
            sets = [target.tags[name[1:]] if name[0] == "@" else {name} for name in pattern.tools]
            return ANY not in pattern.tools and all(tools.issuperset(one) for one in sets)
    return False


def _implies(ban: Rule, rule: Rule, target: LintTarget) -> bool:
    """Whether a ban implies a rule about the order of steps that does not imply the ban."""
    one, other = (RuleAutomaton(each, target.tags, calls_may_fail=True) for each in (ban, rule))
    try:
        return (
            check_implication(other, one, target.tools, may_continue=False).implied
            and not check_implication(one, other, target.tools, may_continue=False).implied
        )
    except SearchLimitError:
        return False


def _is_ban(rule: Rule, target: LintTarget) -> bool:
    if rule.tools <= target.banned_by(rule):
        return True
    analysis = analysis_of(target) if is_over_data(rule) else None
    return analysis is not None and all(analysis.is_never_allowed(tool, [rule]) for tool in rule.tools)


# --- the finding


def _finding(rule: Rule, bans: Sequence[Rule], target: LintTarget) -> LintFinding:
    tools = sorted(tool for tool in rule.tools if any(tool in target.banned_by(one) for one in bans))
    ids = [one.id for one in bans]
    forbid, has = ("forbids", "has") if len(ids) == 1 else ("forbid", "have")
    message = (
        f"{rules_of(ids)} {forbid} every call of {join_words(map(repr, tools))}, so {_effect(rule)}; "
        f"one of the rules is wrong, or '{rule.id}' is an exception that {rules_of(ids)} {has} to name"
    )
    example = f"{_call(rule, tools[0], target)}, is denied by {rules_of(ids)}"
    return LintFinding("contradictory", rule.id, tools[0] if len(tools) == 1 else None, message, example, tuple(ids))


def _effect(rule: Rule) -> str:
    if rule.source.on_violation == Decision.ESCALATE:
        return f"no approval that rule '{rule.id}' asks for can help"
    eventual = any(isinstance(part, ast.After | ast.Temporal) for part in rule.rules)
    says = "what a call needs" if eventual else "when one is allowed"
    return f"rule '{rule.id}', which says {says}, never decides"


def _call(rule: Rule, tool: str, target: LintTarget) -> str:
    analysis = analysis_of(target) if is_over_data(rule) else None
    found = analysis.example(tool, satisfied=[rule]) if analysis is not None else None
    return f"{found.description}, allowed by rule '{rule.id}'" if found else f"{tool}(), whatever its arguments"
