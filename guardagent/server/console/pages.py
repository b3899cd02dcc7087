"""Calls that agents may not make without a person."""

from __future__ import annotations

import time
from typing import Any

from guardagent._support import strict_json
from guardagent.errors import ForbiddenError, GuardError, InputError
from guardagent.server.access import AccessedOperation
from guardagent.server.console.console_page import Answer, ConsolePage, ConsoleRequest, GoTo, ShownPage
from guardagent.server.http.error_answers import error_answer
from guardagent.server.service.guard_service import GuardService
from guardagent.server.service.service_errors import RequestConflictError

_PAGE = 100


def _list(service: GuardService, request: ConsoleRequest) -> Answer:
    return ShownPage("approvals.html", _listed(service, request))


def _rows(service: GuardService, request: ConsoleRequest) -> Answer:
    return ShownPage("approvals_rows.html", _listed(service, request))


def _listed(service: GuardService, request: ConsoleRequest) -> dict[str, Any]:
    text = request.query.get("before", "")
    before = int(text) if text.isascii() and text.isdecimal() and len(text) <= 18 else None
    found, cursor = service.approvals.page(request.tenant, before, _PAGE)
    waiting = [one for one in found if one["status"] == "pending"]
    return {
        "waiting": sorted(waiting, key=lambda one: one["deadline"]),
        "decided": [one for one in found if one["status"] != "pending"],
        "cursor": cursor,
        "now": time.time(),
    }


def _show(service: GuardService, request: ConsoleRequest) -> Answer:
    return _shown(service, request)


def _shown(service: GuardService, request: ConsoleRequest, problem: str = "", status: int = 200) -> Answer:
    tenant, name = request.tenant, request.path["id"]
    found = service.show_approval(tenant, name)
    values = {
        "one": found,
        "problem": problem,
        "form": request.form,
        "now": time.time(),
        "words": service.reports.words(found["policy"], found["policy_version"], found["rules"]),
        "session": _session(service, tenant, found["session"]),
        "expected": _expected(service, tenant, name) if found["status"] == "pending" else None,
    }
    return ShownPage("approval.html", values, status)


def _session(service: GuardService, tenant: str, name: str) -> Any:
    try:
        return service.show_session(tenant, name)
    except GuardError:  # the session's policy may be unknown here; the request is shown all the same
        return None


def _expected(service: GuardService, tenant: str, name: str) -> dict[str, Any]:
    try:
        return service.preview_approval(tenant, name)
    except GuardError as error:
        none: dict[str, Any] = {"decision": "unknown", "reasons": [], "obligations": {}, "settles": {}}
        return {**none, "errors": [str(error)]}


def _answer(service: GuardService, request: ConsoleRequest) -> Answer:
    try:
        service.answer_approval(request.caller, request.path["id"], _body(request))
    except (RequestConflictError, ForbiddenError, InputError) as error:
        status, body, _ = error_answer(error, has_verdict=False)
        if status == 404:
            raise
        return _shown(service, request, body["error"]["message"], status)
    return GoTo(f"/approvals/{request.path['id']}")


def _body(request: ConsoleRequest) -> dict[str, Any]:
    """Returns the answer that a form states.

    Raises:
        InputError: a field is missing or invalid.
    """
    form, version = request.form, request.form.get("version", "")
    if not (version.isascii() and version.isdecimal() and len(version) <= 9):
        raise InputError("the form has no version; open the page again")
    found: dict[str, Any] = {"choice": form.get("choice", ""), "version": int(version)}
    if found["choice"] == "edit":
        found["args"] = _args(form.get("args", ""))
    if form.get("reason", "").strip():
        found["reason"] = form["reason"].strip()
    if found["choice"] == "reject" and "reason" not in found:
        raise InputError("the reason is empty; the agent reads it, so say what it should do instead")
    return found


def _args(text: str) -> Any:
    try:
        found = strict_json.loads(text.encode())
    except ValueError as error:
        raise InputError(f"the arguments are no JSON: {error}") from None
    if not isinstance(found, dict):
        raise InputError('the arguments are no JSON object; expected all arguments, such as {"amount": 80}')
    return found


_READ = AccessedOperation.READ_APPROVALS
PAGES = (
    ConsolePage("/approvals", _READ, _list, "Approvals", 2),
    ConsolePage("/approvals/rows", _READ, _rows),
    ConsolePage("/approvals/{id}", _READ, _show),
    ConsolePage("/approvals/{id}", AccessedOperation.ANSWER_APPROVALS, _answer, method="POST"),
)
