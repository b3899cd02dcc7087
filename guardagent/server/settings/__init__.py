"""The settings of `guardagent serve`."""

from guardagent.server.settings.server_settings import PolicySettings, ServerSettings, read_server_settings

__all__ = ["PolicySettings", "ServerSettings", "read_server_settings"]
