"""One scenario in one host, and the matrix of all."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from guardagent.errors import InputError, nearest
from guardagent.testing.conformance.host import HostUnderTest
from guardagent.testing.conformance.scenarios import SCENARIOS, NotConformingError, Stage

HELD = "held"
REASONS = ("cannot occur because ", "cannot be closed because ")
SECONDS = 60.0


def check(host: HostUnderTest, scenario: str, folder: Path) -> str:
    """Plays a scenario in a host, unless the host says in words why that cannot be.

    Args:
        host: built by an adapter's tests.
        scenario: one of `SCENARIOS`.
        folder: an empty one, for the shop and the ledger.

    Returns:
        `held`, or the host's reason.

    Raises:
        NotConformingError: the shop did what the rules forbid, or not what they allow.
        InputError: there is no such scenario, or the host's reason is none.
    """
    for name in (scenario, *host.cannot):
        if name not in SCENARIOS:
            raise InputError(f"{name!r} is no scenario{nearest(name, SCENARIOS)}")
    if scenario in host.cannot:
        return _reason(host.cannot[scenario], scenario)
    try:
        asyncio.run(asyncio.wait_for(SCENARIOS[scenario](Stage(host, folder, scenario)), SECONDS))
    except NotImplementedError as error:
        problem = f"{host.name} has no {error}; write it, or say in `cannot` why {scenario!r} is not played there"
        raise NotConformingError(problem) from error
    return HELD


def matrix(cannot: Mapping[str, Mapping[str, str]]) -> str:
    """The scenarios of each host, as a table in Markdown: `held`, or why not.

    Args:
        cannot: host -> its `cannot`.
    """
    rows = [["scenario", *cannot], ["---"] * (len(cannot) + 1)]
    rows += [[name, *(reasons.get(name, HELD) for reasons in cannot.values())] for name in SCENARIOS]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _reason(reason: str, scenario: str) -> str:
    if not reason.startswith(REASONS) or reason in REASONS:
        raise InputError(
            f"{scenario!r} is not played, {reason!r}; expected 'cannot occur because ...' or {REASONS[1]!r}"
        )
    return reason
