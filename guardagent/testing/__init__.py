"""For the tests of users of this library: models that answer from a script."""

from guardagent.models import Completion, Message, Model
from guardagent.models._chat import Candidate, ChatAnswer, ChatModel, WrittenCall
from guardagent.models._scripted_chat import ScriptedChat
from guardagent.models.scripted import ScriptedModel

__all__ = [
    "Candidate",
    "ChatAnswer",
    "ChatModel",
    "Completion",
    "Message",
    "Model",
    "ScriptedChat",
    "ScriptedModel",
    "WrittenCall",
]
