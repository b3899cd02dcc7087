"""For the tests of users of this library: models that answer from a script."""

from guardagent.models import Completion, Message, Model
from guardagent.models.backends._scripted_chat import ScriptedChat
from guardagent.models.backends.scripted import ScriptedModel
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
