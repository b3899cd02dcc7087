"""The middlewares conform with a RemoteGuard, too: the rules, the history and the answers are on a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from guardagent.testing.conformance import SCENARIOS
from tests.frameworks.mcp.test_middleware_conformance import HOSTS, MiddlewareHost

pytest.importorskip("uvicorn")

from tests.remote_guards import remote_check


@pytest.mark.slow
@pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.name)
@pytest.mark.parametrize("scenario", list(SCENARIOS))
def test_conformance_with_a_server(scenario: str, host: MiddlewareHost, tmp_path: Path) -> None:
    """The side effects of the shop are those that the rules allow."""
    remote_check(host, scenario, tmp_path)
