"""Reads the log of a tenant for people."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from guardagent.log import AuditLog, verify_log
from guardagent.log.chain import Entry
from guardagent.log.stores import open_reader

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
