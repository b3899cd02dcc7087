"""GuardAgent keeps LLM agents inside the rules their operators set."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from guardagent.errors import (
    ContentError,
    GuardError,
    InputError,
    LimitError,
    ModelError,
    NotCompiledError,
    ProgramError,
    SandboxError,
    ToolDenied,
    UnknownNameError,
)
from guardagent.guard import GuardAgent, aguard, guard
from guardagent.memory import Demonstration, Memory, retrieve
from guardagent.sandbox import Limits, Sandbox
from guardagent.toolbox import Tool, Toolbox
from guardagent.types import Check, Context, Decision, Event, Verdict, Violation

if TYPE_CHECKING:
    from guardagent.enforcement.tool_guard import ToolGuard
    from guardagent.log import AuditLog
    from guardagent.permit import Permit
    from guardagent.policy.load import load_policies
    from guardagent.policy.policies import Policies
    from guardagent.proposals.chat import aguarded_chat, guarded_chat
    from guardagent.proposals.turn import GuardedTurn
    from guardagent.replan import Enforced, aenforce, enforce
    from guardagent.session import Session
    from guardagent.workflow.graph import Graph
    from guardagent.workflow.report import Report
    from guardagent.workflow.verify import verify

# What is loaded when it is first asked for: whoever judges finished runs needs none of it.
_LATER = {
    "AuditLog": "guardagent.log",
    "Enforced": "guardagent.replan",
    "Graph": "guardagent.workflow.graph",
    "GuardedTurn": "guardagent.proposals.turn",
    "Permit": "guardagent.permit",
    "Policies": "guardagent.policy.policies",
    "Report": "guardagent.workflow.report",
    "Session": "guardagent.session",
    "ToolGuard": "guardagent.enforcement.tool_guard",
    "aenforce": "guardagent.replan",
    "aguarded_chat": "guardagent.proposals.chat",
    "enforce": "guardagent.replan",
    "guarded_chat": "guardagent.proposals.chat",
    "load_policies": "guardagent.policy.load",
    "verify": "guardagent.workflow.verify",
}

__all__ = [
    "AuditLog",
    "Check",
    "ContentError",
    "Context",
    "Decision",
    "Demonstration",
    "Enforced",
    "Event",
    "Graph",
    "GuardAgent",
    "GuardError",
    "GuardedTurn",
    "InputError",
    "LimitError",
    "Limits",
    "Memory",
    "ModelError",
    "NotCompiledError",
    "Permit",
    "Policies",
    "ProgramError",
    "Report",
    "Sandbox",
    "SandboxError",
    "Session",
    "Tool",
    "ToolDenied",
    "ToolGuard",
    "Toolbox",
    "UnknownNameError",
    "Verdict",
    "Violation",
    "aenforce",
    "aguard",
    "aguarded_chat",
    "enforce",
    "guard",
    "guarded_chat",
    "load_policies",
    "retrieve",
    "verify",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
