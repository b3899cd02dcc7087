"""Workflow graphs, verified against the current version of a policy."""

from __future__ import annotations

from guardagent.server.access import AccessedOperation
from guardagent.server.console.console_page import Answer, ConsolePage, ConsoleRequest, Picture, ShownPage
from guardagent.server.service.guard_service import GuardService


def _list(service: GuardService, request: ConsoleRequest) -> Answer:
    return ShownPage("workflows.html", {"reports": service.workflows.all(request.tenant)})


def _show(service: GuardService, request: ConsoleRequest) -> Answer:
    name = request.path["name"]
    return ShownPage("workflow.html", {"name": name, "report": service.workflows.report(request.tenant, name)})


def _picture(service: GuardService, request: ConsoleRequest) -> Answer:
    return Picture(service.workflows.picture(request.tenant, request.path["name"]))


_READ = AccessedOperation.READ_POLICIES
PAGES = (
    ConsolePage("/workflows", _READ, _list, "Workflows", 5),
    ConsolePage("/workflows/{name}", _READ, _show),
    ConsolePage("/workflows/{name}/graph.svg", _READ, _picture),
)
