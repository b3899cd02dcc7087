"""Compiles a solver rule of a policy file: its SMT-LIB text is read once, with one question per tool."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from guardagent.errors import ContentError, InputError, name_hint
from guardagent.policy.evaluation.library import Library
from guardagent.policy.evaluation.terms import Compiler
from guardagent.policy.file.rule_keys import RuleSource
from guardagent.policy.file.solver_keys import GovernedTool, SolverSource, VariableSource
from guardagent.policy.file.source_text import SourceText
from guardagent.policy.language import ast
from guardagent.policy.solver.conversation_reader import ConversationReader, conversation_reader
from guardagent.policy.solver.encoding import Encoding
from guardagent.policy.solver.monitor import PermitCheck, SolverMonitor, SolverVariable
from guardagent.policy.solver.smt_error import SmtError
from guardagent.policy.solver.sort_check import SortMismatch, value_of_sort
from guardagent.policy.solver.sorts import BOOL, INT, REAL, STRING, Enumeration, Sort, VariableDeclaration
from guardagent.policy.solver.sources import ARGS, ConversationSource, ExpressionSource, source_of

if TYPE_CHECKING:
    from guardagent.models import Model

MAX_SMT_BYTES = 5_000_000
_KNOWN_SORTS = (BOOL, INT, REAL, STRING)


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
    checks = {tool: _permit_check(encoding, one, library) for tool, one in source.tools.items()}
    arguments = frozenset((tool, name) for tool, one in checks.items() for name in _arguments(one.variables))
    return ast.SolverRule(
        frozenset(checks), SolverMonitor(checks, _conversation_reader(checks, model, text)), arguments
    )


def _arguments(variables: Iterable[SolverVariable]) -> Iterator[str]:
    """Yields the arguments of the proposed call that the variables read."""
    trees = [one.source.tree for one in variables if isinstance(one.source, ExpressionSource)]
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.Field) and isinstance(node.body, ast.Variable) and node.body.name == ARGS:
            yield node.name


def _conversation_reader(
    checks: Mapping[str, PermitCheck], model: Model | str | None, text: SourceText
) -> ConversationReader | None:
    if not any(one.requested for one in checks.values()):
        return None
    try:
        return conversation_reader(model)
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
    declared: dict[str, VariableDeclaration] = {}
    for tool in source.tools.values():
        for name, one in tool.variables.items():
            if one.sort is None:
                continue
            first = declared.setdefault(name, VariableDeclaration(one.sort.text, one.enum))
            if first.sort != one.sort.text:
                raise one.sort.error(f"{name!r} has the sort '{first.sort}' for another tool; expected the same sort")
    try:
        return Encoding.read(text.text, declared)
    except SmtError as error:
        raise text.error(error.problem, error.line, error.column) from None


def _permit_check(encoding: Encoding, tool: GovernedTool, library: Library) -> PermitCheck:
    compiler = Compiler(library)
    slot = compiler.place()
    variables = [_variable(encoding, name, one, compiler, slot) for name, one in tool.variables.items()]
    chosen = {one.name: one.enum for one in variables if one.free and one.enum is not None}
    try:
        question = encoding.question(tool.permit.text, [one.name for one in variables], chosen)
    except SmtError as error:
        raise tool.permit.error(error.problem, error.line, error.column) from None
    trees = [one.source.tree for one in variables if isinstance(one.source, ExpressionSource)]
    return PermitCheck(
        encoding, question, variables, slot, compiler.size, compiler.call_outcomes(*trees, directed=False)
    )


def _variable(encoding: Encoding, name: str, one: VariableSource, compiler: Compiler, slot: int) -> SolverVariable:
    sort = encoding.constants.get(name)
    if sort is None:
        known = name_hint(name, encoding.constants)
        raise one.place.error(f"variable {name!r} is not a constant of the SMT-LIB text, and has no 'sort'{known}")
    if sort not in _KNOWN_SORTS and not isinstance(sort, Enumeration):
        expected = "expected 'Bool', 'Int', 'Real', 'String' or an enumeration"
        raise one.place.error(f"variable {name!r} has the unsupported sort '{sort.name}'; {expected}")
    source = None if one.source is None else source_of(one.source, compiler, slot)
    if isinstance(source, ConversationSource) and source.confirmation and sort is not BOOL:
        raise one.place.error(f"variable {name!r} is a confirmation, but has the sort '{sort.name}'; expected 'Bool'")
    return SolverVariable(name, sort, _enum(one, sort), source, one.required, one.free)


def _enum(one: VariableSource, sort: Sort) -> tuple[Any, ...] | None:
    """Returns the allowed values, converted to the sort."""
    if one.enum is None:
        return None
    values = [value_of_sort(value, sort, None) for value in one.enum]
    for value, declared in zip(values, one.enum, strict=True):
        if type(value) is SortMismatch:
            raise one.place.error(f"'enum' contains {declared!r}: {value.why}")
    return tuple(values)
