"""GuardAgent keeps LLM agents inside the rules their operators set."""

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
from guardagent.memory import Demonstration, Memory, retrieve
from guardagent.permit import Permit
from guardagent.policy.load import load_policies
from guardagent.policy.policies import Policies
from guardagent.sandbox import Limits, Sandbox
from guardagent.session import Session
from guardagent.toolbox import Tool, Toolbox
from guardagent.types import Check, Context, Decision, Event, Verdict, Violation

__all__ = [
    "Check",
    "ContentError",
    "Context",
    "Decision",
    "Demonstration",
    "Event",
    "GuardAgent",
    "GuardError",
    "InputError",
    "LimitError",
    "Limits",
    "Memory",
    "ModelError",
    "Permit",
    "Policies",
    "ProgramError",
    "Sandbox",
    "SandboxError",
    "Session",
    "Tool",
    "ToolDenied",
    "Toolbox",
    "UnknownNameError",
    "Verdict",
    "Violation",
    "aguard",
    "guard",
    "load_policies",
    "retrieve",
]

__version__ = "0.1.0"
