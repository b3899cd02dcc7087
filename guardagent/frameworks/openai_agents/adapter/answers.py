"""The agent's final answer, judged before the user sees it: as an output guardrail of the SDK."""

from __future__ import annotations

import json
from typing import Any

from agents import GuardrailFunctionOutput, OutputGuardrail
from pydantic_core import to_jsonable_python

from guardagent.enforcement.calls import plain_value
from guardagent.errors import InputError
from guardagent.frameworks.openai_agents.adapter.attachment_base import BaseAttachment
from guardagent.frameworks.openai_agents.adapter.messages import chat
from guardagent.frameworks.openai_agents.adapter.runs import scope


class AnswerGuardrail(OutputGuardrail[Any]):
    """Trips if the answer is denied; `output_info` is the verdict."""

    @classmethod
    def of(cls, attachment: BaseAttachment) -> AnswerGuardrail:
        async def judge(context: Any, agent: Any, output: Any) -> Any:  # noqa: ARG001 - the SDK's signature
            return await _judge(attachment, context, output)

        return cls(guardrail_function=judge, name="guardagent")


async def _judge(attachment: BaseAttachment, context: Any, output: Any) -> Any:
    around, run = scope(), attachment.run_of(context)
    if (around is not None and around.inside) or (run.final is not None and output == run.final):
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered=False)
    text = output if isinstance(output, str) else _json(output)
    beside = run.texts[:-1]  # the SDK's answer is only the last message of a response; the user may see them all
    text = "\n".join([*(one for one in beside if one not in text), text])
    user_messages = [one["content"] for one in chat(run.input) if one["role"] == "user"]
    conversation = attachment.conversation_of(context) or ""
    verdict = await attachment.guard.aanswer(conversation, user_messages[-1] if user_messages else "", text)
    return GuardrailFunctionOutput(output_info=verdict.to_dict(), tripwire_triggered=bool(verdict.label))


def _json(output: Any) -> str:
    """Returns a structured answer as text: what its values hold, as for arguments, if that has a form."""
    try:
        plain = plain_value(output, "the answer")
    except InputError:
        plain = to_jsonable_python(output, fallback=repr)
    return json.dumps(plain, ensure_ascii=False, default=str)
