"""The conformance suite of adapters: one list of scenarios, judged by what the tools really did.

    @pytest.mark.parametrize("scenario", SCENARIOS)
    def test_conformance(scenario, tmp_path):
        check(MyHost(), scenario, tmp_path)

`MyHost` is a `HostUnderTest`: it builds agents of your framework whose model follows a script. It names each scenario
that cannot occur there, with the reason; no scenario is skipped silently. `matrix` renders the results of all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from guardagent.enforcement import EnforcementPoint
from guardagent.errors import InputError, name_hint
from guardagent.testing.conformance.host import (
    Call,
    Desk,
    HandOff,
    HostUnderTest,
    MakeStop,
    OneId,
    Operator,
    Process,
    Reply,
    Script,
    Shop,
    SubAgent,
    Turn,
    as_object,
    call_ids,
    written,
)
from guardagent.testing.conformance.scenarios import SCENARIOS, NotConformingError, ScenarioStage

__all__ = [
    "SCENARIOS",
    "Call",
    "Desk",
    "HandOff",
    "HostUnderTest",
    "MakeStop",
    "NotConformingError",
    "OneId",
    "Operator",
    "Process",
    "Reply",
    "Script",
    "Shop",
    "SubAgent",
    "Turn",
    "as_object",
    "call_ids",
    "check",
    "matrix",
    "written",
]


HELD = "held"
REASONS = ("cannot occur because ", "cannot be closed because ")
SECONDS = 180.0


def check(
    host: HostUnderTest,
    scenario: str,
    folder: Path,
    make_guard: Callable[..., EnforcementPoint] | None = None,
    make_stop: MakeStop | None = None,
) -> str:
    """Runs a scenario in a host, unless the host gives a reason why it cannot occur there.

    Args:
        host: built by an adapter's tests.
        scenario: one of `SCENARIOS`.
        folder: an empty folder for the shop and the ledger.
        make_guard: makes each guard, such as a `RemoteGuard`, from the operator and the options; None for a ToolGuard.
        make_stop: stops what it names, such as `{"tool": "refund"}`, for such guards. Returns the calls in flight.

    Returns:
        `held`, or the host's reason.

    Raises:
        NotConformingError: the shop did something that the rules forbid, or not everything that they allow.
        InputError: the scenario is unknown, or the host's reason is malformed.
    """
    for name in (scenario, *host.cannot):
        if name not in SCENARIOS:
            raise InputError(f"{name!r} is not a scenario{name_hint(name, SCENARIOS)}")
    if scenario in host.cannot:
        return _reason(host.cannot[scenario])
    try:
        stage = ScenarioStage(host, folder, scenario, make_guard, make_stop)
        asyncio.run(asyncio.wait_for(SCENARIOS[scenario](stage), SECONDS))
    except NotImplementedError as error:
        problem = f"{host.name!r} lacks {str(error)!r}; implement it, or give a reason for {scenario!r} in 'cannot'"
        raise NotConformingError(problem) from error
    return HELD


def matrix(cells: Mapping[str, Mapping[str, str]], rows: Iterable[str] = SCENARIOS, title: str = "scenario") -> str:
    """Renders a Markdown table of the scenarios that hold in each host, with footnotes for the others.

    Args:
        cells: host -> its `cannot`.
        rows: the scenarios.
        title: the heading of the first column.
    """
    reasons: list[str] = []
    lines = [[title, *cells], ["---"] * (len(cells) + 1)]
    lines += [[row, *(_cell(of_host.get(row, HELD), reasons) for of_host in cells.values())] for row in rows]
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return "\n".join([table, *(f"{number}. {reason}" for number, reason in enumerate(reasons, 1))]).rstrip() + "\n"


def _cell(cell: str, reasons: list[str]) -> str:
    if cell == HELD:
        return HELD
    if cell not in reasons:
        reasons.append(_reason(cell))
    return f"{cell[: cell.index(' because ')]} ({reasons.index(cell) + 1})"


def _reason(reason: str) -> str:
    if not reason.startswith(REASONS) or reason in REASONS:
        raise InputError(f"{reason!r} is not a reason; expected 'cannot occur because ...' or {REASONS[1]!r} and why")
    return reason
