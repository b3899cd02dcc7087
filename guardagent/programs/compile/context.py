"""What compiling works with: the model and its account, the sandbox, the templates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from guardagent.errors import ModelError
from guardagent.models import Completion
from guardagent.models.meter import Meter
from guardagent.models.prompts import ModelCall, Prompts
from guardagent.models.redaction import Redaction, Redactor
from guardagent.sandbox import Sandbox


def _no_progress(_words: str) -> None:
    """For whoever does not wait at a terminal."""


@dataclass(frozen=True)
class CompileContext:
    """The means.

    Attributes:
        shown: how many examples the model is shown. It never sees the others, unless its program fails them.
        tell: is told, in words, how it goes.
    """

    meter: Meter
    sandbox: Sandbox
    prompts: Prompts
    redaction: Redaction = field(default_factory=lambda: Redactor().redaction())
    shown: int = 6
    progress: Callable[[str], None] = _no_progress

    def ask(self, call: ModelCall) -> str:
        """What the model answers.

        Raises:
            ModelError: there is none, or it gives no usable answer.
        """
        with self.meter.metered_call(call) as asking:
            if asking.needs_model and self.meter.model is not None:
                options = {"temperature": call.temperature} if call.temperature else {}
                asking.answer = self.meter.model.complete(call.prompt.messages, **options)
        if isinstance(asking.outcome, Completion):
            return asking.outcome.text
        raise asking.outcome if isinstance(asking.outcome, ModelError) else ModelError("the model gave nothing")
