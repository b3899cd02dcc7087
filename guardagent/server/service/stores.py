"""The stores of a server: histories, counters, its own state, and a log of each tenant."""

from __future__ import annotations

import hashlib
import re
import threading
from pathlib import Path

from guardagent.enforcement.ledger import open_ledger
from guardagent.enforcement.ledger.history import FinalLedger
from guardagent.errors import InputError
from guardagent.log import AuditLog
from guardagent.server.service.tenant_counters import TenantCounters
from guardagent.server.settings import DEFAULT_FOLDER, ServerSettings
from guardagent.server.state import open_state
from guardagent.session.counters import open_counters

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
