"""Refuses a tool that a middleware substituted for the guarded one, before it runs."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import BaseCallbackHandler, CallbackManager

from guardagent.errors import ToolDenied
from guardagent.frameworks.langgraph.adapter.proposal import RUNNING_TOOL, ToolCallProposal
from guardagent.types import unchecked_verdict


class _NoSubstitute(BaseCallbackHandler):
    """A callback of each tool that starts in the host's task; stops any tool but the guarded copy."""

    raise_error = True
    run_inline = True

    def __init__(self, proposal: ToolCallProposal) -> None:
        self._proposal = proposal

    def on_tool_start(self, serialized: dict[str, Any] | None, input_str: str, **_: Any) -> None:  # noqa: ARG002
        if RUNNING_TOOL.get() != self._proposal.running_tool:
            name = (serialized or {}).get("name")
            tool = self._proposal.tool_call["name"]
            why = f"a middleware after the guard replaced the tool {tool!r} with {name!r}"
            raise ToolDenied(str(name), unchecked_verdict(f"{why}; put the guard last", checked_by="policy"))


def refuse_substitutes(proposal: ToolCallProposal, config: dict[str, Any]) -> None:
    """Adds a callback to the configuration that the host passes to a tool, which reports every tool that starts."""
    known = config.get("callbacks")
    if known is None or isinstance(known, list):
        manager = CallbackManager(handlers=list(known or ()), inheritable_handlers=list(known or ()))
    else:
        manager = known.copy()
    manager.add_handler(_NoSubstitute(proposal), inherit=False)  # what the tool itself calls is its own affair
    config["callbacks"] = manager
