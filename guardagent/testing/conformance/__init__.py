"""The conformance suite of adapters: one list of scenarios, judged by what the tools really did.

    @pytest.mark.parametrize("scenario", SCENARIOS)
    def test_conformance(scenario, tmp_path):
        check(MyHost(), scenario, tmp_path)

`MyHost` is a `HostUnderTest`: it builds agents of your framework whose model follows a script. It names each scenario
that cannot occur there, with the reason; no scenario is skipped silently.
"""

from guardagent.testing.conformance.check import check, matrix
from guardagent.testing.conformance.desk import Desk
from guardagent.testing.conformance.host import (
    Call,
    HandOff,
    HostUnderTest,
    Operator,
    Process,
    Reply,
    Script,
    SubAgent,
    Turn,
)
from guardagent.testing.conformance.scenarios import SCENARIOS, NotConformingError
from guardagent.testing.conformance.shop import Shop

__all__ = [
    "SCENARIOS",
    "Call",
    "Desk",
    "HandOff",
    "HostUnderTest",
    "NotConformingError",
    "Operator",
    "Process",
    "Reply",
    "Script",
    "Shop",
    "SubAgent",
    "Turn",
    "check",
    "matrix",
]
