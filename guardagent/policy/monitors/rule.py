"""A compiled rule: its monitors, combined by AND, OR and NOT."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from guardagent.policy.evaluation.history_index import AnyTool, union_of
from guardagent.policy.evaluation.monitor_interface import Monitor, MonitorResult, RuleContext
from guardagent.policy.evaluation.operands import CompileError, Library
from guardagent.policy.evaluation.terms import Compiler, is_true
from guardagent.policy.language import ast
from guardagent.policy.language.formula import atoms, negation
from guardagent.policy.language.parser import CALL, step_pattern
from guardagent.policy.language.values import Truth, Unknown, conjunction, disjunction
from guardagent.policy.monitors.eventual import ExistsMonitor, ResponseMonitor
from guardagent.policy.monitors.immediate import ForallMonitor
from guardagent.policy.monitors.propositional import PropositionalMonitor
from guardagent.policy.scope import ApprovalScope, EscalationStage, Scope
from guardagent.types import Decision

Tree = int | tuple[str, tuple["Tree", ...]]  # the number of a monitor, or "all" or "any" of trees


@dataclass(frozen=True, eq=False)
class RuleMetadata:
    """The id, text, message, response and remedy of a rule, as its author wrote them.

    `location` is its file and line, for messages about it. `in_pack`: the rule is one of a shipped pack, whose message
    and remedy are complete: its condition tells nobody more. `on_trial`: where it cannot be checked, it only warns.
    `approval_scope`: what a reviewer may grant; None for one call. `halts_tool`: a violation also stops the tool.
    """

    id: str
    text: str = ""
    message: str | None = None
    on_violation: Decision = Decision.DENY
    remedy: str | None = None
    location: str = ""
    applies_to: Scope | None = None
    in_pack: bool = False
    on_trial: bool = False
    approval_scope: ApprovalScope | None = None
    escalate_to: tuple[EscalationStage, ...] = ()
    halts_tool: bool = False

    def covers(self, principal: Mapping[str, Any] | None, agent: str | None) -> bool:
        """Whether the rule judges a call; it does if the principal or the agent is unknown."""
        return self.applies_to is None or self.applies_to.covers(principal, agent)

    def permits(self, principal: Mapping[str, Any] | None, agent: str | None) -> bool:
        """Whether the policy lists its tools for calls of this principal and agent; see `Scope.permits`."""
        return self.applies_to is None or self.applies_to.permits(principal, agent)

    @cached_property
    def message_line(self) -> str:
        """The author's message on one line."""
        return " ".join((self.message or "").split())

    @cached_property
    def default_message(self) -> str:
        """The message for a rule without an author's message."""
        return f"the rule is: {' '.join(self.text.split())}"


class Rule:
    """A rule of a policy.

    Attributes:
        source: its id, text and messages.
        rules: the syntax trees of its formulas, all of which must hold.
        monitors: its monitors.
        first_monitor: the number of its first monitor among those of all rules.
        simple: whether all monitors must be satisfied; an earlier violation then does not affect the next call.
        patterns: the patterns of calls in its formulas.
        tools: the tools that it refers to.
        named_tools: the same, without a pattern that matches any tool.
        mentioned_tools: the tools that it names, also those of earlier and later calls.
        labels: the actions, decisions and tags that it refers to.
    """

    def __init__(self, source: RuleMetadata, rules: Sequence[ast.Rule], library: Library, first: int = 0) -> None:
        self.source = source
        self.rules = tuple(rules)
        self.first_monitor = first
        self.monitors: list[Monitor] = []
        builder = _Builder(library, self.monitors)
        trees = tuple(builder.tree(rule, negated=False) for rule in rules)
        self._tree: Tree = trees[0] if len(trees) == 1 else ("all", trees)
        self.simple = _is_simple(self._tree)
        for monitor in self.monitors:
            monitor.stateful = monitor.stateful or not self.simple
        self.tools = union_of(part.tools for part in self.monitors)
        self.named_tools = union_of(part.tools for part in self.monitors if not isinstance(part.tools, AnyTool))
        self.patterns = tuple(node for rule in rules for node in ast.walk(rule) if isinstance(node, ast.Pattern))
        sets = [*(part.tools for part in self.monitors), *map(library.tools_of, self.patterns)]
        self.mentioned_tools = union_of(tools for tools in sets if not isinstance(tools, AnyTool))
        self.labels = frozenset(name for rule in rules for name in labels_of(rule))

    @property
    def id(self) -> str:
        return self.source.id

    def combined_result(self, results: Mapping[int, MonitorResult], memory: Mapping[int, Any]) -> MonitorResult | None:
        """The result of the rule for a call, or None if it is satisfied.

        Args:
            results: the results of its unsatisfied monitors, by number.
            memory: the memory of all monitors.
        """
        if len(self.monitors) == 1:
            return results.get(self.first_monitor)
        numbers = range(self.first_monitor, self.first_monitor + len(self.monitors))
        wrong = [results[number] for number in numbers if number in results]
        if not wrong:
            return None
        if self.simple:
            return _worst(wrong)
        values: list[Truth] = [
            conjunction((monitor.satisfiable(memory[number]), results[number].value if number in results else True))
            for number, monitor in zip(numbers, self.monitors, strict=True)
        ]
        return _tree_result(self._tree, values, wrong)

    def status(self, memory: Mapping[int, Any]) -> str:
        """`satisfied` for good, `violated` for good, or `open`."""
        numbered = list(enumerate(self.monitors, self.first_monitor))
        kept: list[Truth] = [monitor.satisfied(memory[at]) or Unknown() for at, monitor in numbered]
        if _value(self._tree, kept) is True:
            return "satisfied"
        return (
            "violated"
            if _value(self._tree, [part.satisfiable(memory[at]) for at, part in numbered]) is False
            else "open"
        )

    def ended(self, context: RuleContext, memory: Mapping[int, Any], *, already_reported: bool) -> MonitorResult | None:
        """The result at the end of the conversation, or None. `already_reported`: a violation was reported."""
        results = [monitor.ended(context, memory[at]) for at, monitor in enumerate(self.monitors, self.first_monitor)]
        wrong = [result for result in results if result is not None]
        if not wrong or (already_reported and not self.simple):
            return None
        if self.simple:
            return _worst(wrong)
        values = [
            conjunction((part.satisfiable(memory[at]), _value_of(result)))
            for at, (part, result) in enumerate(zip(self.monitors, results, strict=True), self.first_monitor)
        ]
        return _tree_result(self._tree, values, wrong)


def _value_of(result: MonitorResult | None) -> Truth:
    return True if result is None else result.value


def _worst(results: Sequence[MonitorResult]) -> MonitorResult:
    """Merges the known violations, if any; otherwise the unknown results."""
    known = [monitor_result for monitor_result in results if monitor_result.value is False]
    if len(known) == 1:
        return known[0]
    if known:
        return MonitorResult.merged(False, known, " and ")  # noqa: FBT003 - a value
    return MonitorResult(conjunction(monitor_result.value for monitor_result in results))


def _tree_result(tree: Tree, values: Sequence[Truth], wrong: Sequence[MonitorResult]) -> MonitorResult | None:
    value = _value(tree, values)
    if value is True:
        return None
    for monitor_result in wrong:  # without it, an earlier violation might not have been found again
        if isinstance(monitor_result.value, Unknown) and monitor_result.value.unrecorded:
            return monitor_result
    known = [result for result in wrong if result.value is False]
    return MonitorResult.merged(value, known, " or " if isinstance(tree, tuple) and tree[0] == "any" else " and ")


def _value(tree: Tree, values: Sequence[Truth]) -> Truth:
    if isinstance(tree, int):
        return values[tree]
    kind, trees = tree
    fold: Callable[..., Truth] = conjunction if kind == "all" else disjunction
    return fold(_value(tree, values) for tree in trees)


def _is_simple(tree: Tree) -> bool:
    return isinstance(tree, int) or (tree[0] == "all" and all(map(_is_simple, tree[1])))


class _Builder:
    """Builds the monitors of a rule. NOT is pushed down to them."""

    def __init__(self, library: Library, monitors: list[Monitor]) -> None:
        self._library, self._monitors = library, monitors

    def tree(self, rule: ast.Rule, *, negated: bool) -> Tree:
        match rule:
            case ast.AllOf(parts):
                return "any" if negated else "all", tuple(self.tree(part, negated=negated) for part in parts)
            case ast.AnyOf(parts):
                return "all" if negated else "any", tuple(self.tree(part, negated=negated) for part in parts)
            case ast.Not(body):
                return self.tree(body, negated=not negated)
        if isinstance(rule, ast.After) or isinstance(rule, ast.Exists) is not negated:
            _require_none_pending(rule)
        self._monitors.append(self._monitor(rule, negated=negated))
        return len(self._monitors) - 1

    def _monitor(self, rule: ast.Rule, *, negated: bool) -> Monitor:
        compiler = Compiler(self._library)
        match rule:
            case ast.Temporal(formula):
                return PropositionalMonitor(negation(formula) if negated else formula, self._sets(formula))
            case ast.After():
                return ResponseMonitor(rule, compiler, negated=negated)
            case ast.Forall(pattern, condition) if negated:
                return ExistsMonitor(ast.Exists(pattern, ast.Negation(condition)), compiler)
            case ast.Before(pattern, condition, partner, partner_condition) if negated:
                none = ast.Negation(ast.SomeCall(partner, partner_condition, ok=False))
                return ExistsMonitor(ast.Exists(pattern, ast.And((condition, none))), compiler)
            case ast.Exists(pattern, condition) if negated:
                _require_no_outcome(pattern, condition)
                return ForallMonitor(ast.Forall(pattern, ast.Negation(condition)), compiler)
            case ast.Forall():
                return ForallMonitor(rule, compiler)
            case ast.Before(pattern, condition, partner, partner_condition):
                return ForallMonitor(ast.Forall(pattern, precondition(condition, partner, partner_condition)), compiler)
            case ast.Exists():
                return ExistsMonitor(rule, compiler)
            case ast.SolverRule(_, solver_monitor) if not negated:
                own: Monitor = solver_monitor
                return own
        raise AssertionError(rule)

    def _sets(self, formula: Any) -> Mapping[str, frozenset[str]]:
        """The sets of tools in a formula. Checks that its tools, tags and sets exist."""
        names = atoms(formula)
        for atom in names:
            if atom in self._library.known_tools:
                raise CompileError(f"{atom!r} is a tool, but is used as a tag; did you mean 'tool:{atom}'?")
            if atom in self._library.tags:
                raise CompileError(f"{atom!r} is a set of tools, but is used as a tag; did you mean '@{atom}'?")
            if atom.startswith("tool:"):
                self._library.tools_of(ast.Pattern((atom.removeprefix("tool:"),)))
            if (pattern := step_pattern(atom)) is not None:
                self._library.tools_of(replace(pattern, place=ast.Place()))
        sets = [step.tools[0] if (step := step_pattern(atom)) is not None else atom for atom in names]
        return {name[1:]: self._library.tools_of(ast.Pattern((name,))) for name in sets if name[0] == "@"}


def precondition(condition: ast.Term, partner: ast.Pattern, partner_condition: ast.Term) -> ast.Term:
    """The condition of `before`. Conditions that do not use the partner are moved out and decided once."""
    parts = partner_condition.parts if isinstance(partner_condition, ast.And) else (partner_condition,)
    inside = {partner.label or ""} | ast.names_in(partner)
    about = tuple(part for part in parts if ast.names_in(part) & inside)
    others = tuple(part for part in parts if part not in about and not is_true(part))
    some = ast.SomeCall(partner, ast.And(about), ok=True)
    needed = ast.And((some, *others)) if others else some
    return needed if is_true(condition) else ast.Implies(condition, needed)


def _require_no_outcome(pattern: ast.Pattern, condition: ast.Term) -> None:
    """Rejects outcomes in NOT exists, which is judged on proposed calls."""
    own = ast.Label(pattern.label or "")
    for node in ast.walk(condition):
        if isinstance(node, ast.TimeOf) and node.call == own:
            expected = "'now'"
        elif isinstance(node, ast.OfCall) and node.call == own and node.what not in ("args", "tool"):
            expected = f"only 'args({pattern.label})'"
        else:
            continue
        raise CompileError(f"NOT exists(...) is checked before the call runs; expected {expected}", pattern.place)


def _require_none_pending(rule: Any) -> None:
    """Rejects calls in flight in a rule that is not decided by checks."""
    if any(isinstance(node, ast.CallInFlight) for node in ast.walk(rule)):
        problem = "'pending(...)' is about the moment of a check, and this rule is decided by the outcomes of calls"
        raise CompileError(f"{problem}; expected it in 'forall' or 'before', without NOT", rule.pattern.place)


def labels_of(rule: ast.Rule) -> set[str]:
    """The actions, decisions and tags of a rule."""
    match rule:
        case ast.AllOf(parts) | ast.AnyOf(parts):
            return {name for part in parts for name in labels_of(part)}
        case ast.Not(body):
            return labels_of(body)
        case ast.Temporal(formula):
            return {name for name in atoms(formula) if not name.startswith(("tool:", "@", CALL))}
    return set()
