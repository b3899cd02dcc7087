"""The adapter conforms with a RemoteGuard, too: the rules, the history and the answers are on a server."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pydantic_ai.models.function")
pytest.importorskip("uvicorn")

from guardagent.testing.conformance import SCENARIOS
from tests.frameworks.pydantic_ai.test_adapter_conformance import PydanticHost
from tests.remote_guards import remote_check


@pytest.mark.slow
@pytest.mark.parametrize("scenario", list(SCENARIOS))
def test_conformance_with_a_server(scenario: str, tmp_path: Path) -> None:
    """The shop did only what the rules allow."""
    remote_check(PydanticHost(scenario), scenario, tmp_path)
