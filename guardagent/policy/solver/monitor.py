"""The monitor of a solver rule: checks each call of its tools with an SMT solver.

The solver gets the policy, the known values of the call and the permit. A satisfiable result allows the call; an
unsatisfiable one denies it and explains a minimal core in natural language (*Solver-Aided Verification*, 3.1). Unknown
values never allow a call: an unknown required variable denies, and an unknown optional variable must not change the
result, whatever its value. Only `free: any` lets the solver choose a value, as the paper does.

Values are checked against their SMT-LIB sorts, without coercion. The SMT-LIB text of a rule is read once, with one
question per tool.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any

from guardagent.errors import ContentError, InputError, name_hint
from guardagent.policy.evaluation.call_outcomes import CallOutcomes
from guardagent.policy.evaluation.history_query import Env
from guardagent.policy.evaluation.monitor_interface import Explanation, Monitor, MonitorResult, RuleContext, SessionCall
from guardagent.policy.evaluation.operands import Library
from guardagent.policy.evaluation.terms import Compiler
from guardagent.policy.file.rule_keys import GovernedTool, RuleSource, SolverSource, VariableSource
from guardagent.policy.file.source_tree import SourceText
from guardagent.policy.language import ast
from guardagent.policy.language.values import Absent, Truth, Unknown, equal, exact, kind_of, shown
from guardagent.policy.solver import sources, z3_text
from guardagent.policy.solver.question import Encoding, Question
from guardagent.policy.solver.script import SmtError

if TYPE_CHECKING:
    from guardagent.models import Model

# --- sorts


class SortMismatch:
    """A value that does not belong to the variable's sort; it always denies the call."""

    __slots__ = ("why",)

    def __init__(self, why: str) -> None:
        self.why = why


def value_of_sort(value: Any, sort: z3_text.Sort, enum: Sequence[Any] | None) -> Any:
    """Returns the value as a bool, int, Fraction or str; Unknown if there is none; or a SortMismatch."""
    if type(value) is Unknown:
        return value
    kind = kind_of(value)
    if kind is None:
        return Unknown("it is null") if value is None else SortMismatch(f"{shown(value)} is not a JSON value")
    converted = _of_sort(value, kind, sort)
    if enum is None or type(converted) is SortMismatch or any(equal(converted, allowed) is True for allowed in enum):
        return converted
    return SortMismatch(f"{shown(converted)} is not an allowed value{name_hint(str(converted), map(str, enum))}")


def _of_sort(value: Any, kind: str, sort: z3_text.Sort) -> Any:
    if sort.values is not None:
        if kind == "text" and value in sort.values:
            return str(value)
        return SortMismatch(f"{shown(value)} is not an allowed value{name_hint(str(value), sort.values)}")
    if sort is z3_text.BOOL and kind == "truth value":
        return bool(value)
    if sort is z3_text.STRING and kind == "text":
        has_all = z3_text.is_text(value)
        return str(value) if has_all else SortMismatch(f"{shown(value)} has characters that SMT-LIB lacks")
    if sort in (z3_text.INT, z3_text.REAL) and kind == "number":
        return _number(value, sort)
    return SortMismatch(f"{shown(value)} is a {kind}; expected a value of sort '{sort.name}'")


def _number(value: Any, sort: z3_text.Sort) -> Any:
    number = exact(value)
    if type(number) is Unknown:
        return SortMismatch("; ".join(number.why))
    if sort is z3_text.INT and type(number) is not int:
        return SortMismatch(f"{shown(value)} is not a whole number; expected a value of sort 'Int'")
    return number


# --- explanations

_ASSERTION, _VARIABLE = "assertion:", "variable:"
_VERBS = ("is", "has", "was", "can", "are", "have", "does", "were")
_PARTICIPLES = ("ed", "en", "ing", "able", "ible")

NOT_SHOWN = "(not shown)"


def describe_facts(core: Iterable[str], encoding: Encoding, values: Mapping[str, Any], hidden: Container[str]) -> str:
    """Describes the facts of a core; hidden facts appear without their values."""
    return "; ".join(
        _describe_hidden(name, encoding)
        if name in hidden
        else describe_value(name, values[name], encoding.comments.get(name, ""))
        for name in facts_of(core)
        if name in values
    )


def facts_of(core: Iterable[str]) -> list[str]:
    """Returns the variables of a core."""
    return [name.removeprefix(_VARIABLE) for name in core if name.startswith(_VARIABLE)]


def _describe_hidden(name: str, encoding: Encoding) -> str:
    comment = encoding.comments.get(name, "")
    return comment.replace("{}", NOT_SHOWN) if "{}" in comment else f"{_plain(name)} {NOT_SHOWN}"


def _plain(name: str) -> str:
    return name.replace("_", " ").replace("-", " ").strip()


def rules_of(core: Iterable[str], encoding: Encoding) -> list[str]:
    """Returns each assertion of a core by its comment, else its name, else its text."""
    numbers = [int(name.removeprefix(_ASSERTION)) for name in core if name.startswith(_ASSERTION)]
    assertions = [encoding.assertions[number] for number in sorted(numbers)]
    return [assertion.comment or assertion.name or " ".join(assertion.text.split()) for assertion in assertions]


def describe_value(name: str, value: Any, comment: str = "") -> str:
    """Describes a value, with the declaration's comment if that has a placeholder, as in `booked {} hours ago`."""
    if "{}" in comment:
        return comment.replace("{}", value if isinstance(value, str) else shown(value))
    words = _plain(name)
    if isinstance(value, bool):
        return words if value else _denied(words)
    if isinstance(value, str):
        return f"{words} is {value.replace('_', ' ') if value.isidentifier() else shown(value)}"
    return f"{words} is {shown(value)}"


def _denied(words: str) -> str:
    verb, _, rest = words.partition(" ")
    if rest and verb in _VERBS:
        return f"{verb} no {rest}" if verb in ("has", "have") else f"{verb} not {rest}"
    return f"not {words}" if verb.endswith(_PARTICIPLES) else f"no {words}"


# --- the monitor

MAX_OUTCOMES = 64  # combinations of outcomes of calls in flight that are checked
CACHE_SIZE = 1024  # explained denials, by the values of the variables


@dataclass(frozen=True, slots=True)
class SolverVariable:
    """A variable of a tool's schema."""

    name: str
    sort: z3_text.Sort
    enum: tuple[Any, ...] | None
    source: sources.Source | None
    required: bool
    free: bool


class PermitCheck:
    """Checks the permit of one tool.

    Args:
        question: asks whether the constraints and the permit are satisfiable.
        variables: the tool's schema, in the order of the question's variables.
        slot: the index of the call's arguments in the environment.
        size: the number of slots of the environment.
        outcomes: the outcomes of calls in flight that the variables can tell apart.
    """

    def __init__(
        self,
        encoding: Encoding,
        question: Question,
        variables: Sequence[SolverVariable],
        slot: int,
        size: int,
        outcomes: CallOutcomes,
    ) -> None:
        self.encoding, self.question, self.variables = encoding, question, tuple(variables)
        self._slot, self._size, self._outcomes = slot, size, outcomes
        self._domains = {variable.name: variable.enum for variable in variables if variable.enum is not None}
        expressions = {
            variable.name: variable.source
            for variable in variables
            if isinstance(variable.source, sources.ExpressionSource)
        }
        self._computed = [
            (at, expressions[variable.name].term)
            for at, variable in enumerate(variables)
            if variable.name in expressions
        ]
        stated = [variable for variable in variables if isinstance(variable.source, sources.ConversationSource)]
        self.requested = tuple(_requested_variable(variable, encoding) for variable in stated)
        self.reads_history = any(source.reads_history for source in expressions.values())
        by_agent = [name for name, source in expressions.items() if source.from_args]
        self._changeable = by_agent or [variable.name for variable in variables]
        self._by_agent = bool(by_agent)
        self._hidden = {name for name, source in expressions.items() if not source.is_shown}
        self.violation = lru_cache(CACHE_SIZE, typed=True)(self._violation)

    def judge(
        self, trace: RuleContext, call: SessionCall, conversation_values: Mapping[str, Any]
    ) -> MonitorResult | None:
        """Returns the reason for a denial or an undecided check, or None if the call is permitted."""
        values = self.values(trace, call, conversation_values)
        if any(type(value) in (Unknown, SortMismatch) for value in values):
            return self._judge_unknown(values)
        is_satisfied = self.question.evaluate(values)
        if is_satisfied is True:
            return None
        return self._judge_known(values, denied=is_satisfied is False)

    def in_every_outcome(
        self, trace: RuleContext, call: SessionCall, conversation_values: Mapping[str, Any]
    ) -> MonitorResult | None:
        """Judges the call for every outcome of the calls in flight."""
        results: list[MonitorResult] = []

        def judge_outcome() -> Truth:
            result = self.judge(trace, call, conversation_values)
            results.extend([] if result is None else [result])
            return True if result is None else result.value

        truth = self._outcomes.forall(trace, self._env(trace, call), judge_outcome, MAX_OUTCOMES)
        if truth is True:
            return None
        return results[-1] if truth is False else MonitorResult(truth)

    def _env(self, trace: RuleContext, call: SessionCall) -> Env:
        env: Env = [None] * self._size
        env[0], env[self._slot] = trace, call.args
        return env

    def values(self, trace: RuleContext, call: SessionCall, conversation_values: Mapping[str, Any]) -> list[Any]:
        """Returns each variable's value as its sort represents it, Unknown, or a SortMismatch."""
        env = self._env(trace, call)
        values = [conversation_values.get(variable.name, _NOT_READ) for variable in self.variables]
        for at, term in self._computed:
            values[at] = term(env)
        return [
            value_of_sort(value, variable.sort, variable.enum)
            for value, variable in zip(values, self.variables, strict=True)
        ]

    def _judge_unknown(self, values: Sequence[Any]) -> MonitorResult | None:
        unrecorded = next((value for value in values if type(value) is Unknown and value.unrecorded), None)
        if unrecorded is not None:
            return MonitorResult(unrecorded)
        pairs = list(zip(self.variables, values, strict=True))
        refused = [(pair, value) for pair, value in pairs if type(value) is SortMismatch]
        missing = [(pair, value) for pair, value in pairs if type(value) is Unknown]
        reasons = [_unknown_reason(variable, value) for variable, value in missing if variable.required]
        if refused or reasons:
            causes = [f"{variable.name}: {self._refusal(variable, value)}" for variable, value in refused]
            hidden = [f"{variable.name}: {value.why}" for variable, value in refused if variable.name in self._hidden]
            return MonitorResult(Unknown(*causes, *reasons), lambda: Explanation(withheld=tuple(hidden)))
        known = {pair.name: value for pair, value in pairs if type(value) is not Unknown}
        universal = {variable.name: value for variable, value in missing if not variable.free}
        answer = self.question.solve(known, tuple(universal), self._domains)
        if answer.status == "sat":
            return None
        if answer.status in ("unsat", "undefined") and universal:
            return self._unknown_matters(known, universal, answer)
        return self._refused(known, answer)

    def _refusal(self, solver_variable: SolverVariable, value: SortMismatch) -> str:
        if solver_variable.name not in self._hidden:
            return value.why
        return "its value (not shown) is not an allowed value"

    def _unknown_matters(
        self, known: Mapping[str, Any], universal: Mapping[str, Unknown], answer: z3_text.SolverResult
    ) -> MonitorResult:
        """Reports the unknown variables that decide the call, or a denial if no values permit it."""
        unconditional = self.question.solve(known, (), self._domains)
        if unconditional.status == "unsat":
            return self._denied(known, unconditional.core)
        example = {} if self._hidden & known.keys() else answer.counterexample or {}  # it could reveal hidden values
        relevant = [name for name in universal if f"variable:{name}" in answer.core] or list(universal)
        reasons = [f"{name}: {'; '.join(universal[name].why)}" for name in relevant]
        where = " and ".join(f"{name} is {shown(example[name])}" for name in relevant if name in example)
        effect = "and it affects the decision"
        return MonitorResult(Unknown(*reasons, f"{effect}: the call is denied if {where}" if where else effect))

    def _judge_known(self, values: Sequence[Any], *, denied: bool) -> MonitorResult | None:
        """Judges a call whose values are all known."""
        if denied:
            return self.violation(*values)
        answer = self.question.solve(self._named(values))
        return None if answer.status == "sat" else self._refused(self._named(values), answer)

    def _violation(self, *values: Any) -> MonitorResult:
        answer = self.question.solve(self._named(values))
        if answer.status == "sat":
            return MonitorResult(
                Unknown("the solver and the compiled rule disagree; report this as a bug in GuardAgent")
            )
        return self._refused(self._named(values), answer)

    def _refused(self, known: Mapping[str, Any], answer: z3_text.SolverResult) -> MonitorResult:
        """Reports a denial, an operation outside of its domain, or that the solver reached no result."""
        if answer.status == "undefined":
            return MonitorResult(Unknown(*dict.fromkeys(self.located(place) for place in answer.undefined[:3])))
        return self._denied(known, answer.core) if answer.status == "unsat" else _UNDECIDED

    def located(self, place: z3_text.PartialPlace) -> str:
        """Returns an operation outside of its domain, with its place in the text of the rule."""
        assertions = self.encoding.assertions
        where = f"line {assertions[place.term].line} of 'smt'" if place.term < len(assertions) else "the permit"
        return f"{where}: {place.text} has no value for this call; state what holds then, or what the call needs"

    def _named(self, values: Sequence[Any]) -> dict[str, Any]:
        return {variable.name: value for variable, value in zip(self.variables, values, strict=True)}

    def _denied(self, known: Mapping[str, Any], core: Sequence[str]) -> MonitorResult:
        return MonitorResult(False, cache(partial(self._explained, known, core)))  # noqa: FBT003 - a value

    def _explained(self, known: Mapping[str, Any], core: Sequence[str]) -> Explanation:
        facts = describe_facts(core, self.encoding, known, self._hidden)
        hidden = [name for name in facts_of(core) if name in self._hidden]
        return Explanation(
            because=facts,
            evidence={"core": list(core), "because": facts, "rules": rules_of(core, self.encoding)},
            changes=self._changes(known),
            withheld=tuple(describe_value(name, known[name], self.encoding.comments.get(name, "")) for name in hidden),
        )

    def _changes(self, known: Mapping[str, Any]) -> tuple[Any, str] | None:
        """Returns the nearest permitted call and its description.

        The search uses only values that may be shown, so that the result reveals nothing about hidden ones. The
        result is then checked against all known values.
        """
        may_be_shown = {name: value for name, value in known.items() if name not in self._hidden}
        changeable = [name for name in self._changeable if name in may_be_shown]
        changes = self.question.remedy(may_be_shown, changeable, self._domains)
        if not changes:
            return None
        if len(may_be_shown) < len(known) and self.question.solve({**known, **changes}).status != "sat":
            return None
        words = " and ".join(describe_value(name, value) for name, value in changes.items())
        arguments = {
            variable.name: variable.source.argument
            for variable in self.variables
            if isinstance(variable.source, sources.ExpressionSource)
        }
        names = [arguments.get(name) for name in changes]
        whole = None if None in names else dict(zip(names, changes.values(), strict=True))
        return whole, f"the call would be permitted {'with' if self._by_agent else 'if'}: {words}"


def _unknown_reason(solver_variable: SolverVariable, value: Unknown) -> str:
    """Returns the reason why a variable is unknown; a missing argument can be added to the call."""
    from_args = isinstance(solver_variable.source, sources.ExpressionSource) and solver_variable.source.from_args
    return (Absent if from_args else str)(f"{solver_variable.name}: {'; '.join(value.why)}")


def _requested_variable(solver_variable: SolverVariable, encoding: Encoding) -> sources.RequestedVariable:
    source = solver_variable.source
    assert isinstance(source, sources.ConversationSource)
    sort = solver_variable.sort.values or solver_variable.sort.name
    return sources.RequestedVariable(
        solver_variable.name,
        sort,
        solver_variable.enum,
        source.roles,
        source.confirmation,
        encoding.comments.get(solver_variable.name, ""),
    )


_NOT_READ = Unknown("no model read it in the conversation")
_UNDECIDED = MonitorResult(Unknown("the solver reached no result within its time limit"))


class SolverMonitor(Monitor):
    """The monitor of a solver rule. It has no state.

    Attributes:
        checks: the permit check of each tool.
    """

    stateful = False
    slow = True

    def __init__(self, checks: Mapping[str, PermitCheck], read_conversation: sources.ConversationReader | None) -> None:
        self.checks = checks
        self._read_conversation = read_conversation
        self.tools = frozenset(checks)

    def asks(self, tool: str) -> bool:
        """Whether calls of a tool need a model to read the conversation."""
        return bool(self.checks[tool].requested) and self._read_conversation is not None

    def looks_back(self, call: SessionCall) -> bool:
        """Whether the result depends on the history or the conversation."""
        return self.checks[call.tool].reads_history or bool(self.checks[call.tool].requested)

    def judge(self, context: RuleContext, call: SessionCall, memory: Any) -> MonitorResult | None:  # noqa: ARG002 - it keeps nothing
        check = self.checks[call.tool]
        conversation_values = (
            self._read_conversation(check.requested, context, call)
            if check.requested and self._read_conversation is not None
            else {}
        )
        if not context.in_flight or not check.reads_history:
            return check.judge(context, call, conversation_values)
        return check.in_every_outcome(context, call, conversation_values)


# --- compilation

MAX_SMT_BYTES = 5_000_000
_KNOWN_SORTS = (z3_text.BOOL, z3_text.INT, z3_text.REAL, z3_text.STRING)


def compile_solver_rule(rule: RuleSource, library: Library, model: Model | str | None) -> ast.SolverRule:
    """Compiles a solver rule to a monitor of its tools.

    Raises:
        ContentError: the rule is invalid; the message has its file and line.
        InputError: Z3 is not installed.
    """
    source = rule.solver
    assert source is not None
    text = smt_text(source)
    encoding = _encoding(text, source)
    checks = {tool: _permit_check(encoding, solver_tool, library) for tool, solver_tool in source.tools.items()}
    arguments = frozenset((tool, name) for tool, check in checks.items() for name in _arguments(check.variables))
    reads_zone = any(ast.Zone() in _nodes(check.variables) for check in checks.values())
    monitor = SolverMonitor(checks, _conversation_reader(checks, model, text))
    return ast.SolverRule(frozenset(checks), monitor, arguments, reads_zone)


def _arguments(variables: Iterable[SolverVariable]) -> Iterator[str]:
    """Yields the arguments of the proposed call that the variables read."""
    for node in _nodes(variables):
        if isinstance(node, ast.Field) and isinstance(node.body, ast.Variable) and node.body.name == sources.ARGS:
            yield node.name


def _nodes(variables: Iterable[SolverVariable]) -> Iterator[object]:
    """Yields the nodes of the expressions that give variables their values."""
    for variable in variables:
        if isinstance(variable.source, sources.ExpressionSource):
            yield from ast.walk(variable.source.tree)


def _conversation_reader(
    checks: Mapping[str, PermitCheck], model: Model | str | None, text: SourceText
) -> sources.ConversationReader | None:
    if not any(check.requested for check in checks.values()):
        return None
    try:
        return sources.conversation_reader(model)
    except InputError as error:
        raise text.error(str(error)) from None


def smt_text(source: SolverSource) -> SourceText:
    """The SMT-LIB text of a solver rule, from its file if it has one.

    Raises:
        InputError: the file cannot be read.
    """
    return source.smt or _file(source)


def _file(source: SolverSource) -> SourceText:
    path = source.smt_file
    assert path is not None
    try:
        data = path.read_bytes()
        if len(data) > MAX_SMT_BYTES:
            raise ContentError(f"the file has more than {MAX_SMT_BYTES:,} bytes; expected at most that many", path, 1)
        return SourceText(data.decode(), path, 1, "|\n" + data.decode())
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}; expected SMT-LIB 2 text") from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ContentError(f"the file is not UTF-8 text: {error.reason}; expected SMT-LIB 2 text", path, line) from None


def _encoding(text: SourceText, source: SolverSource) -> Encoding:
    declared: dict[str, z3_text.VariableDeclaration] = {}
    for tool in source.tools.values():
        for name, variable in tool.variables.items():
            if variable.sort is None:
                continue
            first = declared.setdefault(name, z3_text.VariableDeclaration(variable.sort.text, variable.enum))
            if first.sort != variable.sort.text:
                raise variable.sort.error(
                    f"{name!r} has the sort '{first.sort}' for another tool; expected the same sort"
                )
    try:
        return Encoding.read(text.text, declared)
    except SmtError as error:
        raise text.error(error.problem, error.line, error.column) from None


def _permit_check(encoding: Encoding, tool: GovernedTool, library: Library) -> PermitCheck:
    compiler = Compiler(library)
    slot = compiler.place()
    variables = [_variable(encoding, name, variable, compiler, slot) for name, variable in tool.variables.items()]
    chosen = {variable.name: variable.enum for variable in variables if variable.free and variable.enum is not None}
    try:
        question = encoding.question(tool.permit.text, [variable.name for variable in variables], chosen)
    except SmtError as error:
        raise tool.permit.error(error.problem, error.line, error.column) from None
    trees = [variable.source.tree for variable in variables if isinstance(variable.source, sources.ExpressionSource)]
    return PermitCheck(
        encoding, question, variables, slot, compiler.size, compiler.call_outcomes(*trees, directed=False)
    )


def _variable(
    encoding: Encoding, name: str, variable_source: VariableSource, compiler: Compiler, slot: int
) -> SolverVariable:
    sort = encoding.constants.get(name)
    if sort is None:
        known = name_hint(name, encoding.constants)
        raise variable_source.place.error(
            f"variable {name!r} is not a constant of the SMT-LIB text, and has no 'sort'{known}"
        )
    if sort not in _KNOWN_SORTS and sort.values is None:
        expected = "expected 'Bool', 'Int', 'Real', 'String' or an enumeration"
        raise variable_source.place.error(f"variable {name!r} has the unsupported sort '{sort.name}'; {expected}")
    source = None if variable_source.source is None else sources.source_of(variable_source.source, compiler, slot)
    if isinstance(source, sources.ConversationSource) and source.confirmation and sort is not z3_text.BOOL:
        raise variable_source.place.error(
            f"variable {name!r} is a confirmation, but has the sort '{sort.name}'; expected 'Bool'"
        )
    return SolverVariable(
        name, sort, _enum(variable_source, sort), source, variable_source.required, variable_source.free
    )


def _enum(variable_source: VariableSource, sort: z3_text.Sort) -> tuple[Any, ...] | None:
    """Returns the allowed values, converted to the sort."""
    if variable_source.enum is None:
        return None
    values = [value_of_sort(value, sort, None) for value in variable_source.enum]
    for value, declared in zip(values, variable_source.enum, strict=True):
        if type(value) is SortMismatch:
            raise variable_source.place.error(f"'enum' contains {declared!r}: {value.why}")
    return tuple(values)
