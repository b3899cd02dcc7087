"""Reads the source of AutoGen programs: agents, teams and tools become stubs, extracted like live objects.

Programs in the style of AutoGen 0.2 and AG2 before 1.0 have agents that chat in pairs, queues and groups. A chat is a
call there, not an object, so only a source reader can find it: `initiate_chat` and the like make a `ChatSequence`,
whose agents are stubs. Tools belong to the agent that executes them, as in a run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from guardagent.errors import InputError
from guardagent.frameworks.autogen import extractor as live
from guardagent.frameworks.autogen.package import PACKAGES as PACKAGES
from guardagent.frameworks.autogen.source import kinds
from guardagent.frameworks.autogen.source.conversations import graph_of
from guardagent.frameworks.autogen.source.participants import ChatSequence
from guardagent.workflow.extraction.objects import is_a
from guardagent.workflow.model.graph import Graph
from guardagent.workflow.python_source.stubs import ObjectStub
from guardagent.workflow.python_source.values import Arguments, ImportedName, Values

if TYPE_CHECKING:
    from guardagent.workflow.python_source.interpreter import Interpreter


CONSTANTS: dict[str, object] = {}
KINDS = (*kinds.KINDS, *kinds.CHAT_KINDS)


def is_workflow(value: object) -> bool:
    of_teams = isinstance(value, ObjectStub) and is_a(value, kinds.CHAT, "Team", "ChatAgent")
    return of_teams or _is_runtime(value) or kinds.is_workflow(value)


def _is_runtime(value: object) -> bool:
    """Whether a value is a runtime of AutoGen Core, which has no graph but is a workflow all the same."""
    return isinstance(value, ObjectStub) and is_a(value, kinds.CORE, kinds.RUNTIME.name)


def extract(value: ObjectStub | ChatSequence, name: str) -> Graph:
    """The graph of a team, an agent or a conversation.

    Raises:
        InputError: it is a runtime of AutoGen Core.
    """
    if _is_runtime(value):
        raise InputError(
            f"{value.file}:{value.line}: the agents of a {type(value).__name__} send messages by topics that are known "
            f"only at run time; expected a team, an agent or a chat, or the graph as JSON"
        )
    return graph_of(value, name) if kinds.is_workflow(value) else live.extract(value, name)


def called(interpreter: Interpreter, target: object, arguments: Arguments, line: int) -> Values | None:
    """Applies the functions that start chats; the classes of KINDS have the rest."""
    if isinstance(target, ImportedName) and target.path.startswith(f"{kinds.CORE}.") and _handles(target.path):
        return arguments.get("func", 0)
    return kinds.called(interpreter, target, arguments, line) if interpreter.executing else None


def _handles(path: str) -> bool:
    """Whether it is a decorator of the handlers of AutoGen Core, which leaves them as they are."""
    return path.rpartition(".")[2] in {"rpc", "event", "message_handler"}


def piped(_interpreter: Interpreter, left: Values, right: Values) -> Values | None:
    """`one | other` of termination conditions."""
    return kinds.combined("|", left, right)


def anded(_interpreter: Interpreter, left: Values, right: Values) -> Values | None:
    """`one & other` of termination conditions."""
    return kinds.combined("&", left, right)
