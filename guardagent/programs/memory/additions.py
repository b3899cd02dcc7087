"""Adds demonstrations to an agent's folder, safely among concurrent processes that may be killed.

They go to `demonstrations.jsonl` while it is small enough for review, and to a store from then on: see `retrieval`. An
acknowledged addition survives a crash.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from pathlib import Path

from guardagent._support.files import parse_json, read_json_lines
from guardagent._support.locks import folder_lock, replace_file
from guardagent.errors import ContentError, InputError
from guardagent.programs.memory.demonstrations import Demonstration, parse_demonstration, read_demonstrations
from guardagent.programs.memory.retrieval import own_store, store_of

FILE = "demonstrations.jsonl"
REVIEWABLE = 256_000
"""The maximal size of `demonstrations.jsonl` in bytes, after an addition."""


def add_demonstrations(folder: Path, source: Path | str) -> int:
    """Adds the demonstrations of a JSON Lines file to an agent's folder, all or none.

    Returns:
        The number of added demonstrations.

    Raises:
        InputError: the folder has no agent, or a demonstration is invalid or a duplicate.
    """
    if not (folder / "request.md").is_file():
        raise InputError(f"{folder}: is not the folder of an agent; expected 'request.md' and 'specification.md' in it")
    name = "standard input" if str(source) == "-" else source
    new: dict[Demonstration, int] = {}
    for line, record in read_json_lines(source):
        item = parse_demonstration(record, name, line)
        if item in new:
            raise ContentError("this demonstration exists already; expected a new one", name, line)
        new[item] = line
    for item in known_demonstrations(folder, new):
        raise ContentError("this demonstration exists already; expected a new one", name, new[item])
    return store_demonstrations(folder, list(new))


def store_demonstrations(folder: Path, found: Sequence[Demonstration]) -> int:
    """Adds the new ones of some demonstrations, all or none, and returns their number.

    Raises:
        InputError: the folder or store cannot be written.
    """
    for one in found:
        _validate(one)
    store = store_of(folder)
    if store is None:
        with folder_lock(folder):
            store = store_of(folder)  # another process may have just created it
            new = _unknown(_written(folder), found)
            if store is None and _fits(folder, new):
                return _append(folder, new)
            return (store or own_store(folder)).add(new)
    return store.add(_unknown(_written(folder), found))


def known_demonstrations(folder: Path, demonstrations: Collection[Demonstration]) -> list[Demonstration]:
    """Returns those of the demonstrations that an agent already has, in order."""
    written, store = _written(folder), store_of(folder)
    stored = store.known([one for one in demonstrations if one not in written]) if store else set()
    return [one for one in demonstrations if one in written or one in stored]


def storage_location(folder: Path) -> str:
    """Returns the path or address that the next addition goes to."""
    store = store_of(folder)
    return store.address.removeprefix("sqlite:") if store else str(folder / FILE)


def _written(folder: Path) -> frozenset[Demonstration]:
    """Returns the demonstrations of the file, cached until it changes, since additions come one by one."""
    try:
        status = (folder / FILE).stat()
    except FileNotFoundError:
        return frozenset()
    return _read((folder / FILE).absolute(), status.st_ino, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=4)
def _read(path: Path, *_state: int) -> frozenset[Demonstration]:
    return frozenset(read_demonstrations(path))


def _unknown(written: frozenset[Demonstration], found: Sequence[Demonstration]) -> list[Demonstration]:
    return [one for one in dict.fromkeys(found) if one not in written]


def _fits(folder: Path, new: Sequence[Demonstration]) -> bool:
    path = folder / FILE
    size = path.stat().st_size if path.exists() else 0
    return size + sum(len(one.to_json().encode()) + 1 for one in new) <= REVIEWABLE


def _append(folder: Path, new: Sequence[Demonstration]) -> int:
    path = folder / FILE
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    separator = "" if not old or old.endswith("\n") else "\n"
    if new:
        replace_file(path, old + separator + "".join(one.to_json() + "\n" for one in new))
    return len(new)


def _validate(one: Demonstration) -> None:
    """Rejects a demonstration that could not be read back."""
    name = "the demonstration to be added"
    try:
        parse_demonstration(parse_json(one.to_json().encode().decode(), name), name, None)
    except UnicodeEncodeError as error:
        raise ContentError(
            f"contains {error.object[error.start]!r}; expected text that can be encoded as UTF-8", name
        ) from None
