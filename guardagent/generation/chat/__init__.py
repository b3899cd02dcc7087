"""Calls that a remote model proposes, judged before anybody gets to see them.

guarded_chat     asks a model that is offered tools, until what it proposes complies
aguarded_chat    the same, for an event loop
"""

from guardagent.generation.chat.chat import aguarded_chat, guarded_chat
from guardagent.generation.chat.turn import GuardedTurn, Refusal, ReleasedCall

__all__ = ["GuardedTurn", "Refusal", "ReleasedCall", "aguarded_chat", "guarded_chat"]
