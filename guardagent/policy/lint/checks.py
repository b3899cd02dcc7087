"""The lint checks of contradictory, under-constrained, unreachable and missing rules.

Each is a generator of findings with the decorator `lint_check`; its cases are in `tests/policy/lint_cases.py`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from guardagent.policy.evaluation.history_index import ANY
from guardagent.policy.evaluation.terms import is_true
from guardagent.policy.language import ast
from guardagent.policy.language.printer import text_of
from guardagent.policy.language.values import shown
from guardagent.policy.lint.data import (
    analysis_of,
    conjuncts,
    data_contradictions,
    opened,
    related_rules,
    required_calls,
    rules_about_forbidden_calls,
    scoped_contradictions,
    terms_of,
)
from guardagent.policy.lint.solver import SolverCase, Values, solver_contradictions, timed_cases
from guardagent.policy.lint.steps import step_contradictions
from guardagent.policy.lint.target import LintFinding, LintTarget, join_words, lint_check, minimal_set, rules_of
from guardagent.policy.logic.analysis import PolicyAnalysis
from guardagent.policy.logic.semantics import RuleTree
from guardagent.policy.monitors.rule import Rule
from guardagent.policy.provenance.readers import NO_LABELS
from guardagent.policy.solver.monitor import describe_value
from guardagent.policy.solver.z3_text import postorder, solver_module, term_of

# --- contradictory


@lint_check("contradictory")
def contradictory(target: LintTarget) -> Iterator[LintFinding]:
    """Contradictory: a tool that can never be called, or whose pending obligation can never be met.

    Yields one finding per tool, for the simplest reason. Tools that can never be called are ignored afterwards; tools
    that are forbidden outright are not reported.
    """
    reported: dict[str | None, None] = {}
    for contradictions in (solver_contradictions, data_contradictions):
        for contradiction in contradictions(target):
            if contradiction.tool not in reported:
                reported[contradiction.tool] = None
                yield contradiction
    for contradiction in step_contradictions(target, never=[tool for tool in reported if tool is not None]):
        reported[contradiction.tool] = None
        yield contradiction
    for contradictions in (scoped_contradictions, required_calls):
        yield from (finding for finding in contradictions(target) if finding.tool not in reported)


@lint_check("contradictory_bans")
def contradictory_bans(target: LintTarget) -> Iterator[LintFinding]:
    """Contradictory: a rule that says when a call is allowed, or what it needs, although others forbid it outright."""
    yield from rules_about_forbidden_calls(target).values()


@dataclass(frozen=True)
class _RequiredCase:
    """A rule that requires the case of another rule, and the text of the case."""

    rule: Rule
    needed: Rule
    text: str


@lint_check("contradictory_cases")
def contradictory_cases(target: LintTarget) -> Iterator[LintFinding]:
    """Contradictory: a case that a rule speaks of, such as `a > 100 -> …`, in which rules together allow no call.

    Skips cases that one rule excludes by itself: it does so on purpose.
    """
    analysis = analysis_of(target)
    rules = related_rules(target) if analysis is not None else []
    reported: set[tuple[str, ...]] = set()
    own = [rule for rule in target.own if rule in rules]
    for case in (stated_case for rule in own for stated_case in _stated_cases(rule, target)):
        beside = [rule for rule in rules if terms_of(rule) & terms_of(case.rule)]
        for tool in sorted((case.needed.tools & target.own_tools) - target.forbidden_tools):
            assert analysis is not None
            least = _excluding(tool, case, [rule for rule in beside if tool in rule.tools], analysis)
            ids = tuple(sorted(core_rule.id for core_rule in least))
            if len(ids) > 1 and (tool, *ids) not in reported:
                reported.add((tool, *ids))
                yield _excluded_case(tool, case, least, analysis)


def _excluding(tool: str, case: _RequiredCase, rules: Sequence[Rule], analysis: PolicyAnalysis) -> list[Rule]:
    """Returns rules that together exclude a case of one of them, although the others do not; none if there are none."""

    def exclude(some: Sequence[Rule], *cases: Rule) -> bool:
        return analysis.is_never_allowed(tool, (), others=[*some, *cases])

    others = [rule for rule in rules if rule is not case.rule]
    if not others or not exclude(rules, case.needed):
        return []
    if exclude(rules) or exclude(others, case.needed):
        return []
    return minimal_set([*others, case.rule], lambda some: exclude(some, case.needed))


def _stated_cases(rule: Rule, target: LintTarget) -> Iterator[_RequiredCase]:
    for read in rule.rules:
        for part in read.parts if isinstance(read, ast.AllOf) else (read,):
            for pattern, case in _conditions_of(part):
                needed = opened(pattern, case)
                if needed.condition != ast.And(()):
                    yield _RequiredCase(rule, target.rule_of(rule, needed), text_of(needed.condition))


def _conditions_of(part: ast.Rule) -> Iterator[tuple[ast.Pattern, tuple[ast.Term, ...]]]:
    match part:
        case ast.Forall(pattern, condition):
            cases = [conjunct.first for conjunct in conjuncts(condition) if isinstance(conjunct, ast.Implies)]
            yield from ((pattern, (case,)) for case in cases)
            if len(cases) < len(conjuncts(condition)):
                yield pattern, ()
        case ast.Before(pattern, condition):
            yield pattern, () if is_true(condition) else (condition,)


def _excluded_case(tool: str, case: _RequiredCase, least: Sequence[Rule], analysis: PolicyAnalysis) -> LintFinding:
    ids = [rule.id for rule in least]
    message = (
        f"no call of '{tool}' with {case.text} is allowed: {rules_of(ids)} together exclude it; "
        "change one of them, or forbid the case in one rule"
    )
    tool_example = analysis.example(tool, satisfied=[case.needed, *least[:-1]], violated=least[-1:])
    call = tool_example.description if tool_example else f"{tool}()"
    example = f"{call}: denied by rule '{ids[-1]}', allowed by {rules_of(ids[:-1])}"
    return LintFinding("contradictory", ids[-1], tool, message, example, tuple(ids[:-1]))


# --- under-constrained


@lint_check("underconstrained")
def underconstrained(target: LintTarget) -> Iterator[LintFinding]:
    """Under-constrained: a call is permitted although nothing in the rule supports it.

    This is 5.1 of *Solver-Aided Verification*. It happens if an assertion is only an implication from a fact that
    nothing else determines, or if a variable is `free: any`.
    """
    for case in timed_cases(target, "whether solver rules determine their permits"):
        if not case.has_literal_permit:
            yield from _undetermined(case, target)
            yield from _free(case, target)
        yield from _undefined(case)


def _undefined(case: SolverCase) -> Iterator[LintFinding]:
    """Yields a finding if an operation such as a division has no value for some call, so that the call is denied."""
    check = case.permit_check
    values = case.example(check.question.doubt) if check.question.places else None
    result = check.question.solve(values) if values is not None else None
    if values is not None and result is not None and result.status == "undefined":
        message = check.located(result.undefined[0])
        example = f"{case.describe(values)}: denied, since that is unknown"
        yield LintFinding("underconstrained", case.rule.id, case.tool, message, example)


def _undetermined(case: SolverCase, target: LintTarget) -> Iterator[LintFinding]:
    """Yields findings if the permit of one call can both hold and fail."""
    if not case.open:
        return
    status, together = case.permit_varies()
    if status == "unknown":
        question = f"whether rule '{case.rule.id}' determines the permit of '{case.tool}'"
        target.add_undecided(question, "Z3 reached no result")
    if status != "sat":
        return
    permit_varies = {name: case.permit_varies([other for other in case.open if other != name]) for name in case.open}
    alone = {name: terms for name, (status, terms) in permit_varies.items() if status == "sat"}
    for names, terms in [([name], terms) for name, terms in alone.items()] or [(sorted(case.open), together)]:
        values = case.example(terms)
        if values is not None and case.is_permitted(values):
            yield _undetermined_constants(case, names, values)


def _undetermined_constants(case: SolverCase, names: Sequence[str], values: Values) -> LintFinding:
    ways = _implications(case, names)
    is_single = len(names) == 1
    message = (
        f"the permit depends on {join_words(map(repr, names))}, which nothing determines: "
        f"{'it is not a variable' if is_single else 'they are not variables'} of '{case.tool}', and the assertions "
        f"leave {'it' if is_single else 'them'} open{ways}; write an equivalence such as '(= {names[0]} (…))', "
        f"or give {'it' if is_single else 'them'} a source"
    )
    example = f"{case.describe(values)}: permitted, although the rule could just as well deny it"
    return LintFinding("underconstrained", case.rule.id, case.tool, message, example)


def _implications(case: SolverCase, names: Sequence[str]) -> str:
    """Lists the assertions that are implications to these constants."""
    z3 = solver_module()
    assertions = zip(case.assertions, case.permit_check.encoding.assertions, strict=True)
    implied = [
        f"line {assertion.line}" if assertion.name is None else repr(assertion.name)
        for term, assertion in assertions
        if z3.is_implies(term) and any(str(part.decl().name()) in names for part in _parts(term))
    ]
    return f" ({join_words(implied)}: an implication)" if implied else ""


def _parts(term: Any) -> list[Any]:
    return [part for part in postorder([term]) if solver_module().is_app(part)]


def _free(case: SolverCase, target: LintTarget) -> Iterator[LintFinding]:
    for name, variable in case.variables.items():
        if variable.free and name in case.variable_terms:
            dependence = _dependence(case, name, target)
            if dependence is not None:
                yield _of_free(case, name, *dependence)


def _dependence(case: SolverCase, name: str, target: LintTarget) -> tuple[Values, Values] | None:
    """Returns the values of a permitted and a denied call that differ in one variable only."""
    z3 = solver_module()
    open_ = [symbol() for symbol in case.open.values() if not symbol.arity()]
    other = z3.Const(f"{name}|otherwise", case.variable_terms[name].sort())
    pair = [(case.variable_terms[name], other)]
    whole = z3.And([*case.assertions, case.permit])
    apart = z3.Not(z3.Exists(open_, whole) if open_ else whole)
    terms = [whole, *(z3.substitute(term, *pair) for term in (apart, *case.domain))]
    status, _ = case.check(terms)
    if status == "unknown":
        target.add_undecided(f"whether rule '{case.rule.id}' depends on variable '{name}'", "Z3 reached no result")
    permitted = case.example(terms) if status == "sat" else None
    if permitted is None:
        return None
    known = {variable: value for variable, value in permitted.items() if variable != name}
    denied = case.example([*case.equalities(known), apart])
    if denied is None or not case.is_permitted(permitted) or case.is_permitted(denied) is not False:
        return None
    return permitted, denied


def _of_free(case: SolverCase, name: str, permitted: Values, denied: Values) -> LintFinding:
    mend = "remove 'free: any'" if case.variables[name].source is not None else "add a 'from:' instead"
    assumed = f"if it is unknown, a value that permits '{case.tool}' is assumed"
    message = f"variable '{name}' is 'free: any': {assumed}; {mend}"
    values = {variable: value for variable, value in permitted.items() if variable != name}
    example = (
        f"{case.describe(values)}, and '{name}' is unknown: permitted, since possibly "
        f"{describe_value(name, permitted[name])}; if it were known that "
        f"{describe_value(name, denied[name])}, it would be denied"
    )
    return LintFinding("underconstrained", case.rule.id, case.tool, message, example)


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
        bound = Counter(
            argument.value.name for argument in self.judged.arguments if isinstance(argument.value, ast.Variable)
        )
        read = {name for term in self.terms for name in ast.names_in(term)}
        for judged_argument in self.judged.arguments if self.judged.label not in read else ():
            if (
                isinstance(judged_argument.value, ast.Variable)
                and bound[judged_argument.value.name] == 1
                and judged_argument.value.name not in read
            ):
                yield judged_argument.name, judged_argument.value.name

    def fixes(self, name: str) -> bool:
        """Whether the other call has a certain value of an argument."""
        fixed = (ast.ExactValue, ast.RegexValue)
        return any(argument.name == name and isinstance(argument.value, fixed) for argument in self.other.arguments)


@lint_check("unread_argument")
def unread_argument(target: LintTarget) -> Iterator[LintFinding]:
    """Underconstrained: a rule about two calls that binds an argument of one and never compares it with the other."""
    for rule in target.rules:
        for part in RuleTree(rule.rules).atomic_rules:
            calls = _two_calls(part.rule)
            for name, variable in calls.unread if calls is not None else ():
                if calls is not None and not calls.fixes(name):
                    tool = calls.judged.tools[0] if len(rule.tools) == 1 else None
                    yield LintFinding("underconstrained", rule.id, tool, *_unread_texts(calls, name, variable, target))


def _two_calls(rule: ast.Rule) -> _TwoCalls | None:
    match rule:
        case ast.Before(judged, condition, other, wanted) | ast.After(judged, condition, other, wanted):
            return _TwoCalls(judged, other, (condition, other, wanted), isinstance(rule, ast.After))
        case ast.Forall(judged, condition):
            earlier = [conjunct.pattern for conjunct in conjuncts(condition) if isinstance(conjunct, ast.SomeCall)]
            return _TwoCalls(judged, earlier[0], (condition,)) if earlier else None
    return None


def _unread_texts(calls: _TwoCalls, name: str, variable: str, target: LintTarget) -> tuple[str, str]:
    """The message and the example."""
    judged, other = (_example_tool(call, target) for call in (calls.judged, calls.other))
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


def _example_tool(pattern: ast.Pattern, target: LintTarget) -> str:
    """A tool that the pattern matches."""
    name = pattern.tools[0]
    return min(target.tags[name[1:]], default=name) if name[0] == "@" else "another_tool" if name == ANY else name


@lint_check("searched_output")
def searched_output(target: LintTarget) -> Iterator[LintFinding]:
    """Underconstrained: `x in output(f)`, which nothing declares to be a string or a list; and `x in text(user)`."""
    for rule in target.rules:
        for node in (node for read in rule.rules for node in ast.walk(read)):
            tool = min(rule.tools) if len(rule.tools) == 1 else None
            match node:
                case ast.Compare(item, "in", ast.OfCall("output") as output):
                    yield LintFinding("underconstrained", rule.id, tool, *_search_texts(item, output))
                case ast.Compare(item, "in", ast.MessagesText() as messages) if not isinstance(item, ast.Constant):
                    yield LintFinding("underconstrained", rule.id, tool, *_part_texts(item, messages))


def _search_texts(item: ast.Term, output: ast.OfCall) -> tuple[str, str]:
    """The message and the example."""
    sought, whole = text_of(item), text_of(output)
    message = (
        f"'{sought} in {whole}' depends on the shape of the output, which nothing declares: of a string it finds any "
        f"part, and of a mapping or a mixed list nothing can be known; write 'mentions({whole}, {sought})' for a whole "
        f"word or id, '{sought} in keys({whole})' for a key, or name the field that is a list"
    )
    return message, f"a call after which {whole} is a mapping: whether it contains {sought} is unknown, so it is denied"


def _part_texts(item: ast.Term, messages: ast.MessagesText) -> tuple[str, str]:
    sought, whole = text_of(item), text_of(messages)
    message = f"'{sought} in {whole}' finds any part of a longer word or id; write 'mentions({whole}, {sought})'"
    return message, f'where {sought} is "W1", a message about "W10" satisfies it'


@lint_check("optional_field")
def optional_field(target: LintTarget) -> Iterator[LintFinding]:
    """Underconstrained: `!known(a.field)`, although nothing says that `a` is a mapping."""
    for rule in target.rules:
        for read in rule.rules:
            variables = {node.variable: node.items for node in ast.walk(read) if isinstance(node, ast.OverItems)}
            for node in dict.fromkeys(_negated(read)):
                match node.body:
                    case ast.Field(whole, str(name)) | ast.Item(whole, ast.Constant(str(name))):
                        if _is_free(whole, variables):
                            tool = min(rule.tools) if len(rule.tools) == 1 else None
                            yield LintFinding("underconstrained", rule.id, tool, *_optional_texts(node, whole, name))


def _negated(node: object, *, negative: bool = False) -> Iterator[ast.Known]:
    """The uses of `known` that let a call pass if they are false."""
    match node:
        case ast.Known():
            yield from [node] if negative else []
        case ast.Negation(body) | ast.Not(body):
            yield from _negated(body, negative=not negative)
        case ast.Implies(first, second):
            yield from _negated(first, negative=not negative)
            yield from _other_than(first, _negated(second, negative=negative))
        case ast.And() if not negative:
            for part in node.parts:
                yield from _other_than(node, _negated(part))
        case ast.Before(_, condition, _, wanted) | ast.After(_, condition, _, wanted):
            yield from _negated(condition, negative=not negative)
            yield from _negated(wanted, negative=negative)
        case _:
            for child in ast.children(node):
                yield from _negated(child, negative=negative)


def _other_than(required: ast.Term, nodes: Iterator[ast.Known]) -> Iterator[ast.Known]:
    """The uses of `known` about fields for which no `has(a, "field")` is required."""
    parts = required.parts if isinstance(required, ast.And) else (required,)
    fields = {_field(part) for part in parts if isinstance(part, ast.Apply)}
    return (node for node in nodes if _field(node.body) not in fields)


def _field(term: ast.Term) -> tuple[object, str] | None:
    """The mapping and the name of a field that a term reads, or that `has` finds."""
    match term:
        case (
            ast.Field(whole, str(name))
            | ast.Item(whole, ast.Constant(str(name)))
            | ast.Apply("has", (whole, ast.Constant(str(name))))
        ):
            return whole, name
    return None


def _is_free(whole: ast.Term, variables: Mapping[str, ast.Term]) -> bool:
    """Whether a value comes from an argument or an output, which may have any form."""
    root = whole
    while isinstance(root, ast.Field | ast.Item):
        root = root.body
    if isinstance(root, ast.Variable):
        return root.name not in variables or _is_free(variables[root.name], variables)
    return isinstance(root, ast.OfCall) and (root.what == "output" or root is not whole)


def _optional_texts(node: ast.Known, whole: ast.Term, name: str) -> tuple[str, str]:
    """The message and the example."""
    known, value = text_of(node), text_of(whole)
    message = (
        f"'!{known}' lets a call pass if {value} is null or a list, or has null there, though a tool may read it "
        f"otherwise; write '!has({value}, {json.dumps(name)})', which is true only of a mapping without the key, or "
        f"'has({value}, {json.dumps(name)}) && !{known}' for null there"
    )
    return message, f"a call in which {value} is [{{{json.dumps(name)}: 1}}]: {known} is false"


# --- unreachable


@lint_check("unreachable")
def unreachable(target: LintTarget) -> Iterator[LintFinding]:
    """Unreachable: allowed values of a variable that the assertions exclude."""
    for case in timed_cases(target, "whether solver rules exclude a value"):
        if case.check(case.assertions)[0] == "sat":  # otherwise the rule is contradictory
            for name in case.variable_terms:
                yield from _excluded_values(case, name, target)


def _excluded_values(case: SolverCase, name: str, target: LintTarget) -> Iterator[LintFinding]:
    for value in _allowed_values(case, name):
        status, _ = case.check(
            [*case.assertions, case.variable_terms[name] == term_of(value, case.variable_terms[name])]
        )
        if status == "unknown":
            question = f"whether variable '{name}' of rule '{case.rule.id}' can be {shown(value)}"
            target.add_undecided(question, "Z3 reached no result")
        if status == "unsat":
            message = (
                f"variable '{name}' can never be {shown(value)}: the assertions exclude the value; "
                "remove the value, or change the assertions"
            )
            example = f"{case.describe({name: value})}: denied, whatever the other values"
            yield LintFinding("unreachable", case.rule.id, case.tool, message, example)


def _allowed_values(case: SolverCase, name: str) -> tuple[Any, ...]:
    variable = case.variables[name]
    return variable.enum or variable.sort.values or ()


@lint_check("unreachable_data")
def unreachable_data(target: LintTarget) -> Iterator[LintFinding]:
    """Unreachable: a case of a condition, `c == "first" -> …`, that the other conditions exclude."""
    analysis = analysis_of(target)
    for rule in target.own if analysis is not None else ():
        assert analysis is not None
        for read in rule.rules if not target.tells_others_apart(rule) else ():
            for part in read.parts if isinstance(read, ast.AllOf) else (read,):
                if isinstance(part, ast.Forall):
                    yield from _unreachable_cases(
                        rule, opened(part.pattern, conjuncts(part.condition)), analysis, target
                    )


def _unreachable_cases(
    rule: Rule, read: ast.Forall, analysis: PolicyAnalysis, target: LintTarget
) -> Iterator[LintFinding]:
    assert isinstance(read.condition, ast.And)
    parts = read.condition.parts
    for at, part in enumerate(parts):
        if isinstance(part, ast.Implies):
            beside = parts[:at] + parts[at + 1 :]
            kept = target.rule_of(rule, ast.Forall(read.pattern, ast.And(beside)))
            case = target.rule_of(rule, ast.Forall(read.pattern, part.first))
            tools = sorted(tool for tool in case.tools if not analysis.is_never_allowed(tool, [kept]))
            if tools and all(analysis.is_never_allowed(tool, [kept], others=[case]) for tool in tools):
                yield _unreachable_case(rule, tools, part.first, kept, analysis)


def _unreachable_case(
    rule: Rule, tools: list[str], case: ast.Term, kept: Rule, analysis: PolicyAnalysis
) -> LintFinding:
    message = f"no call satisfies the case '{text_of(case)}': the other conditions exclude it; remove the case"
    kept_call = analysis.example(tools[0], satisfied=[kept])
    call = kept_call.description if kept_call else f"{tools[0]}()"
    example = f"{call}: an allowed call, which does not satisfy '{text_of(case)}'"
    return LintFinding("unreachable", rule.id, tools[0] if len(tools) == 1 else None, message, example)


# --- missing rules, and labels without one

_MEANS = {"allow": "is allowed, whatever its arguments", "deny": "is denied by 'unlisted: deny'"}
_AS_ANY = "is judged like any other step, whatever its arguments"  # by a rule about the next step


@lint_check("uncovered")
def uncovered(target: LintTarget) -> Iterator[LintFinding]:
    """Uncovered: tools of the policy's `tools:` that no rule mentions.

    Reports nothing if there are guard requests or rules about labels only, which may concern every call.
    """
    if target.policies.requests or any(rule.labels and not rule.tools for rule in target.rules):
        return
    for tool in target.file.tools or ():
        concern = target.policies.of_tool[tool]
        if tool not in target.mentioned_tools and not (concern.indexes and concern.listed):
            message = f"no rule mentions '{tool}'; add a rule, or remove it from 'tools:'"
            means = _AS_ANY if concern.monitors and concern.listed else _MEANS[target.policies.unlisted]
            yield LintFinding("uncovered", None, tool, message, f"{tool}() {means}")


_UNLISTED = (
    "'unlisted' is missing, so every call that no rule covers is allowed; write 'unlisted: deny', or "
    "'unlisted: allow' if that is meant"
)


@lint_check("unlisted")
def unlisted(target: LintTarget) -> Iterator[LintFinding]:
    """Unlisted: the file does not say what happens to calls that no rule covers, so they are allowed.

    With `tools:`, these are the calls of the declared tools: all others are denied.
    """
    tools = ("any_other_tool",) if target.file.tools is None else target.file.tools
    for tool in [tool for tool in tools if tool not in target.mentioned_tools][:1]:
        if target.file.unlisted is None:
            yield LintFinding("unlisted", None, None, _UNLISTED, f"{tool}() is allowed, whatever its arguments")


@lint_check("unused_labels")
def unused_labels(target: LintTarget) -> Iterator[LintFinding]:
    """Vacuous: a label of `labels:` that no rule reads, nor the condition of another label.

    Skips labels in the expressions of solver rules.
    """
    read = set(_labels_read(target))
    expressions = " ".join(str(source.solver) for source in target.file.rules if source.solver is not None)
    for label, sources in target.file.labels.sources.items():
        if label not in read and label not in expressions:
            message = (
                f"no rule reads the label '{label}'; read it with 'sources(x)', 'seen({label})' or 'flow', or remove it"
            )
            example = f"a value from '{sources[0].name}': judged like any other"
            yield LintFinding("vacuous", None, None, message, example)


def _labels_read(target: LintTarget) -> Iterator[str]:
    for rule in target.rules:
        for read in rule.rules:
            yield from ast.labels_in(read)
    for source in chain.from_iterable((target.policies.sources or NO_LABELS).sources.values()):
        yield from () if source.when is None else source.when.labels
