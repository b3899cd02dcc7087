"""For the tests of users of this library: models that answer from a script, and cases of policies as tests.

Its names load at their first use, since pytest imports this package for its plug-in in every run.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from guardagent.models import Completion, Message, Model
    from guardagent.models.backends.scripted import ScriptedChat, ScriptedModel
    from guardagent.models.chat import ChatAnswer, ChatCandidate, ChatModel, WrittenCall

__all__ = [
    "ChatAnswer",
    "ChatCandidate",
    "ChatModel",
    "Completion",
    "Message",
    "Model",
    "ScriptedChat",
    "ScriptedModel",
    "WrittenCall",
]
_HOMES = {
    "guardagent.models": "Completion Message Model",
    "guardagent.models.backends.scripted": "ScriptedChat ScriptedModel",
    "guardagent.models.chat": "ChatAnswer ChatCandidate ChatModel WrittenCall",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)
