"""Plain Python conforms with a RemoteGuard, too: the rules, the history and the answers are on a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from guardagent.testing.conformance import SCENARIOS
from tests.frameworks.python.test_adapter_conformance import PythonHost
from tests.remote_guards import remote_check
from tests.tiers import slow_after


@pytest.mark.parametrize("scenario", slow_after(3, SCENARIOS))
def test_conformance_with_a_server(scenario: str, tmp_path: Path) -> None:
    """The shop did only what the rules allow."""
    remote_check(PythonHost(), scenario, tmp_path)
