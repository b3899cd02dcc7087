"""Data rules, analysed for all sessions with Z3: tools, obligations and rules that other rules defeat."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial

from guardagent._support.requirements import install_hint
from guardagent.policy.evaluation.history_index import ANY
from guardagent.policy.evaluation.terms import is_true
from guardagent.policy.language import ast
from guardagent.policy.language.printer import text_of
from guardagent.policy.lint.steps import RuleAutomaton, SearchLimitError, check_implication
from guardagent.policy.lint.target import LintFinding, LintTarget, is_within, join_words, minimal_set, rules_of
from guardagent.policy.logic.analysis import PolicyAnalysis
from guardagent.policy.logic.semantics import AtomicRule, RuleTree
from guardagent.policy.logic.sessions import KnownCalls
from guardagent.policy.monitors.rule import Rule
from guardagent.policy.scope import Scope
from guardagent.types import Decision


def is_over_data(rule: Rule) -> bool:
    """Whether a rule is about calls with their arguments, outputs, facts or state."""
    data = (ast.Forall, ast.Exists, ast.Before, ast.After)
    return any(isinstance(node, data) for read in rule.rules for node in ast.walk(read))


@lru_cache(4)
def analysis_of(target: LintTarget) -> PolicyAnalysis | None:
    """Returns the analysis of data rules and scopes, or None if there are none or Z3 is not installed."""
    if not any(is_over_data(rule) or rule.source.applies_to is not None for rule in target.rules):
        return None
    try:
        import z3  # noqa: F401
    except ImportError:
        target.add_undecided("data rules", f"Z3 is not installed; {install_hint('solver')}")
        return None
    return PolicyAnalysis(target.policies, budget=target.left, known=_known_calls(target))


def _known_calls(target: LintTarget) -> KnownCalls:
    """Returns the calls and violations that need no proof: those that judged calls have shown, and those of packs."""
    packs = {rule.id for rule in target.rules} - {rule.id for rule in target.own}
    tools = frozenset(tool for tools in target.tags.values() for tool in tools) - target.own_tools if packs else ()
    return KnownCalls.of({*target.known.allowed, *tools}, {*target.known.violated, *packs})


@lru_cache(1000)
def is_never_violated(target: LintTarget, rule: Rule) -> bool:
    """Whether it is proved that nothing violates a rule."""
    analysis = analysis_of(target)
    return analysis is not None and analysis.is_never_violated(rule)


@lru_cache(10_000)
def terms_of(rule: Rule) -> frozenset[str]:
    """Returns the facts, arguments, state and history that a rule reads."""
    return frozenset(word for read in rule.rules for node in ast.walk(read) for word in _words(node))


@lru_cache(4)
def related_rules(target: LintTarget) -> Sequence[Rule]:
    """Returns the blocking rules over data that may contradict each other: of packs, those that read the same."""
    read = frozenset(term for rule in target.own for term in terms_of(rule)) - {"history"}
    own = {*target.own}
    return [rule for rule in target.blocking if is_over_data(rule) and (rule in own or terms_of(rule) & read)]


_OF_HISTORY = (
    *(ast.OfCall, ast.TimeOf, *ast.OF_HISTORY, ast.Sources, ast.Seen),
    *(ast.Temporal, ast.Exists, ast.Before, ast.After),
)


def _words(node: object) -> list[str]:
    match node:
        case ast.Fact(path):
            return [f"fact {path[0]}"]
        case ast.StateOf(function):
            return [f"state {function}"]
        case ast.Field(ast.State(), name):
            return [f"state.{name}"]
        case ast.State():
            return ["state"]
        case ast.Argument(name):
            return [f"argument {name}"]
        case ast.Field(ast.OfCall("args", ast.Label()), name):
            return [f"argument {name}"]
        case ast.Principal() | ast.Now() | ast.Elapsed() | ast.MessagesText():
            return [type(node).__name__.lower()]
        case ast.CounterValue(name):
            return [f"counter {name}"]
        case ast.Forall(_, ast.Constant()):
            return ["history"]
    return ["history"] if isinstance(node, _OF_HISTORY) else []


# --- call patterns whose constraints on arguments become conditions


def conjuncts(condition: ast.Term) -> tuple[ast.Term, ...]:
    """The parts of a condition that must all hold."""
    return condition.parts if isinstance(condition, ast.And) else (condition,)


def opened(pattern: ast.Pattern, conditions: Sequence[ast.Term]) -> ast.Forall:
    """Returns a rule that requires some conditions and the pattern's constraints of every call of the tools."""
    arguments: list[ast.Argument] = []
    terms: list[ast.Term] = []
    for at, argument in enumerate(pattern.arguments):
        variable = argument.value if isinstance(argument.value, ast.Variable) else ast.Variable(f"argument {at}")
        arguments.append(ast.Argument(argument.name, variable))
        if isinstance(argument.value, ast.RegexValue):
            terms.append(ast.Matches(variable, argument.value.regex))
        elif isinstance(argument.value, ast.ExactValue):
            terms.append(ast.Compare(variable, "==", ast.Constant(argument.value.value)))
    return ast.Forall(replace(pattern, arguments=tuple(arguments)), ast.And((*terms, *conditions)))


# --- tools that data rules never allow


def data_contradictions(target: LintTarget) -> Iterator[LintFinding]:
    """Yields findings for one rule, or for several rules together."""
    analysis = analysis_of(target)
    if analysis is None:
        return
    rules = related_rules(target)
    for tool in sorted((target.own_tools & {tool for rule in rules for tool in rule.tools}) - target.forbidden_tools):
        if analysis.is_never_allowed(tool, rules):
            least = minimal_set(rules, partial(analysis.is_never_allowed, tool))
            yield never_allowed(tool, least, "", analysis)


def never_allowed(tool: str, least: Sequence[Rule], who: str, analysis: PolicyAnalysis) -> LintFinding:
    """Returns the finding for a tool that some rules never allow; `who` names the principals."""
    least = sorted(least, key=lambda rule: tool in rule.tools)
    ids = [rule.id for rule in least]
    others = tuple(ids[:-1])
    if not ids:  # an unlisted call is denied, or an argument is not declared
        message = f"'{tool}' can never be called: no declaration in the file allows it"
        return LintFinding("contradictory", None, tool, message, f"{tool}(): denied")
    message = f"'{tool}' can never be called{who}: no call satisfies {rules_of(ids)}{' together' * (len(ids) > 1)}"
    example = analysis.example(tool, satisfied=least[:-1], violated=least[-1:])
    if example is None:
        return LintFinding("contradictory", ids[-1], tool, message, f"{tool}(), with any arguments: denied", others)
    denied = f"denied by rule '{ids[-1]}'" + (f", allowed by {rules_of(ids[:-1])}" if len(ids) > 1 else "")
    return LintFinding("contradictory", ids[-1], tool, message, f"{example.description}: {denied}", others)


# --- tools that no principal may call, or none that a rule applies to, because of rules with scopes


def scoped_contradictions(target: LintTarget) -> Iterator[LintFinding]:
    """Yields at most one finding for each tool, also for one that is forbidden to everyone without a scope."""
    analysis = analysis_of(target)
    if analysis is not None:
        common = related_rules(target)
        yield from _ScopedContradictions(target, analysis, common).findings()


class _ScopedContradictions:
    """The searches, for one policy file.

    Earlier calls of a conversation can have another principal, so rules with scopes judge one call only.
    """

    def __init__(self, target: LintTarget, analysis: PolicyAnalysis, common: Sequence[Rule]) -> None:
        self._target, self._analysis, self._never = target, analysis, set[str]()
        self._common = [rule for rule in common if rule.source.applies_to is None]
        denying = [rule for rule in target.denying if rule not in target.blocking]
        self._scoped = [rule for rule in denying if rule.source.applies_to is not None]

    def findings(self) -> Iterator[LintFinding]:
        for rule in self._scoped:
            scope = rule.source.applies_to
            same = [
                scoped_rule
                for scoped_rule in self._scoped
                if is_within(scope, scoped_rule.source.applies_to) and is_over_data(scoped_rule)
            ]
            tools = rule.tools - self._never - self._target.forbidden_within(scope)
            who = f" by anyone in the scope of rule '{rule.id}'"
            yield from self._of_tools(tools, same if rule in same else [], lambda scoped_rule: scoped_rule, who)
        tools = frozenset(tool for rule in self._scoped for tool in rule.tools) - self._never
        yield from self._of_tools(
            tools - self._target.forbidden_within(None), self._scoped, self._for_everyone, " by anyone"
        )

    def _for_everyone(self, rule: Rule) -> Rule:
        """A rule without a scope that allows at least what the rule with the scope allows."""
        tools = tuple(sorted(self._target.banned_by(rule)))
        bans = [ast.Forall(ast.Pattern(tools), ast.Constant(value=False))] if tools else []
        read = [
            conditional_rule
            for part in (*rule.rules, *bans)
            for conditional_rule in conditional(part, rule.source.applies_to)
        ]
        return self._target.rule_of(rule, ast.AllOf(tuple(read)))

    def _of_tools(
        self, tools: frozenset[str], scoped: Sequence[Rule], judged: Callable[[Rule], Rule], who: str
    ) -> Iterator[LintFinding]:
        judging = {rule: judged(rule) for rule in scoped}
        for tool in sorted(tools) if scoped else ():

            def is_excluded(some: Sequence[Rule], tool: str = tool) -> bool:
                common = [rule for rule in some if rule not in judging]
                others = [judging[rule] for rule in some if rule in judging]
                return bool(others) and self._analysis.is_never_allowed(tool, common, others=others)

            together = [*self._common, *scoped]
            if is_excluded(together):
                self._never.add(tool)
                least = minimal_set(together, is_excluded)
                yield never_allowed(tool, least, who, self._analysis)


def conditional(rule: ast.Rule, scope: Scope | None) -> list[ast.Rule]:
    """Returns rules for everyone that allow every call that a rule with the scope allows.

    Only parts that judge each proposed call are kept.
    """
    condition = _condition_on_principal(scope) if scope is not None else ast.TRUE
    if condition is None:
        return []
    parts = rule.parts if isinstance(rule, ast.AllOf) else (rule,)
    return [conditional for part in parts if (conditional := _conditional(part, condition)) is not None]


def _conditional(rule: ast.Rule, scope: ast.Term) -> ast.Rule | None:
    match rule:
        case ast.Forall(pattern, condition):
            return ast.Forall(pattern, condition if is_true(scope) else ast.Implies(scope, condition))
        case ast.Not(ast.Exists(pattern, condition)):
            return ast.Forall(pattern, ast.Negation(ast.And((scope, condition))))
        case ast.Before(pattern, condition, partner, wanted):
            return ast.Before(pattern, ast.And((condition, scope)), partner, wanted)
    return None


def _condition_on_principal(scope: Scope) -> ast.Term | None:
    """Returns a condition that implies that the scope covers the call; None if the agent decides."""
    if scope.agents is not None or (scope.excluded is not None and scope.excluded.agents is not None):
        return None
    outside = [ast.Negation(ast.And(tuple(_memberships(scope.excluded))))] if scope.excluded is not None else []
    return ast.And((*_memberships(scope), *outside))


def _memberships(scope: Scope) -> Iterator[ast.Term]:
    principal = ast.Principal()
    if scope.roles is not None:
        roles = ast.Field(principal, "roles")
        yield ast.Or(tuple(ast.Compare(ast.Constant(role), "in", roles) for role in sorted(scope.roles)))
    if scope.tenants is not None:
        tenants = ast.ListOf(tuple(ast.Constant(tenant) for tenant in sorted(scope.tenants)))
        yield ast.Compare(ast.Field(principal, "tenant"), "in", tenants)


# --- calls that `after` and `exists` require and that other rules never allow


def required_calls(target: LintTarget) -> Iterator[LintFinding]:
    """Yields a finding for each obligation that no allowed call can fulfil."""
    analysis = analysis_of(target)
    common = related_rules(target)
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
        least = [core_rule for core_rule in minimal_set(rules, never) if core_rule is not rule]
        yield _obligation_finding(rule, partner, trigger, least, analysis)


def _is_idle(trigger: Rule | None, rules: Sequence[Rule], analysis: PolicyAnalysis) -> bool:
    """Whether no allowed call creates the obligation."""
    return trigger is not None and all(
        analysis.is_never_allowed(tool, rules, others=[trigger]) for tool in trigger.tools
    )


def _creating(duty: ast.After, rule: Rule, target: LintTarget) -> Rule:
    return target.rule_of(rule, opened(duty.pattern, [duty.condition]))


def _fulfilling(duty: ast.After | ast.Exists) -> ast.Forall:
    """Returns a rule that every call satisfies that fulfils the obligation.

    Of the conditions, it has those about arguments and the call that created it: others can change until the outcome.
    """
    if isinstance(duty, ast.Exists):
        return opened(duty.pattern, _settled(duty.condition, ast.names_in(duty.pattern), duty.pattern.label))
    names = ast.names_in(duty.partner) | ast.names_in(duty.pattern)
    about = [*_settled(duty.condition, ast.names_in(duty.pattern), duty.pattern.label)]
    wanted = _settled(duty.partner_condition, names | {duty.pattern.label or ""}, duty.partner.label)
    joint = [
        condition
        for condition in wanted
        if ast.names_in(condition) & ({duty.pattern.label} | ast.names_in(duty.pattern))
    ]
    some = ast.SomeCall(duty.pattern, ast.And((*about, *joint)), ok=True)
    return opened(duty.partner, [*(condition for condition in wanted if condition not in joint), some])


def _settled(condition: ast.Term, names: set[str], label: str | None) -> list[ast.Term]:
    """The parts of a condition on a proposed call that hold or fail for good."""
    return [
        conjunct
        for conjunct in conjuncts(condition)
        if ast.is_own(conjunct, names | {label or ""}) and not _reads_outcome(conjunct, label)
    ]


def _reads_outcome(term: ast.Term, label: str | None) -> bool:
    own = ast.Label(label or "")
    return any(
        (isinstance(node, ast.TimeOf) and node.call == own)
        or (isinstance(node, ast.OfCall) and node.call == own and node.what not in ("args", "tool"))
        for node in ast.walk(term)
    )


def _obligation_finding(
    rule: Rule, partner: ast.Pattern, trigger: Rule | None, least: Sequence[Rule], analysis: PolicyAnalysis
) -> LintFinding:
    others = tuple(rule.id for rule in least)
    who = f"{rules_of(others)} " if others else "the rule itself "
    excludes = f"{who}exclude{'' if len(least) > 1 else 's'} every {text_of(partner)} that would do"
    if trigger is None:
        message = f"no conversation can end well: rule '{rule.id}' requires a call, but {excludes}"
        example = "no call at all, or any calls: a violation at the end"
        return LintFinding("contradictory", rule.id, None, message, example, others)
    tool = min(trigger.tools, default=ANY)
    message = f"after '{tool}' succeeded, nothing can meet the obligation of rule '{rule.id}': {excludes}"
    tool_example = analysis.example(tool, satisfied=[trigger, *least])
    call = tool_example.description if tool_example else f"{tool}()"
    example = f"{call}: creates the obligation, which stays pending at the end, whatever follows"
    return LintFinding("contradictory", rule.id, tool, message, example, others)


# --- rules that never decide, since other rules forbid every call that they judge


@lru_cache(4)
def rules_about_forbidden_calls(target: LintTarget) -> Mapping[str, LintFinding]:
    """Returns a finding for each such rule that is not a ban itself, by its id."""
    banned = {rule: tools for rule in target.denying if (tools := target.banned_by(rule))}
    lint_findings: dict[str, LintFinding] = {}
    for rule in target.rules:
        bans = [name for name, tools in banned.items() if _may_forbid(name, tools, rule)]
        if bans and _forbid_all(bans, rule, target) and not _is_ban(rule, target):
            least = minimal_set(bans, lambda some, rule=rule: _forbid_all(some, rule, target))  # type: ignore[misc]
            lint_findings[rule.id] = _never_deciding(rule, least, target)
    return lint_findings


def _may_forbid(ban: Rule, tools: frozenset[str], rule: Rule) -> bool:
    return ban is not rule and bool(tools & rule.tools) and is_within(rule.source.applies_to, ban.source.applies_to)


def _forbid_all(bans: Sequence[Rule], rule: Rule, target: LintTarget) -> bool:
    """Whether bans forbid every call that a rule judges, or that obliges to another one."""
    tools = frozenset(tool for ban in bans for tool in target.banned_by(ban))
    if target.sources[rule.id].solver is not None:
        return rule.tools <= tools
    parts = RuleTree(rule.rules).atomic_rules
    if all(part.is_propositional for part in parts):
        return any(_ban_implies(ban, rule, target) for ban in bans)
    return all(_decides_only_on(part, tools, target) for part in parts)


def _decides_only_on(part: AtomicRule, tools: frozenset[str], target: LintTarget) -> bool:
    match part.rule, part.negated:
        case (ast.Forall(pattern) | ast.Before(pattern) | ast.After(pattern), False) | (ast.Exists(pattern), True):
            sets = [target.tags[name[1:]] if name[0] == "@" else {name} for name in pattern.tools]
            return ANY not in pattern.tools and all(tools.issuperset(tool_set) for tool_set in sets)
    return False


def _ban_implies(ban: Rule, rule: Rule, target: LintTarget) -> bool:
    """Whether a ban implies a rule about the order of steps that does not imply the ban."""
    ban_automaton, other = (RuleAutomaton(each, target.tags, calls_may_fail=True) for each in (ban, rule))
    try:
        return (
            other.exact
            and check_implication(other, ban_automaton, target.tools, may_continue=False).implied
            and not check_implication(ban_automaton, other, target.tools, may_continue=False).implied
        )
    except SearchLimitError:
        return False


def _is_ban(rule: Rule, target: LintTarget) -> bool:
    if rule.tools <= target.banned_by(rule):
        return True
    analysis = analysis_of(target) if is_over_data(rule) else None
    return analysis is not None and all(analysis.is_never_allowed(tool, [rule]) for tool in rule.tools)


def _never_deciding(rule: Rule, bans: Sequence[Rule], target: LintTarget) -> LintFinding:
    tools = sorted(tool for tool in rule.tools if any(tool in target.banned_by(ban) for ban in bans))
    ids = [ban.id for ban in bans]
    forbid, has = ("forbids", "has") if len(ids) == 1 else ("forbid", "have")
    message = (
        f"{rules_of(ids)} {forbid} every call of {join_words(map(repr, tools))}, so {_effect(rule)}; "
        f"one of the rules is wrong, or '{rule.id}' is an exception that {rules_of(ids)} {has} to name"
    )
    example = f"{_denied_call(rule, tools[0], target)}, is denied by {rules_of(ids)}"
    return LintFinding("contradictory", rule.id, tools[0] if len(tools) == 1 else None, message, example, tuple(ids))


def _effect(rule: Rule) -> str:
    if rule.source.on_violation == Decision.ESCALATE:
        return f"no approval that rule '{rule.id}' asks for can help"
    eventual = any(isinstance(part, ast.After | ast.Temporal) for part in rule.rules)
    says = "what a call needs" if eventual else "when one is allowed"
    return f"rule '{rule.id}', which says {says}, never decides"


def _denied_call(rule: Rule, tool: str, target: LintTarget) -> str:
    analysis = analysis_of(target) if is_over_data(rule) else None
    example = analysis.example(tool, satisfied=[rule]) if analysis is not None else None
    return f"{example.description}, allowed by rule '{rule.id}'" if example else f"{tool}(), whatever its arguments"
