"""Policies: rules in words, how often they were violated, lint, versions with their differences, and candidates."""

from __future__ import annotations

from typing import Any

from guardagent.errors import InputError
from guardagent.server.access import AccessedOperation
from guardagent.server.console.console_page import Answer, ConsolePage, ConsoleRequest, GoTo, ShownPage
from guardagent.server.service.guard_service import GuardService


def _list(service: GuardService, request: ConsoleRequest) -> Answer:
    return ShownPage("policies.html", service.list_policies(request.tenant))


def _show(service: GuardService, request: ConsoleRequest) -> Answer:
    return _shown(service, request)


def _shown(service: GuardService, request: ConsoleRequest, **more: Any) -> Answer:
    status = more.pop("status", 200)
    values = {"problem": "", "text": "", "replayed": None, **more}
    return ShownPage("policy.html", {**service.reports.explain(request.tenant, request.path["name"]), **values}, status)


def _lint(service: GuardService, request: ConsoleRequest) -> Answer:
    return ShownPage("policy_lint.html", service.reports.lint(request.tenant, request.path["name"]))


def _versions(service: GuardService, request: ConsoleRequest) -> Answer:
    return ShownPage("policy_versions.html", service.reports.versions(request.tenant, request.path["name"]))


def _change(service: GuardService, request: ConsoleRequest) -> Answer:
    text = request.form.get("text", "").replace("\r\n", "\n")
    action = _ACTIONS.get(request.form.get("action", ""))
    if action is None:
        return _shown(service, request, text=text, problem="the form asks for nothing; open the page again", status=422)
    try:
        return action(service, request, text)
    except InputError as error:
        return _shown(service, request, text=text, problem=str(error), status=422)


def _replay(service: GuardService, request: ConsoleRequest, text: str) -> Answer:
    found = service.replay_policy(request.tenant, request.path["name"], {"text": text})
    return _shown(service, request, text=text, replayed=found)


def _shadow(service: GuardService, request: ConsoleRequest, text: str) -> Answer:
    name = request.path["name"]
    service.shadow_policy(request.caller, request.tenant, name, {"text": text} if text.strip() else {})
    return GoTo(f"/policies/{name}")


def _reload(service: GuardService, request: ConsoleRequest, _text: str) -> Answer:
    name = request.path["name"]
    service.reload_policy(request.caller, request.tenant, name)
    return GoTo(f"/policies/{name}")


_ACTIONS = {"replay": _replay, "shadow": _shadow, "reload": _reload}


_READ = AccessedOperation.READ_POLICIES
PAGES = (
    ConsolePage("/policies", _READ, _list, "Policies", 4),
    ConsolePage("/policies/{name}", _READ, _show),
    ConsolePage("/policies/{name}", AccessedOperation.CHANGE_POLICIES, _change, method="POST"),
    ConsolePage("/policies/{name}/lint", _READ, _lint),
    ConsolePage("/policies/{name}/versions", _READ, _versions),
)
