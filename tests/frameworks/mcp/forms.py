"""What a client answers to the form that asks a person about a call."""

from __future__ import annotations

import json
from typing import Any

from guardagent.enforcement import Approval


def filled(reply: Approval) -> dict[str, Any]:
    """The form as a person has filled it in."""
    content: dict[str, Any] = {"decision": reply.choice}
    if reply.choice == "edit":
        content["arguments"] = json.dumps(dict(reply.args))
    return {"action": "accept", "content": content}
