"""Runs one guard program, and owns the verdict.

A program is untrusted: it returns a claim. The host records every toolbox call with its result, copies the return value
within budgets and with exact types, lets a denying check override a label of 0, rejects an allowance without any check,
and runs the required checks itself. It never parses printed text.

Required checks do not depend on the program. A specification's front matter lists them as calls of toolbox functions on
`input`, `output`, `facts` and the front matter's own `data`:

    check_access(granted(access, field(input, "Identity", facts.get("role"))), columns_read(output))

The outermost call is a check; the inner ones compute its arguments. `facts.NAME` is a required fact;
`facts.get("NAME")` is None if the fact is missing.
"""

from __future__ import annotations

import ast
import datetime as dt
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from guardagent._support import syntax
from guardagent._support.files import read_text
from guardagent._terminal import strip_control_characters
from guardagent.errors import ContentError, GuardError, ProgramError, SandboxError, error_text, name_hint
from guardagent.types import (
    ATOMS,
    EMPTY,
    NO_USAGE,
    Check,
    Context,
    Decision,
    Event,
    ToolCall,
    Verdict,
    Violation,
    freeze,
    quick_verdict,
    thaw,
    unchecked_verdict,
)

if TYPE_CHECKING:
    from pathlib import Path

    from guardagent.sandbox import Sandbox
    from guardagent.sandbox.toolbox import Toolbox

# --- required checks

_RUN_NAMES = ("input", "output", "facts")


@dataclass(frozen=True, slots=True)
class RequiredCheck:
    """One parsed call. `text` is its source in the front matter."""

    text: str
    call: ast.Call
    path: Path

    @classmethod
    def parse(cls, text: str, data: Mapping[str, Any], path: Path) -> RequiredCheck:
        """Parses a call.

        Raises:
            ContentError: it is not a call of a check, or uses an unknown name or unsupported syntax.
        """
        try:
            tree = syntax.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError) as error:
            raise ContentError(
                f"required check {text!r} is not an expression: {getattr(error, 'msg', error)}", path
            ) from None
        if not (isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id.startswith("check_")):
            raise ContentError(f"required check {text!r}: expected a call of a check_… function", path)
        _validate(tree, {*_RUN_NAMES, *data}, text, path)
        return cls(text, tree, path)

    def bind(self, toolbox: Toolbox) -> None:
        """Checks that every called function exists and accepts its arguments.

        Raises:
            ContentError: a function is unknown, with the nearest name, or its arguments do not fit.
        """
        for node in ast.walk(self.call):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                self._bind(node, node.func.id, toolbox)

    def _bind(self, node: ast.Call, name: str, toolbox: Toolbox) -> None:
        if name not in toolbox:
            raise ContentError(
                f"required check {self.text!r}: unknown toolbox function {name!r}{name_hint(name, toolbox)}; "
                "to use your own functions, pass their toolbox ('--toolbox' or 'toolbox=')",
                self.path,
            )
        try:
            named = {str(keyword.arg): None for keyword in node.keywords}
            inspect.signature(toolbox.functions[name]).bind(*node.args, **named)
        except TypeError as error:
            message = f"required check {self.text!r}: {error}; expected '{toolbox[name].signature}'"
            raise ContentError(message, self.path) from None


def _fact(facts: Mapping[str, Any], name: str) -> Any:
    if facts.get(name) is None:
        raise ValueError(
            f"the fact {name!r} is missing{name_hint(name, facts)}; expected the host to pass it in 'facts'"
        )
    return facts[name]


def _validate(node: ast.expr, known: set[str], text: str, path: Path) -> None:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="facts"), attr="get"), args=[ast.Constant()], keywords=[]):
            return
        case ast.Call(func=ast.Name()):
            for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
                _validate(argument, known, text, path)
        case ast.Name() if node.id not in known:
            message = f"required check {text!r}: unknown name {node.id!r}{name_hint(node.id, known)}"
            raise ContentError(message, path)
        case ast.Name() | ast.Constant() | ast.Attribute(value=ast.Name(id="facts")):
            return
        case _:
            raise ContentError(
                f"required check {text!r}: {ast.unparse(node)!r} is not supported; expected calls of toolbox functions,"
                " literals, 'input', 'output', 'facts', 'facts.NAME', 'facts.get(NAME)' and names of 'data'",
                path,
            )


Evaluator = Callable[[Callable[..., Any], Mapping[str, Any]], Any]


def evaluator(node: ast.expr) -> Evaluator:
    """Returns a function that makes the calls with `call(name, *args, **kwargs)`, innermost first."""
    match node:
        case ast.Constant(value=value):
            return lambda _call, _values: value
        case ast.Name(id=name):
            return lambda _call, values: values[name]
        case ast.Attribute(attr=fact):
            return lambda _call, values: _fact(values["facts"], fact)
        case ast.Call(func=ast.Attribute(), args=[ast.Constant(value=key)]):
            return lambda _call, values: values["facts"].get(key)
        case ast.Call(func=ast.Name(id=function)):
            args = [evaluator(argument) for argument in node.args]
            named = {str(keyword.arg): evaluator(keyword.value) for keyword in node.keywords}
            return lambda call, values: call(
                function, *[arg(call, values) for arg in args], **{at: arg(call, values) for at, arg in named.items()}
            )
    raise AssertionError(f"not validated: {ast.dump(node)}")


# --- runs of programs

MAX_NODES = 10_000
MAX_DEPTH = 20
MAX_TEXT = 2_000_000  # characters in all strings of a returned value
MAX_MESSAGE = 200  # characters of an error that a program receives

UNKNOWN = "unknown"
"""The key in the details with the information that an undecided program lacks: a list of strings."""

PARAMETERS = ("agent_input", "agent_output", "facts")


def read_program(path: Path | str) -> str:
    """Reads the source of a guard program without running it.

    Raises:
        ContentError: it is not valid Python, or does not define `check(agent_input, agent_output, facts)`.
    """
    source = read_text(path)
    expected = f"expected 'def check({', '.join(PARAMETERS)})'"
    defined = {node.name: node for node in parse_python(source, path).body if isinstance(node, ast.FunctionDef)}
    if "check" not in defined:
        names = f", only {', '.join(map(repr, defined))}" if defined else ""
        raise ContentError(f"does not define a function 'check'{names}; {expected}", path)
    arguments = defined["check"].args
    if len(arguments.posonlyargs + arguments.args) != len(PARAMETERS) and not arguments.vararg:
        raise ContentError(f"'check' has other parameters; {expected}", path, defined["check"].lineno)
    return source


def parse_python(source: str, path: Path | str, line: int | None = None) -> ast.Module:
    """Parses a source.

    Raises:
        ContentError: it is not valid Python; with the line of the error, or `line` for a source inside a file.
    """
    try:
        return syntax.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        message = getattr(error, "msg", None) or str(error)
        raise ContentError(f"not valid Python: {message}", path, line or getattr(error, "lineno", None)) from None


@dataclass(slots=True)
class Recorder:
    """Makes toolbox calls for a program or the host, and records them."""

    toolbox: Toolbox
    made_by: Literal["program", "host"] = "program"
    calls: list[ToolCall] = field(default_factory=list)

    def call(self, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """Makes a call and records it.

        Raises:
            ValueError: the function raised.
        """
        try:
            result = _checked(name, self.toolbox.call(name, *args, **kwargs))
            self.calls.append(ToolCall(name, args, kwargs, result=result, made_by=self.made_by))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a function raises reaches the guest as one kind of error
            # The verdict keeps the cause; the guest gets a short message, never a host object or a traceback.
            self.calls.append(ToolCall(name, args, kwargs, error=_cause(name, error), made_by=self.made_by))
            raise ValueError(_cause(name, error) if self.made_by == "host" else _program_message(name, error)) from None
        return result

    def functions(self) -> dict[str, Callable[..., Any]]:
        """Returns the toolbox functions for a program, each recorded."""
        return {name: partial(self.call, name) for name in self.toolbox}


_PROGRAM = "program"  # what judged, in a verdict


def program_check(program: str, sandbox: Sandbox, toolbox: Toolbox) -> Check:
    """Returns a Check that runs a guard program on a finished run of an agent."""

    def check(event: Event, context: Context) -> Verdict:
        recorder = Recorder(toolbox)
        try:
            return run_program(program, sandbox, recorder, event, context)
        except SandboxError as error:
            return failure_verdict(error, recorder, _PROGRAM)

    return check


def run_program(
    program: str,
    sandbox: Sandbox,
    recorder: Recorder,
    event: Event,
    context: Context,
    *,
    checked_by: str = _PROGRAM,
    needs_check: bool = True,
) -> Verdict:
    """Runs a guard program on a finished run of an agent, and derives the verdict from its claim and its calls.

    `needs_check=False` is for evaluations without a toolbox: a program may then allow without calling a check.

    Raises:
        ProgramError: the program is invalid, raised, or returned an invalid value.
        LimitError: the program exceeded a limit.
        SandboxError: the sandbox does not work on this machine; the program is not at fault.
    """
    inputs = {"agent_input": event.args["input"], "agent_output": event.output, "facts": thaw(context.facts)}
    returned = sandbox.run(program, inputs, recorder.functions(), clock_of(context.facts))
    return _verdict(copy_value(returned), recorder.calls, checked_by, needs_check=needs_check)


def failure_verdict(error: SandboxError, recorder: Recorder, checked_by: str) -> Verdict:
    """Returns the denial of a run whose program failed, with the violations that its checks had found."""
    return _unchecked(f"the program: {_explain(str(error), recorder)}", recorder.calls, checked_by)


def required_check(required: RequiredCheck, toolbox: Toolbox, data: Mapping[str, Any]) -> Check:
    """Returns a Check that makes a required call itself, and allows unless the call denies."""
    # Each run gets a copy, so that no function can change the data for the next one.
    copied, evaluate = _copier(thaw(data)), evaluator(required.call)

    def check(event: Event, context: Context) -> Verdict:
        values = {**copied(), "input": event.args["input"], "output": event.output, "facts": thaw(context.facts)}
        recorder = Recorder(toolbox, "host")
        try:
            evaluate(recorder.call, values)
        except ValueError as error:
            return _unchecked(str(error), recorder.calls, _PROGRAM)
        violations = violations_of(recorder.calls)
        decision = Decision.DENY if violations else Decision.ALLOW
        rest = (_reasons(violations), violations, (), EMPTY, None, None, _PROGRAM, NO_USAGE, 0.0)
        return quick_verdict(decision, *rest, tuple(recorder.calls), (), None)

    return check


def _copier(value: Any) -> Callable[[], Any]:
    """Returns a function that copies a thawed value: as fast as unpickling it, and its strings keep their hashes."""
    if type(value) is dict:
        items = {key: _copier(item) for key, item in value.items()}
        return lambda: {key: copy() for key, copy in items.items()}
    if type(value) is list and not ATOMS.issuperset(map(type, value)):
        parts = [_copier(item) for item in value]
        return lambda: [copy() for copy in parts]
    return (
        value.copy if type(value) is list else partial(deepcopy, value) if type(value) not in ATOMS else lambda: value
    )


def violations_of(calls: Sequence[ToolCall]) -> tuple[Violation, ...]:
    """Returns the violations of the denying checks among the calls, without duplicates."""
    violations: dict[tuple[str, str], Violation] = {}
    for call in calls:
        if call.denied:
            for violation in _violations(call.name, call.result[1]):
                violations.setdefault((violation.policy, violation.message), violation)
    return tuple(violations.values())


def claimed_verdict(claim: Any, checked_by: str) -> Verdict:
    """Returns the verdict of an unchecked claim, for the baseline in which a model judges alone.

    Raises:
        ProgramError: the value does not have the shape of a program's return value.
    """
    return _verdict(claim, [], checked_by, needs_check=False)


def copy_value(value: Any) -> Any:
    """Copies a program's return value: exact JSON types only, within node, depth and size budgets.

    Raises:
        ProgramError: the value has other types, or exceeds a budget.
    """
    return _Copier().copy(value, 0)


class _Copier:
    def __init__(self) -> None:
        self._nodes = MAX_NODES
        self._text = MAX_TEXT

    def copy(self, value: Any, depth: int) -> Any:
        self._nodes -= 1
        if self._nodes < 0 or depth > MAX_DEPTH:
            raise ProgramError(f"returned more than {MAX_NODES} values, or nested deeper than {MAX_DEPTH}")
        kind = type(value)
        if kind is str:  # most values
            return self._string(value)
        if kind in ATOMS:
            return _number(value)
        if kind is list or kind is tuple:
            return [self.copy(item, depth + 1) for item in value]
        if kind is dict:
            return {self._key(key): self.copy(item, depth + 1) for key, item in value.items()}
        raise ProgramError(f"returned a {kind.__name__}; expected strings, numbers, booleans, lists and dicts")

    def _string(self, value: str) -> str:
        self._text -= len(value)
        if self._text < 0:
            raise ProgramError(f"returned more than {MAX_TEXT:,} characters")
        if value.isascii():
            return value
        return value.encode("utf-8", "replace").decode()  # no lone surrogates, which no JSON writer takes

    def _key(self, key: Any) -> str:
        if type(key) is not str:
            raise ProgramError(f"returned a dict with a {type(key).__name__} as a key; expected strings as keys")
        return self._string(key)


def _number(value: float | None) -> float | None:
    if isinstance(value, float) and not math.isfinite(value):
        raise ProgramError(f"returned {value}; expected a finite number")
    if isinstance(value, int) and abs(value) >= 2**63:
        raise ProgramError("returned a whole number of more than 63 bits")
    return value


def _verdict(returned: Any, calls: list[ToolCall], checked_by: str, *, needs_check: bool) -> Verdict:
    claim = _claim(returned)
    if claim["details"].get(UNKNOWN):
        return _undecided(claim["details"], calls, checked_by)
    violations = violations_of(calls)
    reasons = list(claim["reasons"])
    if violations and (claim["label"] == 0 or not reasons):
        # The program gave no reason, or would have allowed: the checks provide the reasons.
        reasons = list(_reasons(violations))
    denied = claim["label"] == 1 or bool(violations)
    if not denied and (failed := next((call for call in calls if call.error and call.is_check), None)):
        raise ProgramError(f"a check failed, but the program allowed the run: {failed.error}")
    if needs_check and not denied and not any(call.is_check for call in calls):
        raise ProgramError("the program called no check, so it cannot allow; expected a call of a check_… function")
    details, decision = claim["details"], Decision.DENY if denied else Decision.ALLOW
    values = (tuple(reasons), violations, (), freeze(details), None if denied else claim["answer"], details.get("risk"))
    return quick_verdict(decision, *values, checked_by, NO_USAGE, 0.0, tuple(calls), (), None)


def is_undecided(verdict: Verdict) -> bool:
    """Whether the only problem is that the program could not decide, so that another judge may.

    False if a check denied, or if anything else could not be checked.
    """
    return bool(verdict.details.get(UNKNOWN)) and not verdict.violations and len(verdict.errors) == 1


def _undecided(details: Mapping[str, Any], calls: list[ToolCall], checked_by: str) -> Verdict:
    error = f"the program cannot decide; missing information: {'; '.join(details[UNKNOWN])}"
    return replace(_unchecked(error, calls, checked_by), details=freeze(details), risk=details.get("risk"))


_CLAIMED = frozenset({"label", "reasons", "details", "answer"})


def _claim(returned: Any) -> dict[str, Any]:
    """Validates a return value against the contract of guard programs."""
    if not isinstance(returned, dict):
        raise ProgramError(f"'check' returned a {type(returned).__name__}; expected a dict")
    claim: dict[str, Any] = {"reasons": [], "details": {}, "answer": None} | returned
    if unknown := sorted(claim.keys() - _CLAIMED):
        raise ProgramError(
            f"'check' returned the unknown key {unknown[0]!r}; expected 'label', 'reasons', 'details', 'answer'"
        )
    label = claim.get("label")
    if type(label) is not int or label not in (0, 1):
        raise ProgramError(f"'check' returned label {label!r}; expected the number 0 or 1")
    if not isinstance(claim["reasons"], list) or not all(isinstance(item, str) for item in claim["reasons"]):
        raise ProgramError("'check' returned invalid reasons; expected a list of strings")
    if not isinstance(claim["details"], dict):
        raise ProgramError("'check' returned invalid details; expected a dict")
    if not isinstance(claim["details"].get("risk"), str | None):
        raise ProgramError("'check' returned an invalid details['risk']; expected a string")
    unknown = claim["details"].get(UNKNOWN) or []
    if not isinstance(unknown, list) or not all(isinstance(item, str) and item.strip() for item in unknown):
        raise ProgramError(
            f"'check' returned an invalid details[{UNKNOWN!r}]; expected a list of strings with the missing information"
        )
    if unknown and label == 0:
        raise ProgramError(f"'check' returned label 0 with details[{UNKNOWN!r}]; expected label 1 if it cannot decide")
    if not isinstance(claim["answer"], str | None):
        raise ProgramError("'check' returned an invalid answer; expected a string or None")
    return claim


def _checked(name: str, result: Any) -> Any:
    if not name.startswith("check_"):
        return result
    if isinstance(result, tuple) and len(result) == 2 and type(result[0]) is bool:
        return result
    raise TypeError(f"returned {type(result).__name__}; expected (denied: bool, evidence)")


def _violations(check: str, evidence: Any) -> list[Violation]:
    if not isinstance(evidence, Mapping) or not evidence:
        return [Violation(check, f"{check} denied" + (f": {evidence}" if evidence else ""), thaw(evidence))]
    return [_violation(check, name, item) for name, item in evidence.items()]


def _violation(check: str, name: str, item: Any) -> Violation:
    if isinstance(item, str):
        return Violation(name, item, {name: item})
    columns = ", ".join(map(str, item)) if isinstance(item, Sequence) else str(item)
    message = f"{check} denied: {name}" + (f" ({columns})" if columns else "")
    return Violation(name, message, {name: thaw(item)})


def clock_of(facts: Mapping[str, Any]) -> dt.datetime:
    """Returns the clock of a check: the fact `now` of the host, else the current time.

    Raises:
        ProgramError: the fact is not a date and time with a zone.
    """
    value = facts.get("now")
    if value is None:
        return dt.datetime.now(dt.UTC)
    try:
        now = value if isinstance(value, dt.datetime) else dt.datetime.fromisoformat(value)
    except (TypeError, ValueError):
        now = None
    if now is None or now.tzinfo is None:
        raise ProgramError(
            f"the fact 'now' is {value!r}; expected a date and time with its zone, such as '2026-01-31T12:00+00:00'"
        )
    return now


def _cause(name: str, error: BaseException) -> str:
    message = strip_control_characters(str(error)) if isinstance(error, GuardError | ValueError) else error_text(error)
    return f"{name}: {message}"[:500]


def _program_message(name: str, error: BaseException) -> str:
    """Returns the error message for a program: the text of a ValueError, else only the type of the exception."""
    message = (
        strip_control_characters(str(error)) if isinstance(error, ValueError) else f"failed ({type(error).__name__})"
    )
    line = "".join(character if character.isprintable() else " " for character in f"{name}: {message}")
    return line if len(line) <= MAX_MESSAGE else f"{line[: MAX_MESSAGE - 1]}…"


def _unchecked(error: str, calls: list[ToolCall], checked_by: str) -> Verdict:
    """Returns the denial of a run that could not be checked completely, with the violations found."""
    violations = violations_of(calls)
    verdict = unchecked_verdict(error, violations=violations, calls=tuple(calls), checked_by=checked_by)
    return replace(verdict, reasons=_reasons(violations) + verdict.reasons)


def _reasons(violations: Sequence[Violation]) -> tuple[str, ...]:
    return tuple(
        violation.message if violation.policy in violation.message else f"{violation.policy}: {violation.message}"
        for violation in violations
    )


def _explain(error: str, recorder: Recorder) -> str:
    """Adds the nearest known name to a NameError, and the hidden cause to a crash."""
    _, mark, rest = error.partition("NameError: name '")
    if mark:
        return error + name_hint(rest.split("'")[0], recorder.toolbox)
    causes = [call.error for call in recorder.calls if call.error and call.error not in error]
    return f"{error} ({causes[-1]})" if causes else error
