"""The stores of a server (histories, counters, its own state, a log of each tenant), and what it reads from them.

After the stores come the policies with their versions, the log of a tenant for people, the tokens that admins create
and revoke, and two things that the settings name: guards of finished runs, and workflow graphs, which are verified and
drawn.
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from guardagent._support.execution import combine, verdict_or_denial
from guardagent.enforcement.ledger import open_ledger
from guardagent.enforcement.ledger.history import FinalLedger
from guardagent.enforcement.wire.values import Field, Shape, WireError, read_value, strings
from guardagent.errors import InputError, LogError
from guardagent.guard import GuardAgent
from guardagent.log import AuditLog, verdict_record, verify_log
from guardagent.log.chain import Entry
from guardagent.log.stores import open_reader
from guardagent.policy.evaluation.counters import CountedAmount, CounterKey
from guardagent.policy.load import load_policies
from guardagent.policy.policies import Policies
from guardagent.server.access import Caller, IssuedToken, TokenStore
from guardagent.server.access.caller import roles_of
from guardagent.server.service.requests import UnknownItemError
from guardagent.server.settings import DEFAULT_FOLDER, AgentSettings, PolicySettings, ServerSettings, WorkflowSettings
from guardagent.server.state import open_state
from guardagent.session.counters import CounterReading, CounterStore, Reservation, open_counters
from guardagent.types import EMPTY, Verdict, unchecked_verdict
from guardagent.workflow.analysis.report import Report
from guardagent.workflow.drawing import svg
from guardagent.workflow.verify import verify

# --- stores


@dataclass(frozen=True, slots=True)
class TenantCounters:
    """A `CounterStore` whose keys no other tenant has.

    Attributes:
        store: the store of all tenants.
        tenant: the tenant.
    """

    store: CounterStore
    tenant: str

    def read(self, key: CounterKey, now: float) -> CounterReading:
        return self.store.read(self._own(key), now)

    def reserve(
        self, reservation: str, amounts: Sequence[CountedAmount], now: float, seen: Mapping[CounterKey, Any]
    ) -> None:
        own = [replace(one, key=self._own(one.key)) for one in amounts]
        self.store.reserve(reservation, own, now, {self._own(key): version for key, version in seen.items()})

    def settle(self, reservation: str) -> None:
        self.store.settle(reservation)

    def release(self, reservation: str) -> None:
        self.store.release(reservation)

    def pending(self) -> list[Reservation]:
        return [one for one in self.store.pending() if one.counter.startswith(self._prefix)]

    @property
    def _prefix(self) -> str:
        return f"{self.tenant}/"  # no tenant has a slash

    def _own(self, key: CounterKey) -> CounterKey:
        return replace(key, counter=self._prefix + key.counter)


_OPTION = re.compile(r"(?<=[?&])(schema|prefix)=([^&]*)")


class ServerStores:
    """The stores of a server. Every server with the same addresses continues the same sessions.

    Args:
        settings: the settings of the server.

    Attributes:
        ledger: the histories of sessions.
        state: attachments, sessions and the like.

    Raises:
        InputError: an address is invalid, or a store cannot be opened.
    """

    def __init__(self, settings: ServerSettings) -> None:
        ledger, counters, state, logs = _addresses(settings)
        self.ledger = FinalLedger(open_ledger(ledger))
        self.state = open_state(state)
        self._counters = open_counters(counters)
        self._logs_at, self._logs = logs, dict[str, AuditLog]()
        self._lock = threading.Lock()

    def counters(self, tenant: str) -> TenantCounters:
        """Returns the counters of a tenant."""
        return TenantCounters(self._counters, tenant)

    def log(self, tenant: str) -> AuditLog:
        """Returns the log of a tenant.

        Raises:
            LogError: it cannot be written, or was changed.
        """
        with self._lock:
            if tenant not in self._logs:
                self._logs[tenant] = AuditLog(self.log_address(tenant))
            return self._logs[tenant]

    def log_address(self, tenant: str) -> str:
        """Returns the address of a tenant's log."""
        name = _file_name(tenant)
        if "://" in self._logs_at:
            return f"{self._logs_at}{'&' if '?' in self._logs_at else '?'}stream={name}"
        return str(Path(self._logs_at) / f"{name}.db")

    def close(self) -> None:
        """Closes the logs and the state."""
        for log in self._logs.values():
            log.close()
        self.state.close()


def _addresses(settings: ServerSettings) -> tuple[str, str, str, str]:
    """Returns the addresses of ledger, counters, state and logs."""
    scheme, colon, rest = settings.state.partition(":")
    if not colon or scheme == "memory":
        raise InputError("the state is kept in no store; expected 'sqlite:FOLDER', 'postgresql://…' or 'redis://…'")
    if scheme != "sqlite":
        parts = [_with_suffix(settings.state, one) for one in ("_ledger", "_counters", "_state")]
        return parts[0], parts[1], parts[2], _logs(settings.log, Path(DEFAULT_FOLDER))
    if not rest:
        raise InputError("'sqlite:' has no folder; expected an address such as 'sqlite:guardagent-state'")
    folder = Path(_folder(Path(rest)))
    ledger, counters, state = (f"sqlite:{folder / name}.db" for name in ("ledger", "counters", "server"))
    return ledger, counters, state, _logs(settings.log, folder)


def _logs(log: str, folder: Path) -> str:
    return log if "://" in log else _folder(Path(log or folder / "log"))


def _with_suffix(address: str, suffix: str) -> str:
    """Returns the address with a schema or prefix of its own; the stores have different ones by default."""
    return _OPTION.sub(lambda found: f"{found[1]}={found[2]}{suffix}", address)


def _folder(path: Path) -> str:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path}: cannot be created: {error.strerror}; expected a folder for the state") from None
    return str(path)


def _file_name(tenant: str) -> str:
    """Returns a name for a tenant's log; two tenants never share one, even where names ignore case."""
    plain = re.sub(r"[^a-z0-9_-]", "_", tenant.lower())[:60]
    return tenant if tenant == plain else f"{plain}-{hashlib.sha256(tenant.encode()).hexdigest()[:12]}"


# --- policies


class PolicyCatalogue:
    """The policies of a server by their names.

    Args:
        settings: the settings of each policy.

    Raises:
        InputError: a policy is invalid.
    """

    def __init__(self, settings: Mapping[str, PolicySettings]) -> None:
        self._settings = dict(settings)
        self._loaded = {name: load_policies(one.files) for name, one in settings.items()}

    def names(self, tenant: str) -> list[str]:
        """Returns the names of the policies that a tenant may use."""
        return [name for name, one in self._settings.items() if one.may_be_used_by(tenant)]

    def settings(self, name: str, tenant: str) -> PolicySettings:
        """Returns the settings of a policy.

        Raises:
            UnknownItemError: the tenant has no such policy.
        """
        found = self._settings.get(name)
        if found is None or not found.may_be_used_by(tenant):
            raise UnknownItemError(f"there is no policy {name!r}; expected one of {', '.join(self.names(tenant))}")
        return found

    def current(self, name: str) -> Policies:
        """Returns the current version of a policy."""
        return self._loaded[name].current

    def version(self, name: str, digest: str) -> Policies | None:
        """Returns a version of a policy; None if this server does not have it."""
        loaded = self._loaded.get(name)
        if loaded is None:
            return None
        if loaded.current.digest == digest:
            return loaded.current
        return None if loaded.versions is None else loaded.versions.find(digest)

    def held(self, name: str) -> list[str]:
        """Returns the digests of the versions that this server has, the current one first."""
        loaded = self._loaded[name]
        others = () if loaded.versions is None else loaded.versions.held()
        return [loaded.current.digest, *(one.digest for one in others if one.digest != loaded.current.digest)]

    def reload(self, name: str) -> Policies:
        """Loads the files of a policy again, for new sessions.

        Raises:
            InputError: they are invalid; the current version stays in force.
        """
        return self._loaded[name].reload()


def unchanging(version: Policies, candidate: Policies | None) -> Policies:
    """Returns a version that no reload replaces, for a guard of sessions that began under it.

    Args:
        version: the version.
        candidate: judges too, without effect, in place of the one that the version names; None for that one.
    """
    fixed = copy.copy(version)
    fixed.versions = None
    fixed.shadow = version.shadow if candidate is None else candidate
    return fixed


# --- logs

MAX_SCANNED = 100_000  # entries that one request looks at


class LogQueries:
    """Queries of the logs of tenants.

    Args:
        log: returns the log of a tenant, which exists from then on.
        address: returns its address.
    """

    def __init__(self, log: Callable[[str], AuditLog], address: Callable[[str], str]) -> None:
        self._log, self._address = log, address

    def entries(
        self,
        tenant: str,
        after: int | None,
        limit: int,
        before: int | None = None,
        text: str = "",
        **criteria: str | None,
    ) -> list[dict[str, Any]]:
        """Returns entries in order: the first ones after a number, or without one the last ones.

        Args:
            tenant: the tenant.
            after: the number of an entry.
            limit: how many.
            before: the number of an entry; only earlier ones count.
            text: what the entry contains somewhere, in any case.
            criteria: the values of fields; None matches any.

        Raises:
            GuardError: the log cannot be read.
        """
        wanted = {name: value for name, value in criteria.items() if value is not None}
        wanted_text = json.dumps(text.lower(), ensure_ascii=False)[1:-1]  # as it stands in an entry
        found: deque[dict[str, Any]] = deque(maxlen=None if after is None else limit)
        for entry in self._newest(tenant, after or 0):
            if before is not None and entry.seq >= before:
                continue
            if wanted_text not in entry.text.lower():
                continue
            fields = json.loads(entry.text)
            if all(str(fields.get(name)) == value for name, value in wanted.items()):
                found.append({"seq": entry.seq, **fields})
            if after is None and len(found) == limit:
                break
        return [*found][::-1]

    def last(self, tenant: str) -> int:
        """Returns the number of the last entry; 0 without any."""
        return next((entry.seq for entry in self._newest(tenant, 0)), 0)

    def verify(self, tenant: str) -> dict[str, Any]:
        """Verifies the log of a tenant from its beginning.

        Raises:
            GuardError: the log cannot be read.
        """
        self._log(tenant)
        return verify_log(self._address(tenant)).to_dict()

    def _newest(self, tenant: str, after: int) -> Iterator[Entry]:
        self._log(tenant)
        for scanned, entry in enumerate(open_reader(self._address(tenant)).backwards()):
            if entry.seq <= after or scanned == MAX_SCANNED:
                return
            yield entry


# --- tokens

MAX_DAYS = 3650
NEW_TOKEN = Shape(
    principal=Field(str),
    roles=strings(),
    tenant=Field(str, ...),
    days=Field(int, 90, more={"minimum": 1, "maximum": MAX_DAYS}),
)


class TokenDesk:
    """Manages the tokens of a store, each admin those of its tenant.

    Args:
        tokens: the store; None if callers come from an OpenID provider alone.
    """

    def __init__(self, tokens: TokenStore | None) -> None:
        self._tokens = tokens

    def list(self, admin: Caller) -> dict[str, Any]:
        """Returns the tokens that an admin sees, without their secrets."""
        return {"tokens": [_shown(one) for one in self._store().list() if admin.can_see(one.caller.tenant)]}

    def create(self, admin: Caller, body: Any) -> dict[str, Any]:
        """Creates a token, whose text nothing shows again.

        Raises:
            InputError: the request is invalid, or names a tenant that the admin does not see.
        """
        fields = NEW_TOKEN.read(body)
        tenant, days = admin.tenant if fields["tenant"] is ... else fields["tenant"], fields["days"]
        if not 0 < days <= MAX_DAYS:
            raise WireError("days", f"is {days}; expected 1 to {MAX_DAYS}")
        if not admin.can_see(tenant):
            raise WireError("tenant", "is another one than the admin's")
        issued, text = self._store().create(
            Caller(fields["principal"], roles_of(fields["roles"]), tenant), days * 86400.0
        )
        return {**_shown(issued), "token": text}

    def revoke(self, admin: Caller, name: str) -> dict[str, Any]:
        """Revokes a token at once.

        Raises:
            UnknownItemError: the admin sees no such token.
        """
        store = self._store()
        if not any(one.id == name and admin.can_see(one.caller.tenant) for one in store.list()):
            raise UnknownItemError(f"there is no token {name[:40]!r}; expected the id of one, such as ga_0123456789ab")
        store.revoke(name)
        return {"id": name, "status": "revoked"}

    def _store(self) -> TokenStore:
        if self._tokens is None:
            raise UnknownItemError("this server has no tokens of its own; its callers come from an OpenID provider")
        return self._tokens


def _shown(one: IssuedToken) -> dict[str, Any]:
    return {
        "id": one.id,
        "principal": one.caller.id,
        "roles": sorted(one.caller.roles),
        "tenant": one.caller.tenant,
        "created": one.created,
        "expires": one.expires,
        "revoked": one.revoked,
    }


# --- finished runs and workflows

FINISHED_RUN = Shape(agent=Field(str), input=Field(str), output_log=Field(str), facts=Field(dict, EMPTY, read_value))


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
        name, *run = FINISHED_RUN.read(body).values()
        settings = self._settings.get(name)
        if settings is None or (settings.tenants is not None and caller.tenant not in settings.tenants):
            raise UnknownItemError(f"there is no agent {name[:80]!r}; expected one that the server's settings name")
        guard = self._guards[name]
        verdict = verdict_or_denial(lambda: guard.guard(*run))
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
