"""Underconstrained: a rule about two calls that binds an argument of one and never compares it with the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from guardagent.policy.evaluation.terms import names_in
from guardagent.policy.evaluation.tool_sets import ANY
from guardagent.policy.language import ast
from guardagent.policy.language.printer import text_of
from guardagent.policy.lint.finding import LintFinding
from guardagent.policy.lint.open_patterns import conjuncts
from guardagent.policy.lint.target import LintTarget
from guardagent.policy.logic.rule_tree import RuleTree


@dataclass(frozen=True)
class _TwoCalls:
    """A rule about a judged call and another one, and the terms that can relate them."""

    judged: ast.Pattern
    other: ast.Pattern
    terms: tuple[ast.Term | ast.Pattern, ...]
    judged_first: bool = False

    @property
    def unread(self) -> Iterator[tuple[str, str]]:
        """The arguments of the judged call, with their variables, that nothing else in the rule reads."""
        bound = Counter(one.value.name for one in self.judged.arguments if isinstance(one.value, ast.Variable))
        read = {name for one in self.terms for name in names_in(one)}
        for one in self.judged.arguments if self.judged.label not in read else ():
            if isinstance(one.value, ast.Variable) and bound[one.value.name] == 1 and one.value.name not in read:
                yield one.name, one.value.name

    def fixes(self, name: str) -> bool:
        """Whether the other call has a certain value of an argument."""
        fixed = (ast.ExactValue, ast.RegexValue)
        return any(one.name == name and isinstance(one.value, fixed) for one in self.other.arguments)


def check(target: LintTarget) -> Iterator[LintFinding]:
    for rule in target.rules:
        for part in RuleTree(rule.rules).atomic_rules:
            calls = _two_calls(part.rule)
            for name, variable in calls.unread if calls is not None else ():
                if calls is not None and not calls.fixes(name):
                    tool = calls.judged.tools[0] if len(rule.tools) == 1 else None
                    yield LintFinding("underconstrained", rule.id, tool, *_texts(calls, name, variable, target))


def _two_calls(rule: ast.Rule) -> _TwoCalls | None:
    match rule:
        case ast.Before(judged, condition, other, wanted) | ast.After(judged, condition, other, wanted):
            return _TwoCalls(judged, other, (condition, other, wanted), isinstance(rule, ast.After))
        case ast.Forall(judged, condition):
            earlier = [one.pattern for one in conjuncts(condition) if isinstance(one, ast.SomeCall)]
            return _TwoCalls(judged, earlier[0], (condition,)) if earlier else None
    return None


def _texts(calls: _TwoCalls, name: str, variable: str, target: LintTarget) -> tuple[str, str]:
    """The message and the example."""
    judged, other = (_tool(one, target) for one in (calls.judged, calls.other))
    declared = (target.file.tools or {}).get(other)
    has_argument = declared is None or name in declared
    fault = f"nothing reads '{variable}', the {name} of '{judged}', so {text_of(calls.other)} can be for another {name}"
    mend = (
        f"name the same {name} in both: '{other}({name}={variable})'"
        if has_argument
        else f"compare it with the arguments or the output of '{other}', or leave it out"
    )
    texts = [f'{other}({name}="A")' if has_argument else f"{other}()", f'{judged}({name}="B")']
    first, second = reversed(texts) if calls.judged_first else texts
    return f"{fault}; {mend}", f"{first}, then {second}: satisfies the rule, if its other conditions hold"


def _tool(pattern: ast.Pattern, target: LintTarget) -> str:
    """A tool that the pattern matches."""
    name = pattern.tools[0]
    return min(target.tags[name[1:]], default=name) if name[0] == "@" else "another_tool" if name == ANY else name
