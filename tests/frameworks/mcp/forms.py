"""The client's answer to the form that requests approval of a call."""

from __future__ import annotations

import json
from typing import Any

from guardagent.enforcement import Approval


def filled(reply: Approval) -> dict[str, Any]:
    """Returns the form as the reviewer fills it in."""
    content: dict[str, Any] = {"decision": reply.choice}
    if reply.choice == "edit":
        content["arguments"] = json.dumps(dict(reply.args))
    return {"action": "accept", "content": content}
