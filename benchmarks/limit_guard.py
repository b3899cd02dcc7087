"""The guard of the measured calls: a rule about the amount of `refund`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from guardagent.enforcement import ToolGuard
from guardagent.enforcement.enforcement_point import EnforcementPoint

POLICY = """
version: 1
policies:
  - {id: limit, temporal: "forall(refund(amount=a), a <= 100)"}
"""
AUTHENTICATED = '  - {id: authenticated, temporal: "G(tool:refund -> O tool:authenticate)"}\n'


guard_of_server: Callable[..., EnforcementPoint] | None = None
"""Makes the guards from further rules and options, if a server decides; see `benchmarks.adapters`."""


def limit_guard(more: str = "", **options: Any) -> Any:
    """Returns a guard with these further rules; the options are those of `ToolGuard`."""
    if guard_of_server is not None:
        return guard_of_server(more, **options)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "policies.yaml"
        path.write_text(POLICY + more)
        return ToolGuard(path, **options)
