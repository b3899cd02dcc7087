"""The tools of agents, stored so that every server knows them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from guardagent.enforcement.names import ToolSpec
from guardagent.enforcement.wire import Fields, read_tool, write_tool
from guardagent.errors import InputError
from guardagent.server.service.errors import UnknownItemError
from guardagent.server.state import StateStore
from guardagent.types import freeze

MAX_TOOLS = 1000
_KIND = "attachment"


@dataclass(frozen=True, slots=True)
class ToolAttachment:
    """The tools of an agent that a policy guards.

    Attributes:
        id: the digest of tenant, policy and content.
        aliases: a tool's name in the host -> its name in the rules.
        absent: tools that rules name and this agent is known not to have.
    """

    id: str
    tenant: str
    policy: str
    tools: tuple[ToolSpec, ...]
    aliases: Mapping[str, str]
    absent: tuple[str, ...]


def read_attachment(value: Any, tenant: str) -> tuple[ToolAttachment, dict[str, Any]]:
    """Reads the request of an agent's host. Returns the attachment, and its content for the store.

    Raises:
        WireError: it is invalid.
    """
    fields = Fields(value)
    policy = fields.string("policy", "default")
    tools = fields.items("tools", read_tool)
    aliases = fields.object("aliases", {})
    absent = fields.strings("absent", ())
    fields.end()
    if len(tools) > MAX_TOOLS:
        raise InputError(f"'tools' has {len(tools):,} tools; expected at most {MAX_TOOLS:,}")
    if not all(isinstance(one, str) for one in aliases.values()):
        raise InputError("'aliases' has a value that is no string; expected names of tools")
    content = {
        "policy": policy,
        "tools": [write_tool(one) for one in tools],
        "aliases": aliases,
        "absent": sorted(absent),
    }
    return _attachment(tenant, content), content


class Attachments:
    """The attachments of all tenants.

    Args:
        state: stores them.
    """

    def __init__(self, state: StateStore) -> None:
        self._state = state

    def add(self, attachment: ToolAttachment, content: Mapping[str, Any]) -> None:
        """Stores an attachment, unless it is there."""
        self._state.add(_KIND, attachment.tenant, attachment.id, content)

    def find(self, tenant: str, name: str) -> ToolAttachment:
        """Returns an attachment of a tenant.

        Raises:
            UnknownItemError: the tenant has no such attachment.
        """
        found = self._state.get(_KIND, tenant, name)
        if found is None:
            raise UnknownItemError(f"there is no attachment {name[:80]!r}; expected the id of one that was attached")
        return _attachment(tenant, found.value)


def _attachment(tenant: str, content: Mapping[str, Any]) -> ToolAttachment:
    text = json.dumps([tenant, content], sort_keys=True, separators=(",", ":"))
    tools = tuple(read_tool(one, f"tools[{at}]") for at, one in enumerate(content["tools"]))
    name = f"at_{hashlib.sha256(text.encode()).hexdigest()[:40]}"
    aliases = freeze(content["aliases"])
    return ToolAttachment(name, tenant, content["policy"], tools, aliases, tuple(content["absent"]))
