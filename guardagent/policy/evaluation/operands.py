"""The operands of conditions: terms as text, the names that rules can refer to, functions, and tests of arguments.

Only values that the conversation or the caller has seen are shown as text: arguments, recorded calls and facts. A term
over the state or a counter appears as source text, never with its value. So the text reveals no other user's records to
a model, whatever arguments it chooses.

A rule calls functions of the language and of the toolbox, and on the state as `state(fn(...))`.

A proposed call without an argument of a pattern still matches, and the variable is unknown, so that leaving out an
argument cannot avoid a rule. A past call without the argument does not match. A string that differs from a literal only
in case or surrounding space gives unknown.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from guardagent._support.syntax import compile_pattern
from guardagent.errors import InputError, UnknownNameError
from guardagent.policy.evaluation.counters import Counter
from guardagent.policy.evaluation.history_index import ANY, AnyTool, union_of
from guardagent.policy.evaluation.history_query import Env, HistoryQuery, Term
from guardagent.policy.evaluation.monitor_interface import SessionCall
from guardagent.policy.functions import JSON, JSON_LIST, REGEX, RuleFunction, function
from guardagent.policy.language import ANSWER, ANSWER_TEXT, ast
from guardagent.policy.language.declarations import NO_DECLARATIONS, Declarations
from guardagent.policy.language.printer import Printer
from guardagent.policy.language.values import (
    PLAIN,
    Absent,
    Truth,
    Unknown,
    as_read,
    equal,
    kind_name,
    kind_of,
    mismatch,
    shown,
)
from guardagent.policy.provenance.readers import NO_LABELS, DeclaredLabels
from guardagent.types import Functions, format_value, thaw

# --- terms as text

_SCALARS = ("text", "number", "truth value")
_SHORT = 60  # maximum length of a shown list


def is_shown(node: object) -> bool:
    """Whether the value of a term may be shown: no part of it reads the state or other conversations."""
    return not any(isinstance(node, ast.State | ast.StateOf | ast.CounterValue) for node in ast.walk(node))


class TermText:
    """A term that can be rendered with the values of an environment.

    Args:
        node: the term or pattern.
        names: the names in scope, with their slots in the environment.
        arguments: slot of a variable -> the argument that binds it.
        hidden: slots of variables bound to items of a list, which can come from the state.
        own: the label of the rendered call.
    """

    __slots__ = ("_arguments", "_hidden", "_names", "_node", "_own", "_parts", "_slots")

    def __init__(
        self,
        node: Any,
        names: Mapping[str, int],
        arguments: Mapping[int, str],
        hidden: Iterable[int] = (),
        own: str | None = None,
    ) -> None:
        self._node, self._names, self._own = node, dict(names), own
        self._arguments, self._hidden = arguments, frozenset(hidden)
        self._parts: list[str] | None = None  # texts, alternating with names in whose places values go
        self._slots: list[tuple[int, int, str]] = []  # (place among the parts, slot, name) of each value

    def render(self, env: Env | Mapping[int, Any]) -> str:
        """The text with the values of an environment."""
        parts = self._parts or self._read_parts()
        if not self._slots:
            return parts[0]
        parts = parts.copy()
        for at, slot, name in self._slots:
            value = env[slot]
            parts[at] = format_value(value) if type(value) is str else _value_or_name(value, name)
        return "".join(parts)

    def slots(self) -> list[int]:
        """The slots whose values the text shows."""
        self._parts = self._parts or self._read_parts()
        return [slot for _, slot, _ in self._slots]

    def _read_parts(self) -> list[str]:
        parts = Printer(self._named, self._own).text(self._node).split("\0")
        self._slots = [(at, *self._place(parts[at])) for at in range(1, len(parts), 2)]
        self._parts = parts
        return parts

    def _named(self, name: str) -> str:
        return f"\0{name}\0" if self._names.get(name, None) not in (None, *self._hidden) else name

    def _place(self, name: str) -> tuple[int, str]:
        slot = self._names[name]
        return slot, self._arguments.get(slot, name)


class OperandText(TermText):
    """A side of a comparison: its text, followed by its value if that may be shown."""

    __slots__ = ("_name", "_with_value", "is_shown")

    def __init__(
        self, node: Any, names: Mapping[str, int], arguments: Mapping[int, str], hidden: Iterable[int]
    ) -> None:
        super().__init__(node, names, arguments, hidden)
        self.is_shown = is_shown(node)
        self._with_value = self.is_shown and not isinstance(node, ast.Constant | ast.ListOf)
        self._name = arguments.get(names[node.name], node.name) if isinstance(node, ast.Variable) else None

    def with_value(self, env: Env, value: Any) -> str:
        text = self._name or self.render(env)
        if not self._with_value:
            return text
        if type(value) is str:
            return f"{text} ({format_value(value)})"
        value_text = _value_or_name(value, "") or (_short(value) if kind_of(value) == "list" else "")
        return f"{text} ({value_text})" if value_text else text


class Cause:
    """The cause of an unknown term. Rendered lazily, since most causes are never read."""

    __slots__ = ("_problem", "_term", "_values")

    def __init__(self, term: TermText, env: Env, problem: str) -> None:
        self._term, self._problem = term, problem
        self._values = {slot: env[slot] for slot in term.slots()}

    def __str__(self) -> str:
        return f"{self._term.render(self._values)} {self._problem}"


def _value_or_name(value: Any, name: str) -> str:
    """The text of a scalar value or call; otherwise the name."""
    if kind_of(value) in _SCALARS:
        return shown(value)
    return value.tool if type(value) is SessionCall else name


def _short(value: Any) -> str:
    text = shown(value, _SHORT)
    return text if len(text) <= _SHORT else ""


# --- names

OTHER_TOOL = "another_tool"
"""Stands in examples for a tool that a file without `tools:` does not name."""


class CompileError(InputError):
    """A rule refers to an unknown name, or cannot be compiled.

    Attributes:
        place: the place in the rule.
    """

    def __init__(self, problem: str, place: ast.Place | None = None) -> None:
        super().__init__(problem)
        self.place = place or ast.Place()


@dataclass
class Library:
    """The names that rules can refer to.

    Attributes:
        functions: the state functions, by name.
        tags: the sets of tools, by name.
        tools: the declared tools, each with its argument names, or None for any arguments. None declares no tools.
        declarations: the constants, labels and counters.
        sources: the sources of the labels.
        history_queries: the history queries of the rules; compiling a rule adds to them.
        features: the names of optional parts of a session that the rules use; compiling a rule adds to them.
        counters: the compiled counters, by name.
    """

    functions: Functions = field(default_factory=dict)
    tags: Mapping[str, frozenset[str]] = field(default_factory=dict)
    tools: Mapping[str, Sequence[str] | None] | None = None
    declarations: Declarations = NO_DECLARATIONS
    sources: DeclaredLabels = NO_LABELS
    history_queries: list[HistoryQuery] = field(default_factory=list)
    features: set[str] = field(default_factory=set)
    counters: dict[str, Counter] = field(default_factory=dict)

    @property
    def names(self) -> Declarations:
        """The declarations with the functions of the toolbox and the labels and the tags."""
        counters = {name: len(counter.keys) for name, counter in self.counters.items()} or self.declarations.counters
        return replace(
            self.declarations,
            functions=frozenset(self.functions),
            labels=self.sources.declared,
            counters=counters,
            tags=frozenset(self.tags),
        )

    @property
    def known_tools(self) -> frozenset[str]:
        """The declared tools and those of the sets."""
        return frozenset(self.tools or ()).union(*self.tags.values())

    def scoped(self, scopes: tuple[str, ...]) -> Library:
        """This library for a rule of an included file."""
        if scopes == self.declarations.scopes:
            return self
        return replace(self, declarations=replace(self.declarations, scopes=scopes))

    def tools_of(self, pattern: ast.Pattern) -> frozenset[str]:
        """The tools that a pattern matches.

        Raises:
            CompileError: the pattern has an unknown tool, tag or argument.
        """
        tools: set[str] = set()
        try:
            if ANY in pattern.tools:
                others = (OTHER_TOOL,) if self.tools is None else self.tools
                return AnyTool((*others, *union_of(self.tags.values())))
            for name in pattern.tools:
                tools |= self.tagged(name[1:]) if name.startswith("@") else {self._tool(name)}
            for argument in pattern.arguments:
                self._check_argument(argument.name, tools)
        except UnknownNameError as error:
            raise CompileError(str(error), pattern.place) from None
        return frozenset(tools)

    def tagged(self, tag: str) -> frozenset[str]:
        if tag not in self.tags:
            raise UnknownNameError("tag", tag, self.tags)
        return self.tags[tag]

    def _tool(self, name: str) -> str:
        if self.tools is not None and name not in self.tools and name != ANSWER:
            raise UnknownNameError("tool", name, self.tools)
        return name

    def _check_argument(self, name: str, tools: Iterable[str]) -> None:
        for tool in sorted(tools):
            declared = (ANSWER_TEXT,) if tool == ANSWER else (self.tools or {}).get(tool)
            if declared is not None and name not in declared:
                raise UnknownNameError(f"argument of {tool}", name, declared)


# --- functions


class StateFunctionError(Exception):
    """A state function raised an error or returned an invalid value.

    Attributes:
        detail: the message with the function's own error, which can contain anything from the state.
    """

    def __init__(self, problem: str, error: object = "") -> None:
        super().__init__(problem)
        self.detail = f"{problem}: {error}" if error else problem


def check_signature(node: ast.StateOf, function: Callable[..., Any]) -> None:
    try:
        inspect.signature(function).bind(None, *node.arguments)
    except TypeError as error:
        expected = ", ".join(list(inspect.signature(function).parameters)[1:])
        raise CompileError(
            f"wrong arguments for the state function '{node.function}({expected})': {error}", node.place
        ) from None


def state_function(node: ast.StateOf, function: Callable[..., Any], arguments: Sequence[Term], text: TermText) -> Term:
    name = node.function

    def answer(env: Env, values: Sequence[Any]) -> Any:
        state = env[0].state()
        if state is None or type(state) is Unknown:
            return state or Unknown("the session has no state")
        try:
            returned = function(state, *values)
        except Exception as error:
            raise StateFunctionError(f"{text.render(env)} raised {type(error).__name__}", error) from error
        if type(returned) in PLAIN:
            return returned
        returned = as_read(returned)
        if returned is None:
            return Unknown(Cause(text, env, "has no result"))
        if kind_of(returned) is None:
            raise StateFunctionError(
                f"the state function {name!r} returned a value of type "
                f"{type(returned).__name__!r}; expected a JSON value"
            )
        return returned

    def state_of(env: Env) -> Any:
        values = [argument(env) for argument in arguments]
        unknown = next((value for value in values if type(value) is Unknown), None)
        return answer(env, [thaw(value) for value in values]) if unknown is None else unknown.unbounded

    def state_of_one(env: Env) -> Any:
        value = arguments[0](env)
        if type(value) is str:
            return answer(env, (value,))
        return value.unbounded if type(value) is Unknown else answer(env, (thaw(value),))

    return state_of_one if len(arguments) == 1 else state_of


def in_state(state: Any, name: str) -> Any:
    if state is None or type(state) is Unknown:
        return state or Unknown("the session has no state")
    # A state that is not a mapping is an object of the host.
    value = state.get(name) if kind_of(state) == "mapping" else getattr(state, name, None)
    return Unknown(f"'state.{name}' is unknown") if value is None else as_read(value)


Applied = Callable[[list[Any]], Any]  # takes values, which can be unknown


def applied_function(node: ast.Apply, toolbox: Functions) -> Applied:
    """The function that a term applies.

    Raises:
        CompileError: there is no such function, or it has other parameters.
    """
    known = function(node.function)
    if known is not None:
        _check_arguments(node, known)
        if known.require is not None:
            known.require()
        last = node.arguments[-1] if len(node.arguments) == len(known.parameters) else None
        if known.problem is not None and isinstance(last, ast.Constant) and (problem := known.problem(last.value)):
            raise CompileError(problem, node.place)
        return known.apply
    own = toolbox[node.function]
    parameters = list(inspect.signature(own).parameters)
    if parameters[:1] == ["state"]:
        raise CompileError(f"{node.function!r} reads the state; write 'state({node.function}(...))'", node.place)
    try:
        inspect.signature(own).bind(*node.arguments)
    except TypeError as error:
        expected = f"{node.function}({', '.join(parameters)})"
        raise CompileError(f"wrong arguments for the function {expected!r}: {error}", node.place) from None
    return lambda values: _of_toolbox(node.function, own, values)


def read_as_json(node: object) -> Iterator[ast.Term]:
    """The terms in a term that are read as JSON if they are strings, outside of conditions on items and calls."""
    if isinstance(node, ast.Field | ast.Item):
        yield node.body
    known = function(node.function) if isinstance(node, ast.Apply) else None
    if isinstance(node, ast.Apply) and known is not None and known.kinds(0) in (JSON, JSON_LIST):
        yield node.arguments[0]  # type: ignore[misc]  # no regular expression is accepted there
    inner = () if isinstance(node, ast.OF_HISTORY) else (node.items,) if isinstance(node, ast.OverItems) else None
    for child in ast.children(node) if inner is None else inner:
        yield from read_as_json(child)


def _check_arguments(node: ast.Apply, known: RuleFunction) -> None:
    if not known.accepts(len(node.arguments)):
        raise CompileError(
            f"wrong number of arguments for {node.function!r}: {len(node.arguments)}; expected {_number(known)}",
            node.place,
        )
    for at, argument in enumerate(node.arguments):
        if isinstance(argument, ast.Constant) and known.kinds(at) and kind_of(argument.value) not in known.kinds(at):
            wrong = f"argument {at + 1} of {node.function!r} is a {kind_name(argument.value)}"
            raise CompileError(f"{wrong}; expected {known.expected(at)}", node.place)
        if isinstance(argument, ast.RegexValue) is not (known.kinds(at) == (REGEX,)):
            wanted = "a regular expression between slashes" if known.kinds(at) == (REGEX,) else "a value"
            raise CompileError(f"argument {at + 1} of {node.function!r} is {wanted}", node.place)


def _number(known: RuleFunction) -> str:
    return f"{'at least ' if known.repeated else ''}{len(known.parameters)}"


def _of_toolbox(name: str, own: Callable[..., Any], values: list[Any]) -> Any:
    unknown = next((value for value in values if type(value) is Unknown), None)
    if unknown is not None:
        return unknown.unbounded
    try:
        output = own(*map(thaw, values))
    except Exception as error:
        raise StateFunctionError(f"{name}(...) raised {type(error).__name__}", error) from error
    if output is None:
        return Unknown(f"{name}(...) has no result")
    if kind_of(output) is None:
        raise StateFunctionError(
            f"the function {name!r} returned a value of type {type(output).__name__!r}; expected a JSON value"
        )
    return output


# --- tests of arguments

Test = Callable[[Any], Truth]
_MISSING = object()


def argument_of(args: Any, name: str) -> Any:
    """An argument of a proposed call; unknown if missing or null."""
    value = args.get(name, _MISSING)
    if value is _MISSING:
        return Unknown(Absent(f"argument {name!r} is missing"))
    return Unknown(f"argument {name!r} is null") if value is None else value


def argument_test(argument: ast.Argument) -> Test:
    """Compiles the test of an argument. Unknown results name the argument."""
    assert not isinstance(argument.value, ast.Variable)
    test = value_test(argument.value)

    def named(value: Any) -> Truth:
        truth = test(value)
        if type(truth) is Unknown and type(value) is not Unknown and not truth.unrecorded:
            return Unknown(f"argument {argument.name!r}: {truth.why[0]}")
        return truth

    return named


def value_test(wanted: ast.ExactValue | ast.RegexValue | ast.AnyValue) -> Test:
    """Compiles the test of a value."""
    if isinstance(wanted, ast.AnyValue):
        return lambda _: True
    if isinstance(wanted, ast.RegexValue):
        return regex_test(wanted.regex)
    literal = wanted.value
    if isinstance(literal, str):
        return _text_test(literal)
    return lambda value: equal(value, literal)


def regex_test(regex: str) -> Test:
    """Compiles a full match of a string, with a linear-time engine."""
    matches = compile_pattern(regex).fullmatch

    def test(value: Any) -> Truth:
        if kind_of(value) == "text":
            try:
                return matches(value) is not None
            except UnicodeError:
                return Unknown("a string cannot be matched: it is not valid Unicode")
        return (
            value if type(value) is Unknown else Unknown(f"a {kind_name(value)} cannot be matched; expected a string")
        )

    return test


def _text_test(literal: str) -> Test:
    folded = folded_name(literal)

    def test(value: Any) -> Truth:
        if type(value) is not str:
            return equal(value, literal) if kind_of(value) == "text" else mismatch(value, literal)
        if value == literal:
            return True
        if folded_name(value) == folded:
            return Unknown(f"{shown(value)} differs from {shown(literal)} only in case or space")
        return False

    return test


def folded_name(text: str) -> str:
    """A string without case and surrounding space."""
    return text.strip().casefold()
