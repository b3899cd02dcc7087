"""The adapter conforms with a RemoteGuard, too: the rules, the history and the answers are on a server."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("crewai", reason="CrewAI is not installed")
pytest.importorskip("uvicorn")

from guardagent.testing.conformance import SCENARIOS
from tests.frameworks.crewai.agents import Kind
from tests.frameworks.crewai.test_adapter_conformance import FORMS, CrewHost, Form
from tests.remote_guards import remote_check

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.slow
@pytest.mark.parametrize(("form", "kind"), FORMS)
@pytest.mark.parametrize("scenario", list(SCENARIOS))
def test_conformance_with_a_server(scenario: str, form: Form, kind: Kind, tmp_path: Path) -> None:
    """The shop did only what the rules allow."""
    remote_check(CrewHost(form, kind, served=scenario == "late tools of a server"), scenario, tmp_path)
