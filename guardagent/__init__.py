"""GuardAgent keeps LLM agents inside the rules their operators set."""

import sys
from importlib import import_module
from types import ModuleType

from guardagent._version import __version__ as __version__

TYPE_CHECKING = False  # known to type checkers; importing `typing` would take longer than the rest of this module
if TYPE_CHECKING:
    from guardagent.enforcement.remote import RemoteGuard as RemoteGuard
    from guardagent.enforcement.tool_guard import ToolGuard as ToolGuard
    from guardagent.errors import ContentError as ContentError
    from guardagent.errors import GuardError as GuardError
    from guardagent.errors import InputError as InputError
    from guardagent.errors import LimitError as LimitError
    from guardagent.errors import ModelError as ModelError
    from guardagent.errors import ProgramError as ProgramError
    from guardagent.errors import SandboxError as SandboxError
    from guardagent.errors import ToolDenied as ToolDenied
    from guardagent.errors import UnknownNameError as UnknownNameError
    from guardagent.generation.chat import GuardedTurn as GuardedTurn
    from guardagent.generation.chat import aguarded_chat as aguarded_chat
    from guardagent.generation.chat import guarded_chat as guarded_chat
    from guardagent.guard import GuardAgent as GuardAgent
    from guardagent.guard import aguard as aguard
    from guardagent.guard import guard as guard
    from guardagent.log import AuditLog as AuditLog
    from guardagent.policy.load import load_policies as load_policies
    from guardagent.policy.policies import Policies as Policies
    from guardagent.programs.compile.report import NotCompiledError as NotCompiledError
    from guardagent.programs.memory.agents import Memory as Memory
    from guardagent.programs.memory.retrieval import Demonstration as Demonstration
    from guardagent.programs.memory.retrieval import retrieve as retrieve
    from guardagent.sandbox import Limits as Limits
    from guardagent.sandbox import Sandbox as Sandbox
    from guardagent.sandbox.toolbox import Tool as Tool
    from guardagent.sandbox.toolbox import Toolbox as Toolbox
    from guardagent.session.replan import ReplanResult as ReplanResult
    from guardagent.session.replan import aenforce as aenforce
    from guardagent.session.replan import enforce as enforce
    from guardagent.session.session import Session as Session
    from guardagent.types import Check as Check
    from guardagent.types import Context as Context
    from guardagent.types import Decision as Decision
    from guardagent.types import Event as Event
    from guardagent.types import Permit as Permit
    from guardagent.types import Verdict as Verdict
    from guardagent.types import Violation as Violation
    from guardagent.workflow.analysis.report import Report as Report
    from guardagent.workflow.model.graph import Graph as Graph
    from guardagent.workflow.verify import verify as verify

# The module of each public name, which loads at the first use: importing the package is cheap.
_HOMES = {
    "guardagent.enforcement.remote": "RemoteGuard",
    "guardagent.enforcement.tool_guard": "ToolGuard",
    "guardagent.errors": "ContentError GuardError InputError LimitError ModelError "
    "ProgramError SandboxError ToolDenied UnknownNameError",
    "guardagent.guard": "GuardAgent aguard guard",
    "guardagent.log": "AuditLog",
    "guardagent.programs.compile.report": "NotCompiledError",
    "guardagent.programs.memory.agents": "Memory",
    "guardagent.programs.memory.retrieval": "Demonstration retrieve",
    "guardagent.policy.load": "load_policies",
    "guardagent.policy.policies": "Policies",
    "guardagent.generation.chat": "GuardedTurn aguarded_chat guarded_chat",
    "guardagent.session.replan": "ReplanResult aenforce enforce",
    "guardagent.sandbox": "Limits Sandbox",
    "guardagent.session.session": "Session",
    "guardagent.sandbox.toolbox": "Tool Toolbox",
    "guardagent.types": "Check Context Decision Event Permit Verdict Violation",
    "guardagent.workflow.model.graph": "Graph",
    "guardagent.workflow.analysis.report": "Report",
    "guardagent.workflow.verify": "verify",
}
_PUBLIC = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = sorted(_PUBLIC)  # noqa: PLE0605 - a list of names


if not TYPE_CHECKING:  # for a type checker, only the names above exist

    def __getattr__(name: str) -> object:
        if name not in _PUBLIC:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_PUBLIC[name]), name)
        setattr(sys.modules[__name__], name, value)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})


class _PublicPackage(ModuleType):
    """Keeps `guardagent.guard` the public function: an import of the module of that name would replace it."""

    def __setattr__(self, name: str, value: object) -> None:
        if name not in _PUBLIC or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _PublicPackage
