"""Judges finished runs of agents that the settings name."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from guardagent._support.execution import combine, verdict_or_denial
from guardagent.enforcement.wire import Fields, read_value
from guardagent.errors import LogError
from guardagent.guard import GuardAgent
from guardagent.log import AuditLog, verdict_record
from guardagent.server.access import Caller
from guardagent.server.service.errors import UnknownItemError
from guardagent.server.settings import AgentSettings
from guardagent.types import Verdict, unchecked_verdict


class RunGuards:
    """The guards of finished runs.

    Args:
        settings: the agents by their names.
        log: returns the log of a tenant.

    Raises:
        InputError: an agent is unknown, or an option is invalid.
    """

    def __init__(self, settings: Mapping[str, AgentSettings], log: Callable[[str], AuditLog]) -> None:
        self._settings, self._log = settings, log
        self._lock = threading.Lock()
        self._guards = {
            name: GuardAgent(agent=one.agent, mode=one.mode, model=one.model, locked=one.locked)
            for name, one in settings.items()
        }

    def judge(self, caller: Caller, body: Any) -> Verdict:
        """Judges a finished run.

        Raises:
            WireError: the request is invalid.
            UnknownItemError: the tenant has no such agent.
        """
        fields = Fields(body)
        name, run = fields.string("agent"), (fields.string("input"), fields.string("output_log"))
        facts = read_value(fields.object("facts", {}), "facts")
        fields.end()
        settings = self._settings.get(name)
        if settings is None or (settings.tenants is not None and caller.tenant not in settings.tenants):
            raise UnknownItemError(f"there is no agent {name[:80]!r}; expected one that the server's settings name")
        guard = self._guards[name]
        verdict = verdict_or_denial(lambda: guard.guard(*run, facts))
        return self._logged(caller, name, run[0], verdict)

    def close(self) -> None:
        """Ends the workers of the guards."""
        for guard in self._guards.values():
            guard.close()

    def _logged(self, caller: Caller, name: str, agent_input: str, verdict: Verdict) -> Verdict:
        record = verdict_record(
            verdict,
            policy="",
            conversation="",
            tool="agent_run",
            args={"input": agent_input},
            agent=name,
            principal=caller.principal.value,
        )
        try:
            self._log(caller.tenant).append({**record, "kind": "answer"})
        except LogError as error:
            return combine(verdict, unchecked_verdict(f"the audit log cannot be written: {error}", checked_by="policy"))
        return verdict
