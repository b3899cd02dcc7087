"""The stores of a server, and what people read and change in them: logs and tokens.

The stores are histories, counters, its own state, and a log of each tenant.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from guardagent.enforcement.ledger import open_ledger
from guardagent.enforcement.ledger.history import FinalLedger
from guardagent.enforcement.wire.values import WireError, WireField, WireShape, strings
from guardagent.errors import GuardError, InputError
from guardagent.log import AuditLog, verify_log
from guardagent.log.chain import Entry
from guardagent.log.records import canonical_json
from guardagent.log.signatures import SigningKey
from guardagent.log.stores import open_reader
from guardagent.policy.evaluation.counters import CountedAmount, CounterKey
from guardagent.server.access import Caller, IssuedToken, TokenStore, roles_of, token_record
from guardagent.server.service import UnknownItemError
from guardagent.server.settings import DEFAULT_FOLDER, ServerSettings
from guardagent.server.state import open_state
from guardagent.session.counters import CounterReading, CounterStore, Reservation, open_counters

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
        own = [replace(amount, key=self._own(amount.key)) for amount in amounts]
        self.store.reserve(reservation, own, now, {self._own(key): version for key, version in seen.items()})

    def settle(self, reservation: str) -> None:
        self.store.settle(reservation)

    def release(self, reservation: str) -> None:
        self.store.release(reservation)

    def pending(self, prefix: str = "") -> list[Reservation]:
        return [
            reservation for reservation in self.store.pending(prefix) if reservation.counter.startswith(self._prefix)
        ]

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
        self._lock, self._signing_key = threading.Lock(), settings.signing_key
        if self._signing_key is not None:
            SigningKey(self._signing_key)  # a mistake shows before the first call

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
                self._logs[tenant] = AuditLog(self.log_address(tenant), signing_key=self._signing_key)
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
        parts = [_with_suffix(settings.state, suffix) for suffix in ("_ledger", "_counters", "_state")]
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
    return _OPTION.sub(lambda match: f"{match[1]}={match[2]}{suffix}", address)


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
        criteria: Mapping[str, str | None] | None = None,
        before: int | None = None,
        text: str = "",
    ) -> list[dict[str, Any]]:
        """Returns entries in order: the first ones after a number, or without one the last ones.

        Args:
            tenant: the tenant.
            after: the number of an entry.
            limit: how many.
            criteria: the values of fields, or the id of a `session`; None matches any.
            before: the number of an entry; only earlier ones count.
            text: what the entry contains somewhere, in any case.

        Raises:
            GuardError: the log cannot be read.
        """
        wanted = {name: value for name, value in (criteria or {}).items() if value is not None}
        if "session" in wanted:
            wanted["conversation"] = f"{tenant}/{wanted.pop('session')}"
        parts = [f'"{name}":{canonical_json(value)}' for name, value in wanted.items()]  # as they stand in an entry
        wanted_text = json.dumps(text.lower(), ensure_ascii=False)[1:-1]
        entries: deque[dict[str, Any]] = deque(maxlen=None if after is None else limit)
        for entry in self.newest(tenant, after or 0):
            if before is not None and entry.seq >= before:
                continue
            if not all(part in entry.text for part in parts):
                continue
            if text.isascii() and wanted_text not in entry.text.lower():
                continue
            fields = json.loads(entry.text)
            if not text.isascii() and wanted_text not in json.dumps(fields, ensure_ascii=False).lower():
                continue  # an entry itself is ASCII
            if all(str(fields.get(name)) == value for name, value in wanted.items()):
                entries.append({"seq": entry.seq, **fields})
            if after is None and len(entries) == limit:
                break
        return [*entries][::-1]

    def entry(self, tenant: str, seq: int) -> dict[str, Any] | None:
        """Returns the entry with a number; None if the log has none."""
        entries = self.entries(tenant, seq - 1, 1)
        return entries[0] if entries and entries[0]["seq"] == seq else None

    def last(self, tenant: str) -> int:
        """Returns the number of the last entry; 0 without any."""
        return next((entry.seq for entry in self.newest(tenant, 0)), 0)

    def verify(self, tenant: str) -> dict[str, Any]:
        """Verifies the log of a tenant from its beginning.

        Raises:
            GuardError: the log cannot be read.
        """
        self._log(tenant)
        return verify_log(self._address(tenant)).to_dict()

    def newest(self, tenant: str, after: int) -> Iterator[Entry]:
        """Yields the last entries, the newest first, down to the one after a number; at most `MAX_SCANNED`.

        Raises:
            GuardError: the log cannot be read.
        """
        self._log(tenant)
        for scanned, entry in enumerate(open_reader(self._address(tenant)).backwards()):
            if entry.seq <= after or scanned == MAX_SCANNED:
                return
            yield entry


# --- tokens

MAX_DAYS = 3650
NEW_TOKEN = WireShape(
    principal=WireField(str),
    roles=strings(),
    tenant=WireField(str, ...),
    groups=strings(()),
    days=WireField(int, 90, more={"minimum": 1, "maximum": MAX_DAYS}),
)


ROTATION = WireShape(days=WireField(int, None), overlap=WireField(int, 0, more={"minimum": 0}))


class TokenDesk:
    """Manages the tokens of a store, each admin those of its tenant. The log of the tenant has each change.

    Args:
        tokens: the store; None if callers come from an OpenID provider alone.
        log: returns the log of a tenant.
    """

    def __init__(self, tokens: TokenStore | None, log: Callable[[str], AuditLog]) -> None:
        self._tokens, self._log = tokens, log

    def tenants(self) -> frozenset[str]:
        """Returns the tenants of tokens."""
        return frozenset(token.caller.tenant for token in self._tokens.list()) if self._tokens else frozenset()

    def list(self, admin: Caller) -> dict[str, Any]:
        """Returns the tokens that an admin sees, without their secrets."""
        return {"tokens": [_shown(token) for token in self._store().list() if admin.can_see(token.caller.tenant)]}

    def create(self, admin: Caller, body: Any) -> dict[str, Any]:
        """Creates a token, whose text nothing shows again.

        Raises:
            InputError: the request is invalid, or names a tenant that the admin does not see.
            LogError: the log cannot be written; the token is void.
        """
        fields = NEW_TOKEN.read(body)
        tenant, days = admin.tenant if fields["tenant"] is ... else fields["tenant"], _days(fields["days"])
        if not admin.can_see(tenant):
            raise WireError("tenant", "is another one than the admin's")
        roles, groups = roles_of(fields["roles"]), frozenset(fields["groups"])
        issued, text = self._store().create(Caller(fields["principal"], roles, tenant, groups), days * 86400.0)
        return self._issued(issued, text, token_record("created", admin.id, issued))

    def rotate(self, admin: Caller, name: str, body: Any) -> dict[str, Any]:
        """Creates a token in the place of another one, which ends now, or after `overlap` seconds.

        Raises:
            UnknownItemError: the admin sees no such token.
            InputError: the request is invalid, or the token is no longer valid.
            LogError: the log cannot be written; the new token is void.
        """
        fields = ROTATION.read(body)
        seconds = None if fields["days"] is None else _days(fields["days"]) * 86400.0
        self._require(admin, name)
        issued, text = self._store().rotate(name, seconds, float(fields["overlap"]))
        return self._issued(issued, text, token_record("rotated", admin.id, issued, earlier=name))

    def _issued(self, issued: IssuedToken, text: str, record: dict[str, Any]) -> dict[str, Any]:
        """Returns a token that was issued, once the log has it."""
        try:
            self._log(issued.caller.tenant).append(record)
        except GuardError:
            self._store().revoke(issued.id)
            raise
        return {**_shown(issued), "token": text}

    def revoke(self, admin: Caller, name: str) -> dict[str, Any]:
        """Revokes a token at once.

        Raises:
            UnknownItemError: the admin sees no such token.
            LogError: the log cannot be written; the token is revoked.
        """
        token = self._require(admin, name)
        self._store().revoke(name)
        self._log(token.caller.tenant).append(token_record("revoked", admin.id, token))
        return {"id": name, "status": "revoked"}

    def _require(self, admin: Caller, name: str) -> IssuedToken:
        for token in self._store().list():
            if token.id == name and admin.can_see(token.caller.tenant):
                return token
        raise UnknownItemError(f"there is no token {name[:40]!r}; expected the id of one, such as ga_0123456789ab")

    def _store(self) -> TokenStore:
        if self._tokens is None:
            raise UnknownItemError("this server has no tokens of its own; its callers come from an OpenID provider")
        return self._tokens


def _days(days: int) -> int:
    if not 0 < days <= MAX_DAYS:
        raise WireError("days", f"is {days}; expected 1 to {MAX_DAYS}")
    return days


def _shown(issued_token: IssuedToken) -> dict[str, Any]:
    return {
        "id": issued_token.id,
        "principal": issued_token.caller.id,
        "roles": sorted(issued_token.caller.roles),
        "groups": sorted(issued_token.caller.groups),
        "tenant": issued_token.caller.tenant,
        "created": issued_token.created,
        "expires": issued_token.expires,
        "revoked": issued_token.revoked,
    }
