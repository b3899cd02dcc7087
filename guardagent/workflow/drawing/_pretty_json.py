"""JSON with one line for each object of a list, for readable diffs and fast output."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def pretty_json(content: Mapping[str, Any]) -> str:
    """Returns one object as JSON; each object in its lists has a line."""
    members = [f"  {json.dumps(name)}: {_value(value)}" for name, value in content.items()]
    return "{\n" + ",\n".join(members) + "\n}"


def _value(value: Any) -> str:
    if not isinstance(value, list) or not any(isinstance(item, dict) for item in value):
        return json.dumps(value, default=str)
    return "[\n" + ",\n".join(f"    {json.dumps(item, default=str)}" for item in value) + "\n  ]"
