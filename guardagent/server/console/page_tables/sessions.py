"""Sessions: a time line of calls with verdicts, the states of rules, and pending obligations."""

from __future__ import annotations

from guardagent.server.access import AccessedOperation
from guardagent.server.console.console_page import Answer, ConsolePage, ConsoleRequest, ShownPage
from guardagent.server.service.guard_service import GuardService


def _list(service: GuardService, request: ConsoleRequest) -> Answer:
    text = request.query.get("before", "")
    before = int(text) if text.isascii() and text.isdecimal() and len(text) <= 18 else None
    return ShownPage("sessions.html", service.list_sessions(request.tenant, before))


def _show(service: GuardService, request: ConsoleRequest) -> Answer:
    found = service.show_session(request.tenant, request.path["id"])
    words = service.reports.words(found["policy"], found["policy_version"], found["rules"])
    return ShownPage("session.html", {"one": found, "words": words})


_READ = AccessedOperation.READ_SESSIONS
PAGES = (
    ConsolePage("/sessions", _READ, _list, "Sessions", 3),
    ConsolePage("/sessions/{id}", _READ, _show),
)
