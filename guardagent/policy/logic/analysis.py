"""Analyses a policy for all sessions: calls that it never allows, and rules that others imply.

A proof holds for every session in which only allowed calls run. If Z3 reaches no result, nothing is proved.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from guardagent.policy.language import ast
from guardagent.policy.language.values import shown
from guardagent.policy.logic import semantics
from guardagent.policy.logic.expressions import Expression, conj, disj, implies, neg
from guardagent.policy.logic.lowering import MISSING, Z3Model, thread_solver
from guardagent.policy.logic.operations import ExpressionLimitError, Operations
from guardagent.policy.logic.sessions import NOTHING_KNOWN, KnownCalls, SymbolicSession
from guardagent.policy.logic.values import (
    FALSE,
    TRUE,
    SymbolicMapping,
    Symbols,
    Value,
    known_truth,
    of_leaf,
    when_false,
    when_true,
)
from guardagent.policy.monitors.propositional import PropositionalMonitor
from guardagent.policy.monitors.rule import Rule
from guardagent.policy.policies import Policies
from guardagent.types import Decision

SECONDS = 10.0  # no call waits for the result
MOST_WORK = 600_000  # of Z3 for one question, about half a second: a hard one does not take the time of the others
MOST_PAIRS = 20_000  # of cases of values, in one question

P = ParamSpec("P")
R = TypeVar("R")
_BLOCKING = (Decision.DENY, Decision.HALT)


@dataclass(frozen=True, slots=True)
class CallExample:
    """An example call, and the facts that it depends on."""

    tool: str
    args: Mapping[str, Any]
    facts: tuple[str, ...] = ()

    @property
    def description(self) -> str:
        arguments = ", ".join(f"{name}={shown(value)}" for name, value in self.args.items())
        return f"{self.tool}({arguments})" + (f", where {'; '.join(self.facts)}" if self.facts else "")


NO_EXAMPLE: CallExample | None = None
_CAN_BE_CALLED = "whether tools can be called"


def _question(
    undecided: R, about: str = ""
) -> Callable[[Callable[Concatenate[PolicyAnalysis, P], R]], Callable[..., R]]:
    """Decorates a question: it has the given answer if the budget is used up, or its expression is too large.

    Args:
        undecided: the answer then.
        about: the question in words. Its first argument, a tool or a rule, tells one from another.
    """

    def decorate(ask: Callable[Concatenate[PolicyAnalysis, P], R]) -> Callable[..., R]:
        @wraps(ask)
        def limited(self: PolicyAnalysis, *args: P.args, **kwargs: P.kwargs) -> R:
            if self.left <= 0:
                self.note(about, *args)
                return undecided
            self._gave_up = False
            try:
                answer = ask(self, *args, **kwargs)
            except ExpressionLimitError:
                answer, self._gave_up = undecided, True
            if self._gave_up and answer == undecided:
                self.note(about, *args)
            return answer

        return limited

    return decorate


class PolicyAnalysis:
    """Proves properties of a policy's rules for all sessions.

    Args:
        policies: the policy.
        seconds: the time limit of one question.
        budget: the CPU seconds of this thread from now on; after them, a question is not decided.
        known: what judged calls have shown already.

    Attributes:
        undecided: the questions for which the time did not suffice, or whose expression was too large: in words, and
            the tools and rules.
    """

    def __init__(
        self,
        policies: Policies,
        *,
        seconds: float = SECONDS,
        budget: float = math.inf,
        known: KnownCalls = NOTHING_KNOWN,
    ) -> None:
        self._policies, self._known = policies, known
        self._seconds = seconds
        self._end, self._gave_up = time.thread_time() + budget, False
        self.undecided: dict[str, dict[str, None]] = {}
        self._possible_tools: dict[tuple[frozenset[str], tuple[Rule, ...]], frozenset[str]] = {}

    @property
    def left(self) -> float:
        """The CPU seconds that are left."""
        return self._end - time.thread_time()

    @cached_property
    def tools(self) -> frozenset[str]:
        """All tools that the policy names."""
        named = {tool for rule in self._policies.rules for tool in rule.tools}
        rules = [logic_rule for rule in self._policies.rules for logic_rule in rule.rules]
        named |= {tool for pattern in semantics.patterns_of(rules) for tool in pattern.tools if tool[0] not in "@*"}
        return frozenset(named | {tool for tools in self._policies.tags.values() for tool in tools})

    def note(self, about: str, subject: Any = None, *_more: Any) -> None:
        """Notes an undecided question."""
        name = subject.id if isinstance(subject, Rule) else subject
        if about:
            self.undecided.setdefault(about, {}).update({name: None} if isinstance(name, str) else {})

    def _is_own(self, rule: Rule) -> bool:
        """Whether it is a rule of the policy itself, and no part or variant of one."""
        return any(rule is own_rule for own_rule in self._policies.rules)

    # --- the questions

    def is_never_allowed(self, tool: str, rules: Iterable[Rule] | None = None, *, others: Iterable[Rule] = ()) -> bool:
        """Whether it is proved that rules never allow a call of a tool.

        Args:
            tool: the tool.
            rules: rules that judge every call, also the earlier ones; by default all.
            others: rules that judge this call only.
        """
        if self.left <= 0:
            self.note(_CAN_BE_CALLED, tool)
            return False
        rules_, more = tuple(self._policies.rules if rules is None else rules), tuple(others)
        key = self.tools | {tool}, rules_
        if key not in self._possible_tools:  # the answer for one tool needs the answers for all
            self._possible_tools[key] = self._possible(*key)
        possible = self._possible_tools[key]
        return tool not in possible or (bool(more) and not self._may_follow(tool, rules_, possible, more))

    def _possible(self, tools: frozenset[str], rules: Sequence[Rule]) -> frozenset[str]:
        """Returns the tools that may have an allowed call, after calls of such tools."""
        possible = self._known.allowed & tools if all(map(self._is_own, rules)) else frozenset()
        possible |= {tool for tool in tools - possible if self._is_free(tool, rules)}
        while True:
            more = {tool for tool in tools - possible if self._may_follow(tool, rules, possible)}
            if not more:
                return possible
            possible |= more

    def _is_free(self, tool: str, rules: Sequence[Rule]) -> bool:
        """Whether no rule and no declaration judges the calls of a tool, so that they need no proof."""
        concern = self._policies.of_tool[tool]
        return concern.listed and not concern.problem and not any(_may_deny(rule, tool) for rule in rules)

    @_question(undecided=True, about=_CAN_BE_CALLED)
    def _may_follow(
        self, tool: str, rules: Sequence[Rule], earlier: frozenset[str], others: Sequence[Rule] = ()
    ) -> bool:
        scene = _Scene(self._policies, tool, earlier)
        allowed = [scene.allows(rule) for rule in (*rules, *others)]
        scene.assume_earlier_calls_allowed(rules)
        return self._solve(scene, allowed) != "unsat"

    def is_never_violated(self, rule: Rule) -> bool:
        """Whether it is proved that no call and no end of a session violates a rule.

        A rule that is unknown because a value is missing denies the call, but is not violated.
        """
        return not (rule.id in self._known.violated and self._is_own(rule)) and self._never_violated(rule)

    @_question(undecided=False, about="whether rules can be violated")
    def _never_violated(self, rule: Rule) -> bool:
        if any(self._may_stay_pending(part, self._policies) for part in _ends(rule)):
            return False
        scenes = [_Scene(self._policies, tool, self.tools) for tool in sorted(rule.tools)]
        return all(self._solve(scene, [when_false(scene.rule(rule))]) == "unsat" for scene in scenes)

    @_question(undecided=True, about="whether obligations can be pending at the end")
    def _may_stay_pending(self, part: semantics.AtomicRule, policies: Policies) -> bool:
        """Whether an obligation can still be pending at the end."""
        if not isinstance(part.rule, ast.After) or part.negated:
            return True
        for tool in sorted(self.tools):
            scene = _Scene(policies, tool, self.tools)
            obligation = semantics.creates_obligation(
                part.rule.pattern, part.rule.condition, scene.call, scene.semantics
            )
            if self._solve(scene, [when_true(obligation)]) != "unsat":
                return True
        return False

    def implies(self, first: Rule, second: Rule) -> bool:
        """Whether it is proved that a call violates the second rule only if it violates the first.

        Nor is the second unknown for a call that the first permits.
        """
        first_ends, second_ends = list(_ends(first)), list(_ends(second))
        if any(not any(_are_same(second_end, other) for other in first_ends) for second_end in second_ends):
            return False
        if any(not _is_conjunctive(rule) for rule in (first, second)) and (first_ends or second_ends):
            return _are_same(first.rules, second.rules)
        return all(self._implied(first, second, tool) for tool in sorted(second.tools))

    @_question(undecided=False, about="whether rules imply others")
    def _implied(self, first: Rule, second: Rule, tool: str) -> bool:
        scene = _Scene(self._policies, tool, self.tools)
        stricter, milder = scene.rule(first), scene.rule(second)
        permitted = conj(when_true(stricter), neg(when_true(milder)))
        unknown = conj(neg(when_false(stricter)), when_false(milder))
        return self._solve(scene, [disj(permitted, unknown)]) == "unsat"

    @_question(undecided=NO_EXAMPLE)
    def example(
        self, tool: str, *, satisfied: Iterable[Rule] = (), violated: Iterable[Rule] = ()
    ) -> CallExample | None:
        """Returns a call that satisfies some rules and violates others, or None if none is found."""
        scene = _Scene(self._policies, tool, self.tools)
        wanted = [when_true(scene.rule(rule)) for rule in satisfied]
        wanted += [when_false(scene.rule(rule)) for rule in violated]
        simple = [*wanted, *scene.operations.symbols.simplicity_constraints()]
        if self._solve(scene, simple) != "sat" and self._solve(scene, wanted) != "sat":
            return None
        model = thread_solver(self._seconds).model
        return None if model is None else scene.example(model)

    def _solve(self, scene: _Scene, wanted: Sequence[Expression]) -> str:
        if conj(*wanted) is False:
            return "unsat"
        scene.context.add_consistency_axioms(scene.semantics)
        answer = thread_solver(min(self._seconds, self.left), MOST_WORK).check(wanted, scene.operations.symbols)
        self._gave_up |= answer == "unknown"
        return answer


class _Scene:
    """A call of a tool in a symbolic session, in which only the given tools were called before."""

    def __init__(self, policies: Policies, tool: str, earlier: frozenset[str]) -> None:
        self._policies, self._earlier = policies, earlier
        self.operations = Operations(Symbols(), most_pairs=MOST_PAIRS)
        self.context = SymbolicSession(self.operations, earlier)
        self.semantics = semantics.Semantics(self.operations, self.context, policies.tags, policies.functions)
        self.concern = policies.of_tool[tool]
        self.call = semantics.SymbolicCall(tool, of_leaf(SymbolicMapping("args", names=self.concern.arguments)))

    def allows(self, rule: Rule) -> Expression:
        """Returns the condition under which the rule does not deny the call."""
        if self.concern.problem or not self.concern.listed:
            return False
        value = self.rule(rule)
        warns = rule.source.on_violation <= Decision.WARN
        return disj(when_true(value), when_false(value)) if warns else when_true(value)

    def assume_earlier_calls_allowed(self, rules: Sequence[Rule]) -> None:
        """Adds that blocking rules about arguments alone held for the earlier calls; other rules may change."""
        blocking = [rule for rule in rules if rule.source.on_violation in _BLOCKING and rule.source.applies_to is None]
        parts = [part for rule in blocking for part in _about_arguments(rule)]
        for earlier in self.context.calls if parts else ():
            allowed = [when_true(semantics.judge_call(part, earlier.call, self.semantics)) for part in parts]
            self.operations.symbols.axioms.append(implies(earlier.exists, conj(*allowed)))

    def rule(self, rule: Rule) -> Value:
        """Returns the symbolic result of a rule for the call."""
        tree = semantics.RuleTree(rule.rules)
        if len(tree.atomic_rules) != len(rule.monitors):  # not a temporal rule
            return self.operations.symbols.any_truth(("rule", rule.id))
        values = [self._part(rule, at, part) for at, part in enumerate(tree.atomic_rules)]
        return tree.combine(values, lambda at: self._so_far(rule, at, tree.atomic_rules[at]))

    def _part(self, rule: Rule, at: int, part: semantics.AtomicRule) -> Value:
        compiled = rule.monitors[at]
        if not isinstance(compiled, PropositionalMonitor):
            return semantics.judge_call(part, self.call, self.semantics)
        assert isinstance(self.call.tool, str)
        if not _may_follow(compiled, self.call.tool, self._earlier, self._policies.tags):
            return FALSE
        return known_truth(self.operations.symbols.truth(("part", repr(part))))

    def _so_far(self, rule: Rule, at: int, part: semantics.AtomicRule) -> Value:
        """Returns whether the calls so far satisfy an atomic rule; one decided at the end is not violated yet."""
        if part.is_propositional:
            return known_truth(self.operations.symbols.truth(("so far", repr(part))))
        if isinstance(part.rule, ast.After) or isinstance(part.rule, ast.Exists) is not part.negated:
            return TRUE
        return self.operations.symbols.any_truth(("so far", rule.id, at))

    # --- descriptions

    def example(self, model: Z3Model) -> CallExample:
        args = model.value(self.call.args)
        named = [
            f"{name} is {_value_text(model.value(value))}"
            for name, value in self.operations.symbols.descriptions.items()
        ]
        return CallExample(str(self.call.tool), args, (*named, *self._answers(model), *self._calls(model)))

    def _answers(self, model: Z3Model) -> Iterator[str]:
        for function, arguments, answer in self.context.state_queries.values():
            values = ", ".join(_value_text(model.value(argument)) for argument in arguments)
            yield f"state({function}({values})) is {_value_text(model.value(answer))}"

    def _calls(self, model: Z3Model) -> Iterator[str]:
        for earlier in self.context.calls:
            if model.of(earlier.exists) is True:
                call = earlier.call
                args = ", ".join(f"{name}={shown(value)}" for name, value in model.value(call.args).items())
                failed = {True: "failed", False: "succeeded"}.get(model.value(call.failed), "has an unknown outcome")
                output = model.value(call.output)
                returned = "" if output is MISSING else f" and returned {shown(output)}"
                yield f"an earlier {model.of(call.tool)}({args}) {failed}{returned}"


def _value_text(value: Any) -> str:
    return "unknown" if value is MISSING else shown(value)


# --- rules that depend on more than the call


def _ends(rule: Rule) -> Iterator[semantics.AtomicRule]:
    """Yields the atomic rules that the end of the session or the order of the calls decides."""
    for part in semantics.RuleTree(rule.rules).atomic_rules:
        immediate = isinstance(part.rule, ast.Forall | ast.Before) and not part.negated
        if not immediate and not (isinstance(part.rule, ast.Exists) and part.negated):
            yield part


def _about_arguments(rule: Rule) -> Iterator[semantics.AtomicRule]:
    """Yields the parts that judge each call by its arguments alone, so that the answer never changes."""
    tree = semantics.RuleTree(rule.rules)
    for part in tree.atomic_rules if tree.is_conjunction else ():
        if isinstance(part.rule, ast.Forall if not part.negated else ast.Exists):
            local = ast.names_in(part.rule.pattern) | {part.rule.pattern.label or ""}
            if ast.is_own(part.rule.condition, local):
                yield part


def _may_deny(rule: Rule, tool: str) -> bool:
    return tool in rule.tools or any(isinstance(monitor, PropositionalMonitor) for monitor in rule.monitors)


def _is_conjunctive(rule: Rule) -> bool:
    return semantics.RuleTree(rule.rules).is_conjunction


def _are_same(first: object, second: object) -> bool:
    """Whether two syntax trees are identical; 1 differs from true."""
    return first == second and _constants(first) == _constants(second)


def _constants(node: object) -> list[tuple[type, Any]]:
    if isinstance(node, tuple):
        return [constant for part in node for constant in _constants(part)]
    nodes = ast.walk(node) if not isinstance(node, semantics.AtomicRule) else ast.walk(node.rule)
    return [(type(node.value), node.value) for node in nodes if isinstance(node, ast.Constant | ast.ExactValue)]


def _may_follow(
    part: PropositionalMonitor, tool: str, earlier: frozenset[str], tags: Mapping[str, frozenset[str]]
) -> bool:
    """Whether a call of a tool may be allowed after calls of other tools."""
    automaton, letters = part.automaton, part.alphabet.letters
    atoms = {atom for letter in letters for atom in letter.ran if atom.startswith(("tool:", "@"))}

    def steps(tools: Iterable[str]) -> list[int]:
        meant = [
            {atom for atom in atoms if tool in (tags[atom[1:]] if atom[0] == "@" else {atom[5:]})} for tool in tools
        ]
        return [at for at, letter in enumerate(letters) if letter.ran & atoms in meant]

    before, own = steps(earlier | {""}), [at for at in steps({tool}) if letters[at].ok == letters[at].ran]
    reached, waiting = {0}, [0]
    while waiting:
        row = automaton.table[waiting.pop()]
        new = {row[at] for at in before if not automaton.violated[row[at]]} - reached
        reached |= new
        waiting += new
    rows = [automaton.table[state] for state in reached if not automaton.violated[state]]
    return any(not automaton.violated[row[at]] for row in rows for at in own)
