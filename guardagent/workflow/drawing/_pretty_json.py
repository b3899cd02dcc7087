"""JSON with a line for each thing in a list: a difference in it can be read, and a large one is written fast."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def pretty_json(content: Mapping[str, Any]) -> str:
    """One object; lists of objects that it holds have a line for each of them."""
    members = [f"  {json.dumps(name)}: {_value(value)}" for name, value in content.items()]
    return "{\n" + ",\n".join(members) + "\n}"


def _value(value: Any) -> str:
    if not isinstance(value, list) or not any(isinstance(item, dict) for item in value):
        return json.dumps(value, default=str)
    return "[\n" + ",\n".join(f"    {json.dumps(item, default=str)}" for item in value) + "\n  ]"
