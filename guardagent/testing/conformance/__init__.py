"""What every adapter is held to: one list of scenarios, on what the tools really did.

    @pytest.mark.parametrize("scenario", SCENARIOS)
    def test_conformance(scenario, tmp_path):
        check(MyHost(), scenario, tmp_path)

`MyHost` is a `HostUnderTest`: it builds agents of your framework whose model follows a script. What cannot occur there,
it says in words; nothing is skipped in silence.
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
