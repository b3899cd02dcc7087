"""Learning: memory grows from executed guards, never from gold labels (paper, Section 4.2).

A guard that a model wrote for a run is pending in the agent's folder `pending/`, a file each, until a reviewer accepts
it. It then becomes a demonstration, which prompts for similar runs show.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import logging
import os
import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from guardagent._support.files import parse_json, read_text, shipped_folder
from guardagent.errors import ContentError, InputError, UnknownNameError
from guardagent.programs.memory.agents import AgentMemory, known_demonstrations, store_demonstrations
from guardagent.programs.memory.retrieval import Demonstration, parse_demonstration
from guardagent.types import Verdict

Remember = Literal["no", "review", "always"]

PENDING = "pending"
MAX_PENDING = 1000
_MAX_BYTES = 10_000_000

_log = logging.getLogger("guardagent")


@dataclass(frozen=True, slots=True)
class PendingGuard:
    """An executed guard that is pending as a demonstration."""

    id: str
    time: str
    label: int
    reasons: tuple[str, ...]
    demonstration: Demonstration

    def to_dict(self) -> dict[str, Any]:
        head = {"id": self.id, "time": self.time, "label": self.label, "reasons": list(self.reasons)}
        return head | {"demonstration": json.loads(self.demonstration.to_json())}


def learner(remember: Remember, agent: AgentMemory | None) -> Callable[[Demonstration, Verdict], None]:
    """Returns a function that stores an executed guard, as `remember` says.

    Raises:
        InputError: no agent is named, or it is a shipped one.
    """
    if remember not in get_args(Remember):
        raise UnknownNameError("remember", str(remember), get_args(Remember))
    if remember == "no":
        return lambda _found, _verdict: None
    path = own_folder(agent, "remember")

    def learn(demonstration: Demonstration, verdict: Verdict) -> None:
        """Stores a guard; a failure is logged, since it must not change the verdict."""
        try:
            _keep(path, _candidate(demonstration, verdict), at_once=remember == "always")
        except (InputError, OSError, UnicodeError) as error:
            _log.warning("an executed guard was not remembered: %s", error)

    return learn


def own_folder(agent: AgentMemory | None, option: str) -> Path:
    """Returns the folder of an agent that an option writes to.

    Raises:
        InputError: no agent is named, or it is a shipped one.
    """
    if agent is None:
        raise InputError(f"{option!r} needs an agent; expected the name of an agent in your memory folder")
    if agent.path.resolve().is_relative_to(shipped_folder("memory").resolve()):
        raise InputError(
            f"agent {agent.name!r} is shipped, and {option!r} cannot write there; copy '{agent.path}' into a memory "
            "folder of your own, and pass that folder"
        )
    return agent.path


def pending_guards(folder: Path) -> list[PendingGuard]:
    """Returns the pending guards, oldest first.

    Args:
        folder: the agent's folder.

    Raises:
        ContentError: a file is invalid.
    """
    waiting = [_read(path) for path in (folder / PENDING).glob("*.json")]
    return sorted(waiting, key=lambda candidate: (candidate.time, candidate.id))


def resolve_guards(folder: Path, *, accepted: Collection[str] = (), rejected: Collection[str] = ()) -> None:
    """Turns the accepted guards into demonstrations, and removes accepted and rejected ones from `pending/`.

    Raises:
        InputError: an id is unknown, or is both accepted and rejected.
    """
    waiting = {candidate.id: candidate for candidate in pending_guards(folder)}
    for name in (*accepted, *rejected):
        if name not in waiting:
            raise UnknownNameError("pending guard", name, waiting, where=str(folder / PENDING))
        if name in accepted and name in rejected:
            raise InputError(f"pending guard {name!r} is both accepted and rejected; expected one of these")
    store_demonstrations(folder, [waiting[name].demonstration for name in accepted])
    for name in (*accepted, *rejected):
        _file(folder, name).unlink(missing_ok=True)


def write_pending(path: Path, record: Mapping[str, Any], most: int) -> None:
    """Writes a pending record with owner-only permissions, to a folder with at most `most` records.

    Raises:
        InputError: the folder is full.
        OSError: the file cannot be written.
    """
    path.parent.mkdir(mode=0o700, exist_ok=True)
    if len(list(path.parent.glob("*.json"))) >= most:
        raise InputError(
            f"{path.parent}: {most} entries are pending, the maximum; review them: 'guardagent memory review'"
        )
    fresh = path.with_suffix(f".{secrets.token_hex(4)}")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        json.dump(record, file, ensure_ascii=False)
    fresh.replace(path)


def _keep(folder: Path, candidate: PendingGuard, *, at_once: bool) -> None:
    if at_once:
        store_demonstrations(folder, [candidate.demonstration])
        return
    if known_demonstrations(folder, [candidate.demonstration]):
        return
    write_pending(_file(folder, candidate.id), candidate.to_dict(), MAX_PENDING)


def _candidate(demonstration: Demonstration, verdict: Verdict) -> PendingGuard:
    digest = hashlib.sha256(demonstration.to_json().encode()).hexdigest()[:12]
    now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
    return PendingGuard(digest, now, verdict.label, verdict.reasons, demonstration)


def _file(folder: Path, name: str) -> Path:
    return folder / PENDING / f"{name}.json"


def _read(path: Path) -> PendingGuard:
    record = parse_json(read_text(path, limit=_MAX_BYTES), path)
    try:
        head = (path.stem, str(record["time"]), int(record["label"]), tuple(map(str, record["reasons"])))
        inner = dict(record["demonstration"])
    except (KeyError, TypeError, ValueError):
        raise ContentError(
            "is not a pending guard; expected the keys 'time', 'label', 'reasons' and 'demonstration'", path
        ) from None
    return PendingGuard(*head, parse_demonstration(inner, path, 1))
