"""The policy file that lint checks, the findings about it, and the table of checks.

The file is loaded as for a session, with stubs in place of its functions: nothing of it is run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from guardagent._support.files import is_in_pack
from guardagent._support.plugins import Plugins
from guardagent.errors import InputError
from guardagent.policy.evaluation.history_index import ANY, AnyTool
from guardagent.policy.evaluation.operands import OTHER_TOOL, Library
from guardagent.policy.file.policy_file import PolicyFile, read_policy_file
from guardagent.policy.file.rule_keys import RuleSource
from guardagent.policy.language import ast
from guardagent.policy.language.formula import FALSE, Conjunction, Formula, Literal, Release
from guardagent.policy.load import compile_policies, functions_of, inspection_only
from guardagent.policy.logic.sessions import NOTHING_KNOWN, KnownCalls
from guardagent.policy.monitors.rule import Rule
from guardagent.policy.policies import Policies
from guardagent.policy.scope import Scope
from guardagent.policy.stubs import stub_functions
from guardagent.types import Decision, Functions

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LintFinding:
    """A fault of a policy.

    Attributes:
        kind: the kind of fault, such as contradictory; docs/lint.md has all of this package.
        policy: the id of the rule, or of the last of several rules; None for the whole file.
        tool: the tool, or None if there are several or none.
        message: the fault, and a fix.
        example: a call or calls that show the fault.
        others: the ids of the other rules that are part of it.
    """

    kind: str
    policy: str | None
    tool: str | None
    message: str
    example: str
    others: tuple[str, ...] = ()


@dataclass(eq=False)
class LintTarget:
    """A policy file that lint checks.

    Attributes:
        functions: stubs of the state functions.
        undecided: questions that could not be decided; the checks add to it.
        late: the questions for which the time did not suffice, with the tools and rules that they are about.
        end: the CPU time of this thread after which a question is not decided.
        known: what judged calls have shown of the policies.
    """

    file: PolicyFile
    functions: Functions
    policies: Policies
    undecided: list[str] = field(default_factory=list)
    late: dict[str, dict[str, None]] = field(default_factory=dict)
    end: float = math.inf
    known: KnownCalls = NOTHING_KNOWN

    @property
    def ids(self) -> Sequence[str]:
        return [source.id for source in self.file.rules]

    @property
    def rules(self) -> Sequence[Rule]:
        """All rules except guard requests."""
        return self.policies.rules

    @cached_property
    def own(self) -> Sequence[Rule]:
        """The rules that lint questions: all but those of included packs, which their own cases test."""
        if is_in_pack(self.file.path):
            return self.rules
        return [rule for rule in self.rules if not rule.source.in_pack]

    @cached_property
    def own_tools(self) -> frozenset[str]:
        """The tools that these rules judge; beside packs, those that they name."""
        alone = len(self.own) == len(self.rules)
        tools = frozenset(tool for rule in self.own for tool in (rule.tools if alone else rule.named_tools))
        return tools - {OTHER_TOOL} if any(map(self.tells_others_apart, self.own)) else tools

    def tells_others_apart(self, rule: Rule) -> bool:
        """Whether a rule may treat tools that the file does not name differently: then no example stands for them."""
        nodes = (node for read in rule.rules for node in ast.walk(read))
        reads_name = any(isinstance(node, ast.OfCall) and node.what == "tool" for node in nodes)
        return reads_name and self.file.tools is None and isinstance(rule.tools, AnyTool)

    @property
    def left(self) -> float:
        """The CPU seconds that are left."""
        return self.end - time.thread_time()

    def while_time(self, items: Iterable[T], question: str, name: Callable[[T], str]) -> Iterator[T]:
        """Yields items while there is time; a question about the others is not decided."""
        for item in items:
            if self.left > 0:
                yield item
            else:
                self.late.setdefault(question, {})[name(item)] = None

    @cached_property
    def denying(self) -> Sequence[Rule]:
        """The rules whose violation denies a call for good; a warning or an escalation does not."""
        return [rule for rule in self.rules if rule.source.on_violation in (Decision.DENY, Decision.HALT)]

    @cached_property
    def blocking(self) -> Sequence[Rule]:
        """The denying rules that judge the same calls: of several scopes, only rules without one are among them."""
        alike = len({rule.source.applies_to for rule in self.denying}) == 1
        return [rule for rule in self.denying if alike or rule.source.applies_to is None]

    @property
    def tags(self) -> Mapping[str, frozenset[str]]:
        return self.file.tags

    @cached_property
    def sources(self) -> Mapping[str, RuleSource]:
        return {source.id: source for source in self.file.rules}

    @cached_property
    def named_tools(self) -> Sequence[str]:
        """The tools that rules name, sorted."""
        return sorted({tool for rule in self.rules for tool in rule.tools})

    @cached_property
    def tools(self) -> Sequence[str]:
        """The tools that can be called; if the file has no list of tools, another tool is included."""
        known = sorted(self.file.tools) if self.file.tools is not None else [*self.mentioned_tools, OTHER_TOOL]
        return [tool for tool in known if self.policies.of_tool[tool].listed]

    @cached_property
    def mentioned_tools(self) -> Sequence[str]:
        """The tools that rules mention anywhere, such as prerequisites; sorted."""
        patterns = [node for rule in self.rules for read in rule.rules for node in ast.walk(read)]
        names = [name for pattern in patterns if isinstance(pattern, ast.Pattern) for name in pattern.tools]
        tagged = {tool for name in names if name[0] == "@" for tool in self.tags[name[1:]]}
        return sorted({*self.named_tools, *tagged, *(name for name in names if name[0] != "@")})

    @cached_property
    def forbidden_tools(self) -> frozenset[str]:
        """The tools that a rule forbids outright, on purpose."""
        return frozenset(tool for rule in self.rules for tool in self.banned_by(rule))

    def forbidden_within(self, scope: Scope | None) -> frozenset[str]:
        """The tools that a rule forbids outright for every call in a scope."""
        rules = (rule for rule in self.denying if is_within(scope, rule.source.applies_to))
        return frozenset(tool for rule in rules for tool in self.banned_by(rule))

    @cached_property
    def forbidding_rules(self) -> frozenset[str]:
        """The ids of rules about calls or steps that forbid tools outright."""
        return frozenset(rule.id for rule in self.rules if any(bans(rule, self.tags) for rule in rule.rules))

    def banned_by(self, rule: Rule) -> frozenset[str]:
        """The tools that a rule forbids outright."""
        solver = self.sources[rule.id].solver
        outright = (
            tool
            for tool, solver_tool in (solver.tools if solver else {}).items()
            if solver_tool.permit.text.strip() == "false"
        )
        return frozenset({*outright, *(tool for rule in rule.rules for tool in bans(rule, self.tags))})

    def rule_of(self, rule: Rule, read: ast.Rule) -> Rule:
        """Compiles one formula as a rule with the source of another."""
        counters = {counter.name: counter for counter in self.policies.counters}
        return Rule(
            rule.source,
            [read],
            Library(self.functions, self.tags, self.file.tools, sources=self.file.labels, counters=counters),
        )

    def add_undecided(self, question: str, reason: str) -> None:
        """Records a question that was not decided."""
        self.undecided.append(f"{question}: not decided: {reason}")


def subject_of(source: Path | str | Policies) -> LintTarget:
    """Loads a policy file for lint, or takes loaded policies.

    Raises:
        InputError: the file cannot be loaded, or the policies come from none.
    """
    if isinstance(source, Policies):
        if source.source is None:
            raise InputError("these policies have no source; expected policies that 'load_policies' loaded")
        return LintTarget(source.source, source.functions, source)
    file = read_policy_file(source)
    functions = functions_of(file, stub_functions)
    return LintTarget(file, functions, compile_policies(file, functions, inspection_only))


# --- what rules forbid, and the principals they concern


def bans(rule: ast.Rule, tags: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Returns the tools that a rule forbids outright, on purpose."""
    match rule:
        case ast.AllOf(parts):
            return frozenset(tool for part in parts for tool in bans(part, tags))
        case ast.Temporal(formula):
            return frozenset(tool for part in _conjuncts(formula) for tool in _banned(part, tags))
        case ast.Forall(pattern, ast.Constant(False)) | ast.Not(ast.Exists(pattern, ast.Constant(True))):
            if ANY in pattern.tools or any(
                isinstance(argument.value, ast.ExactValue | ast.RegexValue) for argument in pattern.arguments
            ):
                return frozenset()
            return _tools([f"@{name[1:]}" if name[0] == "@" else f"tool:{name}" for name in pattern.tools], tags)
    return frozenset()


def _conjuncts(formula: Formula) -> Iterable[Formula]:
    return formula.parts if isinstance(formula, Conjunction) else (formula,)


def _banned(formula: Formula, tags: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Returns the tools that `G !p` or `G !(p || q)` forbids."""
    if not isinstance(formula, Release) or formula.left != FALSE:
        return frozenset()
    literals = [part for part in _conjuncts(formula.right) if isinstance(part, Literal) and not part.positive]
    return _tools([literal.atom for literal in literals], tags)


def _tools(atoms: Iterable[str], tags: Mapping[str, frozenset[str]]) -> frozenset[str]:
    tools: set[str] = set()
    for atom in atoms:
        tools |= tags[atom[1:]] if atom[0] == "@" else {atom.removeprefix("tool:")} if atom[:5] == "tool:" else set()
    return frozenset(tools)


_EVERYONE = Scope()


def is_within(inner: Scope | None, outer: Scope | None) -> bool:
    """Whether a rule with the outer scope surely judges every call that one with the inner scope judges."""
    scope, other = inner or _EVERYONE, outer or _EVERYONE
    pairs = ((scope.roles, other.roles), (scope.tenants, other.tenants), (scope.agents, other.agents))
    inside = all(wide is None or (narrow is not None and narrow <= wide) for narrow, wide in pairs)
    return inside and other.excluded in (None, scope.excluded)


# --- the rules that a finding needs, and lists of them


def minimal_set(items: Sequence[T], suffices: Callable[[list[T]], bool]) -> list[T]:
    """Leaves out every item without which the others suffice."""
    kept = list(items)
    for item in items:
        without = [other for other in kept if other is not item]
        if suffices(without):
            kept = without
    return kept


def join_words(words: Iterable[str]) -> str:
    """Joins words as in `a`, `a and b`, `a, b and c`."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def rules_of(ids: Sequence[str]) -> str:
    """Lists rules by their ids."""
    return f"{'rule' if len(ids) == 1 else 'rules'} {join_words(map(repr, ids))}"


# --- the checks

LintCheck = Callable[[LintTarget], Iterator[LintFinding]]
_CHECKS: dict[str, LintCheck] = {}
CHECKS = Plugins(
    "lint check", "", ("check",), group="guardagent.checks", members=_CHECKS, adapt=lambda module: module.check
)
"""The checks, in the order of their names; of another package, the `check` of a module."""


def lint_check(name: str) -> Callable[[LintCheck], LintCheck]:
    """Registers a check, a generator of findings, which every `lint` runs.

    The name begins with the kind of the findings if that is 'contradictory' or 'vacuous': they can be asked for alone.
    """

    def register(check: LintCheck) -> LintCheck:
        _CHECKS[name] = check
        return check

    return register
