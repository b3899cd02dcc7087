"""The pages of the console, with a table of them for each subject."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from guardagent._support import json_values
from guardagent.errors import ForbiddenError, GuardError, InputError
from guardagent.server.access import AccessedOperation
from guardagent.server.console import (
    Answer,
    ConsolePage,
    ConsoleRequest,
    GoTo,
    Picture,
    ShownPage,
    differences,
    evidence_of,
)
from guardagent.server.http import error_answer
from guardagent.server.service import RequestConflictError, UnknownItemError
from guardagent.server.service.guard_service import MAX_TIMELINE, GuardService

# --- calls that agents may not make without a person

_CARDS = 50
_FILTERS: dict[str, Callable[[Mapping[str, Any]], Iterable[str | None]]] = {
    "rule": lambda approval: approval["rules"],
    "agent": lambda approval: (approval["call"].get("agent"), approval["requested_by"]),
    "customer": lambda approval: (approval["user"],),
}
_DECIDED = 100


def _list_approvals(service: GuardService, request: ConsoleRequest) -> Answer:
    return ShownPage("approvals.html", {**_approvals_shown(service, request), "notice": _answered(service, request)})


def _list_approval_rows(service: GuardService, request: ConsoleRequest) -> Answer:
    return ShownPage("approvals_rows.html", _approvals_shown(service, request))


def _approvals_shown(service: GuardService, request: ConsoleRequest) -> dict[str, Any]:
    """Returns what waits, the most urgent first, by the filters of the address; then what was decided."""
    waiting, chosen = service.approvals.waiting(request.tenant), _chosen(request, *_FILTERS)
    choices = {name: set().union(*map(of, waiting)) - {None, ""} for name, of in _FILTERS.items()}
    criteria = [(of, chosen[name]) for name, of in _FILTERS.items() if chosen[name]]
    fitting = [approval for approval in waiting if all(value in of(approval) for of, value in criteria)]
    start = _number(request, "skip") or 0
    approvals, cursor = service.approvals.page(request.tenant, _number(request, "before"), _DECIDED)
    cards = [{**approval, "read": _arguments(service, approval)} for approval in fitting[start : start + _CARDS]]
    return {
        "cards": cards,
        "fitting": len(fitting),
        "waiting": len(waiting),
        "chosen": chosen,
        "choices": choices,
        "start": start,
        "step": _CARDS,
        "decided": [approval for approval in approvals if approval["status"] != "pending"],
        "cursor": cursor,
        "before": request.query.get("before", ""),
        "now": time.time(),
        "address": request.address,
        "example": None if waiting else service.reports.escalating_call(request.tenant),
    }


def _arguments(service: GuardService, approval: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments that the rules read; without any, all."""
    args = approval["call"]["args"] if approval["args"] is None else approval["args"]
    read = service.reports.arguments_read(approval["policy"], approval["policy_version"], approval["rules"])
    return {name: value for name, value in args.items() if name in read} or args


def _answered(service: GuardService, request: ConsoleRequest) -> Mapping[str, Any] | None:
    """Returns the approval that the person has just answered, for a line about it; None without their answer."""
    try:
        approval = service.show_approval(request.tenant, request.query.get("answered", ""))
    except UnknownItemError:
        return None
    return approval if any(step["by"] == request.caller.id for step in approval["steps"]) else None


def _show_approval(service: GuardService, request: ConsoleRequest, problem: str = "", status: int = 200) -> Answer:
    tenant, name = request.tenant, request.path["id"]
    json = service.show_approval(tenant, name)
    session = _session_of(service, tenant, json["session"])
    args = json["call"]["args"] if json["args"] is None else json["args"]
    read = _arguments(service, json)
    evidence = evidence_of(json["call"].get("facts"), session["calls"] if session else [])
    values = {
        "one": json,
        "problem": problem,
        "form": request.form,
        "now": time.time(),
        "words": service.reports.words(json["policy"], json["policy_version"], json["rules"]),
        "session": session,
        "args": {**read, **args},
        "read": read,
        "evidence": evidence,
        "differences": differences(args, evidence),
        "expected": _preview(service, tenant, name) if json["status"] == "pending" else None,
    }
    return ShownPage("approval.html", values, status)


def _session_of(service: GuardService, tenant: str, name: str) -> Any:
    try:
        return service.show_session(tenant, name)
    except GuardError:  # the session's policy may be unknown here; the request is shown all the same
        return None


def _preview(service: GuardService, tenant: str, name: str) -> dict[str, Any]:
    try:
        return service.preview_approval(tenant, name)
    except GuardError as error:
        none: dict[str, Any] = {"decision": "unknown", "reasons": [], "obligations": {}, "settles": {}}
        return {**none, "errors": [str(error)]}


def _answer_approval(service: GuardService, request: ConsoleRequest) -> Answer:
    try:
        service.answer_approval(request.caller, request.path["id"], _answer_in(request))
    except (RequestConflictError, ForbiddenError, InputError) as error:
        status, body, _ = error_answer(error, has_verdict=False)
        if status == 404:
            raise
        return _show_approval(service, request, body["error"]["message"], status)
    filters = {name: request.form.get(name, "") for name in _FILTERS}
    return GoTo("/approvals", {**filters, "answered": request.path["id"]})


def _answer_in(request: ConsoleRequest) -> dict[str, Any]:
    """Returns the answer that a form states.

    Raises:
        InputError: a field is missing or invalid.
    """
    form, version = request.form, request.form.get("version", "")
    if not (version.isascii() and version.isdecimal() and len(version) <= 9):
        raise InputError("the form has no version; open the page again")
    answer: dict[str, Any] = {"choice": form.get("choice", ""), "version": int(version), "of": form.get("of") or None}
    if answer["choice"] == "edit":
        answer["args"] = _arguments_in(form.get("args", ""))
    if form.get("reason", "").strip():
        answer["reason"] = form["reason"].strip()
    if answer["choice"] == "reject" and "reason" not in answer:
        raise InputError("the reason is empty; the agent reads it, so say what it should do instead")
    return answer


def _arguments_in(text: str) -> Any:
    try:
        arguments = json_values.loads(text.encode())
    except ValueError as error:
        raise InputError(f"the arguments are not JSON: {error}") from None
    if not isinstance(arguments, dict):
        raise InputError('the arguments are not a JSON object; expected all arguments, such as {"amount": 80}')
    return arguments


_APPROVALS = (
    ConsolePage("/approvals", AccessedOperation.READ_APPROVALS, _list_approvals, "Approvals", 2),
    ConsolePage("/approvals/rows", AccessedOperation.READ_APPROVALS, _list_approval_rows),
    ConsolePage("/approvals/{id}", AccessedOperation.READ_APPROVALS, _show_approval),
    ConsolePage("/approvals/{id}", AccessedOperation.ANSWER_APPROVALS, _answer_approval, method="POST"),
)


# --- verdicts as they come

_LIVE_ROWS = 50


def _show_live(service: GuardService, request: ConsoleRequest) -> Answer:
    return ShownPage("live.html", _verdicts_shown(service, request))


def _list_live_rows(service: GuardService, request: ConsoleRequest) -> Answer:
    return ShownPage("live_rows.html", _verdicts_shown(service, request))


def _verdicts_shown(service: GuardService, request: ConsoleRequest) -> dict[str, Any]:
    chosen = _chosen(request, "decision", "tool", "session")
    criteria = {name: value or None for name, value in chosen.items()}
    entries = service.log.entries(request.tenant, None, _LIVE_ROWS, {"kind": "verdict", **criteria})
    return {"entries": entries[::-1], "chosen": chosen, "pending": len(service.approvals.waiting(request.tenant))}


_LIVE = (
    ConsolePage("/live", AccessedOperation.READ_SESSIONS, _show_live, "Live", 1),
    ConsolePage("/live/rows", AccessedOperation.READ_SESSIONS, _list_live_rows),
)


# --- the log: search and verification

_LOG_ROWS = 100


def _search_log(service: GuardService, request: ConsoleRequest) -> Answer:
    chosen = _chosen(request, "kind", "decision", "tool", "session")
    criteria = {name: value or None for name, value in chosen.items()}
    chosen |= _chosen(request, "text")
    entries = service.log.entries(request.tenant, None, _LOG_ROWS, criteria, _number(request, "before"), chosen["text"])
    more = entries[0]["seq"] if len(entries) == _LOG_ROWS else None
    return ShownPage("log.html", {"entries": entries[::-1], "chosen": chosen, "more": more})


def _verify_log(service: GuardService, request: ConsoleRequest) -> Answer:
    return ShownPage("log_verified.html", {"report": service.log.verify(request.tenant)})


_LOG = (
    ConsolePage("/log", AccessedOperation.READ_LOG, _search_log, "Log", 6),
    ConsolePage("/log/verify", AccessedOperation.READ_LOG, _verify_log),
)


# --- policies: rules in words, how often they were violated, lint, versions with their differences, and candidates


def _list_policies(service: GuardService, request: ConsoleRequest) -> Answer:
    return ShownPage("policies.html", service.list_policies(request.tenant))


def _show_policy(service: GuardService, request: ConsoleRequest, **more: Any) -> Answer:
    status = more.pop("status", 200)
    values = {"problem": "", "text": "", "cases": _text_in(request, "cases"), "examined": None, **more}
    return ShownPage("policy.html", {**service.reports.explain(request.tenant, request.path["name"]), **values}, status)


def _lint_policy(service: GuardService, request: ConsoleRequest) -> Answer:
    return ShownPage("policy_lint.html", service.reports.lint(request.tenant, request.path["name"]))


def _list_versions(service: GuardService, request: ConsoleRequest) -> Answer:
    return ShownPage("policy_versions.html", service.reports.versions(request.tenant, request.path["name"]))


def _change_policy(service: GuardService, request: ConsoleRequest) -> Answer:
    text = _text_in(request, "text")
    action = _POLICY_ACTIONS.get(request.form.get("action", ""))
    if action is None:
        return _show_policy(
            service, request, text=text, problem="the form asks for nothing; open the page again", status=422
        )
    try:
        return action(service, request, text)
    except InputError as error:
        return _show_policy(service, request, text=text, problem=str(error), status=422)


def _text_in(request: ConsoleRequest, name: str) -> str:
    return request.form.get(name, "").replace("\r\n", "\n")


def _replay_policy(service: GuardService, request: ConsoleRequest, text: str) -> Answer:
    examined = service.examine_policy(request.tenant, request.path["name"], text, _text_in(request, "cases"))
    return _show_policy(service, request, text=text, examined=examined)


def _shadow_policy(service: GuardService, request: ConsoleRequest, text: str) -> Answer:
    name = request.path["name"]
    service.shadow_policy(request.caller, request.tenant, name, {"text": text} if text.strip() else {})
    return GoTo(f"/policies/{name}")


def _reload_policy(service: GuardService, request: ConsoleRequest, _text: str) -> Answer:
    name = request.path["name"]
    service.reload_policy(request.caller, request.tenant, name)
    return GoTo(f"/policies/{name}")


_POLICY_ACTIONS = {"replay": _replay_policy, "shadow": _shadow_policy, "reload": _reload_policy}
_POLICIES = (
    ConsolePage("/policies", AccessedOperation.READ_POLICIES, _list_policies, "Policies", 4),
    ConsolePage("/policies/{name}", AccessedOperation.READ_POLICIES, _show_policy),
    ConsolePage("/policies/{name}", AccessedOperation.CHANGE_POLICIES, _change_policy, method="POST"),
    ConsolePage("/policies/{name}/lint", AccessedOperation.READ_POLICIES, _lint_policy),
    ConsolePage("/policies/{name}/versions", AccessedOperation.READ_POLICIES, _list_versions),
)


# --- sessions: a time line of calls with verdicts, the states of rules, and pending obligations


def _list_sessions(service: GuardService, request: ConsoleRequest) -> Answer:
    return ShownPage("sessions.html", service.list_sessions(request.tenant, _number(request, "before")))


def _show_session(service: GuardService, request: ConsoleRequest) -> Answer:
    json = service.show_session(request.tenant, request.path["id"])
    hits = [rule for step in json["timeline"] for rule in step.get("rules", ())]
    states = {**dict.fromkeys(hits, ""), **json["rules"], **dict.fromkeys(json["obligations"], "due")}
    touched = {rule: state for rule, state in states.items() if rule in hits or state != "open"}
    values = {
        "one": json,
        "hits": hits,
        "touched": touched,
        "others": {rule: state for rule, state in states.items() if rule not in touched},
        "texts": service.reports.texts(json["policy"], json["policy_version"]),
        "is_cut": len(json["timeline"]) == MAX_TIMELINE,
    }
    return ShownPage("session.html", values)


_SESSIONS = (
    ConsolePage("/sessions", AccessedOperation.READ_SESSIONS, _list_sessions, "Sessions", 3),
    ConsolePage("/sessions/{id}", AccessedOperation.READ_SESSIONS, _show_session),
)


# --- workflow graphs, verified against the current version of a policy


def _list_workflows(service: GuardService, request: ConsoleRequest) -> Answer:
    return ShownPage("workflows.html", {"reports": service.workflows.all(request.tenant)})


def _show_workflow(service: GuardService, request: ConsoleRequest) -> Answer:
    name = request.path["name"]
    return ShownPage("workflow.html", {"name": name, "report": service.workflows.report(request.tenant, name)})


def _draw_workflow(service: GuardService, request: ConsoleRequest) -> Answer:
    return Picture(service.workflows.picture(request.tenant, request.path["name"]))


_WORKFLOWS = (
    ConsolePage("/workflows", AccessedOperation.READ_POLICIES, _list_workflows, "Workflows", 5),
    ConsolePage("/workflows/{name}", AccessedOperation.READ_POLICIES, _show_workflow),
    ConsolePage("/workflows/{name}/graph.svg", AccessedOperation.READ_POLICIES, _draw_workflow),
)


def _chosen(request: ConsoleRequest, *names: str) -> dict[str, str]:
    """Returns the filters that a person has set; empty strings for the others."""
    return {name: request.query.get(name, "").strip() for name in names}


def _number(request: ConsoleRequest, name: str) -> int | None:
    """Returns a number in the address, such as the one under which a page begins; None without it."""
    text = request.query.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 18 else None


PAGES = (*_APPROVALS, *_LIVE, *_LOG, *_POLICIES, *_SESSIONS, *_WORKFLOWS)
"""All pages of the console."""
