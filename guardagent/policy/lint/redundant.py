"""The lint checks of rules that change nothing: duplicate, shadowed and vacuous ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, combinations

from guardagent.policy.evaluation.monitor_interface import SessionCall
from guardagent.policy.evaluation.terms import is_true
from guardagent.policy.language import ast
from guardagent.policy.language.formula import atoms
from guardagent.policy.language.printer import text_of
from guardagent.policy.lint import solver, steps
from guardagent.policy.lint.data import (
    analysis_of,
    is_never_violated,
    is_over_data,
    rules_about_forbidden_calls,
    terms_of,
)
from guardagent.policy.lint.target import LintFinding, LintTarget, is_within, lint_check
from guardagent.policy.logic.analysis import PolicyAnalysis
from guardagent.policy.logic.semantics import RuleTree
from guardagent.policy.monitors.automaton import Automaton
from guardagent.policy.monitors.immediate import ForallMonitor
from guardagent.policy.monitors.propositional import PropositionalMonitor
from guardagent.policy.monitors.rule import Rule
from guardagent.policy.solver.monitor import SolverMonitor
from guardagent.policy.solver.z3_text import solver_module
from guardagent.types import Decision

_IMPLY = "whether rules imply others"

# --- duplicate and shadowed


@lint_check("redundant_data")
def redundant_data(target: LintTarget) -> Iterator[LintFinding]:
    """Duplicate and shadowed: a data rule that another one implies.

    Compares data rules, except vacuous ones and pairs that are about the order of steps only.
    """
    analysis = analysis_of(target)
    if analysis is None:
        return
    rules = [
        rule
        for rule in target.rules
        if is_over_data(rule) and not target.tells_others_apart(rule) and not is_never_violated(target, rule)
    ]
    exact = {rule for rule in rules if steps.RuleAutomaton(rule, target.tags).exact}
    looks_at = {rule: terms_of(rule) for rule in rules}
    reported = set(rules_about_forbidden_calls(target))
    for first, second in combinations(rules, 2):
        if (
            (first not in target.own and second not in target.own)
            or not _comparable(looks_at[first], looks_at[second])
            or (first in exact and second in exact)
            or reported & {first.id, second.id}
        ):
            continue
        forth, back = _shadows_data_rule(second, first, analysis), _shadows_data_rule(first, second, analysis)
        for finding in redundancy_findings(first, second, forth, back, lambda rule: _data_violation(rule, analysis)):
            reported.add(finding.policy or "")
            yield finding


def _comparable(read_names: frozenset[str], other: frozenset[str]) -> bool:
    """Whether one rule reads all that the other reads; otherwise an implication is too unlikely to check."""
    return read_names <= other or other <= read_names


def _shadows_data_rule(second: Rule, first: Rule, analysis: PolicyAnalysis) -> bool:
    """Whether the second rule makes the first one redundant."""
    severities = second.source.on_violation, first.source.on_violation
    return first.tools <= second.tools and covers(*severities) and analysis.implies(second, first)


def _data_violation(rule: Rule, analysis: PolicyAnalysis) -> ViolatingCalls | None:
    """Returns a call or an end that violates a rule."""
    examples = (analysis.example(tool, violated=[rule]) for tool in sorted(rule.tools))
    call = next(((example.description, example.tool) for example in examples if example is not None), None)
    return call or next((violating_end for read in rule.rules if (violating_end := _violating_end(read))), None)


def _violating_end(read: ast.Rule) -> ViolatingCalls | None:
    match read:
        case ast.Exists(pattern):
            return "no call at all before the end", pattern.tools[0].removeprefix("@")
        case ast.After(pattern, condition, partner):
            so = "" if is_true(condition) else f" so that {text_of(condition)}"
            return f"{text_of(pattern)}{so}, and no {text_of(partner)} after it", pattern.tools[0].removeprefix("@")
    return None


CasesByTool = Mapping[str, solver.SolverCase]  # by tool


@lint_check("redundant_solver")
def redundant_solver(target: LintTarget) -> Iterator[LintFinding]:
    """Duplicate and shadowed: a solver rule that another one implies, for every tool of the rule."""
    rules: dict[Rule, dict[str, solver.SolverCase]] = {}
    for case in solver.cases_of(target):
        rules.setdefault(case.rule, {})[case.tool] = case
    reported = set(rules_about_forbidden_calls(target))
    pairs = combinations(rules.items(), 2)
    for (first, first_cases), (second, other) in target.while_time(pairs, _IMPLY, lambda pair: pair[1][0].id):
        if reported & {first.id, second.id}:
            continue
        forth, back = (
            _shadows_solver_rule(second, other, first, first_cases),
            _shadows_solver_rule(first, first_cases, second, other),
        )
        for finding in redundancy_findings(first, second, forth, back, lambda rule: _solver_violation(rules[rule])):
            reported.add(finding.policy or "")
            yield finding


def _shadows_solver_rule(second: Rule, others: CasesByTool, first: Rule, ones: CasesByTool) -> bool:
    """Whether the second rule makes the first one redundant."""
    if not covers(second.source.on_violation, first.source.on_violation) or not ones.keys() <= others.keys():
        return False
    return all(_implied_case(ones[tool], others[tool]) for tool in ones)


def _implied_case(solver_case: solver.SolverCase, other: solver.SolverCase) -> bool:
    """Whether `one` permits every call that `other` permits, and requires no more known variables."""
    whole = solver.joint_solver_rules([solver_case, other])
    if whole is None or not whole.shares_all_variables(solver_case, other) or not _as_strict(other, solver_case):
        return False
    z3 = solver_module()
    open_ = whole.open_constants(solver_case)
    if open_ is None:
        return False
    permitted = z3.And(whole.permit_terms(solver_case))
    denied = z3.Not(z3.Exists(open_, permitted) if open_ else permitted)
    terms = [*whole.permit_terms(other), *whole.shared_equalities(solver_case, other), denied]
    return solver.check_terms(whole.context, terms)[0] == "unsat" and _denies(whole, solver_case)


def _denies(whole: solver.JointSolverRules, solver_case: solver.SolverCase) -> bool:
    """Whether a rule denies any call."""
    z3 = solver_module()
    open_, permitted = whole.open_constants(solver_case), z3.And(whole.permit_terms(solver_case))
    return solver.check_terms(whole.context, [z3.Not(z3.Exists(open_, permitted) if open_ else permitted)])[0] == "sat"


def _as_strict(other: solver.SolverCase, case: solver.SolverCase) -> bool:
    """Whether `other` treats unknown variables at least as strictly as `one`."""
    strict = {other.sources[name]: _strictness(other, name) for name in other.variable_terms if name in other.sources}
    return all(strict[case.sources[name]] >= _strictness(case, name) for name in case.variable_terms)


def _strictness(case: solver.SolverCase, name: str) -> int:
    variable = case.variables[name]
    return 0 if variable.free else 2 if variable.required else 1


def _solver_violation(cases: CasesByTool) -> ViolatingCalls | None:
    """Returns a call that a rule denies."""
    z3 = solver_module()
    for case in cases.values():
        open_ = [symbol() for symbol in case.open.values()]
        whole = z3.And([*case.assertions, case.permit])
        values = case.example([z3.Not(z3.Exists(open_, whole) if open_ else whole)])
        if values is not None:
            return case.describe(values), case.tool
    return None


@lint_check("redundant_steps")
def redundant_steps(target: LintTarget) -> Iterator[LintFinding]:
    """Duplicate and shadowed: a rule about the order of steps that another one implies."""
    steps.add_uncompared(target)
    automata = [steps.RuleAutomaton(rule, target.tags, calls_may_fail=True) for rule in target.rules]
    automata = [automaton for automaton in automata if any(track is not None for track in automaton.tracks)]
    reported = set(rules_about_forbidden_calls(target))
    own = {*target.own}
    for first, second in target.while_time(combinations(automata, 2), _IMPLY, lambda pair: pair[1].rule.id):
        shares = first.rule.tools & second.rule.tools or first.rule.labels & second.rule.labels
        if not shares or own.isdisjoint((first.rule, second.rule)):
            continue
        try:
            findings = [] if reported & {first.rule.id, second.rule.id} else list(_of_pair(first, second, target))
        except steps.SearchLimitError:
            question = f"whether rules '{first.rule.id}' and '{second.rule.id}' imply each other"
            target.add_undecided(question, "they have too many states")
            continue
        reported |= {finding.policy for finding in findings if finding.policy}
        yield from findings


def _of_pair(first: steps.RuleAutomaton, second: steps.RuleAutomaton, target: LintTarget) -> Iterator[LintFinding]:
    forth, back = _shadowing(first, second, target), _shadowing(second, first, target)
    by_rule = {first.rule: forth, second.rule: back}
    return redundancy_findings(first.rule, second.rule, forth, back, lambda rule: _steps_violation(by_rule[rule]))


def _shadowing(
    first: steps.RuleAutomaton, second: steps.RuleAutomaton, target: LintTarget
) -> steps.ImplicationResult | None:
    """Returns the implication that makes the first rule redundant, or None."""
    severity = second.rule.source.on_violation
    if not first.exact or not covers(severity, first.rule.source.on_violation):
        return None
    implication_result = steps.check_implication(first, second, target.tools, may_continue=allows_continuing(severity))
    return implication_result if implication_result.implied and implication_result.example is not None else None


def _steps_violation(result: steps.ImplicationResult | None) -> ViolatingCalls | None:
    if result is None or result.example is None:
        return None
    return steps.calls_of(result.example), result.example[-1].call.tool if result.example else None


# --- the findings for two rules

ViolatingCalls = tuple[str, str | None]  # a description of calls, and the tool of the violating call


def redundancy_findings(
    first: Rule,
    second: Rule,
    first_redundant: object,
    second_redundant: object,
    violating_calls: Callable[[Rule], ViolatingCalls | None],
) -> Iterator[LintFinding]:
    """Yields a finding if the rules are duplicates or one shadows the other.

    Args:
        first: the first rule.
        second: a later rule.
        first_redundant: whether the second rule makes the first one redundant.
        second_redundant: whether the first rule makes the second one redundant.
        violating_calls: returns calls that violate a rule, or None if there are none.
    """
    first_redundant = bool(first_redundant) and _judges_all(second, first)
    second_redundant = bool(second_redundant) and _judges_all(first, second)
    if not first_redundant and not second_redundant:
        return
    loser, winner = (second, first) if second_redundant else (first, second)
    stages = {loser.source.escalate_to, winner.source.escalate_to}
    if loser.source.on_violation is winner.source.on_violation and len(stages) > 1:
        return  # each asks other people
    losing_calls = violating_calls(loser)
    if losing_calls is None:
        return
    example, tool = losing_calls
    if first_redundant and second_redundant:
        message = f"rule '{loser.id}' is equivalent to rule '{winner.id}'; remove one of them"
        yield LintFinding("duplicate", loser.id, tool, message, f"{example}: violates both", (winner.id,))
        return
    is_pointless = (loser.source.on_violation, winner.source.on_violation) == (Decision.ESCALATE, Decision.DENY)
    message = (
        f"no approval that rule '{loser.id}' asks for can help: every violation of it also violates rule "
        f"'{winner.id}', which blocks; let '{winner.id}' escalate too, or forbid more in '{loser.id}'"
        if is_pointless
        else f"rule '{loser.id}' has no effect: every violation of it also violates rule '{winner.id}', which is as "
        "severe; remove it, or forbid more in it"
    )
    kind = "contradictory" if is_pointless else "shadowed"
    shown = f"{example}: violates '{loser.id}' and '{winner.id}'"
    yield LintFinding(kind, loser.id, tool, message, shown, (winner.id,))


def _judges_all(wider: Rule, rule: Rule) -> bool:
    """Whether a rule judges every call that another one judges.

    A rule about several calls sees only those in its own scope.
    """
    scope, other = rule.source.applies_to, wider.source.applies_to
    return scope == other or (is_within(scope, other) and _is_immediate(rule) and _is_immediate(wider))


def _is_immediate(rule: Rule) -> bool:
    """Whether a rule judges each proposed call by itself."""
    return all(isinstance(monitor, SolverMonitor | ForallMonitor) for monitor in rule.monitors)


def covers(second: Decision, first: Decision) -> bool:
    """Whether a violation with the second severity makes one with the first severity irrelevant.

    A blocking rule is relevant next to an escalating one, since an approval lifts the escalation only. So beside a
    blocking rule, an escalation is irrelevant.
    """
    if {first, second} == {Decision.DENY, Decision.ESCALATE}:
        return second == Decision.DENY
    return second >= first


def allows_continuing(second: Decision) -> bool:
    """Whether a call may run although it violates a rule of this severity."""
    return second in (Decision.WARN, Decision.ESCALATE)


# --- vacuous


@lint_check("vacuous_data")
def vacuous_data(target: LintTarget) -> Iterator[LintFinding]:
    """Vacuous: a data rule, or one of its formulas, that nothing violates.

    Skips `forall(t(), true)`, which lists a tool on purpose.
    """
    analysis = analysis_of(target)
    for rule in target.own if analysis is not None else ():
        assert analysis is not None
        for at, read in enumerate(rule.rules if not target.tells_others_apart(rule) else ()):
            single_rule = rule if len(rule.rules) == 1 else target.rule_of(rule, read)
            meant = isinstance(read, ast.Forall) and is_true(read.condition)
            if is_over_data(single_rule) and single_rule.tools and not meant and is_never_violated(target, single_rule):
                yield _inviolable(single_rule, _statement(rule, at, target), analysis)


def _inviolable(rule: Rule, text: str, analysis: PolicyAnalysis) -> LintFinding:
    tool = min(rule.tools)
    message = (
        f"nothing violates '{text}': every call satisfies it, or no call matches it; "
        "change it so that it forbids something"
    )
    tool_example = analysis.example(tool, satisfied=[rule])
    example = f"{tool_example.description if tool_example else f'{tool}()'}: allowed, whatever the other values"
    return LintFinding("vacuous", rule.id, tool if len(rule.tools) == 1 else None, message, example)


@lint_check("vacuous_solver")
def vacuous_solver(target: LintTarget) -> Iterator[LintFinding]:
    """Vacuous: a solver rule that permits every call of a tool.

    Skips a permit that is literally `true`: the call then needs only the required variables. Permits that depend on
    open symbols are under-constrained instead.
    """
    z3 = solver_module() if any(source.solver for source in target.file.rules) else None
    for case in solver.timed_cases(target, "whether solver rules ever deny"):
        if case.has_literal_permit or not case.is_determined:
            continue
        assert z3 is not None
        open_ = [symbol() for symbol in case.open.values() if not symbol.arity()]
        whole = z3.And([*case.assertions, case.permit])
        status, _ = case.check([z3.Not(z3.Exists(open_, whole) if open_ else whole)])
        if status == "unknown":
            target.add_undecided(f"whether rule '{case.rule.id}' ever denies '{case.tool}'", "Z3 reached no result")
        values = case.example([whole]) if status == "unsat" else None
        if values is not None:
            message = f"rule '{case.rule.id}' permits every call of '{case.tool}', whatever the values of its variables"
            message += "; change it so that it denies something, or write 'permit: true'"
            example = f"{case.describe(values)}: permitted, as with any other values"
            yield LintFinding("vacuous", case.rule.id, case.tool, message, example)


@lint_check("vacuous_steps")
def vacuous_steps(target: LintTarget) -> Iterator[LintFinding]:
    """Vacuous: a rule about the order of steps that no conversation violates, or that is decided by the first step."""
    for rule in target.rules:
        for at, (read, part) in enumerate(zip(RuleTree(rule.rules).atomic_rules, rule.monitors, strict=True)):
            if isinstance(read.rule, ast.Temporal) and isinstance(part, PropositionalMonitor):
                yield from _vacuous_part(rule, part, atoms(read.rule.formula), _statement(rule, at, target), target)


def _vacuous_part(
    rule: Rule, part: PropositionalMonitor, names: Sequence[str], text: str, target: LintTarget
) -> Iterator[LintFinding]:
    automaton = part.automaton
    if not _can_deny(automaton):
        tool = min(part.tools, default=None)
        shown = tool or "another_tool"
        message = f"no sequence of successful calls violates '{text}'; remove it, or forbid something in it"
        yield LintFinding("vacuous", rule.id, tool, message, f"{shown}() as the first call, or again: always allowed")
        return
    first = automaton.table[0][steps.SILENT]
    if automaton.satisfied[first]:
        call = _unsatisfying_call(part, names)
        message = (
            f"'{text}' applies to the first step only, since the formula does not begin with 'G'; "
            f"did you mean 'G({text})'?"
        )
        other = next((tool for tool in target.tools if tool not in part.tools), "another_tool")
        example = f"{other}(), then {steps.call_of(call)}: allowed, since the first call was {other}()"
        tool = call.tool if call.tool in part.tools else None
        yield LintFinding("vacuous", rule.id, tool, message, example)


def _can_deny(automaton: Automaton) -> bool:
    """Whether successful calls or the end can violate it. A failed call never satisfies a rule."""
    reached, waiting = {0}, [0]
    while waiting:
        new = {after for at, after in enumerate(automaton.table[waiting.pop()]) if at % 2} - reached
        reached |= new
        waiting += new
    return not all(automaton.accepting[state] for state in reached)


def _unsatisfying_call(part: PropositionalMonitor, names: Sequence[str]) -> SessionCall:
    """Returns a call that does not satisfy the rule as the first step."""
    automaton, alphabet = part.automaton, part.alphabet
    calls = steps.calls_of_kinds(set(names), [*sorted(part.tools), "another_tool"])
    calls = chain(calls, part.candidates)
    letters = ((call, alphabet.possible(call, ok=True)) for call in calls)
    kept = (call for call, own in letters if not any(automaton.satisfied[automaton.table[0][at]] for at in own))
    return next(kept, part.candidates[-1])


def _statement(rule: Rule, at: int, target: LintTarget) -> str:
    """Returns the text of one atomic rule, or of the whole rule if they share a text."""
    texts = target.sources[rule.id].statements
    text = texts[at].text if len(texts) == len(RuleTree(rule.rules).atomic_rules) else rule.source.text
    return " ".join(text.split())
