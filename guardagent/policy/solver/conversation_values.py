"""Reads values in the conversation with a model (*Solver-Aided Verification*, 3.1), and verifies each of them.

For each value the model cites a message and a quote. The host verifies the citation: the message has an allowed role,
the quote occurs in it exactly, and the value has its sort and is supported by the quote. Any other value is unknown,
with a reason. No answer is cached.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from guardagent._support import json_values
from guardagent.errors import GuardError
from guardagent.models.metering import Meter
from guardagent.models.prompts import ModelCall, Prompts
from guardagent.policy.language.values import Unknown, equal, exact, shown
from guardagent.policy.solver.citations import ConversationMessage, holds_number, holds_text, message_of, occurrences
from guardagent.policy.solver.confirmation import confirmation_problem
from guardagent.types import thaw

if TYPE_CHECKING:
    from guardagent.models import Model

__all__ = ["ConversationMessage", "RequestedVariable", "Value", "read_values"]

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
        conversation = [message_of(one) for one in messages]
        if not conversation:
            return _all_unknown(variables, "there is no conversation")
        answer = _query_model(meter or Meter(model), variables, conversation, tool, args)
        return {one.name: _verified(one, answer[one.name], conversation, args) for one in variables}
    except _RejectionError as error:
        return _all_unknown(variables, f"the model's answer is rejected: {error}")
    except GuardError as error:
        return _all_unknown(variables, str(error))
    except Exception as error:  # noqa: BLE001 - messages and arguments may be anything
        return _all_unknown(variables, f"the conversation cannot be read ({type(error).__name__}: {str(error)[:200]})")


def _all_unknown(variables: Sequence[RequestedVariable], why: str) -> dict[str, Value | Unknown]:
    return {one.name: Unknown(f"'{one.name}' was not read in the conversation: {why}") for one in variables}


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
    hidden = {"system"} - {role for one in variables for role in one.roles}
    lines = [_line(at, one) for at, one in enumerate(messages) if one.role not in hidden]
    data = {"call": _json({"tool": tool, "args": thaw(args)}), "conversation": "\n".join(lines)}
    confirmations = [one.name for one in variables if one.confirmation]
    described = [one.prompt_fields() for one in variables]
    prompt = _prompts().render("read_values", data, asked=described, confirmations=confirmations)
    call = ModelCall(prompt)
    with meter.metered_call(call) as exchange:
        if exchange.needs_model and meter.model is not None:
            exchange.answer = meter.model.complete(prompt.messages)
    outcome = exchange.outcome
    if isinstance(outcome, GuardError):
        raise outcome
    return _parsed(outcome.text, {one.name for one in variables})


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
    one: RequestedVariable, item: Any, messages: Sequence[ConversationMessage], args: Mapping[str, Any]
) -> Value | Unknown:
    if item is None:
        return Unknown(f"the conversation does not state '{one.name}'")
    try:
        return _confirmation(one, item, messages, args) if one.confirmation else _value(one, item, messages)
    except _RejectionError as error:
        return Unknown(f"'{one.name}' was not read in the conversation: {error}")


def _value(one: RequestedVariable, item: Any, messages: Sequence[ConversationMessage]) -> Value:
    at, quoted = _locate_quote(item, messages, _ITEM)
    if messages[at].role not in one.roles:
        raise _RejectionError(
            f"message {at} has the role '{messages[at].role}'; expected {' or '.join(map(repr, sorted(one.roles)))}"
        )
    value = _of_sort(item["value"], one)
    text = messages[at].content
    if type(value) is str and one.sort == "String":
        supported = holds_text(value, text, quoted)
    elif type(value) in (int, Fraction):
        supported = holds_number(value, text, quoted)  # type: ignore[arg-type]
    else:  # a truth value or an enumeration's value may be stated in any words
        supported = True
    if not supported:
        raise _RejectionError(f"{shown(value)} does not occur in the quote from message {at}")
    return value


def _confirmation(
    one: RequestedVariable, item: Any, messages: Sequence[ConversationMessage], args: Mapping[str, Any]
) -> bool:
    if type(item) is not dict or item.get("value") is not True:
        raise _RejectionError("the user did not confirm")
    yes, _ = _locate_quote(item, messages, _ITEM | {"proposal"})
    proposal, _ = _locate_quote(item["proposal"], messages, {"message", "quote"})
    if messages[yes].role not in one.roles:
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
    found = occurrences(quote, messages[at].content) if type(quote) is str else []
    if not found:
        raise _RejectionError(f"the quote does not occur in message {at}")
    return at, found


def _of_sort(value: Any, one: RequestedVariable) -> Value:
    """Converts a value to its sort, without coercion."""
    convert = _CONVERSIONS["enumeration" if isinstance(one.sort, tuple) else one.sort]
    found = convert(value)
    if isinstance(one.sort, tuple) and value not in one.sort:
        found = None
    if found is None:
        raise _RejectionError(f"{shown(value)} is not {one.form}")
    if one.enum is not None and not any(equal(found, allowed) is True for allowed in one.enum):
        raise _RejectionError(f"{shown(found)} is not an allowed value")
    return found


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
