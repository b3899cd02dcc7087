"""Sources of a solver rule's variables: an expression, or the conversation as a model reads it.

    args.amount, fact(user_confirmed), state(hours_since_booking(args.id)), count(f:refund(), !failed(f)), ...
    conversation(user), conversation(user, tool)    a value stated in a message of one of these roles
    confirmation()                                  whether the user approved this call after it was proposed

For each value the model cites a message and a quote (*Solver-Aided Verification*, 3.1), once for each proposed call.
The host verifies the citation: the message has an allowed role, the quote occurs in it exactly, and the value has its
sort and is supported by the quote. Any other value is unknown, with a reason. No answer is cached.

A prompt injection may make a model cite misleading fragments: `5` out of `2500`, `confirm` out of `unconfirmed`. Each
quote is therefore checked in its message, together with the surrounding characters: only whole words and numbers count.
A confirmation is of exactly this call, directly after the assistant proposed it. A tool's output never confirms a call,
whatever it quotes: roles and order come from the host.

Encodings can share a Z3 context: Z3 takes longer to make one than to read a rule.
"""

from __future__ import annotations

import json
import re
import threading
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from guardagent._support import json_values
from guardagent.errors import GuardError
from guardagent.models.metering import Meter
from guardagent.models.prompts import ModelCall, Prompts
from guardagent.policy.evaluation.history_query import Term
from guardagent.policy.evaluation.monitor_interface import RuleContext, SessionCall
from guardagent.policy.evaluation.operands import CompileError, is_shown
from guardagent.policy.evaluation.terms import Compiler
from guardagent.policy.file.source_tree import SourceText
from guardagent.policy.language import ast
from guardagent.policy.language.grammar import TemporalError
from guardagent.policy.language.term_parser import read_term
from guardagent.policy.language.values import Unknown, equal, exact, kind_of, shown
from guardagent.policy.solver.z3_text import new_context
from guardagent.types import thaw

if TYPE_CHECKING:
    from guardagent.models import Model

__all__ = ["ConversationMessage", "RequestedVariable", "Value", "read_values"]


# --- sources

ARGS = "args"
ROLES = ("user", "assistant", "tool", "system")
_CONVERSATION = re.compile(r"\s*(conversation|confirmation)\s*\(([^()]*)\)\s*")


@dataclass(frozen=True, slots=True)
class ExpressionSource:
    """A value computed by an expression.

    Attributes:
        tree: the expression.
        reads_history: whether it reads the history, and so may depend on the outcome of calls in flight.
        from_args: whether it depends on the proposed call's arguments only, which the agent chooses.
        argument: the argument's name, if the expression is just one argument.
        is_shown: whether messages may show the value; values of the state stay hidden.
    """

    term: Term
    tree: ast.Term
    reads_history: bool
    from_args: bool
    argument: str | None = None
    is_shown: bool = True


@dataclass(frozen=True, slots=True)
class ConversationSource:
    """A value that a model reads in the conversation.

    Attributes:
        roles: the roles whose messages may state it.
        confirmation: whether it is the user's approval of the proposed call.
    """

    roles: frozenset[str]
    confirmation: bool = False


Source = ExpressionSource | ConversationSource


def source_of(text: SourceText, compiler: Compiler, slot: int) -> Source:
    """Parses the text under `from:`; `slot` is the index of the proposed call's arguments.

    Raises:
        ContentError: the text does not parse, or names something unknown.
    """
    if match := _CONVERSATION.fullmatch(text.text):
        return _conversation_source(match[1], match[2], text)
    try:
        tree = read_term(text.text, {ARGS}, compiler.library.names)
        term = compiler.term(tree, {ARGS: slot})
    except TemporalError as error:
        raise text.error(str(error), error.line, error.column) from None
    except CompileError as error:
        wrong = TemporalError(str(error), text.text, error.place.line, error.place.column)
        raise text.error(str(wrong), error.place.line, error.place.column) from None
    parts = list(ast.walk(tree))
    outside = (ast.State, ast.StateOf, ast.MessagesText, ast.Fact, ast.Principal, ast.Now, ast.Zone, *ast.OF_EARLIER)
    return ExpressionSource(
        term,
        tree,
        reads_history=any(isinstance(part, ast.OF_EARLIER) for part in parts),
        from_args=not any(isinstance(part, outside) for part in parts)
        and any(isinstance(part, ast.Variable) and part.name == ARGS for part in parts),
        argument=tree.name if isinstance(tree, ast.Field) and isinstance(tree.body, ast.Variable) else None,
        is_shown=is_shown(tree),
    )


def _conversation_source(kind: str, inside: str, text: SourceText) -> ConversationSource:
    roles = [role.strip() for role in inside.split(",") if role.strip()]
    if kind == "confirmation":
        if roles:
            raise text.error("'confirmation()' has arguments; expected none, since only the user can confirm")
        return ConversationSource(frozenset({"user"}), confirmation=True)
    if not roles or not set(roles) <= set(ROLES):
        expected = f"'conversation(ROLE, ...)' with roles from {', '.join(map(repr, ROLES))}"
        raise text.error(f"{text.text.strip()!r} has no valid roles; expected {expected}")
    return ConversationSource(frozenset(roles))


# --- quotes

MAX_OCCURRENCES = 100  # of one quote in one message
_TEXT_PARTS = ("text", "input_text", "output_text")
# All that could belong to one number: 1,250.00, and also 5 000 or 5'000, which are ambiguous.
_DIGITS = re.compile(r"[0-9](?:[0-9]|[.,](?=[0-9])|(?:[^\S\n]|['\u2019])(?=[0-9]{3}(?![0-9])))*")
_PLAIN = re.compile(r"(?:0|[1-9][0-9]*|[1-9][0-9]{0,2}(?:,[0-9]{3})+)(?:\.[0-9]+)?")
_SCALE = re.compile(r"\s*(?:hundred|thousand|grand|million|billion|trillion|dozen)", re.IGNORECASE)
_NEGATED = re.compile(r"\b(?:minus|negative)\s*$", re.IGNORECASE)
_MINUS = "-\u2212"
_JOINS = "-\u2212/:.,#@*^"  # between digits they form a date, a time, a range or a version
_LINKS = "-\u2212./@"  # in an identifier, an address or a path
_WIDE = "WF"  # scripts without spaces between words


@dataclass(frozen=True, slots=True)
class ConversationMessage:
    """A message of a conversation, as the host recorded it.

    Attributes:
        role: its role.
        content: its text.
        tool: the tool whose output it is, if known.
    """

    role: str
    content: str
    tool: str | None = None


def message_of(message: Any) -> ConversationMessage:
    """Converts a chat message with `role` and `content`; the content is a string or a list of parts with texts.

    Raises:
        ValueError: it is not a chat message.
    """
    if isinstance(message, ConversationMessage):
        return message
    if not isinstance(message, Mapping) or type(message.get("role")) is not str:
        kind = type(message).__name__
        raise ValueError(f"a message is a {kind!r} without a role; expected a mapping with 'role' and 'content'")
    tool = message.get("name")
    return ConversationMessage(message["role"], _content(message.get("content")), tool if type(tool) is str else None)


def _content(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list | tuple):
        raise ValueError(f"the content of a message is a {type(content).__name__!r}; expected a string")  # noqa: TRY004 - one kind
    parts = [part for part in content if isinstance(part, Mapping) and part.get("type") in _TEXT_PARTS]
    return "\n".join(str(part.get("text") or "") for part in parts)


def occurrences(quote: str, text: str) -> list[range]:
    """Returns the ranges of a quote in a text, at word boundaries only."""
    occurrences: list[range] = []
    at = text.find(quote) if quote.strip() else -1
    while at >= 0 and len(occurrences) < MAX_OCCURRENCES:
        if _is_whole(text, at, at + len(quote)):
            occurrences.append(range(at, at + len(quote)))
        at = text.find(quote, at + 1)
    return occurrences


def holds_text(value: str, text: str, within: list[range] | None = None) -> bool:
    """Whether a text contains a string as a whole, anywhere or in given ranges: W1-2 does not contain W1."""
    whole = [range(len(text))] if within is None else within
    return any(_covered(at, whole) and not _is_linked(text, at) for at in occurrences(value, text))


def holds_number(value: int | Fraction, text: str, within: list[range] | None = None) -> bool:
    """Whether a text contains a number in digits, anywhere or in given ranges."""
    whole = [range(len(text))] if within is None else within
    return any(number == value for number in _numbers_in_text(text, whole))


def _covered(inner: range, places: list[range]) -> bool:
    """Whether one of some sorted ranges of equal length covers another."""
    at = bisect_right(places, inner.start, key=lambda place: place.start) - 1
    return at >= 0 and inner.stop <= places[at].stop


def _is_whole(text: str, start: int, end: int) -> bool:
    return not (_joined(text[start - 1 : start], text[start]) or _joined(text[end - 1], text[end : end + 1]))


def _is_linked(text: str, at: range) -> bool:
    before, after = text[max(0, at.start - 2) : at.start], text[at.stop : at.stop + 2]
    return (len(before) == 2 and before[1] in _LINKS and before[0].isalnum()) or (
        len(after) == 2 and after[0] in _LINKS and after[1].isalnum()
    )


def _joined(left: str, right: str) -> bool:
    """Whether two characters belong to one word."""
    both = left + right
    if len(both) < 2 or any(unicodedata.east_asian_width(character) in _WIDE for character in both):
        return False
    return _of_word(left) and _of_word(right)


def _of_word(character: str) -> bool:
    """Whether a character is a letter, digit, underscore, accent or invisible."""
    return character == "_" or unicodedata.category(character)[0] in "LNM" or unicodedata.category(character) == "Cf"


def _numbers_in_text(text: str, within: list[range]) -> Iterator[int | Fraction]:
    for match in _DIGITS.finditer(text):
        start, end = match.span()
        negative = start > 0 and text[start - 1] in _MINUS
        start -= negative
        alone = _covered(range(start, end), within) and _stands_alone(text, start, end)
        number = exact(Decimal(match[0].replace(",", ""))) if alone and _PLAIN.fullmatch(match[0]) else None
        if isinstance(number, int | Fraction):
            yield -number if negative else number


def _stands_alone(text: str, start: int, end: int) -> bool:
    """Whether the digits are a number of their own, not part of a word, a date or an amount such as `5 million`."""
    before, after = text[max(0, start - 40) : start], text[end : end + 40]
    if (before and _of_word(before[-1])) or (after and _of_word(after[0])):
        return False
    if unicodedata.category(before[-1:] or " ") == "Sc" and before[-2:-1] and before[-2] in _MINUS:  # -$50
        return False
    if before and before[-1] in _JOINS and before[-2:-1].isalnum():
        return False
    if after and after[0] in _JOINS and after[1:2].isalnum():
        return False
    return not (_SCALE.match(after) or _NEGATED.search(before))


# --- confirmations


def confirmation_problem(
    yes: int, proposal: int, messages: Sequence[ConversationMessage], args: Mapping[str, Any]
) -> str | None:
    """Returns the reason why a message does not confirm a call, or None if it does.

    Args:
        yes: the index of the user's message.
        proposal: the index of the assistant's message that proposes the call.
        messages: the conversation.
        args: the call's arguments.
    """
    if messages[yes].role != "user":
        return f"message {yes} has the role '{messages[yes].role}'; only the user can confirm"
    if messages[proposal].role != "assistant" or proposal >= yes:
        return f"message {proposal} is not a proposal by the assistant before message {yes}"
    since = [
        message for message in messages[proposal + 1 : yes] if message.role == "assistant" and message.content.strip()
    ]
    if since:
        return f"the assistant sent another message between its proposal (message {proposal}) and message {yes}"
    replies = [at for at, message in enumerate(messages) if at > proposal and message.role == "user"]
    if replies != [yes]:
        return f"message {yes} is not the user's only message after the proposal (message {proposal})"
    return _missing_from_proposal(args, messages[proposal].content, proposal)


def _missing_from_proposal(args: Mapping[str, Any], text: str, proposal: int) -> str | None:
    """Returns the identifying arguments that the proposal does not mention, as a reason."""
    identifying = list(_identifying_arguments(args))
    if not identifying:
        return "the call has no argument that a proposal could mention"
    missing = [f"{name} {shown(value)}" for name, value in identifying if not _is_mentioned(value, text)]
    return f"the proposal (message {proposal}) does not mention {', '.join(missing)}" if missing else None


def _is_mentioned(value: Any, text: str) -> bool:
    if isinstance(value, str):
        return holds_text(value, text)
    number = exact(value)
    return isinstance(number, int | Fraction) and holds_number(number, text)


def _identifying_arguments(args: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yields the strings with a digit and all numbers; if there are none, all strings."""
    texts = [(name, value) for name, value in args.items() if isinstance(value, str) and value.strip()]
    identifying = [(name, value) for name, value in texts if any(map(str.isdigit, value))]
    identifying += [pair for name, value in args.items() for pair in _numbers_within(name, value)]
    yield from identifying or texts


def _numbers_within(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _numbers_within(f"{name}.{key}", item)
    elif isinstance(value, list | tuple):
        for at, item in enumerate(value):
            yield from _numbers_within(f"{name}[{at}]", item)
    elif kind_of(value) == "number":
        yield name, value


# --- values read by a model

Value = bool | int | Fraction | str
MAX_ANSWER = 200_000  # characters

_ITEM = {"value", "message", "quote"}
_FORMS = {"Bool": "true or false", "Int": "a whole number", "Real": "a number", "String": "a string"}
_FENCED = re.compile(r"```(?:json)?\s*\n(.*)\n\s*```", re.DOTALL)
_BREAKS = re.compile("[\x7f-\x9f\u2028\u2029]")  # JSON does not escape them, and some readers take them for line ends


@dataclass(frozen=True, slots=True)
class RequestedVariable:
    """A variable whose value the model is to read.

    Attributes:
        name: its name.
        sort: "Bool", "Int", "Real" or "String"; or the values of an enumeration.
        enum: its allowed values, or None for any value of its sort.
        roles: the roles whose messages may state it.
        confirmation: whether it is the user's approval of the proposed call.
        description: its meaning in natural language.
    """

    name: str
    sort: str | tuple[str, ...]
    enum: tuple[Any, ...] | None = None
    roles: frozenset[str] = frozenset({"user"})
    confirmation: bool = False
    description: str = ""

    @property
    def form(self) -> str:
        """Describes the expected value for the prompt."""
        values = self.sort if isinstance(self.sort, tuple) else self.enum
        if self.confirmation or values is None:
            return _FORMS[str(self.sort)]
        return f"one of {', '.join(shown(value, 200) for value in values)}"

    def prompt_fields(self) -> dict[str, str]:
        roles = " or ".join(sorted(self.roles))
        return {"name": self.name, "form": self.form, "roles": roles, "description": self.description}


class _RejectionError(Exception):
    """The host rejects a value; the message gives the reason."""


def read_values(
    model: Model | None,
    variables: Sequence[RequestedVariable],
    messages: Sequence[Any],
    tool: str,
    args: Mapping[str, Any],
    *,
    meter: Meter | None = None,
) -> dict[str, Value | Unknown]:
    """Reads the values of variables in a conversation. It never raises: any failure makes them unknown.

    Args:
        model: the model that reads.
        variables: the variables to read.
        messages: the conversation as chat messages, with `role` and `content`.
        tool: the proposed call's tool.
        args: its arguments.
        meter: counts the model call; by default a new meter.
    """
    if not variables:
        return {}
    try:
        conversation = [message_of(message) for message in messages]
        if not conversation:
            return _all_unknown(variables, "there is no conversation")
        answer = _query_model(meter or Meter(model), variables, conversation, tool, args)
        return {variable.name: _verified(variable, answer[variable.name], conversation, args) for variable in variables}
    except _RejectionError as error:
        return _all_unknown(variables, f"the model's answer is rejected: {error}")
    except GuardError as error:
        return _all_unknown(variables, str(error))
    except Exception as error:  # noqa: BLE001 - messages and arguments may be anything
        return _all_unknown(variables, f"the conversation cannot be read ({type(error).__name__}: {str(error)[:200]})")


def _all_unknown(variables: Sequence[RequestedVariable], why: str) -> dict[str, Value | Unknown]:
    return {
        variable.name: Unknown(f"'{variable.name}' was not read in the conversation: {why}") for variable in variables
    }


# --- prompt


@lru_cache(1)
def _prompts() -> Prompts:
    return Prompts()


def _query_model(
    meter: Meter,
    variables: Sequence[RequestedVariable],
    messages: Sequence[ConversationMessage],
    tool: str,
    args: Mapping[str, Any],
) -> dict[str, Any]:
    """Returns the model's answer for each name."""
    hidden = {"system"} - {role for variable in variables for role in variable.roles}
    lines = [_line(at, message) for at, message in enumerate(messages) if message.role not in hidden]
    data = {"call": _json({"tool": tool, "args": thaw(args)}), "conversation": "\n".join(lines)}
    confirmations = [variable.name for variable in variables if variable.confirmation]
    described = [variable.prompt_fields() for variable in variables]
    prompt = _prompts().render("read_values", data, asked=described, confirmations=confirmations)
    call = ModelCall(prompt)
    with meter.metered_call(call) as exchange:
        if exchange.needs_model and meter.model is not None:
            exchange.answer = meter.model.complete(prompt.messages)
    outcome = exchange.outcome
    if isinstance(outcome, GuardError):
        raise outcome
    return _parsed(outcome.text, {variable.name for variable in variables})


def _line(at: int, message: ConversationMessage) -> str:
    """Encodes a message as one line of JSON, so that its content cannot imitate another message."""
    of_tool = {"tool": message.tool} if message.role == "tool" and message.tool else {}
    return _json({"message": at, "role": message.role, **of_tool, "content": message.content})


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "backslashreplace").decode()
    return _BREAKS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


# --- answer


def _parsed(text: str, names: set[str]) -> dict[str, Any]:
    if len(text) > MAX_ANSWER:
        raise _RejectionError(f"it has {len(text):,} characters")
    fenced = _FENCED.fullmatch(text.strip())
    try:
        answer = json_values.loads(fenced[1] if fenced else text, parse_float=Decimal)
    except ValueError as error:
        raise _RejectionError(f"it is not one JSON object ({str(error)[:100]})") from None
    if type(answer) is not dict or answer.keys() != names:
        raise _RejectionError(f"it has unexpected keys; expected {', '.join(map(repr, sorted(names)))}")
    return answer


# --- verification


def _verified(
    variable: RequestedVariable, item: Any, messages: Sequence[ConversationMessage], args: Mapping[str, Any]
) -> Value | Unknown:
    if item is None:
        return Unknown(f"the conversation does not state '{variable.name}'")
    try:
        return (
            _confirmation(variable, item, messages, args) if variable.confirmation else _value(variable, item, messages)
        )
    except _RejectionError as error:
        return Unknown(f"'{variable.name}' was not read in the conversation: {error}")


def _value(requested_variable: RequestedVariable, item: Any, messages: Sequence[ConversationMessage]) -> Value:
    at, quoted = _locate_quote(item, messages, _ITEM)
    if messages[at].role not in requested_variable.roles:
        raise _RejectionError(
            f"message {at} has the role '{messages[at].role}'; "
            f"expected {' or '.join(map(repr, sorted(requested_variable.roles)))}"
        )
    value = _of_sort(item["value"], requested_variable)
    text = messages[at].content
    if type(value) is str and requested_variable.sort == "String":
        supported = holds_text(value, text, quoted)
    elif type(value) in (int, Fraction):
        supported = holds_number(value, text, quoted)  # type: ignore[arg-type]
    else:  # a truth value or an enumeration's value may be stated in any words
        supported = True
    if not supported:
        raise _RejectionError(f"{shown(value)} does not occur in the quote from message {at}")
    return value


def _confirmation(
    requested_variable: RequestedVariable, item: Any, messages: Sequence[ConversationMessage], args: Mapping[str, Any]
) -> bool:
    if type(item) is not dict or item.get("value") is not True:
        raise _RejectionError("the user did not confirm")
    yes, _ = _locate_quote(item, messages, _ITEM | {"proposal"})
    proposal, _ = _locate_quote(item["proposal"], messages, {"message", "quote"})
    if messages[yes].role not in requested_variable.roles:
        raise _RejectionError(f"message {yes} has the role '{messages[yes].role}'; expected 'user'")
    problem = confirmation_problem(yes, proposal, messages, args)
    if problem:
        raise _RejectionError(problem)
    return True


def _locate_quote(item: Any, messages: Sequence[ConversationMessage], keys: set[str]) -> tuple[int, list[range]]:
    """Returns the index of the cited message and the ranges of the quote in it."""
    if type(item) is not dict or item.keys() != keys:
        raise _RejectionError(f"the answer has unexpected keys; expected {', '.join(map(repr, sorted(keys)))}")
    at, quote = item["message"], item["quote"]
    if type(at) is not int or not 0 <= at < len(messages):
        raise _RejectionError(f"there is no message {shown(at)}")
    places = occurrences(quote, messages[at].content) if type(quote) is str else []
    if not places:
        raise _RejectionError(f"the quote does not occur in message {at}")
    return at, places


def _of_sort(value: Any, variable: RequestedVariable) -> Value:
    """Converts a value to its sort, without coercion."""
    convert = _CONVERSIONS["enumeration" if isinstance(variable.sort, tuple) else variable.sort]
    converted = convert(value)
    if isinstance(variable.sort, tuple) and value not in variable.sort:
        converted = None
    if converted is None:
        raise _RejectionError(f"{shown(value)} is not {variable.form}")
    if variable.enum is not None and not any(equal(converted, allowed) is True for allowed in variable.enum):
        raise _RejectionError(f"{shown(converted)} is not an allowed value")
    return converted


def _number(value: Any) -> Value | None:
    number = exact(value) if type(value) in (int, Decimal) else None
    return number if isinstance(number, int | Fraction) else None


_CONVERSIONS: Mapping[str, Callable[[Any], Value | None]] = {
    "Bool": lambda value: value if type(value) is bool else None,
    "Int": lambda value: value if type(value) is int else None,
    "Real": _number,
    "String": lambda value: value if type(value) is str else None,
    "enumeration": lambda value: value if type(value) is str else None,
}

ConversationReader = Callable[[Sequence[RequestedVariable], RuleContext, SessionCall], Mapping[str, Any]]


def conversation_reader(model: Model | str | None) -> ConversationReader:
    """Returns a function that reads variables in a session's conversation.

    Without a model or messages, all variables are unknown.

    Raises:
        InputError: the model cannot be loaded.
    """
    if isinstance(model, str):
        from guardagent.models import load_model

        model = load_model(model)
    if model is None:
        return lambda variables, _trace, _call: {variable.name: _NO_MODEL for variable in variables}
    reader_model = model

    def read(variables: Sequence[RequestedVariable], trace: RuleContext, call: SessionCall) -> Mapping[str, Any]:
        messages = trace.messages() if callable(trace.messages) else trace.messages
        return read_values(reader_model, variables, messages, call.tool, call.args)

    return read


_NO_MODEL = Unknown("no model reads the conversation; expected 'load_policies(..., model=...)'")


# --- Z3 contexts

Contexts = dict[Hashable, "SolverContext"]

_shared: ContextVar[Contexts | None] = ContextVar("shared Z3 contexts", default=None)


@dataclass(frozen=True, slots=True)
class SolverContext:
    """A Z3 context, and the lock to hold while its terms are used."""

    z3: Any = field(default_factory=new_context)
    lock: threading.Lock = field(default_factory=threading.Lock)


@contextmanager
def shared_contexts() -> Iterator[None]:
    """In this block and those inside of it, encodings with the same sorts share a context of 17 MB (Z3 5.4)."""
    known = _shared.get()
    token = _shared.set({} if known is None else known)
    try:
        yield
    finally:
        _shared.reset(token)


def context_of(sorts: Hashable) -> SolverContext:
    """Returns a context for text with some declarations of sorts: a new one, except in a block of `shared_contexts`.

    Only equal declarations share one: Z3 keeps a single definition of each sort.
    """
    known = _shared.get()
    if known is None:
        return SolverContext()
    if sorts not in known:
        known[sorts] = SolverContext()
    return known[sorts]
