"""A Redis server that several machines share, with an atomic step that checks before it writes.

Redis keeps data in memory. A server that may forget acknowledged writes is refused: after it lost some, calls would run
that the lost ones forbid.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from typing import Any

from guardagent._support.requirements import require
from guardagent._support.stores import CONNECTIONS, SECONDS, StoreAddress, StoreFormat, StoreServer
from guardagent.errors import GuardError, InputError

require({"redis": "5.0"}, "redis")

import redis  # noqa: E402
from redis.backoff import NoBackoff  # noqa: E402
from redis.retry import Retry  # noqa: E402

_BREAK_SECONDS = 2.0  # a connection that breaks later did so because the server hangs
_COMMIT = """
local at = 0
local function take() at = at + 1; return ARGV[at] end
for number = 1, tonumber(take()) do
  local key, field, expected = take(), take(), take()
  local found = redis.call('HGET', key, field)
  if (found and '=' .. found or '') ~= expected then return number end
end
while at < #ARGV do
  local command = {}
  for number = 1, tonumber(take()) do command[number] = take() end
  redis.call(unpack(command))
end
return 0
"""
Check = tuple[str, str, str | None]
"""A key of a hash, a field, and the value that it must have; None if it must be missing."""
Command = Sequence[str | int | float]


class _UnsafeServerError(redis.RedisError):
    """The server may lose acknowledged writes; the message names the setting that is expected."""


class RedisServer(StoreServer):
    """The keys of one format on a server.

    Attributes:
        name: identifies the store; another name means that the server has lost all keys.

    Args:
        scheme: `redis`, or `rediss` with TLS.
        rest: the address after the scheme's colon. Its option `prefix` names the beginning of all keys, and
            `durability=unchecked` omits the check that acknowledged writes are on the disk.
        kind: the format.

    Raises:
        InputError: the server cannot be reached, may lose acknowledged writes, or has other keys with this prefix.
    """

    def __init__(self, scheme: str, rest: str, kind: StoreFormat) -> None:
        address = StoreAddress.read(scheme, rest, ("prefix", "durability"))
        super().__init__(address, kind.name, kind.error, (redis.RedisError,))
        self._kind = kind
        self._prefix = self.address.name_option("prefix", kind.prefix)
        self._is_checked = "durability" not in address.options
        if address.options.get("durability", "unchecked") != "unchecked":
            raise InputError(f"{self.address.shown}: the option 'durability' is unknown; expected 'unchecked'")
        self._store = self.key("store")
        try:
            self._client = self._connect()
            self._commit = self._client.register_script(_COMMIT)
            self.name = self._prepare()
        except (redis.RedisError, OSError, ValueError, TypeError) as error:
            expected = "" if isinstance(error, _UnsafeServerError) else "; expected a Redis server"
            why = self.address.without_secrets(error)
            raise InputError(f"{self.address.shown}: cannot be opened as a {kind.name}: {why}{expected}") from None

    def key(self, *parts: str) -> str:
        """Returns a key of this store."""
        return ":".join((self._prefix, *parts))

    def commit(self, checks: Sequence[Check], writes: Sequence[Command]) -> int:
        """Writes if all checks hold, in one atomic step. Returns 0, or the number of the first check that fails."""
        arguments: list[str | int | float] = [len(checks) + 1, self._store, "name", f"={self.name}"]
        for key, field, expected in checks:
            arguments += key, field, "" if expected is None else f"={expected}"
        for command in writes:
            arguments += len(command), *command
        with self.errors():
            failed = int(self._commit(args=arguments))
        if failed == 1:
            raise self._lost()
        return max(0, failed - 1)

    def commit_again(self, checks: Sequence[Check], writes: Sequence[Command]) -> int:
        """Commits writes that may happen twice: they are repeated once if the connection breaks."""
        started = time.monotonic()
        try:
            return self.commit(checks, writes)
        except self.error_type as error:
            if not isinstance(error.__cause__, redis.ConnectionError) or time.monotonic() - started > _BREAK_SECONDS:
                raise
            return self.commit(checks, writes)

    def read(self, *commands: Command) -> list[Any]:
        """Returns the answers to commands that all see the same state."""
        with self.errors(), self._client.pipeline(transaction=True) as pipe:
            for command in (("HGET", self._store, "name"), *commands):
                pipe.execute_command(*command)  # type: ignore[no-untyped-call]
            name, *answers = pipe.execute()
        if name != self.name:
            raise self._lost()
        return answers

    def keys(self, *parts: str) -> Iterator[str]:
        """Yields the keys that begin with these parts."""
        with self.errors():
            yield from self._client.scan_iter(match=self.key(*parts, "*"), count=1000)

    def close(self) -> None:
        """Closes all connections; the next use opens new ones."""
        self._client.connection_pool.disconnect()

    # --- connections

    def _connect(self) -> redis.Redis:
        pool = redis.BlockingConnectionPool.from_url(
            self.address.url,
            max_connections=CONNECTIONS,
            timeout=SECONDS,
            socket_timeout=SECONDS,
            socket_connect_timeout=SECONDS,
            socket_keepalive=True,
            retry=Retry(NoBackoff(), 0),
            encoding_errors="surrogatepass",
            decode_responses=True,
            protocol=2,
            redis_connect_func=self._require_safe,
        )
        return redis.Redis(connection_pool=pool)

    def _require_safe(self, connection: Any) -> None:
        """Requires that a new connection leads to a server that keeps what it acknowledges."""
        connection.on_connect()
        info = dict(line.split(":", 1) for line in _answer(connection, "INFO").splitlines() if ":" in line)
        if info.get("role") != "master":
            raise self._refusal(f"has the role {info.get('role')!r}", "the primary")
        if info.get("maxmemory_policy") != "noeviction":
            raise self._refusal(
                f"evicts keys when its memory is full (maxmemory-policy {info.get('maxmemory_policy')})",
                "maxmemory-policy noeviction",
            )
        if self._is_checked:
            for name, value in (("appendonly", "yes"), ("appendfsync", "always"), ("no-appendfsync-on-rewrite", "no")):
                self._require_setting(connection, name, value)

    def _require_setting(self, connection: Any, name: str, value: str) -> None:
        try:
            setting = (_answer(connection, "CONFIG", "GET", name) or ["", "unknown"])[1]
        except redis.ResponseError:
            setting = "unreadable"
        if setting != value:
            raise self._refusal(
                f"may lose acknowledged writes when it crashes ({name} is {setting})",
                f"{name} {value}; 'durability=unchecked' in the address omits this check",
            )

    # --- the keys

    def _prepare(self) -> str:
        fields = {"kind": self._kind.name, "version": str(self._kind.version), "name": secrets.token_hex(8)}
        new: list[str | int] = [1, self._store, "name", "", 2 + 2 * len(fields), "HSET", self._store]
        self._commit(args=[*new, *(part for pair in fields.items() for part in pair)])
        stored: Any = self._client.hmget(self._store, "kind", "version", "name")
        kind, version, name = stored
        if (kind, version) != (fields["kind"], fields["version"]):
            raise InputError(
                f"{self.address.shown}: the keys that begin with {self._prefix!r} are a {kind} of format {version}, "
                f"and this release reads a {self._kind.name} of format {self._kind.version}; {self._kind.advice}"
            )
        return str(name)

    # --- errors

    def _lost(self) -> GuardError:
        return self.failure("it is another one than was opened; the server has lost its data, or somebody deleted it")

    def _refusal(self, problem: str, expected: str) -> redis.RedisError:
        return _UnsafeServerError(f"the server {problem}; expected {expected}")


def _answer(connection: Any, *command: str) -> Any:
    connection.send_command(*command)
    return connection.read_response()
