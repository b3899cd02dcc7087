"""The pages of the console, with a table of them for each subject."""

from __future__ import annotations

import contextlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

from guardagent._support import json_values
from guardagent.enforcement.wire import loads
from guardagent.errors import ForbiddenError, InputError
from guardagent.server.access import EVERY_TENANT, AccessedOperation, CallerRole
from guardagent.server.approvals import fits
from guardagent.server.cards import card_of
from guardagent.server.console import (
    Answer,
    ConsolePage,
    ConsoleRequest,
    DownloadedFile,
    GoTo,
    Picture,
    ShownPage,
    pretty,
)
from guardagent.server.console.playground import PLAYGROUND
from guardagent.server.http import error_answer
from guardagent.server.service import RequestConflictError, UnknownItemError
from guardagent.server.service.guard_service import MAX_TIMELINE, GuardService
from guardagent.server.service.guards import HostSession
from guardagent.server.service.reports import COUNTED, PERIODS, as_csv, report_rows
from guardagent.server.service.stores import MAX_SCANNED

# --- tenants, for an admin of all

_TENANTS = 200


def choose_tenant(service: GuardService) -> Answer:
    """Shows the tenants, those first in which most calls wait."""
    waiting = {name: len(service.approvals.waiting(name)) for name in sorted(service.tenants() - {EVERY_TENANT})}
    names = sorted(waiting, key=lambda name: -waiting[name])
    return ShownPage("tenants.html", {"names": names[:_TENANTS], "waiting": waiting})


# --- calls that agents may not make without a person

_CARDS = 50
_FILTERS: dict[str, Callable[[Mapping[str, Any]], Iterable[str | None]]] = {
    "rule": lambda approval: approval["rules"],
    "agent": lambda approval: (approval["call"].get("agent"), approval["requested_by"]),
    "customer": lambda approval: (approval["user"],),
}
_DECIDED = 30
_NEWEST = 20  # of those that wait, for notifications


def _list_approvals(service: GuardService, request: ConsoleRequest) -> Answer:
    return ShownPage("approvals.html", {**_approvals_shown(service, request), **_answered(service, request)})


def _list_approval_rows(service: GuardService, request: ConsoleRequest) -> Answer:
    return ShownPage("approvals_rows.html", _approvals_shown(service, request))


def _count_approvals(service: GuardService, request: ConsoleRequest) -> Answer:
    """Shows how many approvals wait, and the newest of them."""
    waiting = service.approvals.waiting(request.tenant)
    newest = sorted(waiting, key=lambda approval: approval["created"])[-_NEWEST:]
    return ShownPage("approvals_count.html", {"count": len(waiting), "newest": newest})


def _approvals_shown(service: GuardService, request: ConsoleRequest) -> dict[str, Any]:
    """Returns what waits, the most urgent first, by the filters of the address; then what was decided.

    What waits in one session is one card, as urgent as its most urgent call: the agent proposed it in one turn. Cards
    that an approver may answer come before those that wait for others.
    """
    waiting, chosen = service.approvals.waiting(request.tenant), _chosen(request, *_FILTERS)
    choices = {name: set().union(*map(of, waiting)) - {None, ""} for name, of in _FILTERS.items()}
    criteria = [(of, chosen[name]) for name, of in _FILTERS.items() if chosen[name]]
    fitting = [approval for approval in waiting if all(value in of(approval) for of, value in criteria)]
    start = _number(request, "skip") or 0
    approvals, cursor = service.approvals.page(request.tenant, _number(request, "before"), _DECIDED)
    urgency = {approval["session"]: at for at, approval in reversed([*enumerate(fitting)])}
    is_approver = CallerRole.APPROVER in request.caller.roles
    mine = {approval["session"] for approval in fitting if is_approver and _is_mine(request, approval)}
    fitting.sort(key=lambda approval: (approval["session"] not in mine, urgency[approval["session"]]))
    calls = [_row(service, request, approval) for approval in fitting[start : start + _CARDS]]
    return {
        "cards": [list(group) for _, group in groupby(calls, itemgetter("session"))],
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


def _is_mine(request: ConsoleRequest, approval: Mapping[str, Any]) -> bool:
    return any(fits(entry, request.caller.groups) for entry in approval["may_answer"])


def _row(service: GuardService, request: ConsoleRequest, approval: Mapping[str, Any]) -> dict[str, Any]:
    read, views = service.reports.shown_arguments(approval), service.views(request.tenant, approval)
    return {**approval, "read": read, "is_mine": _is_mine(request, approval), "rendered": views}


def _answered(service: GuardService, request: ConsoleRequest) -> dict[str, Any]:
    """Returns the approvals that the person has just answered, and those of the same form whose answer was not taken.

    Both are read anew, so that an address can say nothing that is not so.
    """
    caller, taken, others = request.caller, [], []
    for name in request.query.get("answered", "").split(",")[:_CARDS]:
        try:
            approval = service.show_approval(request.tenant, name)
        except UnknownItemError:
            continue
        if own := [step for step in approval["steps"] if step["by"] == caller.id]:
            taken.append({**approval, "last": own[-1]})
        elif CallerRole.APPROVER in caller.roles:
            others.append(_row(service, request, approval))
    return {"taken": taken, "others": others}


def _show_approval(service: GuardService, request: ConsoleRequest, problem: str = "", status: int = 200) -> Answer:
    tenant, name = request.tenant, request.path["id"]
    approval = _row(service, request, service.show_approval(tenant, name))
    alike = [other for other in service.approvals.waiting(tenant) if other["session"] == approval["session"]]
    card = card_of(service, tenant, approval)
    values = {
        **vars(card),
        "marked": card.marked,
        "others": [_row(service, request, other) for other in alike[:_CARDS] if other["id"] != name],
        "problem": problem,
        "form": request.form,
        "now": time.time(),
        "words": service.reports.words(approval["policy"], approval["policy_version"], approval["rules"]),
        "bounds": _bounds(approval.get("grantable", {})),
    }
    return ShownPage("approval.html", values, status)


def _bounds(grantable: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the most that a reviewer may grant, by the names of the form's fields; empty if it is one call."""
    bounds: dict[str, Any] = {}
    for scope in grantable.values():
        of_arguments = {f"up_to.{name}": bound for name, bound in scope["up_to"].items()}
        for field, bound in {**of_arguments, "calls": scope["calls"], "for": scope["for"]}.items():
            bounds[field] = min(bound, bounds.get(field, bound))
    return bounds


def _answer_approval(service: GuardService, request: ConsoleRequest) -> Answer:
    try:
        service.answer_approval(request.caller, request.path["id"], _answer_in(request.form))
    except (RequestConflictError, ForbiddenError, InputError) as error:
        status, body, _ = error_answer(error, has_verdict=False)
        if status == 404:
            raise
        return _show_approval(service, request, body["error"]["message"], status)
    return _back(request, request.path["id"])


def _answer_card(service: GuardService, request: ConsoleRequest) -> Answer:
    """Answers all calls of a card, each on its own; the list then says which answers were taken."""
    try:
        calls = [(name, version, of) for name, version, of in map(str.split, request.form.get("calls", "").split(","))]
    except ValueError:
        raise InputError("the form names no calls; open the page again") from None
    answers = {name: _answer_in({**request.form, "version": version, "of": of}) for name, version, of in calls}
    for name, answer in answers.items():
        with contextlib.suppress(RequestConflictError, ForbiddenError, UnknownItemError):
            service.answer_approval(request.caller, name, answer)
    return _back(request, *answers)


def _back(request: ConsoleRequest, *answered: str) -> GoTo:
    """Returns to the list, with the filters that were chosen there."""
    filters = {name: request.form.get(name, "") for name in _FILTERS}
    return GoTo("/approvals", {**filters, "answered": ",".join(answered)})


def _answer_in(form: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the answer that a form states.

    Raises:
        InputError: a field is missing or invalid.
    """
    version = form.get("version", "")
    if not (version.isascii() and version.isdecimal() and len(version) <= 9):
        raise InputError("the form has no version; open the page again")
    answer: dict[str, Any] = {"choice": form.get("choice", ""), "version": int(version), "of": form.get("of") or None}
    if answer["choice"] == "grant":
        answer |= {"choice": "approve", "grant": _grant_in(form)}
    if answer["choice"] == "edit":
        answer["args"] = _arguments_in(form.get("args", ""))
    if form.get("reason", "").strip():
        answer["reason"] = form["reason"].strip()
    if answer["choice"] == "reject" and "reason" not in answer:
        raise InputError("the reason is empty; the agent reads it, so say what it should do instead")
    return answer


def _grant_in(form: Mapping[str, str]) -> dict[str, Any]:
    """Returns the bounds that a form states."""
    texts = {name.removeprefix("up_to."): text for name, text in form.items() if name.startswith("up_to.")}
    try:
        up_to = {name: json_values.loads(text.strip().encode()) for name, text in texts.items()}
        return {"up_to": up_to, "calls": json_values.loads(form.get("calls", "").encode()), "for": form.get("for", "")}
    except ValueError:
        raise InputError("a bound is not a number; expected one such as 10") from None


def _arguments_in(text: str) -> Any:
    try:
        arguments = loads(text.encode())  # as of an answer over the API
    except InputError as error:
        raise InputError(
            f"the arguments are not JSON: {str(error).removeprefix('the message is not JSON: ')}"
        ) from None
    if not isinstance(arguments, dict):
        raise InputError('the arguments are not a JSON object; expected all arguments, such as {"amount": 80}')
    return arguments


def _show_grants(service: GuardService, request: ConsoleRequest) -> Answer:
    name = request.path.get("id")
    if name is None:
        grants, cursor = service.grants.page(request.tenant, _number(request, "before"), _CARDS)
    else:
        grants, cursor = [service.grants.read(request.tenant, name)], None
    return ShownPage("grants.html", {"grants": grants, "cursor": cursor, "now": time.time()})


def _revoke_grant(service: GuardService, request: ConsoleRequest) -> Answer:
    name = request.path["id"]
    service.grants.revoke(request.tenant, name, request.caller.id)
    return GoTo(f"/grants/{name}")


_APPROVALS = (
    ConsolePage("/approvals", AccessedOperation.READ_APPROVALS, _list_approvals, "Approvals", 2),
    ConsolePage("/approvals/rows", AccessedOperation.READ_APPROVALS, _list_approval_rows, is_part=True),
    ConsolePage("/approvals/answers", AccessedOperation.ANSWER_APPROVALS, _answer_card, method="POST"),
    ConsolePage("/approvals/count", AccessedOperation.READ_APPROVALS, _count_approvals, is_part=True),
    ConsolePage("/approvals/{id}", AccessedOperation.READ_APPROVALS, _show_approval),
    ConsolePage("/approvals/{id}", AccessedOperation.ANSWER_APPROVALS, _answer_approval, method="POST"),
    ConsolePage("/grants", AccessedOperation.READ_APPROVALS, _show_grants, "Grants", 2),
    ConsolePage("/grants/{id}", AccessedOperation.READ_APPROVALS, _show_grants),
    ConsolePage("/grants/{id}", AccessedOperation.REVOKE_GRANTS, _revoke_grant, method="POST"),
)


# --- stops


def _show_stops(service: GuardService, request: ConsoleRequest) -> Answer:
    return ShownPage("stops.html", _stops_shown(service, request))


def _make_stop(service: GuardService, request: ConsoleRequest) -> Answer:
    named = {name: text for name in ("agent", "session", "tool", "for") if (text := request.form.get(name, "").strip())}
    body = {"reason": request.form.get("reason", ""), "tenant": request.tenant, **named}
    made = service.stop_desk.stop(request.caller, body)
    return ShownPage("stops.html", {**_stops_shown(service, request), "made": made}, 201)


def _stops_shown(service: GuardService, request: ConsoleRequest) -> dict[str, Any]:
    proposed = {name: request.query.get(name, "") for name in ("agent", "session")}
    return {"stops": service.stop_desk.page(request.tenant), "now": time.time(), "proposed": proposed}


def _lift_stop(service: GuardService, request: ConsoleRequest) -> Answer:
    service.stop_desk.lift(request.caller, request.path["id"])
    return GoTo("/stops")


_STOPS = (
    ConsolePage("/stops", AccessedOperation.READ_STOPS, _show_stops, "Stops", 3),
    ConsolePage("/stops", AccessedOperation.STOP, _make_stop, method="POST"),
    ConsolePage("/stops/{id}", AccessedOperation.LIFT_STOPS, _lift_stop, method="POST"),
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
    pending = len(service.approvals.waiting(request.tenant))
    return {"entries": entries[::-1], "chosen": chosen, "pending": pending, **_next_step(service, request)}


_LIVE = (
    ConsolePage("/live", AccessedOperation.READ_SESSIONS, _show_live, "Live", 1),
    ConsolePage("/live/rows", AccessedOperation.READ_SESSIONS, _list_live_rows, is_part=True),
)


# --- the log: search and verification

_LOG_ROWS, _EXPORTED = 100, 10_000
_LOG_FILTERS = "kind", "decision", "tool", "session", "text"


def _fitting_entries(service: GuardService, request: ConsoleRequest, limit: int) -> list[dict[str, Any]]:
    """Returns the newest entries that fit the filters of the address, in order."""
    criteria = {name: value or None for name, value in _chosen(request, *_LOG_FILTERS).items()}
    text = criteria.pop("text") or ""
    return service.log.entries(request.tenant, None, limit, criteria, _number(request, "before"), text)


def _export_log(service: GuardService, request: ConsoleRequest) -> Answer:
    lines = [json.dumps(entry) for entry in _fitting_entries(service, request, _EXPORTED)]
    return DownloadedFile("log.jsonl", "application/jsonl", "".join(f"{line}\n" for line in lines))


def _search_log(service: GuardService, request: ConsoleRequest) -> Answer:
    chosen = _chosen(request, *_LOG_FILTERS)
    entries = _fitting_entries(service, request, _LOG_ROWS)
    more = entries[0]["seq"] if len(entries) == _LOG_ROWS else None
    shown = {"entries": entries[::-1], "chosen": chosen, "more": more, "scanned": MAX_SCANNED}
    return ShownPage("log.html", {**shown, **_next_step(service, request)})


def _verify_log(service: GuardService, request: ConsoleRequest) -> Answer:
    return ShownPage("log_verified.html", {"report": service.log.verify(request.tenant)})


_LOG = (
    ConsolePage("/log", AccessedOperation.READ_LOG, _search_log, "Log", 7),
    ConsolePage("/log/verify", AccessedOperation.READ_LOG, _verify_log),
    ConsolePage("/log/export", AccessedOperation.READ_LOG, _export_log),
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
    service.reload_policy(request.caller, request.tenant, name, {"running": request.form.get("running", "keep")})
    return GoTo(f"/policies/{name}")


_POLICY_ACTIONS = {"replay": _replay_policy, "shadow": _shadow_policy, "reload": _reload_policy}
_POLICIES = (
    ConsolePage("/policies", AccessedOperation.READ_POLICIES, _list_policies, "Policies", 4),
    ConsolePage("/policies/{name}", AccessedOperation.READ_POLICIES, _show_policy),
    ConsolePage("/policies/{name}", AccessedOperation.CHANGE_POLICIES, _change_policy, method="POST"),
    ConsolePage("/policies/{name}/lint", AccessedOperation.READ_POLICIES, _lint_policy),
    ConsolePage("/policies/{name}/versions", AccessedOperation.READ_POLICIES, _list_versions),
)


# --- what the rules did by day, which of them never did anything, and which are slow

_ROWS = 200


def _show_report(service: GuardService, request: ConsoleRequest) -> Answer:
    names = service.policies.names(request.tenant)
    common = {"names": names, "periods": PERIODS, **_next_step(service, request)}
    if not names:
        return ShownPage("reports.html", {**common, "report": None})
    report = _report_chosen(service, request)
    table = report_rows(report)
    messages = service.reports.texts(report["policy"], service.policies.current(report["policy"]).digest).messages
    none = Counter[str]()
    total = {name: sum((counts[name] for counts in report["rules"].values()), none) for name in COUNTED}
    shown = {"report": report, "total": total, "rows": table[:_ROWS], "count": len(table), "messages": messages}
    return ShownPage("reports.html", {**common, **shown})


def _export_report(service: GuardService, request: ConsoleRequest) -> Answer:
    report = _report_chosen(service, request)
    if request.query.get("form") == "json":
        return DownloadedFile("rules.json", "application/json", pretty(report_rows(report)))
    return DownloadedFile("rules.csv", "text/csv", as_csv(report_rows(report)))


def _report_chosen(service: GuardService, request: ConsoleRequest) -> dict[str, Any]:
    name = request.query.get("policy") or next(iter(service.policies.names(request.tenant)), "")
    days = _number(request, "days")
    return service.rules.report(request.tenant, name, days if days in PERIODS else PERIODS[1])


_REPORTS = (
    ConsolePage("/reports", AccessedOperation.READ_POLICIES, _show_report, "Reports", 5),
    ConsolePage("/reports/export", AccessedOperation.READ_POLICIES, _export_report),
)


# --- sessions: a time line of calls with verdicts, the states of rules, and pending obligations


_SESSION_ROWS = 50


def _list_sessions(service: GuardService, request: ConsoleRequest) -> Answer:
    chosen, before = _chosen(request, "id", "agent", "user", "status", "policy"), _number(request, "before")

    def fits(session: HostSession) -> bool:
        user = str(session.principal.get("id") or "")
        values = (session.id, session.owner, user, session.status, session.policy)
        return all(text.casefold() in value.casefold() for text, value in zip(chosen.values(), values, strict=True))

    shown = {"chosen": chosen, "before": before, "names": service.policies.names(request.tenant)}
    listed = service.list_sessions(request.tenant, before, _SESSION_ROWS, fits)
    return ShownPage("sessions.html", {**shown, **listed, **_next_step(service, request)})


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
    ConsolePage("/workflows", AccessedOperation.READ_POLICIES, _list_workflows, "Workflows", 6),
    ConsolePage("/workflows/{name}", AccessedOperation.READ_POLICIES, _show_workflow),
    ConsolePage("/workflows/{name}/graph.svg", AccessedOperation.READ_POLICIES, _draw_workflow),
)


def _next_step(service: GuardService, request: ConsoleRequest) -> dict[str, Any]:
    """Returns what an empty page names: the address of the server, and a call that a policy may judge; None without."""
    names = service.policies.names(request.tenant)
    example = service.reports.escalating_call(request.tenant) or (names[0], "refund", ["amount"]) if names else None
    return {"address": request.address, "example": example}


def _chosen(request: ConsoleRequest, *names: str) -> dict[str, str]:
    """Returns the filters that a person has set; empty strings for the others."""
    return {name: request.query.get(name, "").strip() for name in names}


def _number(request: ConsoleRequest, name: str) -> int | None:
    """Returns a number in the address, such as the one under which a page begins; None without it."""
    text = request.query.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 18 else None


PAGES = (*_APPROVALS, *_STOPS, *_LIVE, *_LOG, *_POLICIES, *_REPORTS, *_SESSIONS, *_WORKFLOWS, *PLAYGROUND)
"""All pages of the console."""
