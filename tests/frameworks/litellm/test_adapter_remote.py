"""The adapter conforms with a RemoteGuard, too: the rules, the history and the answers are on a server."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("litellm")

from guardagent.testing.conformance import SCENARIOS
from tests.frameworks.litellm.clients import CLIENTS
from tests.frameworks.litellm.gateway import model
from tests.frameworks.litellm.test_adapter_conformance import GatewayHost
from tests.remote_guards import remote_check


@pytest.mark.slow
@pytest.mark.parametrize("api", ["chat", "messages"])
@pytest.mark.parametrize("scenario", list(SCENARIOS))
def test_conformance_with_a_server(scenario: str, api: str, tmp_path: Path) -> None:
    """The shop did only what the rules allow."""
    model()
    remote_check(GatewayHost(CLIENTS[api]), scenario, tmp_path)
