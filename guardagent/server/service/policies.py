"""Candidates for the policies of a server: judged beside the live version, or replayed on the log, without effect."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from guardagent.batch.replay import replay
from guardagent.batch.replay.conversation import NoModel, ReplayPolicy
from guardagent.errors import InputError, LedgerError
from guardagent.policy.file.policy_file import PolicyFile, read_policy_text
from guardagent.policy.load import load_policies, read_policy_files
from guardagent.policy.policies import Policies
from guardagent.server.service.errors import RequestConflictError
from guardagent.server.service.policy_catalogue import PolicyCatalogue
from guardagent.server.settings import PolicySettings
from guardagent.server.state import StateStore

_CHOSEN, _TEXT = "shadow", "candidate"
_PACKAGE = Path(__file__).parents[2]


class CandidatePolicies:
    """The candidates of all tenants, which each server can read.

    Args:
        state: stores them.
        catalogue: the live policies.
        settings: the settings of the policies.
    """

    def __init__(self, state: StateStore, catalogue: PolicyCatalogue, settings: Mapping[str, PolicySettings]) -> None:
        self._state, self._catalogue, self._settings = state, catalogue, settings
        self._loaded: dict[str, Policies] = {}
        self._replaying = threading.Lock()

    def chosen(self, tenant: str, name: str) -> str:
        """Returns the id of the candidate that judges new sessions too; empty if there is none."""
        found = self._state.get(_CHOSEN, tenant, name)
        return "" if found is None else str(found.value["candidate"])

    def choose(self, tenant: str, name: str, text: str | None) -> str:
        """Sets the candidate of new sessions, or none. Returns its id.

        Raises:
            InputError: the text is no policy, or refers to other files than the live policy does.
        """
        candidate = "" if text is None else hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        if text is not None:
            self._loaded[candidate] = self.read(name, text)
            self._state.add(_TEXT, tenant, candidate, {"text": text})
        value = {"candidate": candidate}
        while not self._state.add(_CHOSEN, tenant, name, value):
            item = self._state.get(_CHOSEN, tenant, name)
            if item is not None and self._state.replace(_CHOSEN, tenant, name, item.version, value):
                break
        return candidate

    def find(self, tenant: str, name: str, candidate: str) -> Policies | None:
        """Returns a candidate; None for the id of none.

        Raises:
            LedgerError: the state lacks it.
        """
        if not candidate:
            return None
        if candidate not in self._loaded:
            item = self._state.get(_TEXT, tenant, candidate)
            if item is None:
                raise LedgerError("the state lacks the candidate with which the session began")
            self._loaded[candidate] = self.read(name, item.value["text"])
        return self._loaded[candidate]

    def read(self, name: str, text: str) -> Policies:
        """Reads the text of a candidate. It calls no model.

        Raises:
            InputError: it is no policy, or refers to other files than the live policy does: an admin over HTTP does not
                choose the code that runs here.
        """
        files = self._settings[name].files
        folder = files[0].resolve().parent
        known = set(_paths(read_policy_files(files)))
        for path in _paths(read_policy_text(text, folder)):  # before any code is loaded
            if path not in known and not path.is_relative_to(_PACKAGE):
                raise InputError(
                    f"the candidate refers to {path.name!r}, which the live policy does not; use its files"
                )
        return load_policies(text=text, folder=folder, model=NoModel())

    def replay(self, name: str, text: str, log: str) -> dict[str, Any]:
        """Returns what a candidate would have decided on the calls of a log.

        Raises:
            InputError: as `read`; or the log is no file.
            RequestConflictError: another replay is running on this server.
        """
        if "://" in log:
            raise InputError("the log is in a database; export it, and use 'guardagent replay'")
        candidate = self.read(name, text)
        if not self._replaying.acquire(blocking=False):
            raise RequestConflictError("another replay is running on this server; try again later")
        try:
            report = replay(Path(log), ReplayPolicy(candidate))
        finally:
            self._replaying.release()
        rows = [row.to_dict() for row in report.table.rows.values()]
        return {"rules": rows, "conversations": report.conversations, "notes": report.notes}


def _paths(file: PolicyFile) -> Iterator[Path]:
    """Yields the files that a policy refers to, and loads none of them."""
    for path in (*file.files, *file.toolbox):
        yield path.resolve()
    for rule in file.rules:
        solver = rule.solver.smt_file if rule.solver else None
        yield from (path.resolve() for path in (rule.program, solver) if path is not None)
    if file.shadow is not None:
        yield from _paths(file.shadow)
