"""Lock files: the content that may run, by its hashes, in a file that the operator keeps elsewhere.

    {"guardagent_lock": 1, "files": {"program": {"ehragent/program.py": ["sha256:…"]}, "toolbox": {…}, …}}

A file is known by its kind, its name and its bytes, not by where it lies: a lock made in a checkout holds for what was
installed from it. The name keeps one locked file from taking the place of another.

| kind | named by |
|---|---|
| `agent` (request and specification), `program` | its folder and its name |
| `toolbox` | its path in the toolbox, private files too |
| `prompt`, `policy` | its name |

Demonstrations are not locked: they grow, and they are only ever shown to a model.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from guardagent._support.files import parse_json, read_text
from guardagent.errors import ContentError, InputError
from guardagent.programs.runtime.program_file import digest_of
from guardagent.sandbox.toolbox import Toolbox
from guardagent.sandbox.toolbox_sources import source_files

VERSION = 1
_MAX_BYTES = 10_000_000

Kind = Literal["agent", "program", "toolbox", "prompt", "policy"]


@dataclass(frozen=True, slots=True)
class Content:
    """A file that is about to be used."""

    kind: Kind
    name: str
    path: Path

    @property
    def digest(self) -> str:
        try:
            return digest_of(self.path.read_bytes())
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read: {error.strerror}; expected a file to lock") from None


@dataclass(slots=True)
class Lock:
    """What may run."""

    path: Path | str
    files: dict[str, dict[str, list[str]]] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path | str) -> Lock:
        """The lock of a file.

        Raises:
            InputError: it is missing, or no lock file.
        """
        value = parse_json(read_text(path, limit=_MAX_BYTES), path)
        if not isinstance(value, dict) or value.keys() != {"guardagent_lock", "files"}:
            raise ContentError("is no lock file; expected what `guardagent lock` writes", path)
        if value["guardagent_lock"] != VERSION:
            raise ContentError(f"is of version {value['guardagent_lock']!r}; expected version {VERSION}", path)
        return cls(path, _files(value["files"], path))

    @classmethod
    def of(cls, contents: Iterable[Content], path: Path | str) -> Lock:
        """A lock of some files."""
        lock = cls(path)
        for content in contents:
            digests = lock.files.setdefault(content.kind, {}).setdefault(content.name, [])
            if content.digest not in digests:
                digests.append(content.digest)
        return lock

    def require(self, contents: Iterable[Content]) -> None:
        """Makes sure that all of these may run.

        Raises:
            InputError: one does not stand in the lock file, or has changed since; the message names it.
        """
        for content in contents:
            digests = self.files.get(content.kind, {}).get(content.name)
            if digests is None:
                problem = f"does not stand in the lock file {self.path} ({content.kind} {content.name!r})"
            elif content.digest not in digests:
                problem = f"has changed since it was locked in {self.path} ({content.kind} {content.name!r})"
            else:
                continue
            raise InputError(f"{content.path}: {problem}; nothing was run. Lock it (guardagent lock) if it is right")

    def to_json(self) -> str:
        files = {kind: dict(sorted(names.items())) for kind, names in sorted(self.files.items())}
        return json.dumps({"guardagent_lock": VERSION, "files": files}, indent=2, ensure_ascii=False) + "\n"


def programs(*paths: Path) -> Iterator[Content]:
    """Guard programs."""
    for path in paths:
        yield Content("program", f"{path.resolve().parent.name}/{path.name}", path)


def agents(*folders: Path) -> Iterator[Content]:
    """What decides for known agents: request, specification, and the program where there is one."""
    for folder in folders:
        for name in ("request.md", "specification.md"):
            yield Content("agent", f"{folder.name}/{name}", folder / name)
        if (folder / "program.py").exists():
            yield from programs(folder / "program.py")


def toolboxes(*toolboxes: Toolbox) -> Iterator[Content]:
    """Every file of some toolboxes that may run."""
    for path in sorted({tool.path for toolbox in toolboxes for tool in toolbox.values()}):
        for source in source_files(path):
            yield Content("toolbox", source.relative_to(path.parent).as_posix(), source)


def prompts(*templates: Path) -> Iterator[Content]:
    """Templates."""
    for path in templates:
        yield Content("prompt", path.name, path)


def _files(value: Any, path: Path | str) -> dict[str, dict[str, list[str]]]:
    if not isinstance(value, dict) or not set(value) <= set(get_args(Kind)):
        raise ContentError(f"`files` is wrong; expected kinds among {', '.join(get_args(Kind))}", path)
    for names in value.values():
        lists = list(names.values()) if isinstance(names, dict) else [None]
        if not all(isinstance(digests, list) and all(isinstance(one, str) for one in digests) for digests in lists):
            raise ContentError("`files` is wrong; expected names, each with a list of digests", path)
    return value
