"""The state that all hooks of a user share: calls that wait, calls without a verdict, locks, and old sessions.

- A waiting call is answered by a person in `guardagent watch`.
- A call that the host ran although no verdict allowed it is recorded: its hook gave no answer, or was not obeyed.
- The lock of an installed hook names the policy in force, a copy in this folder, and the hash that it must have.
- Sessions that were not used for long are deleted: their histories, and the questions about their calls.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_args

from guardagent._support import json_values
from guardagent.enforcement import HostCall, Outcome, SqliteLedger
from guardagent.errors import GuardError, InputError
from guardagent.log import AuditLog
from guardagent.log.records import verdict_record
from guardagent.policy.file.policy_file import PolicyFile, policy_contents, read_policy_file
from guardagent.policy.load import compile_file, load_policies
from guardagent.policy.policies import Policies
from guardagent.server.state import StateStore, StoredItem, open_state
from guardagent.session.calls import HistoryChangedError
from guardagent.session.counters.tables import SqliteCounters
from guardagent.session.session import Session
from guardagent.types import Decision, Event, Verdict, freeze, thaw

COUNTERS_FILE = "counters.db"
STOP_FILE = "stops.json"
"""In the folder: the stop file of all hooks of the user."""

Status = Literal["pending", "approved", "rejected", "used", "expired"]
SECONDS = 3600.0
"""How long a request waits, and how long an approval lasts."""
_ASK, _ASK_TENANT = "ask", ""


@dataclass(frozen=True, slots=True)
class PendingAsk:
    """A call that a rule escalated. An approval is for this call alone, once: same session, tool and arguments.

    Attributes:
        name: identifies it.
        since: in seconds since the epoch.
    """

    name: str
    host: str
    session: str
    tool: str
    args: Mapping[str, Any]
    reasons: tuple[str, ...]
    since: float
    status: Status = "pending"


class PendingAsks:
    """Stores them.

    Args:
        state: the store.
        clock: returns the seconds since the epoch.
    """

    def __init__(self, state: StateStore, clock: Callable[[], float] = time.time) -> None:
        self._state, self._clock = state, clock

    def request(self, host: str, session: str, tool: str, args: Mapping[str, Any], reasons: tuple[str, ...]) -> None:
        """Adds a request, unless it is there."""
        name = _name(host, session, tool, args)
        new = PendingAsk(name, host, session, tool, thaw(args), reasons, self._clock())
        if not self._state.add(_ASK, _ASK_TENANT, name, _content(new)):
            ask, version = self._find(name)
            if ask is not None and ask.status in ("used", "expired"):
                self._state.replace(_ASK, _ASK_TENANT, name, version, _content(new))

    def answer_of(self, host: str, session: str, tool: str, args: Mapping[str, Any]) -> PendingAsk | None:
        """Returns the request for a call; None if there is none."""
        return self._find(_name(host, session, tool, args))[0]

    def use(self, name: str) -> bool:
        """Uses an approval, once. Returns whether it was there to be used."""
        ask, version = self._find(name)
        if ask is None or ask.status != "approved":
            return False
        return self._state.replace(_ASK, _ASK_TENANT, name, version, _content(replace(ask, status="used")))

    def close(self, host: str, session: str, tool: str, args: Mapping[str, Any]) -> None:
        """Ends the request for a call that has run without its answer, so that no later call runs on that."""
        self._state.delete(_ASK, _ASK_TENANT, _name(host, session, tool, args))

    def answer(self, name: str, *, approves: bool) -> None:
        """Records the answer of a person.

        Raises:
            InputError: the request is not pending any more.
        """
        ask, version = self._find(name)
        status: Status = "approved" if approves else "rejected"
        if ask is None or ask.status != "pending":
            raise InputError(f"the request is {'gone' if ask is None else ask.status}; nothing was changed")
        answered = replace(ask, status=status, since=self._clock())
        if not self._state.replace(_ASK, _ASK_TENANT, name, version, _content(answered)):
            raise InputError("the request was answered at this moment; nothing was changed")

    def pending(self) -> list[PendingAsk]:
        """Returns the requests that wait, the newest first."""
        pending = [self._current(row.name, row.value) for row in self._state.page(_ASK, _ASK_TENANT, None, 200)]
        return [ask for ask in pending if ask.status == "pending"]

    def delete_old(self, seconds: Callable[[PendingAsk], float]) -> None:
        """Deletes the requests that are older than a time that depends on them."""
        last, now = 0, self._clock()
        while page := self._state.oldest(_ASK, _ASK_TENANT, last, 200):
            last = page[-1].number
            stored = [self._current(row.name, row.value) for row in page]
            self._state.delete(_ASK, _ASK_TENANT, *(ask.name for ask in stored if now - ask.since > seconds(ask)))

    def _find(self, name: str) -> tuple[PendingAsk | None, int]:
        item = self._state.get(_ASK, _ASK_TENANT, name)
        return (None, 0) if item is None else (self._current(name, item.value), item.version)

    def _current(self, name: str, value: Mapping[str, Any]) -> PendingAsk:
        pending_ask = PendingAsk(name, **{**value, "reasons": tuple(value["reasons"])})
        is_late = self._clock() - pending_ask.since > SECONDS and pending_ask.status != "used"
        return replace(pending_ask, status="expired") if is_late else pending_ask


def _name(host: str, session: str, tool: str, args: Mapping[str, Any]) -> str:
    text = json.dumps([host, session, tool, thaw(args)], sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _content(ask: PendingAsk) -> dict[str, Any]:
    content = asdict(ask)
    del content["name"]
    return content


# --- calls without a verdict


UNCHECKED = "unchecked"
"""The kind of its entry in the log, and its tag for rules."""
_TRIES = 50


def record_unchecked(session: Session, log: AuditLog, call: HostCall, outcome: Outcome) -> Verdict | None:
    """Records the call with its outcome, so that rules see it as any other. Its entry in the log says what they object.

    Returns:
        What the rules say about it; None if it was recorded before.

    Raises:
        GuardError: the history or the log cannot be written.
    """
    if any(earlier_call.id == call.id for earlier_call in session.history):
        return None
    status = session.status_of(outcome.output, outcome.failed, outcome.other_outputs)
    assert status != "withdrawn"
    event = Event(
        tool=call.tool,
        args=freeze(call.args),
        output=outcome.output,
        status=status,
        tags=frozenset((UNCHECKED,)),
        agent=call.agent,
        id=call.id,
        time=time.time(),
    )
    verdict = _observed(session, event)
    record = verdict_record(
        verdict,
        tool=call.tool,
        args=thaw(call.args),
        conversation=session.id,
        agent=call.agent,
        call_id=call.id,
        policy=session.policies.digest,
        tags=event.tags,
    )
    log.append({**record, "kind": UNCHECKED, "status": status, "output": outcome.output})
    return verdict


def _observed(session: Session, event: Event) -> Verdict:
    for _ in range(_TRIES):
        try:
            return session.observe(event)
        except HistoryChangedError:
            session.catch_up()
    raise HistoryChangedError(f"other processes kept extending the history; {event.tool!r} was not recorded")


# --- locks, and the folder of the state


VERSION = 3
KEEP_DAYS = 30
AskPlace = Literal["host", "watch"]
Mode = Literal["enforce", "trial"]


@dataclass(frozen=True, slots=True)
class HookLock:
    """One installed hook.

    Attributes:
        host: the name of the host.
        settings: the host's file with the hook.
        policy: the copy of the policy file that is in force; empty before it is made.
        digest: the hash of the policy and all its files.
        project: the folder of the project; empty for a hook of the user.
        keep_days: for how many days after its last use a session is kept.
        ask: who is asked about a call that needs a person: the `host` asks its user, or `watch`.
        mode: whether rules are enforced, or on trial: then they only warn.
        source: the policy file that was copied.
    """

    host: str
    settings: str
    policy: str
    digest: str
    project: str = ""
    keep_days: int = KEEP_DAYS
    ask: AskPlace = "host"
    mode: Mode = "enforce"
    source: str = ""

    @property
    def name(self) -> str:
        """The name of its file, without the suffix."""
        return f"{self.host}-{hashlib.sha256(self.settings.encode()).hexdigest()[:12]}"

    def write(self, folder: Path) -> Path:
        """Writes the lock into a state folder, with the copy of its policy if there is none yet. Returns its file.

        Raises:
            InputError: the policy has changed meanwhile, or cannot be read without files beside the copy.
        """
        copies, lock = folder / "policies", self
        if not self.policy:
            copied = _copy(Path(self.source), copies / f"{self.name}-{self.digest[:12]}", self.digest)
            lock = replace(self, policy=str(copied))
        path = folder / f"{self.name}.json"
        new = path.with_suffix(f".{secrets.token_hex(4)}")
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            json.dump({"version": VERSION, **asdict(lock)}, file, indent=2)
        new.replace(path)
        for old in copies.glob(f"{self.name}-*"):
            if not Path(lock.policy).is_relative_to(old):
                shutil.rmtree(old, ignore_errors=True)
        return path

    def read(self) -> PolicyFile:
        """Reads the policy in force.

        Raises:
            InputError: it is invalid, or has changed.
        """
        try:
            file = read_policy_file(self.policy)
        except GuardError as error:
            raise InputError(f"{self._changed()} ({error})") from None
        if file.digest != self.digest:
            raise InputError(self._changed())
        return file

    def load(self, workspace: str = "") -> Policies:
        """Loads the policy in force; on trial, all its rules only warn, and calls that no rule lists pass.

        Args:
            workspace: the folder of the session, for constants of this name that are empty.

        Raises:
            InputError: it is invalid, or has changed.
        """
        file = self.read()
        constants = {
            name: replace(constant, value=workspace)
            if name.rpartition(".")[2] == "workspace" and constant.value == ""
            else constant
            for name, constant in file.constants.items()
        }
        file = replace(file, constants=MappingProxyType(constants))
        if self.mode == "trial":
            rules = tuple(
                replace(rule, on_violation=Decision.WARN, halts_tool=False, on_trial=True) for rule in file.rules
            )
            file = replace(file, rules=rules, unlisted="allow")
        return compile_file(file)

    def _changed(self) -> str:
        return (
            f"{self.policy}: is not the policy that was installed, or the packs of GuardAgent are another version; "
            f"review {self.source}, and take it into force with 'guardagent hook update'"
        )

    @classmethod
    def of(
        cls,
        host: str,
        settings: Path,
        policy: Path,
        project: Path | None,
        keep_days: int = KEEP_DAYS,
        ask: AskPlace = "host",
        mode: Mode = "enforce",
    ) -> HookLock:
        """Returns the lock of a policy as it is now.

        Raises:
            InputError: the policy, the number of days or the place to ask is invalid.
        """
        if ask not in get_args(AskPlace):
            raise InputError(f"{ask!r} cannot ask a person; expected {' or '.join(get_args(AskPlace))}")
        if keep_days < 1:
            raise InputError(f"sessions are kept for {keep_days} days; expected at least one")
        folder = "" if project is None else str(project.resolve())
        source = str(policy.resolve())
        return cls(host, str(settings), "", installable_digest(source), folder, keep_days, ask, mode, source)


def installable_digest(source: Path | str) -> str:
    """Returns the hash of a policy that hooks can judge by.

    Raises:
        InputError: the policy is invalid, or reads the zone of a clock.
    """
    policies = load_policies(source)
    if policies.zone_note:
        raise InputError(f"{source}: the clock of hooks has no zone: {policies.zone_note}")
    return policies.digest


def read_lock(path: Path) -> HookLock:
    """Reads a lock.

    Raises:
        InputError: it is missing or malformed.
    """
    try:
        value: Any = json_values.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: the lock of the hook cannot be read ({error}); install the hook again") from None
    names = ("host", "settings", "policy", "digest", "project", "source")
    fields: Any = value if isinstance(value, Mapping) and value.get("version") == VERSION else {}
    days, ask, mode = fields.get("keep_days"), fields.get("ask"), fields.get("mode")
    is_whole = type(days) is int and days > 0 and ask in get_args(AskPlace) and mode in get_args(Mode)
    if not is_whole or not all(isinstance(value.get(name), str) for name in names):
        raise InputError(f"{path}: is not the lock of a hook; install the hook again")
    return HookLock(**{name: value[name] for name in names}, keep_days=days, ask=ask, mode=mode)


def read_locks(folder: Path) -> list[HookLock]:
    """Reads all locks of a state folder.

    Raises:
        InputError: one is malformed.
    """
    return [read_lock(path) for path in sorted(folder.glob("*-*.json"))]


def _copy(source: Path, folder: Path, digest: str) -> Path:
    """Copies a policy and the files that it names, each below its own path, so that relative ones still lead to it."""
    new, package = folder.with_name(f".{secrets.token_hex(8)}"), Path(__file__).parents[1]
    within = source.relative_to(source.anchor)
    try:
        named = (Path(os.path.abspath(content.path)) for content in policy_contents(source))  # noqa: PTH100 - keeps links
        for path in {source, *named}:
            if package not in path.parents:
                target = new / path.relative_to(path.anchor)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
        if read_policy_file(new / within).digest != digest:
            raise InputError(f"{source}: has changed while it was copied; nothing was installed")
        shutil.rmtree(folder, ignore_errors=True)
        new.replace(folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return folder / within


def state_path() -> Path:
    """Returns where the state folder is, or would be."""
    home = os.environ.get("XDG_STATE_HOME", "")
    return (Path(home) if home.startswith("/") else Path.home() / ".local" / "state") / "guardagent" / "hooks"


def state_folder() -> Path:
    """Returns the folder with the state of all hooks of this user, outside of any workspace.

    Raises:
        InputError: it cannot be created, or belongs to another user.
    """
    folder = state_path()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError as error:
        raise InputError(f"{folder}: cannot be used for the state of hooks: {error.strerror}") from None
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise InputError(f"{folder}: other users can use it; expected a folder of your own with mode 700")
    return folder


# --- old sessions


_SESSION, _SESSION_TENANT = "session", ""
_NOTE_SECONDS = 3600.0  # a use is written at most once in this time
_DAY = 86400.0
_PAGE = 200


def delete_old_sessions(folder: Path, clock: Callable[[], float] = time.time) -> list[str]:
    """Deletes the old sessions of a state folder, by the hooks that are installed, and counts that are long over.

    A call that is in flight in a deleted session counts: its outcome is unknown. Returns the names of the sessions.

    Raises:
        GuardError: a lock cannot be read, or the state cannot be written.
    """
    locks = read_locks(folder)

    def keep_days(host: str) -> int:
        return max((lock.keep_days for lock in locks if lock.host == host), default=KEEP_DAYS)

    state = open_state(f"sqlite:{folder / 'asks.db'}")
    with closing(state), closing(SqliteLedger(folder / "ledger.db")) as ledger:
        deleted = SessionRetention(state, clock).delete_old(ledger, keep_days)
    if (path := folder / COUNTERS_FILE).exists():
        with closing(SqliteCounters(str(path))) as counters:
            for reservation in (pending for name in deleted for pending in counters.pending(f"{name}:")):
                counters.settle(reservation.id)
            counters.forget(clock())
    return deleted


class SessionRetention:
    """Notes when each session was last used, and deletes old ones. The audit log keeps what was decided in them.

    Args:
        state: stores the times.
        clock: returns the seconds since the epoch.
    """

    def __init__(self, state: StateStore, clock: Callable[[], float] = time.time) -> None:
        self._state, self._clock = state, clock
        self._noted: dict[str, tuple[float, str]] = {}

    def note_use(self, conversation: str, folder: str = "") -> str:
        """Notes that a session is used now, before its history changes. Returns the folder in which it began.

        Args:
            conversation: its name.
            folder: its working folder now.

        Raises:
            StateError: this cannot be written.
        """
        now = self._clock()
        noted, known = self._noted.get(conversation, (0.0, ""))
        if now - noted < _NOTE_SECONDS:
            return known
        value: dict[str, Any] = {"used": now, "folder": folder}
        while not self._state.add(_SESSION, _SESSION_TENANT, conversation, value):
            stored = self._state.get(_SESSION, _SESSION_TENANT, conversation)
            if stored:
                value["folder"] = stored.value.get("folder") or folder
                if self._state.replace(_SESSION, _SESSION_TENANT, conversation, stored.version, value):
                    break
        self._noted[conversation] = now, str(value["folder"])
        return str(value["folder"])

    def delete_old(self, ledger: SqliteLedger, keep_days: Callable[[str], int]) -> list[str]:
        """Deletes the sessions that were not used for long; no session may be in use meanwhile. Returns their names.

        Args:
            ledger: has their histories.
            keep_days: the days for which the sessions of a host are kept.
        """
        asks, deleted = PendingAsks(self._state, self._clock), []
        for item in self._items():
            host = item.name.partition("/")[0]
            if self._clock() - float(item.value["used"]) > keep_days(host) * _DAY:
                ledger.end(item.name)
                self._state.delete(_SESSION, _SESSION_TENANT, item.name)
                deleted.append(item.name)
        asks.delete_old(lambda ask: keep_days(ask.host) * _DAY)
        return deleted

    def _items(self) -> list[StoredItem]:
        stored_items: list[StoredItem] = []
        while page := self._state.oldest(
            _SESSION, _SESSION_TENANT, stored_items[-1].number if stored_items else 0, _PAGE
        ):
            stored_items.extend(page)
        return stored_items
