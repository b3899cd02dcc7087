"""The guard of the measured calls: a rule about the amount of `refund`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from guardagent.enforcement import ToolGuard

POLICY = """
version: 1
policies:
  - {id: limit, temporal: "forall(refund(amount=a), a <= 100)"}
"""
AUTHENTICATED = '  - {id: authenticated, temporal: "G(tool:refund -> O tool:authenticate)"}\n'


def limit_guard(more: str = "", **options: Any) -> ToolGuard:
    """Returns a guard with these further rules; the options are those of `ToolGuard`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "policies.yaml"
        path.write_text(POLICY + more)
        return ToolGuard(path, **options)
