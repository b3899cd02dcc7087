"""Checks that the user confirmed exactly this call, directly after the assistant proposed it.

A tool's output never confirms a call, whatever it quotes: roles and order come from the host.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from guardagent.policy.language.values import exact, kind_of, shown
from guardagent.policy.solver.citations import ConversationMessage, holds_number, holds_text


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
    since = [one for one in messages[proposal + 1 : yes] if one.role == "assistant" and one.content.strip()]
    if since:
        return f"the assistant sent another message between its proposal (message {proposal}) and message {yes}"
    replies = [at for at, one in enumerate(messages) if at > proposal and one.role == "user"]
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
    found = [(name, value) for name, value in texts if any(map(str.isdigit, value))]
    found += [pair for name, value in args.items() for pair in _numbers_within(name, value)]
    yield from found or texts


def _numbers_within(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _numbers_within(f"{name}.{key}", item)
    elif isinstance(value, list | tuple):
        for at, item in enumerate(value):
            yield from _numbers_within(f"{name}[{at}]", item)
    elif kind_of(value) == "number":
        yield name, value
