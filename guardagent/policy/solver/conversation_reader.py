"""Has a model read variables in the conversation, once for each proposed call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from guardagent.policy.evaluation.monitor_interface import RuleContext, SessionCall
from guardagent.policy.language.values import Unknown
from guardagent.policy.solver.conversation_values import RequestedVariable, read_values

if TYPE_CHECKING:
    from guardagent.models import Model

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
        return lambda variables, _trace, _call: {one.name: _NO_MODEL for one in variables}
    reader_model = model

    def read(variables: Sequence[RequestedVariable], trace: RuleContext, call: SessionCall) -> Mapping[str, Any]:
        messages = trace.messages() if callable(trace.messages) else trace.messages
        return read_values(reader_model, variables, messages, call.tool, call.args)

    return read


_NO_MODEL = Unknown("no model reads the conversation; expected 'load_policies(..., model=...)'")
