"""The context of a compilation: the model with its budget, the sandbox, the prompt templates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from guardagent.errors import ModelError
from guardagent.models import Completion
from guardagent.models.metering import Meter
from guardagent.models.prompts import ModelCall, Prompts
from guardagent.models.redaction import Redaction, Redactor
from guardagent.sandbox import Sandbox


def _no_progress(_message: str) -> None:
    """Discards progress messages."""


@dataclass(frozen=True)
class CompileContext:
    """The services that a compilation uses.

    Attributes:
        shown: how many examples the prompts show. The model sees another one only after its program fails it.
        progress: receives progress messages.
    """

    meter: Meter
    sandbox: Sandbox
    prompts: Prompts
    redaction: Redaction = field(default_factory=lambda: Redactor().redaction())
    shown: int = 6
    progress: Callable[[str], None] = _no_progress

    def ask(self, call: ModelCall) -> str:
        """Returns the model's answer to a prompt.

        Raises:
            ModelError: no model is configured, or it gave no usable answer.
        """
        with self.meter.metered_call(call) as asking:
            if asking.needs_model and self.meter.model is not None:
                options = {"temperature": call.temperature} if call.temperature else {}
                asking.answer = self.meter.model.complete(call.prompt.messages, **options)
        if isinstance(asking.outcome, Completion):
            return asking.outcome.text
        raise (
            asking.outcome
            if isinstance(asking.outcome, ModelError)
            else ModelError("the model returned no completion; expected text")
        )
