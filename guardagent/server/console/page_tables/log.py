"""The log: search and verification."""

from __future__ import annotations

from guardagent.server.access import AccessedOperation
from guardagent.server.console.console_page import Answer, ConsolePage, ConsoleRequest, ShownPage
from guardagent.server.service.guard_service import GuardService

_ROWS = 100
_FILTERS = ("kind", "decision", "tool", "session", "text")


def _search(service: GuardService, request: ConsoleRequest) -> Answer:
    tenant = request.tenant
    chosen = {name: request.query.get(name, "").strip() for name in _FILTERS}
    text = request.query.get("before", "")
    before = int(text) if text.isascii() and text.isdecimal() and len(text) <= 18 else None
    entries = service.log.entries(
        tenant,
        None,
        _ROWS,
        before,
        chosen["text"],
        kind=chosen["kind"] or None,
        decision=chosen["decision"] or None,
        tool=chosen["tool"] or None,
        conversation=f"{tenant}/{chosen['session']}" if chosen["session"] else None,
    )
    more = entries[0]["seq"] if len(entries) == _ROWS else None
    return ShownPage("log.html", {"entries": entries[::-1], "chosen": chosen, "more": more})


def _verify(service: GuardService, request: ConsoleRequest) -> Answer:
    return ShownPage("log_verified.html", {"report": service.log.verify(request.tenant)})


_READ = AccessedOperation.READ_LOG
PAGES = (
    ConsolePage("/log", _READ, _search, "Log", 6),
    ConsolePage("/log/verify", _READ, _verify),
)
