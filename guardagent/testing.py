"""For the tests of users of this library: a model that answers from a script."""

from guardagent.models import Completion, Message, Model
from guardagent.models.scripted import ScriptedModel

__all__ = ["Completion", "Message", "Model", "ScriptedModel"]
