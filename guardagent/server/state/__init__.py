"""The state that servers share besides histories and counters: attachments, sessions, answers to repeated requests."""

from guardagent.server.state.state_store import StateStore, StoredItem, open_state

__all__ = ["StateStore", "StoredItem", "open_state"]
