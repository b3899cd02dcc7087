"""How memory grows: from guards that were executed, never from gold labels (paper, Section 4.2).

What a model wrote for a run waits in the agent's folder `pending/`, a file each, until a person has confirmed it. Then
it is a demonstration, which models are shown for runs that are like it.
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

from guardagent._support.content import shipped_folder
from guardagent._support.files import parse_json, read_text
from guardagent.errors import ContentError, InputError, UnknownNameError
from guardagent.programs.memory.additions import known_demonstrations, store_demonstrations
from guardagent.programs.memory.agents import AgentMemory
from guardagent.programs.memory.demonstrations import Demonstration, parse_demonstration
from guardagent.types import Verdict

Remember = Literal["no", "review", "always"]

PENDING = "pending"
MAX_PENDING = 1000
_MAX_BYTES = 10_000_000

_log = logging.getLogger("guardagent")


@dataclass(frozen=True, slots=True)
class PendingGuard:
    """A guard that was executed, and may become a demonstration."""

    id: str
    time: str
    label: int
    reasons: tuple[str, ...]
    demonstration: Demonstration

    def to_dict(self) -> dict[str, Any]:
        head = {"id": self.id, "time": self.time, "label": self.label, "reasons": list(self.reasons)}
        return head | {"demonstration": json.loads(self.demonstration.to_json())}


def learner(remember: Remember, agent: AgentMemory | None) -> Callable[[Demonstration, Verdict], None]:
    """What keeps an executed guard.

    Raises:
        InputError: there is no agent, or none of the user's own, to remember it for.
    """
    if remember not in get_args(Remember):
        raise UnknownNameError("remember", str(remember), get_args(Remember))
    if remember == "no":
        return lambda _found, _verdict: None
    if agent is None:
        raise InputError("nothing can be remembered without an agent; expected the name of one in your memory folder")
    if agent.path.resolve().is_relative_to(shipped_folder("memory").resolve()):
        raise InputError(
            f"agent {agent.name!r} is a shipped one, which does not grow; copy {agent.path} into a memory folder of "
            "yours, and name that"
        )

    def learn(found: Demonstration, verdict: Verdict) -> None:
        """Not to remember changes no verdict; it is only said."""
        try:
            _keep(agent.path, _candidate(found, verdict), at_once=remember == "always")
        except (InputError, OSError, UnicodeError) as error:
            _log.warning("an executed guard was not remembered: %s", error)

    return learn


def pending(folder: Path) -> list[PendingGuard]:
    """What waits for a person, oldest first.

    Args:
        folder: that of the agent.

    Raises:
        ContentError: a file is wrong.
    """
    waiting = [_read(path) for path in (folder / PENDING).glob("*.json")]
    return sorted(waiting, key=lambda candidate: (candidate.time, candidate.id))


def resolve(folder: Path, *, accepted: Collection[str] = (), rejected: Collection[str] = ()) -> None:
    """Makes demonstrations of the accepted candidates, and drops both kinds from those that wait.

    Raises:
        InputError: an id is not there, or is in both.
    """
    waiting = {candidate.id: candidate for candidate in pending(folder)}
    for name in (*accepted, *rejected):
        if name not in waiting:
            raise UnknownNameError("candidate", name, waiting, where=str(folder / PENDING))
        if name in accepted and name in rejected:
            raise InputError(f"candidate {name!r} is both accepted and rejected; expected one of them")
    store_demonstrations(folder, [waiting[name].demonstration for name in accepted])
    for name in (*accepted, *rejected):
        _file(folder, name).unlink(missing_ok=True)


def write_pending(path: Path, record: Mapping[str, Any], most: int) -> None:
    """Writes a record that waits for a person, for its owner's eyes alone, in a folder of at most so many.

    Raises:
        InputError: the folder is full.
        OSError: it cannot be written.
    """
    path.parent.mkdir(mode=0o700, exist_ok=True)
    if len(list(path.parent.glob("*.json"))) >= most:
        raise InputError(f"{path.parent}: {most} are waiting already; see `guardagent memory review`")
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


def _candidate(found: Demonstration, verdict: Verdict) -> PendingGuard:
    digest = hashlib.sha256(found.to_json().encode()).hexdigest()[:12]
    now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
    return PendingGuard(digest, now, verdict.label, verdict.reasons, found)


def _file(folder: Path, name: str) -> Path:
    return folder / PENDING / f"{name}.json"


def _read(path: Path) -> PendingGuard:
    record = parse_json(read_text(path, limit=_MAX_BYTES), path)
    try:
        head = (path.stem, str(record["time"]), int(record["label"]), tuple(map(str, record["reasons"])))
        inner = dict(record["demonstration"])
    except (KeyError, TypeError, ValueError):
        raise ContentError("is no executed guard; expected id, time, label, reasons and demonstration", path) from None
    return PendingGuard(*head, parse_demonstration(inner, path, 1))
