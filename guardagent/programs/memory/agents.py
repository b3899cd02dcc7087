"""The memory: one folder per known target agent (paper, Section 4.2).

NAME/request.md              the guard request, in natural language
NAME/specification.md        what the agent does, reads and writes; its front matter may list required checks
NAME/demonstrations.jsonl    past guards: agent_input, agent_output, plan (four steps), code; optional with a program
NAME/learned/                further demonstrations in a database; or demonstrations.url with the address of a store
NAME/program.py              a guard program for every run of that agent (optional)

New demonstrations go to `demonstrations.jsonl` while it is small enough for review, and to a store from then on. They
are added safely among concurrent processes that may be killed, and an acknowledged addition survives a crash.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from guardagent._support.files import (
    folder_lock,
    parse_json,
    parse_yaml,
    read_json_lines,
    read_text,
    replace_file,
    shipped_folder,
)
from guardagent.errors import ContentError, InputError, UnknownNameError, name_hint
from guardagent.programs.memory.retrieval import (
    Demonstration,
    DemonstrationCollection,
    own_store,
    parse_demonstration,
    read_demonstrations,
    store_of,
)
from guardagent.programs.program import RequiredCheck
from guardagent.programs.program_file import ProgramFile, read_program_file, whole_specification

_FRONT_MATTER = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_FRONT_KEYS = ("required_checks", "data")
# Malformed front matter, and required checks outside it, must be errors and not text.
_OPENING = re.compile(r"\s*(?:-{3,}|\+{3,}|`{3,})")
_STRAY = re.compile(r"^[ \t]*-?[ \t]*required_checks[ \t]*:", re.MULTILINE)
_FILES = ("request.md", "specification.md", "demonstrations.jsonl", "program.py")


@dataclass(frozen=True, slots=True)
class AgentMemory:
    """The memory of one target agent."""

    name: str
    path: Path
    request: str
    specification: str
    demonstrations: Sequence[Demonstration]
    program: str | None = None
    required: tuple[RequiredCheck, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    program_file: ProgramFile | None = None

    @property
    def whole_specification(self) -> str:
        """The specification with its front matter, as in the digest of a compiled program."""
        return whole_specification(self.specification, [check.text for check in self.required], self.data)

    @property
    def program_path(self) -> Path:
        return self.path / "program.py"


class Memory:
    """The agents in the given folders, then in the shipped one; the first folder with a name wins."""

    def __init__(self, *folders: Path | str) -> None:
        self._roots = [Path(folder) for folder in folders]
        for root in self._roots:
            if not root.is_dir():
                raise InputError(
                    f"{root}: memory folder does not exist; expected a folder with one sub-folder per agent"
                )
        self._roots.append(shipped_folder("memory"))

    def names(self) -> dict[str, Path]:
        """Returns agent name -> folder."""
        paths: dict[str, Path] = {}
        for root in self._roots:
            for folder in sorted(path for path in root.iterdir() if path.is_dir()):
                if any((folder / name).exists() for name in _FILES):
                    paths.setdefault(folder.name, folder)
        return paths

    def agent(self, name: str) -> AgentMemory:
        """Reads an agent by name.

        Raises:
            UnknownNameError: no folder has that name.
            ContentError: one of its files is invalid.
        """
        folders = self.names()
        if name not in folders:
            raise UnknownNameError("agent", name, folders, where=" or ".join(map(str, self._roots)))
        return load_agent(folders[name])


def load_agent(path: Path) -> AgentMemory:
    """Reads one agent's folder.

    Raises:
        InputError: a file is missing or invalid; with the line and the expected content.
    """
    front, specification = read_specification(path / "specification.md")
    program = path / "program.py"
    program_file = read_program_file(program) if program.exists() else None
    return AgentMemory(
        name=path.name,
        path=path,
        request=read_text(path / "request.md").strip(),
        specification=specification,
        demonstrations=_demonstrations(path, needed=program_file is None),
        program=program_file.source if program_file else None,
        required=tuple(front["required_checks"]),
        data=front["data"],
        program_file=program_file,
    )


def read_specification(path: Path) -> tuple[dict[str, Any], str]:
    """Returns (front matter, text) of a specification: the parsed `required_checks`, and the `data` they use.

    Raises:
        ContentError: the front matter is invalid, has no end, or is not at the beginning.
    """
    text = read_text(path).replace("\r\n", "\n").replace("\r", "\n")
    match = _FRONT_MATTER.match(text)
    body = text[match.end() :] if match else text
    stray = _STRAY.search(body) or (None if match else _OPENING.match(body))
    if stray:
        raise ContentError(
            f"{stray[0].strip()!r} is not front matter at this position; expected the file to begin with a line '---', "
            "then 'required_checks:' and 'data:', then a line '---'",
            path,
            text[: len(text) - len(body) + stray.end()].count("\n") + 1,
        )
    values = parse_yaml(match[1], path, first_line=2) if match else {}
    return _front_matter(values, path), body.strip()


def _front_matter(values: Any, path: Path) -> dict[str, Any]:
    if not isinstance(values, dict):
        raise ContentError("the front matter is not a mapping; expected 'required_checks:' and 'data:'", path, 2)
    for key in values:
        if key not in _FRONT_KEYS:
            raise ContentError(f"unknown key {key!r}{name_hint(str(key), _FRONT_KEYS)}", path, 2)
    data, checks = values.get("data", {}), values.get("required_checks", [])
    if not isinstance(data, dict) or not all(isinstance(name, str) for name in data):
        raise ContentError("key 'data' is not a mapping with string keys; expected names and values", path, 2)
    if not isinstance(checks, list) or not all(isinstance(check, str) for check in checks):
        raise ContentError(
            "key 'required_checks' is not a list of strings; expected calls such as '- check_access(...)', or []",
            path,
            2,
        )
    return {"data": data, "required_checks": [RequiredCheck.parse(check, data, path) for check in checks]}


def _demonstrations(folder: Path, *, needed: bool) -> Sequence[Demonstration]:
    """Returns the demonstrations of the file and of the store; an agent without a program needs either."""
    path, store = folder / "demonstrations.jsonl", store_of(folder)
    written = tuple(read_demonstrations(path)) if path.exists() or (needed and store is None) else ()
    return written if store is None else DemonstrationCollection(written, store)


# --- additions

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


def store_demonstrations(folder: Path, demonstrations: Sequence[Demonstration]) -> int:
    """Adds the new ones of some demonstrations, all or none, and returns their number.

    Raises:
        InputError: the folder or store cannot be written.
    """
    for demonstration in demonstrations:
        _validate(demonstration)
    store = store_of(folder)
    if store is None:
        with folder_lock(folder):
            store = store_of(folder)  # another process may have just created it
            new = _unknown(_written(folder), demonstrations)
            if store is None and _fits(folder, new):
                return _append(folder, new)
            return (store or own_store(folder)).add(new)
    return store.add(_unknown(_written(folder), demonstrations))


def known_demonstrations(folder: Path, demonstrations: Collection[Demonstration]) -> list[Demonstration]:
    """Returns those of the demonstrations that an agent already has, in order."""
    written, store = _written(folder), store_of(folder)
    stored = (
        store.known([demonstration for demonstration in demonstrations if demonstration not in written])
        if store
        else set()
    )
    return [demonstration for demonstration in demonstrations if demonstration in written or demonstration in stored]


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


def _unknown(written: frozenset[Demonstration], demonstrations: Sequence[Demonstration]) -> list[Demonstration]:
    return [demonstration for demonstration in dict.fromkeys(demonstrations) if demonstration not in written]


def _fits(folder: Path, new: Sequence[Demonstration]) -> bool:
    path = folder / FILE
    size = path.stat().st_size if path.exists() else 0
    return size + sum(len(demonstration.to_json().encode()) + 1 for demonstration in new) <= REVIEWABLE


def _append(folder: Path, new: Sequence[Demonstration]) -> int:
    path = folder / FILE
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    separator = "" if not old or old.endswith("\n") else "\n"
    if new:
        replace_file(path, old + separator + "".join(demonstration.to_json() + "\n" for demonstration in new))
    return len(new)


def _validate(demonstration: Demonstration) -> None:
    """Rejects a demonstration that could not be read back."""
    name = "the demonstration to be added"
    try:
        parse_demonstration(parse_json(demonstration.to_json().encode().decode(), name), name, None)
    except UnicodeEncodeError as error:
        raise ContentError(
            f"contains {error.object[error.start]!r}; expected text that can be encoded as UTF-8", name
        ) from None
