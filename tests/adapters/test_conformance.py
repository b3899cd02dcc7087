from __future__ import annotations
from pathlib import Path
import pytest
from guardagent.testing.conformance import SCENARIOS, check
from tests.adapters.conformance_custom import CustomHost


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_sound_host_conforms(scenario: str, tmp_path: Path) -> None:
    assert check(CustomHost(), scenario, tmp_path) == "held"
