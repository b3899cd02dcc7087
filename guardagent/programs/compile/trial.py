"""A program on trial: its static checks, its properties, and its outcome for one example in the sandbox.

The properties are a Python block beside the one with the program. Line coverage comes from instrumentation: each
statement records its line before it runs. The instrumented program runs in the same sandbox; the added names are
random, so that a program cannot use them.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import datetime as dt
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from guardagent._support import syntax
from guardagent.errors import LimitError, ProgramError, SandboxError, name_hint
from guardagent.models.chat import error_kind
from guardagent.programs.answers import python_blocks
from guardagent.programs.compile.examples import CompileTarget, Example
from guardagent.programs.compile.request import marked_lines
from guardagent.programs.program import PARAMETERS, Recorder, clock_of, copy_value, failure_verdict, run_program
from guardagent.sandbox import Sandbox
from guardagent.sandbox.gate import INPUTS, admit, parse
from guardagent.sandbox.toolbox import Toolbox
from guardagent.types import Functions, thaw

FAILED = "failed: "
"""The prefix of the claim of a property that crashed."""

_DEFINES_PROPERTY = re.compile(r"^def property_\d+\b", re.MULTILINE)
_DEFINES_CHECK = re.compile(r"^def check\b", re.MULTILINE)
_PROPERTY_NAME = re.compile(r"property_([1-9]\d*)\Z")
_CLAIMS_OF_RUNS = """\
def check({parameters}):
    return [claims_of_run(run["agent_input"], run["agent_output"], run["facts"]) for run in facts["runs"]]
"""
_CLAIM_OF_PROPERTY = """\
    try:
        said["{number}"] = property_{number}(agent_input, agent_output, facts)
    except ValueError:
        said["{number}"] = None
    except Exception as error:
        said["{number}"] = "failed: " + str(error)
"""
_HEADER_LINE = re.compile(r"^[ \t]*#[ \t]*guardagent program\b.*$", re.IGNORECASE | re.MULTILINE)
_STATEMENT_BLOCKS = ("body", "orelse", "finalbody")
_SILENT_STATEMENTS = (ast.Global, ast.Nonlocal)


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The outcome of a program on one run.

    Attributes:
        label: the label of the verdict; 1 without a verdict.
        undecided: the reason the program gave for not deciding.
        crash: the exception, exceeded limit or invalid return value that stopped the program.
        reasons: the reasons of the verdict.
        answer: the answer that the program releases.
        details: the details of the verdict.
        leaks: whether the program denies and still returns an answer, which the host withholds.
    """

    label: int
    undecided: str = ""
    crash: str = ""
    reasons: tuple[str, ...] = ()
    answer: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict, compare=False)
    leaks: bool = field(default=False, compare=False)

    @property
    def decided(self) -> bool:
        return not (self.undecided or self.crash)

    def __str__(self) -> str:
        why = self.crash or self.undecided or "; ".join(self.reasons)
        kind = "label 1, crashed" if self.crash else "label 1, undecided" if self.undecided else f"label {self.label}"
        return f"{kind}: {why}" if why else kind


class Trial:
    """One program, its properties, and the sandbox and toolbox that it runs with."""

    def __init__(self, program: str, sandbox: Sandbox, toolbox: Toolbox, properties: Properties | None = None) -> None:
        self.program = program
        self.properties = properties or Properties()
        self._sandbox = sandbox
        self._toolbox = toolbox
        self._instrumented = InstrumentedProgram(program)
        self._outcomes: dict[str, RunOutcome] = {}

    def outcome(self, example: Example) -> RunOutcome:
        """Returns the outcome for a run; each run is executed once.

        Raises:
            SandboxError: the sandbox does not work on this machine.
        """
        if example.run not in self._outcomes:
            self._outcomes[example.run] = self._run(example)
        return self._outcomes[example.run]

    def _run(self, example: Example) -> RunOutcome:
        recorder, sandbox = Recorder(self._toolbox), _RecordingSandbox(self._sandbox)
        try:
            verdict = run_program(self.program, sandbox, recorder, example.event, example.context)
        except (ProgramError, LimitError) as error:
            reason = "; ".join(failure_verdict(error, recorder, "program").errors)
            if error_kind(error, passed_gate=True) == "value":
                return RunOutcome(1, undecided=reason)
            return RunOutcome(1, crash=reason)
        claimed = sandbox.returned.get("answer") if isinstance(sandbox.returned, Mapping) else None
        return RunOutcome(
            verdict.label,
            "; ".join(verdict.errors),
            reasons=verdict.reasons,
            answer=verdict.answer,
            details=thaw(verdict.details),
            leaks=verdict.label == 1 and claimed is not None,
        )

    def return_value(self, program: str, example: Example) -> Any:
        """Returns the raw return value of another program for a run.

        Raises:
            ProgramError: the program raised, or returned something other than plain values.
            LimitError: the program exceeded a limit.
            SandboxError: the sandbox does not work on this machine.
        """
        functions, clock = Recorder(self._toolbox).functions(), clock_of(example.facts)
        return copy_value(self._sandbox.run(program, example.inputs, functions, clock))

    def return_values(self, program: str, examples: Sequence[Example]) -> list[Any]:
        """Returns another program's values for several runs, passed as its fact `runs`; empty if the program fails.

        Raises:
            SandboxError: the sandbox does not work on this machine.
        """
        runs = Example("", "", "", 0, {"runs": [example.inputs for example in examples]})
        try:
            return list(self.return_value(program, runs)) if examples else []
        except (ProgramError, LimitError):
            return []

    def lines_run(self, example: Example) -> frozenset[int]:
        """Returns the executed lines inside functions for an example; empty if the program does not finish."""
        executed: list[int] = []
        recorder, instrumented = Recorder(self._toolbox), self._instrumented
        functions = recorder.functions() | {
            instrumented.report_function: lambda lines: executed.extend(map(int, lines))
        }
        with contextlib.suppress(SandboxError):
            self._sandbox.run(instrumented.source, example.inputs, functions, clock_of(example.facts))
        return frozenset(executed)


class _RecordingSandbox:
    """A sandbox that records the last return value.

    Attributes:
        returned: the value; None before the first run.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self.returned: Any = None

    def run(self, program: str, inputs: Mapping[str, Any], functions: Functions, now: dt.datetime | None = None) -> Any:
        self.returned = self._sandbox.run(program, inputs, functions, now)
        return self.returned

    def close(self) -> None:
        self._sandbox.close()


@dataclass(frozen=True)
class Properties:
    """The properties as the model wrote them. `source` is empty without any."""

    source: str = ""

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """The clauses with a property."""
        names = [node.name for node in syntax.parse(self.source).body if isinstance(node, ast.FunctionDef)]
        return tuple(sorted({int(match[1]) for name in names if (match := _PROPERTY_NAME.match(name))}))

    @cached_property
    def program(self) -> str:
        """The program for the sandbox: `check` returns clause -> claim. A property abstains with a ValueError."""
        return self._with_calls("check")

    @cached_property
    def program_of_many(self) -> str:
        """The same program for the runs in the fact `runs`: `check` returns a list."""
        return f"{self._with_calls('claims_of_run')}\n\n{_CLAIMS_OF_RUNS.format(parameters=', '.join(PARAMETERS))}"

    def _with_calls(self, name: str) -> str:
        calls = "".join(_CLAIM_OF_PROPERTY.format(number=number) for number in self.numbers)
        head = f"def {name}({', '.join(PARAMETERS)}):\n    said = {{}}\n"
        return f"{self.source.rstrip()}\n\n\n{head}{calls}    return said\n"

    @cached_property
    def no_rule_reasons(self) -> dict[int, str]:
        """Clause -> reason, for clauses declared to set no rule: their functions only return None."""
        no_rule_reasons = {}
        for node in syntax.parse(self.source).body:
            match = _PROPERTY_NAME.match(node.name) if isinstance(node, ast.FunctionDef) else None
            if match and isinstance(node, ast.FunctionDef) and all(map(_says_nothing, node.body)):
                no_rule_reasons[int(match[1])] = " ".join((ast.get_docstring(node) or "").split())
        return no_rule_reasons

    def text_of(self, number: int) -> str:
        """Returns the normalized source of one property, for comparison."""
        for node in syntax.parse(self.source).body:
            if isinstance(node, ast.FunctionDef) and node.name == f"property_{number}":
                return ast.unparse(node)
        return ""

    def problems(self, target: CompileTarget, before: Properties) -> list[str]:
        """Returns the problems that keep the properties from running or from replacing earlier ones."""
        try:
            parse(self.source)
            admit(self.program, frozenset(target.toolbox))
        except ProgramError as error:
            return [f"the properties: {error}"]
        return [f"the properties: {problem}" for problem in self._problems(target, before)]

    def _problems(self, target: CompileTarget, before: Properties) -> list[str]:
        known = {clause.number for clause in target.clauses}
        wrong = [number for number in self.numbers if number not in known]
        gone = [number for number in before.numbers if number not in self.numbers]
        problems = [f"clause {number} does not exist; expected numbers from 1 to {len(known)}" for number in wrong]
        problems += [
            f"'property_{number}' is missing now; expected all properties, or no second block" for number in gone
        ]
        return [*problems, *unknown_names(self.program, target)]


def _says_nothing(node: ast.stmt) -> bool:
    match node:
        case ast.Pass() | ast.Return(value=None | ast.Constant(value=None)) | ast.Expr(value=ast.Constant()):
            return True
        case _:
            return False


def read_properties(answer: str) -> Properties:
    """Reads the properties in an answer; empty without a block that defines any."""
    blocks = [
        code for code in python_blocks(answer) if _DEFINES_PROPERTY.search(code) and not _DEFINES_CHECK.search(code)
    ]
    return Properties("\n\n".join(blocks))


def problems_of(program: str, target: CompileTarget) -> list[str]:
    """Returns the problems of a program, each with its line; empty if it may run."""
    if not program.isprintable() and any("\ud800" <= character <= "\udfff" for character in program):
        return ["the program contains a lone surrogate; expected text that can be encoded as UTF-8"]
    try:
        admit(program, frozenset(target.toolbox))
    except ProgramError as error:
        return [str(error)]
    return [*unknown_names(program, target), *_no_check(program, target), *_unknown_clauses(program, target)]


def unknown_names(program: str, target: CompileTarget) -> list[str]:
    """Returns a problem per undefined name, often a function of no toolbox, unless the program handles its absence."""
    tree = syntax.parse(program)
    known = {*target.toolbox, *_bound_names(tree), *_optional_names(tree), *dir(builtins), *INPUTS, "__name__"}
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in known:
            kind = "function" if node.id in called else "name"
            among = target.toolbox if node.id in called else known
            names.setdefault(node.id, f"line {node.lineno}: unknown {kind} {node.id!r}{name_hint(node.id, among)}")
    return list(names.values())


def _optional_names(tree: ast.Module) -> set[str]:
    """The names that are used only in a `try` that is left with `except NameError`."""
    blocks = [
        node.body
        for node in ast.walk(tree)
        if isinstance(node, ast.Try)
        and any(isinstance(handler.type, ast.Name) and handler.type.id == "NameError" for handler in node.handlers)
    ]
    inside = {node for body in blocks for part in body for node in ast.walk(part) if isinstance(node, ast.Name)}
    others = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and node not in inside}
    return {node.id for node in inside} - others


def _bound_names(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(ctx=ast.Store()):
                names.add(node.id)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name):
                names.add(name)
            case ast.alias():
                names.add((node.asname or node.name).partition(".")[0])
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                names.add(name)
            case ast.MatchMapping(rest=str(name)):
                names.add(name)
            case _:
                pass
    return names


def _no_check(program: str, target: CompileTarget) -> list[str]:
    checks = sorted(name for name in target.toolbox if name.startswith("check_"))
    words = set(re.findall(r"\w+", program))
    if words & set(checks):
        return []
    return [f"the program calls no check, so it can never allow; expected one of {', '.join(map(repr, checks))}"]


def _unknown_clauses(program: str, target: CompileTarget) -> list[str]:
    known = {clause.number for clause in target.clauses}
    wrong = sorted(set(marked_lines(program)) - known)
    if not wrong:
        return []
    return [f"a comment names the unknown clause {wrong[0]}; expected a number from 1 to {len(known)}"]


def without_header(program: str) -> str:
    """Replaces header lines in a program, since compile writes the header."""
    return _HEADER_LINE.sub("# (header removed)", program)


class InstrumentedProgram:
    """A program that reports the lines it executed.

    Attributes:
        source: the instrumented source.
        report_function: the name of the function that it calls with the lines at its end.
    """

    def __init__(self, program: str) -> None:
        mark = f"v{secrets.token_hex(8)}"
        self.report_function = f"{mark}_ran"
        tree = syntax.parse(program)
        _LineMarker(f"{mark}_seen").visit(tree)
        _rename(tree, "check", f"{mark}_check")
        at = _after_opening(tree)
        tree.body[at:at] = syntax.parse(f"{mark}_seen = {{}}").body
        wrapper = (
            "def check(agent_input, agent_output, facts):\n    try:\n"
            f"        return {mark}_check(agent_input, agent_output, facts)\n"
            f"    finally:\n        {self.report_function}(list({mark}_seen))\n"
        )
        tree.body += syntax.parse(wrapper).body
        self.source = ast.unparse(ast.fix_missing_locations(tree))


def statement_lines(program: str) -> dict[int, int]:
    """Returns first line -> last line of each statement inside a function."""
    statement_lines: dict[int, int] = {}
    for node in _statements(syntax.parse(program)):
        statement_lines[node.lineno] = _header_end(node)
    return statement_lines


def _statements(tree: ast.AST) -> Iterator[ast.stmt]:
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.stmt) and node is not function and not _is_silent(node):
                    yield node


def _header_end(node: ast.stmt) -> int:
    """Returns the last line of a statement without its blocks."""
    blocks = [inner for name in (*_STATEMENT_BLOCKS, "handlers", "cases") for inner in getattr(node, name, [])]
    if not blocks:
        return node.end_lineno or node.lineno
    first = min(getattr(inner, "lineno", getattr(getattr(inner, "pattern", None), "lineno", 0)) for inner in blocks)
    return max(node.lineno, first - 1)


def _is_silent(node: ast.stmt) -> bool:
    """Whether a statement has no effect: `global`, `nonlocal`, docstrings."""
    return isinstance(node, _SILENT_STATEMENTS) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


class _LineMarker(ast.NodeTransformer):
    """Inserts a record of the line before each statement inside a function."""

    def __init__(self, seen: str) -> None:
        self._seen = seen
        self._inside = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        self._inside += 1
        self.generic_visit(node)
        self._inside -= 1
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for name in _STATEMENT_BLOCKS:
            block = getattr(node, name, None)
            if self._inside and isinstance(block, list) and not isinstance(node, ast.ClassDef):
                setattr(node, name, [part for statement in block for part in self._noted(statement)])
        return node

    def _noted(self, statement: Any) -> list[Any]:
        if not isinstance(statement, ast.stmt) or _is_silent(statement) or not hasattr(statement, "lineno"):
            return [statement]
        return [*syntax.parse(f"{self._seen}[{statement.lineno}] = 1").body, statement]


def _rename(tree: ast.AST, old: str, new: str) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == old:
            node.name = new
        if isinstance(node, ast.Name) and node.id == old:
            node.id = new


def _after_opening(tree: ast.Module) -> int:
    """Returns the index after the docstring and the `__future__` imports."""
    at = 0
    for node in tree.body:
        opening = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not opening and not (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            break
        at += 1
    return at
