"""`request:` policies: rules in natural language, judged by a guard program or by a model that writes one.

The agent input of the program is the facts and the history as JSON; the agent output is the proposed call as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from guardagent.errors import InputError
from guardagent.types import Check, Context, Event, Verdict, thaw

if TYPE_CHECKING:
    from guardagent.models import Model


def request_check(request: str, program: Path | None, toolbox: Sequence[Path], model: Model | str | None) -> Check:
    """The check of a `request:` policy.

    Raises:
        InputError: the program and the model are both missing, or one of them is invalid.
    """
    judge = _judge_function(request, program, toolbox, model)

    def check(event: Event, context: Context) -> Verdict:
        known = {"facts": thaw(context.facts), "history": [call_data(call) for call in context.history]}
        call = {"tool": event.tool, "args": thaw(event.args)}
        return judge(_json(known), _json(call), context.facts)

    check.asks_model = program is None  # type: ignore[attr-defined]
    return check


def _judge_function(
    request: str, program: Path | None, toolbox: Sequence[Path], model: Model | str | None
) -> Callable[[str, str, Mapping[str, Any]], Verdict]:
    from guardagent.guard import GuardAgent, judge_with
    from guardagent.programs.program_file import fresh_program
    from guardagent.sandbox import Engines
    from guardagent.sandbox.toolbox import Toolbox

    if program is not None:
        tools = Toolbox.load(*toolbox)
        return judge_with(fresh_program(program, tools, request), Engines("auto").get("auto"), tools)
    if model is None:
        raise InputError(
            "a request needs a program or a model; expected 'program:', or 'load_policies(..., model=...)'"
        )
    return GuardAgent(request, model=model, toolbox=list(toolbox), mode="generate").guard


def call_data(event: Event) -> dict[str, Any]:
    """A call of the history as JSON for a program."""
    return {
        "tool": event.tool,
        "args": thaw(event.args),
        "output": thaw(event.output),
        "status": event.status or "in flight",
    }


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
