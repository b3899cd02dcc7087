"""Checks the rules of a policy on a graph, before the agent runs, and proves them for sessions to rely on.

A propositional rule is proved or violated on the graph. For a rule over data, the check uses the tool order that the
rule implies: a path that violates this order violates the rule, and a session checks the rest at run time. Nothing is
proved about tools if some node may call tools that cannot be seen.

Each rule has a result for the graph as drawn, and one for every run, however a host drives the graph; a session relies
only on proofs for every run. In one session a host can invoke a graph repeatedly, resume it at any node, retry a node,
run it again after an interrupt and send several inputs at once. A model can propose several calls in one message, and a
call can be denied or fail. The sequence of calls can therefore be any word over the tools of the graph, including the
empty word. A rule holds for every run if its automaton is in an accepting state after every such word. A proof needs a
complete graph, in which nothing is a guess, widened, hidden or suppressed.

The tool order of a rule approximates it by formulas that need no data. A rule may depend on arguments, outputs, facts
and state, and on actions, decisions and tags that a host sets at run time. Two formulas over tools alone bound it: a
necessary condition, which the rule implies, and a sufficient condition, which implies the rule. They are equal if the
rule depends only on tools.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from guardagent.policy.evaluation.monitor_interface import SessionCall
from guardagent.policy.language import ANSWER, ast
from guardagent.policy.language import formula as f
from guardagent.policy.language.parser import step_pattern
from guardagent.policy.monitors.propositional import PropositionalMonitor
from guardagent.policy.monitors.rule import Rule
from guardagent.policy.policies import Policies
from guardagent.session.snapshot import Proofs, digest_of
from guardagent.types import Decision
from guardagent.workflow.analysis.checks import apply_suppressions, structural_findings
from guardagent.workflow.analysis.interleaving import Forks, InterleavedProduct, TooManyConfigurationsError
from guardagent.workflow.analysis.product import GraphProduct, NumberedGraph, PathViolation
from guardagent.workflow.analysis.report import EveryRunResult, GraphFinding, RuleResult, RunCall
from guardagent.workflow.model.graph import Graph, Node, unknown_tools

Sets = Mapping[str, frozenset[str]]
_SHOWN = 3  # nodes in a message
_ANSWERS = "it speaks of the final answer, which is not a step of the graph; it is checked at run time"
_TOO_MANY = "its parallel branches can run in too many orders to look at all of them; it is checked at run time"
_GUARDED = "a path violates it, unless the guard that judges every call of the graph has this rule"
_MESSAGES = {
    "bad_prefix": "this path violates it",
    "unmet_at_end": "the path ends with a pending obligation",
    "postponed_by_cycle": "a cycle can postpone the obligation forever",
}


def rule_results(graph: Graph, policies: Policies, findings: Iterable[GraphFinding] = ()) -> Iterator[RuleResult]:
    """Yields a result for each rule of a policy; `findings` are the structural findings, with suppressions."""
    drawn, runs = NumberedGraph(graph), PossibleCalls.of(graph, policies, findings)
    unseen = [
        "unknown parts of the graph" if node.kind == "entry" else repr(node.id)
        for node in graph.nodes
        if unknown_tools(node)
    ]
    uncertain = NumberedGraph(graph, unknown_calls=True) if unseen else None
    forks = Forks.of(graph)
    guarded = not unseen and all(node.metadata.get("guarded") for node in graph.nodes if node.tools)
    for rule in policies.rules:
        if ANSWER in rule.mentioned_tools:
            yield RuleResult(rule.id, "undecidable", message=_ANSWERS, every_run=EveryRunResult(message=_ANSWERS))
            continue
        try:
            rule_result = _result_as_drawn(drawn, uncertain, forks, rule, policies.tags, unseen)
        except TooManyConfigurationsError:
            rule_result = RuleResult(rule.id, "undecidable", message=_TOO_MANY)
        by_a_call = rule_result.mechanism == "bad_prefix" and any(rule_result.emitted)
        if guarded and by_a_call and rule.source.on_violation > Decision.WARN:
            rule_result = RuleResult(rule.id, "undecidable", message=_GUARDED)
        run_result = every_run(runs, rule, policies.tags)
        if rule_result.message == _TOO_MANY and run_result.status == "proved":
            rule_result = RuleResult(rule.id, "proved", message="it holds whatever the order of the calls")
        yield replace(rule_result, every_run=run_result)
    for source, _ in policies.requests:
        why = "a rule in natural language or in Cedar is checked at run time"
        yield RuleResult(source.id, "undecidable", message=why, every_run=EveryRunResult(message=why))


def _result_as_drawn(
    graph: NumberedGraph, uncertain: NumberedGraph | None, forks: Forks, rule: Rule, sets: Sets, unseen: list[str]
) -> RuleResult:
    order = order_of(ast.AllOf(rule.rules))
    needed = automaton_of(rule, order.necessary, sets)
    violation = _violation(graph, forks, needed)
    shown = f"{', '.join(unseen[:_SHOWN])}{' and others' if len(unseen) > _SHOWN else ''}"
    if violation is not None and uncertain is not None:
        violation = _violation(uncertain, forks, needed)
        if violation is None:
            message = f"whether a path violates it depends on {shown}, which may call tools that cannot be seen"
            return RuleResult(rule.id, "undecidable", message=message)
    if violation is not None:
        return _violated_on_path(rule.id, violation)
    enough = needed if order.sufficient == order.necessary else automaton_of(rule, order.sufficient, sets)
    if enough is not needed and _violation(graph, forks, enough) is not None:
        says_nothing = needed.automaton.satisfied[0]
        return RuleResult(rule.id, "undecidable", message=_undecidable_message(rule, says_nothing=says_nothing))
    if unseen and not enough.automaton.satisfied[0]:
        message = f"it holds on every visible path, but {shown} may call tools that cannot be seen"
        return RuleResult(rule.id, "undecidable", message=message)
    return RuleResult(rule.id, "proved", message="it holds on every path")


def _violation(graph: NumberedGraph, forks: Forks, rule: PropositionalMonitor) -> PathViolation | None:
    product = GraphProduct(graph, rule)
    return InterleavedProduct(graph, forks, product).violation() if forks.are_there else product.violation()


def _undecidable_message(rule: Rule, *, says_nothing: bool) -> str:
    names = ", ".join(sorted(rule.labels))
    subject = f"it depends on {names}, which the host sets at run time" if names else "it depends on data"
    order = "" if says_nothing else "; the tool order that it implies holds on every path"
    return f"{subject}{order}; the rest is checked at run time"


def _violated_on_path(rule_id: str, violation: PathViolation) -> RuleResult:
    return RuleResult(
        rule_id,
        "violated",
        violation.mechanism,
        violation.witness,
        violation.cycle,
        _MESSAGES[violation.mechanism],
        violation.emitted,
    )


def prove(graph: Graph, policies: Policies) -> Proofs:
    """Returns the rules that are proved for every run of a graph."""
    runs = PossibleCalls.of(graph, policies, apply_suppressions(graph, structural_findings(graph)))
    proved = [rule.id for rule in policies.rules if every_run(runs, rule, policies.tags).status == "proved"]
    return Proofs(digest_of(graph, policies), frozenset(proved), runs.obstacle)


@dataclass(frozen=True, slots=True)
class PossibleCalls:
    """The tools that a graph can call in a session.

    Attributes:
        tools: every tool of the nodes.
        obstacle: the reason why the list may be wrong or incomplete; empty if there is none.
    """

    tools: tuple[str, ...]
    obstacle: str = ""

    @classmethod
    def of(cls, graph: Graph, policies: Policies, findings: Iterable[GraphFinding]) -> PossibleCalls:
        """Returns the calls of a graph; `findings` are its structural findings, with suppressions."""
        several = {node.tools for node in graph.nodes}
        tools = tuple(sorted({tool for tools in several for tool in tools}))
        return cls(tools, _obstacle(graph, policies, findings))


def every_run(possible: PossibleCalls, rule: Rule, sets: Sets) -> EveryRunResult:
    """Returns the result of a rule for every run."""
    order = order_of(ast.AllOf(rule.rules))
    if broken := _violating_word(possible.tools, automaton_of(rule, order.necessary, sets)):
        return broken
    if possible.obstacle:
        return EveryRunResult("undecidable", message=possible.obstacle)
    if order.sufficient != order.necessary and _violating_word(
        possible.tools, automaton_of(rule, order.sufficient, sets)
    ):
        return EveryRunResult("undecidable", message="it depends on more than the order of the tools")
    return EveryRunResult("proved", message="no run can violate it, however often and wherever the graph is entered")


def automaton_of(rule: Rule, formula: f.Formula, sets: Sets) -> PropositionalMonitor:
    """Returns the automaton of a formula, from the rule itself if the rule is only this formula."""
    if rule.rules == (ast.Temporal(formula),) and isinstance(rule.monitors[0], PropositionalMonitor):
        return rule.monitors[0]
    return PropositionalMonitor(
        formula, {atom[1:]: sets[atom[1:]] for atom in f.atoms(formula) if atom.startswith("@")}
    )


def _violating_word(tools: Iterable[str], rule: PropositionalMonitor) -> EveryRunResult | None:
    """Returns a shortest word that violates a rule, with successful calls if possible."""
    automaton, letters = rule.automaton, dict[int, RunCall]()
    for failed in (False, True):
        for tool in tools:
            letters.setdefault(rule.alphabet.index(SessionCall(tool, {}), ok=not failed), RunCall(tool, failed))
    words: dict[int, tuple[RunCall, ...]] = {0: ()}
    for state in (waiting := [0]):  # grows during the loop
        if not automaton.accepting[state]:
            why = "violates it" if automaton.violated[state] else "leaves an obligation pending, and may be the end"
            shown = ", then ".join(map(str, words[state])) or "a run without calls"
            return EveryRunResult("violated", words[state], f"{shown}: {why}; it must be checked at run time")
        for letter, call in letters.items():
            if (target := automaton.table[state][letter]) not in words:
                words[target] = (*words[state], call)
                waiting.append(target)
    return None


def _obstacle(graph: Graph, policies: Policies, findings: Iterable[GraphFinding]) -> str:
    if unsure := [node.id for node in graph.nodes if _is_uncertain(node)]:
        more = f" and {len(unsure) - _SHOWN} more" if len(unsure) > _SHOWN else ""
        return f"parts of the graph are unknown: {', '.join(map(repr, unsure[:_SHOWN]))}{more}"
    if outer := sorted(tool for node in graph.nodes for tool in node.tools if tool in policies.dispatch):
        return f"{outer[0]!r} calls tools that the graph does not show"
    if graph.notes:
        return f"parts of the graph are unknown: {'; '.join(graph.notes[:_SHOWN])}"
    if policies.ignored or any(finding.suppressed or finding.check == "suppressions" for finding in findings):
        return "findings of the graph are suppressed"
    return ""


def _is_uncertain(node: Node) -> bool:
    metadata = node.metadata
    if metadata and (metadata.get("widened") or metadata.get("guess") or unknown_tools(node)):
        return True
    return node.kind == "tool" and not node.tools


@dataclass(frozen=True, slots=True)
class ToolOrder:
    """The tool order of a rule, or the calls that match a pattern.

    Attributes:
        necessary: implied by the rule; a path that violates it violates the rule. No other call can match.
        sufficient: implies the rule. Each such call matches.
    """

    necessary: f.Formula
    sufficient: f.Formula

    @property
    def negation(self) -> ToolOrder:
        return ToolOrder(f.negation(self.sufficient), f.negation(self.necessary))


def order_of(rule: ast.Rule, *, negated: bool = False) -> ToolOrder:
    """Returns the tool order of a rule or of its negation, for runs whose calls all succeed."""
    match rule:
        case ast.Not(body):
            return order_of(body, negated=not negated)
        case ast.AllOf(parts) | ast.AnyOf(parts):
            combined = f.all_of if isinstance(rule, ast.AllOf) is not negated else f.any_of
            orders = [order_of(part, negated=negated) for part in parts]
            return ToolOrder(
                combined(order.necessary for order in orders), combined(order.sufficient for order in orders)
            )
        case ast.Temporal(formula):
            wanted = f.negation(formula) if negated else formula
            return ToolOrder(_without_labels(wanted, f.TRUE), _without_labels(wanted, f.FALSE))
    return _order_of_data(rule, negated=negated)


def _without_labels(formula: f.Formula, value: f.Formula) -> f.Formula:
    """Replaces the atoms about actions, decisions and tags in a formula by `value`."""
    match formula:
        case f.Literal(name, positive):
            if (step := step_pattern(name)) is not None and positive is (value == f.TRUE):  # it is a call of its tool
                return f.call_of(step.tools) if positive else f.negation(f.call_of(step.tools))
            return formula if name.startswith(("tool:", "@")) else value
        case f.Conjunction(parts):
            return f.all_of(_without_labels(part, value) for part in parts)
        case f.Disjunction(parts):
            return f.any_of(_without_labels(part, value) for part in parts)
        case f.Next(body) | f.Previous(body) | f.Within(_, body):
            return replace(formula, body=_without_labels(body, value))
        case f.Until(left, right) | f.Release(left, right) | f.Since(left, right) | f.TriggerFormula(left, right):
            first, second = _without_labels(left, value), _without_labels(right, value)
            always = second == f.TRUE and isinstance(formula, f.Release | f.TriggerFormula)
            return f.TRUE if always else replace(formula, left=first, right=second)
    return formula


def _order_of_data(rule: ast.Rule, *, negated: bool) -> ToolOrder:
    match rule:
        case ast.Forall(pattern, condition):
            wrong = (_past if negated else _proposed)(pattern, condition, value=False)
            return _finally(wrong) if negated else _never(wrong)
        case ast.Exists(pattern, condition):
            wanted = (_proposed if negated else _past)(pattern, condition)
            return _never(wanted) if negated else _finally(wanted)
        case ast.Before(pattern, condition, partner, partner_condition):
            call, wanted = (_past if negated else _proposed)(pattern, condition), _past(partner, partner_condition)
            order = _implied(call, wanted, lambda past: f.Previous(f.once(past)))
            return order.negation if negated else order
        case ast.After(pattern, condition, partner, partner_condition):
            call, wanted = _proposed(pattern, condition), _past(partner, partner_condition)
            order = _implied(call, wanted, lambda later: f.Next(f.finally_(later)))
            if negated:
                return order.negation
            return order if call.sufficient == call.necessary else replace(order, sufficient=_never(call).sufficient)
        case ast.SolverRule(tools) if not negated:
            return ToolOrder(f.TRUE, _always(f.negation(f.call_of(tools))))
    raise AssertionError(rule)


def _proposed(pattern: ast.Pattern, condition: ast.Term, *, value: bool = True) -> ToolOrder:
    """Proposed calls that match and whose condition has `value`; a call that lacks arguments can match."""
    return _calls(pattern, condition, value=value, always=_is_any(pattern))


def _past(pattern: ast.Pattern, condition: ast.Term, *, value: bool = True) -> ToolOrder:
    """Past calls that match and whose condition has `value`; a call that lacks an argument does not match."""
    return _calls(pattern, condition, value=value, always=not pattern.arguments)


def _calls(pattern: ast.Pattern, condition: ast.Term, *, value: bool, always: bool) -> ToolOrder:
    """Calls by their tools alone: those that match with any arguments, outputs and facts are sufficient."""
    tools = f.call_of(pattern.tools)
    if not (isinstance(condition, ast.Constant) and isinstance(condition.value, bool)):
        return ToolOrder(tools, f.FALSE)
    if condition.value is not value:
        return ToolOrder(f.FALSE, f.FALSE)
    return ToolOrder(tools, tools if always else f.FALSE)


def _never(call: ToolOrder) -> ToolOrder:
    return ToolOrder(_always(f.negation(call.sufficient)), _always(f.negation(call.necessary)))


def _finally(call: ToolOrder) -> ToolOrder:
    return ToolOrder(f.finally_(call.necessary), f.finally_(call.sufficient))


def _implied(call: ToolOrder, wanted: ToolOrder, place: Callable[[f.Formula], f.Formula]) -> ToolOrder:
    """Each call implies a wanted one at a place."""
    return ToolOrder(
        _always(f.implies(call.sufficient, place(wanted.necessary))),
        _always(f.implies(call.necessary, place(wanted.sufficient))),
    )


def _always(body: f.Formula) -> f.Formula:
    return f.TRUE if body == f.TRUE else f.globally(body)


def _is_any(pattern: ast.Pattern) -> bool:
    """Whether a pattern matches every proposed call of its tools."""
    values = [argument.value for argument in pattern.arguments]
    names = [value.name for value in values if isinstance(value, ast.Variable)]
    return all(isinstance(value, ast.Variable | ast.AnyValue) for value in values) and len(set(names)) == len(names)
