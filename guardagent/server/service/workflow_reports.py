"""Verifies the workflow graphs that a server's settings name, and draws them."""

from __future__ import annotations

from collections.abc import Mapping

from guardagent.errors import InputError
from guardagent.server.service.errors import UnknownItemError
from guardagent.server.service.policy_catalogue import PolicyCatalogue
from guardagent.server.settings import WorkflowSettings
from guardagent.workflow.analysis.report import Report
from guardagent.workflow.drawing import svg
from guardagent.workflow.verify import verify


class WorkflowReports:
    """The reports on all workflows. A report is made again when the graph's file or the policy has changed.

    Args:
        settings: the workflows by their names.
        policies: the policies.
    """

    def __init__(self, settings: Mapping[str, WorkflowSettings], policies: PolicyCatalogue) -> None:
        self._settings, self._policies = settings, policies
        self._made: dict[str, tuple[object, Report]] = {}

    def all(self, tenant: str) -> dict[str, Report | str]:
        """Returns the report on each workflow of a tenant, or why there is none."""
        names = [name for name, one in self._settings.items() if _may_see(one, tenant)]
        return {name: self._report_or_problem(tenant, name) for name in names}

    def report(self, tenant: str, name: str) -> Report:
        """Returns the report on a workflow.

        Raises:
            UnknownItemError: the tenant has no such workflow.
            InputError: its graph cannot be read.
        """
        found = self._settings.get(name)
        if found is None or not _may_see(found, tenant):
            raise UnknownItemError(f"there is no workflow {name[:80]!r}; the settings of the server name them")
        policies = self._policies.current(found.policy) if found.policy else None
        try:
            changed = found.graph.stat()
        except OSError as error:
            raise InputError(f"the graph of the workflow {name!r} cannot be read: {error.strerror}") from None
        key = (changed.st_mtime_ns, changed.st_size, None if policies is None else policies.digest)
        made = self._made.get(name)
        if made is None or made[0] != key:
            made = self._made[name] = key, verify(found.graph, policies, name=name)
        return made[1]

    def picture(self, tenant: str, name: str) -> str:
        """Returns the graph of a workflow as SVG.

        Raises:
            UnknownItemError, InputError: as `report`; or the graph is too large for a picture.
        """
        return svg.render(self.report(tenant, name).graph)

    def _report_or_problem(self, tenant: str, name: str) -> Report | str:
        try:
            return self.report(tenant, name)
        except InputError as error:
            return str(error)


def _may_see(settings: WorkflowSettings, tenant: str) -> bool:
    return settings.tenants is None or tenant in settings.tenants
