"""The adapter conforms with a RemoteGuard, too: the rules, the history and the answers are on a server."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("autogen_agentchat.agents")
pytest.importorskip("autogen_ext.models.replay")
pytest.importorskip("uvicorn")

from guardagent.testing.conformance import SCENARIOS
from tests.frameworks.autogen.test_adapter_conformance import AutoGenHost
from tests.remote_guards import remote_check

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.slow
@pytest.mark.parametrize("scenario", list(SCENARIOS))
def test_conformance_with_a_server(scenario: str, tmp_path: Path) -> None:
    """The shop did only what the rules allow."""
    remote_check(AutoGenHost(), scenario, tmp_path)
