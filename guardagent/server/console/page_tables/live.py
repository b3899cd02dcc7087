"""Verdicts as they come."""

from __future__ import annotations

from typing import Any

from guardagent.server.access import AccessedOperation
from guardagent.server.console.console_page import Answer, ConsolePage, ConsoleRequest, ShownPage
from guardagent.server.service.guard_service import GuardService

_ROWS = 50
_FILTERS = ("decision", "tool", "session")


def _live(service: GuardService, request: ConsoleRequest) -> Answer:
    return ShownPage("live.html", _values(service, request))


def _rows(service: GuardService, request: ConsoleRequest) -> Answer:
    return ShownPage("live_rows.html", _values(service, request))


def _values(service: GuardService, request: ConsoleRequest) -> dict[str, Any]:
    tenant = request.tenant
    chosen = {name: request.query.get(name, "").strip() for name in _FILTERS}
    entries = service.log.entries(
        tenant,
        None,
        _ROWS,
        kind="verdict",
        decision=chosen["decision"] or None,
        tool=chosen["tool"] or None,
        conversation=f"{tenant}/{chosen['session']}" if chosen["session"] else None,
    )
    waiting, _ = service.approvals.page(tenant, None, 500)
    pending = sum(one["status"] == "pending" for one in waiting)
    return {"entries": entries[::-1], "chosen": chosen, "pending": pending}


_READ = AccessedOperation.READ_SESSIONS
PAGES = (
    ConsolePage("/live", _READ, _live, "Live", 1),
    ConsolePage("/live/rows", _READ, _rows),
)
