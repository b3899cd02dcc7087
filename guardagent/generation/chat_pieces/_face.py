"""Guarded chat: checks the calls that a remote model proposes before it returns any of them.

guarded_chat     requests a turn from a model with tools until its calls comply
aguarded_chat    the same, for an event loop
"""

from guardagent.generation.chat import aguarded_chat, guarded_chat
from guardagent.generation.chat_pieces.turn import GuardedTurn, Refusal, ReleasedCall

__all__ = ["GuardedTurn", "Refusal", "ReleasedCall", "aguarded_chat", "guarded_chat"]
