"""The adapter conforms with a RemoteGuard, too: the rules, the history and the answers are on a server."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("claude_agent_sdk")
pytest.importorskip("uvicorn")

from guardagent.testing.conformance import SCENARIOS
from tests.frameworks.claude_agent_sdk.test_adapter_conformance import ClaudeHost, by_query
from tests.remote_guards import remote_check

pytestmark = pytest.mark.filterwarnings("ignore::claude_agent_sdk.CanUseToolShadowedWarning")


@pytest.mark.slow
@pytest.mark.parametrize("scenario", list(SCENARIOS))
def test_conformance_with_a_server(scenario: str, tmp_path: Path) -> None:
    """The shop did only what the rules allow."""
    remote_check(ClaudeHost(by_query), scenario, tmp_path)
