"""GuardAgent keeps LLM agents inside the rules their operators set."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from guardagent._version import __version__ as __version__
from guardagent.errors import (
    ContentError,
    GuardError,
    InputError,
    LimitError,
    ModelError,
    ProgramError,
    SandboxError,
    ToolDenied,
    UnknownNameError,
)
from guardagent.guard import GuardAgent, aguard, guard
from guardagent.programs.memory.agents import Demonstration, Memory, retrieve
from guardagent.sandbox import Limits, Sandbox
from guardagent.sandbox.toolbox import Tool, Toolbox
from guardagent.types import Check, Context, Decision, Event, Verdict, Violation

if TYPE_CHECKING:
    from guardagent.enforcement.tool_guard import ToolGuard
    from guardagent.generation.chat.chat import aguarded_chat, guarded_chat
    from guardagent.generation.chat.turn import GuardedTurn
    from guardagent.log import AuditLog
    from guardagent.policy.load import load_policies
    from guardagent.policy.policies import Policies
    from guardagent.programs.compile.report import NotCompiledError
    from guardagent.session.permit import Permit
    from guardagent.session.replan import Enforced, aenforce, enforce
    from guardagent.session.session import Session
    from guardagent.workflow.analysis.report import Report
    from guardagent.workflow.model.graph import Graph
    from guardagent.workflow.verify import verify

# What is loaded when it is first asked for: whoever judges finished runs needs none of it.
_LATER = {
    "AuditLog": "guardagent.log",
    "Enforced": "guardagent.session.replan",
    "Graph": "guardagent.workflow.model.graph",
    "GuardedTurn": "guardagent.generation.chat.turn",
    "NotCompiledError": "guardagent.programs.compile.report",
    "Permit": "guardagent.session.permit",
    "Policies": "guardagent.policy.policies",
    "Report": "guardagent.workflow.analysis.report",
    "Session": "guardagent.session.session",
    "ToolGuard": "guardagent.enforcement.tool_guard",
    "aenforce": "guardagent.session.replan",
    "aguarded_chat": "guardagent.generation.chat.chat",
    "enforce": "guardagent.session.replan",
    "guarded_chat": "guardagent.generation.chat.chat",
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


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
