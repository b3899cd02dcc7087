"""GuardAgent keeps LLM agents inside the rules their operators set."""

from guardagent.errors import (
    ContentError,
    GuardError,
    InputError,
    LimitError,
    ModelError,
    ProgramError,
    SandboxError,
    UnknownNameError,
)
from guardagent.guard import GuardAgent, aguard, guard
from guardagent.memory import Demonstration, Memory, retrieve
from guardagent.sandbox import Limits, Sandbox
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
    "ProgramError",
    "Sandbox",
    "SandboxError",
    "Tool",
    "Toolbox",
    "UnknownNameError",
    "Verdict",
    "Violation",
    "aguard",
    "guard",
    "retrieve",
]

__version__ = "0.1.0"
