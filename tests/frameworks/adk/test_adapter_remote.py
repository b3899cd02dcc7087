"""The adapter conforms with a RemoteGuard, too: the rules, the history and the answers are on a server."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("google.adk.plugins")
pytest.importorskip("uvicorn")

from guardagent.testing.conformance import SCENARIOS
from tests.frameworks.adk.test_adapter_conformance import AdkHost
from tests.remote_guards import remote_check

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.slow
@pytest.mark.parametrize("scenario", list(SCENARIOS))
def test_conformance_with_a_server(scenario: str, tmp_path: Path) -> None:
    """The shop did only what the rules allow."""
    remote_check(AdkHost(), scenario, tmp_path)
