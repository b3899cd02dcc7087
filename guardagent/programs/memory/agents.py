"""The memory: one folder per known target agent (paper, Section 4.2).

NAME/request.md              the guard request, in natural language
NAME/specification.md        what the agent does, reads and writes; its front matter may list required checks
NAME/demonstrations.jsonl    past guards: agent_input, agent_output, plan (four steps), code; optional with a program
NAME/learned/                further demonstrations in a database; or demonstrations.url with the address of a store
NAME/program.py              a guard program for every run of that agent (optional)
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from guardagent._support.content import shipped_folder
from guardagent._support.files import parse_yaml, read_text
from guardagent.errors import ContentError, InputError, UnknownNameError, name_hint
from guardagent.programs.memory.additions import add_demonstrations
from guardagent.programs.memory.demonstrations import (
    PLAN_STEPS,
    Demonstration,
    parse_demonstration,
    read_demonstrations,
)
from guardagent.programs.memory.retrieval import DemonstrationCollection, retrieve, store_of
from guardagent.programs.runtime.program_file import ProgramFile, read_program_file, whole_specification
from guardagent.programs.runtime.required_checks import RequiredCheck

__all__ = [
    "PLAN_STEPS",
    "AgentMemory",
    "Demonstration",
    "Memory",
    "add_demonstrations",
    "load_agent",
    "parse_demonstration",
    "read_demonstrations",
    "read_specification",
    "retrieve",
]

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
        found: dict[str, Path] = {}
        for root in self._roots:
            for folder in sorted(path for path in root.iterdir() if path.is_dir()):
                if any((folder / name).exists() for name in _FILES):
                    found.setdefault(folder.name, folder)
        return found

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
