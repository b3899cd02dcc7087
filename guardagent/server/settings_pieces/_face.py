"""The settings of `guardagent serve`."""

from guardagent.server.settings import PolicySettings, ServerSettings, read_server_settings

__all__ = ["PolicySettings", "ServerSettings", "read_server_settings"]
