"""One rule, compiled: its parts, and how AND, OR and NOT combine them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from guardagent.policy import ast
from guardagent.policy.eventual import Eventual, Response
from guardagent.policy.findings import Call, Finding, Part, Trace
from guardagent.policy.formula import atoms, negation
from guardagent.policy.immediate import Immediate
from guardagent.policy.propositional import Propositional
from guardagent.policy.terms import CompileError, Compiler, Library
from guardagent.policy.values import Truth, Unknown, conjunction, disjunction
from guardagent.types import Decision

Tree = int | tuple[str, tuple["Tree", ...]]  # the number of a part, or "all" or "any" of trees
Judged = Sequence[Finding | None]


@dataclass(frozen=True, slots=True)
class Source:
    """What an author wrote about a rule."""

    id: str
    text: str = ""
    message: str | None = None
    on_violation: Decision = Decision.DENY
    remedy: str | None = None


class Rule:
    """A rule of a policy.

    Attributes:
        parts: what it is made of.
        simple: whether all parts must hold; then a part that was broken earlier says nothing of the next call.
        names: the tools that it names.
    """

    def __init__(self, source: Source, rules: Sequence[ast.Rule], library: Library) -> None:
        self.source = source
        self.parts: list[Part] = []
        builder = _Builder(library, self.parts)
        trees = tuple(builder.tree(rule, negated=False) for rule in rules)
        self._tree: Tree = trees[0] if len(trees) == 1 else ("all", trees)
        self.simple = _is_simple(self._tree)
        self.tools = frozenset(tool for part in self.parts for tool in getattr(part, "tools", ()))
        self.labels = frozenset(name for rule in rules for name in _labels(rule))

    @property
    def id(self) -> str:
        return self.source.id

    def start(self) -> list[Any]:
        """The memory of a new session: one for each part, and whether a violation was said."""
        return [*(part.start() for part in self.parts), [False]]

    def judge(self, trace: Trace, call: Call, memory: list[Any]) -> tuple[Finding | None, Judged]:
        """(why the call would break the rule, or None; what was found of each part)."""
        found = [part.judge(trace, call, memory[at]) for at, part in enumerate(self.parts)]
        return self._together(found, memory), found

    def _together(self, found: Judged, memory: list[Any]) -> Finding | None:
        wrong = [one for one in found if one is not None]
        if not wrong:
            return None
        if self.simple:
            return _worst(wrong)
        values: list[Truth] = [
            conjunction((part.so_far(memory[at]), True if one is None else one.value))
            for at, (part, one) in enumerate(zip(self.parts, found, strict=True))
        ]
        return _of_tree(self._tree, values, wrong)

    def placed(self, trace: Trace, call: Call, memory: list[Any], found: Judged) -> None:
        for at, part in enumerate(self.parts):
            part.placed(trace, call, memory[at], found[at])

    def settled(self, trace: Trace, call: Call, memory: list[Any]) -> None:
        for at, part in enumerate(self.parts):
            part.settled(trace, call, memory[at])

    def copied(self, memory: list[Any], calls: Mapping[Call, Call]) -> list[Any]:
        """A memory of its own for another session."""
        return [*(part.copied(memory[at], calls) for at, part in enumerate(self.parts)), list(memory[-1])]

    def said(self, memory: list[Any]) -> None:
        """A violation was reported, of a call that took its place all the same."""
        memory[-1][0] = True

    def ended(self, trace: Trace, memory: list[Any]) -> Finding | None:
        """Why the rule is not kept if nothing follows."""
        found = [part.ended(trace, memory[at]) for at, part in enumerate(self.parts)]
        wrong = [
            one
            for part, one in zip(self.parts, found, strict=True)
            if one is not None and not (self.simple and isinstance(part, Immediate))  # said when it was proposed
        ]
        if not wrong or (memory[-1][0] and not self.simple):
            return None
        if self.simple:
            return _worst(wrong)
        return _of_tree(self._tree, [True if one is None else one.value for one in found], wrong)

    def concerns(self, call: Call) -> bool:
        return any(part.concerns(call) for part in self.parts)


def _worst(findings: Sequence[Finding]) -> Finding:
    """A known violation where there is one."""
    known = [one for one in findings if one.value is False]
    if not known:
        whys = dict.fromkeys(why for one in findings if isinstance(one.value, Unknown) for why in one.value.why)
        return Finding(Unknown(*whys))
    return known[0]


def _of_tree(tree: Tree, values: Sequence[Truth], wrong: Sequence[Finding]) -> Finding | None:
    value = _value(tree, values)
    if value is True:
        return None
    evidence = {name: one for finding in wrong for name, one in finding.evidence.items()}
    remedies = dict.fromkeys(finding.remedy for finding in wrong if finding.remedy)
    return Finding(value, evidence, ", or ".join(remedies) or None)


def _value(tree: Tree, values: Sequence[Truth]) -> Truth:
    if isinstance(tree, int):
        return values[tree]
    kind, trees = tree
    fold: Callable[..., Truth] = conjunction if kind == "all" else disjunction
    return fold(_value(one, values) for one in trees)


def _is_simple(tree: Tree) -> bool:
    return isinstance(tree, int) or (tree[0] == "all" and all(map(_is_simple, tree[1])))


class _Builder:
    """Makes the parts of a rule, with NOT pushed down to them."""

    def __init__(self, library: Library, parts: list[Part]) -> None:
        self._library, self._parts = library, parts

    def tree(self, rule: ast.Rule, *, negated: bool) -> Tree:
        match rule:
            case ast.AllOf(parts):
                return "any" if negated else "all", tuple(self.tree(part, negated=negated) for part in parts)
            case ast.AnyOf(parts):
                return "all" if negated else "any", tuple(self.tree(part, negated=negated) for part in parts)
            case ast.Not(body):
                return self.tree(body, negated=not negated)
        self._parts.append(self._negated(rule) if negated else self._plain(rule))
        return len(self._parts) - 1

    def _plain(self, rule: ast.Rule) -> Part:
        compiler = Compiler(self._library)
        match rule:
            case ast.Temporal(formula):
                return Propositional(formula, self._sets(formula))
            case ast.Forall():
                return Immediate(rule, compiler)
            case ast.Before(pattern, condition, partner, partner_condition):
                needed = ast.Implies(condition, ast.SomeCall(partner, partner_condition, ok=True))
                return Immediate(ast.Forall(pattern, needed), compiler)
            case ast.Exists():
                return Eventual(rule, compiler)
            case ast.After():
                return Response(rule, compiler)
        raise AssertionError(rule)

    def _negated(self, rule: ast.Rule) -> Part:
        compiler = Compiler(self._library)
        match rule:
            case ast.Temporal(formula):
                return Propositional(negation(formula), self._sets(formula))
            case ast.Forall(pattern, condition):
                return Eventual(ast.Exists(pattern, ast.Inverted(condition)), compiler)
            case ast.Before(pattern, condition, partner, partner_condition):
                none = ast.Inverted(ast.SomeCall(partner, partner_condition, ok=False))
                return Eventual(ast.Exists(pattern, ast.And((condition, none))), compiler)
            case ast.Exists(pattern, condition):
                _refuse_outcome(pattern, condition)
                return Immediate(ast.Forall(pattern, ast.Inverted(condition)), compiler)
            case ast.After():
                return Response(rule, compiler, negated=True)
        raise AssertionError(rule)

    def _sets(self, formula: Any) -> Mapping[str, frozenset[str]]:
        """The sets of tools that a formula names; and its tools exist."""
        for atom in atoms(formula):
            if atom.startswith("tool:"):
                self._library.tools_of(ast.Pattern((atom.removeprefix("tool:"),)))
        return {atom[1:]: self._library.tools_of(ast.Pattern((atom,))) for atom in atoms(formula) if atom[0] == "@"}


def _refuse_outcome(pattern: ast.Pattern, condition: ast.Term) -> None:
    """NOT exists is asked of proposed calls."""
    for one in ast.walk(condition):
        if isinstance(one, ast.OfCall) and one.what != "args" and one.call == ast.Label(pattern.label or ""):
            problem = f"NOT exists(...) is asked of proposed calls: expected args({pattern.label}) only"
            raise CompileError(problem, pattern.place)


def _labels(rule: ast.Rule) -> set[str]:
    """The atoms of a rule that are no tools: actions, decisions and tags."""
    match rule:
        case ast.AllOf(parts) | ast.AnyOf(parts):
            return {name for part in parts for name in _labels(part)}
        case ast.Not(body):
            return _labels(body)
        case ast.Temporal(formula):
            return {name for name in atoms(formula) if not name.startswith(("tool:", "@"))}
    return set()
