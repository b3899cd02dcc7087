"""The lock of an installed hook: which policy judges, and the hash that it must have."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from guardagent._support import json_values
from guardagent.errors import InputError
from guardagent.policy.load import load_policies
from guardagent.policy.policies import Policies

VERSION = 2
KEEP_DAYS = 30


@dataclass(frozen=True, slots=True)
class HookLock:
    """One installed hook.

    Attributes:
        host: the name of the host.
        settings: the host's file with the hook.
        policy: the policy file.
        digest: the hash of the policy and all its files.
        project: the folder of the project; empty for a hook of the user.
        keep_days: for how many days after its last use a session is kept.
    """

    host: str
    settings: str
    policy: str
    digest: str
    project: str = ""
    keep_days: int = KEEP_DAYS

    @property
    def name(self) -> str:
        """The name of its file, without the suffix."""
        return f"{self.host}-{hashlib.sha256(self.settings.encode()).hexdigest()[:12]}"

    def write(self, folder: Path) -> Path:
        """Writes the lock into a state folder. Returns its file."""
        path = folder / f"{self.name}.json"
        new = path.with_suffix(f".{secrets.token_hex(4)}")
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            json.dump({"version": VERSION, **asdict(self)}, file, indent=2)
        new.replace(path)
        return path

    def load(self) -> Policies:
        """Loads the policy.

        Raises:
            InputError: it is invalid, or has changed.
        """
        policies = load_policies(self.policy)
        if policies.digest != self.digest:
            raise InputError(changed(self.policy))
        return policies

    @classmethod
    def of(cls, host: str, settings: Path, policy: Path, project: Path | None, keep_days: int = KEEP_DAYS) -> HookLock:
        """Returns the lock of a policy as it is now.

        Raises:
            InputError: the policy or the number of days is invalid.
        """
        if keep_days < 1:
            raise InputError(f"sessions are kept for {keep_days} days; expected at least one")
        folder = "" if project is None else str(project.resolve())
        lock = cls(host, str(settings), str(policy.resolve()), "", folder, keep_days)
        return replace(lock, digest=load_policies(lock.policy).digest)


def read_lock(path: Path) -> HookLock:
    """Reads a lock.

    Raises:
        InputError: it is missing or malformed.
    """
    try:
        value: Any = json_values.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: the lock of the hook cannot be read ({error}); install the hook again") from None
    names = ("host", "settings", "policy", "digest", "project")
    is_whole = isinstance(value, Mapping) and value.get("version") == VERSION
    days = value.get("keep_days") if is_whole else None
    if type(days) is not int or days < 1 or not all(isinstance(value.get(name), str) for name in names):
        raise InputError(f"{path}: is no lock of a hook; install the hook again")
    return HookLock(**{name: value[name] for name in names}, keep_days=days)


def read_locks(folder: Path) -> list[HookLock]:
    """Reads all locks of a state folder.

    Raises:
        InputError: one is malformed.
    """
    return [read_lock(path) for path in sorted(folder.glob("*-*.json"))]


def changed(policy: str) -> str:
    """Returns the message about a policy that has changed."""
    return f"{policy}: the policy has changed since the hook was installed; review it, and install the hook again"


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
        found = folder.stat()
    except OSError as error:
        raise InputError(f"{folder}: cannot be used for the state of hooks: {error.strerror}") from None
    if found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise InputError(f"{folder}: other users can use it; expected a folder of your own with mode 700")
    return folder
