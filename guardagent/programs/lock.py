"""Lock files: the hashes of the content that may run, in a file that the operator keeps in another place.

    {"guardagent_lock": 1, "files": {"program": {"ehragent/program.py": ["sha256:…"]}, "toolbox": {…}, …}}

A lock identifies a file by kind, name and bytes, not by path, so a lock from a checkout holds for its installation. The
name keeps one locked file from replacing another.

| kind | named by |
|---|---|
| `agent` (request and specification), `program` | its folder and its name |
| `toolbox` | its path in the toolbox, private files too |
| `prompt`, `policy`, `review` (of a policy) | its name |

Demonstrations are not locked: they grow, and only a model reads them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from guardagent._support.files import parse_json, read_text
from guardagent.errors import ContentError, InputError
from guardagent.programs.program_file import digest_of
from guardagent.sandbox.toolbox import Toolbox, source_files

VERSION = 1
_MAX_BYTES = 10_000_000

Kind = Literal["agent", "program", "toolbox", "prompt", "policy", "review"]


@dataclass(frozen=True, slots=True)
class Content:
    """A file that is about to run or be read."""

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
    """The content that may run."""

    path: Path | str
    files: dict[str, dict[str, list[str]]] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path | str) -> Lock:
        """Reads a lock file.

        Raises:
            InputError: the file is missing or is not a lock file.
        """
        value = parse_json(read_text(path, limit=_MAX_BYTES), path)
        if not isinstance(value, dict) or value.keys() != {"guardagent_lock", "files"}:
            raise ContentError("is not a lock file; expected the output of 'guardagent lock'", path)
        if value["guardagent_lock"] != VERSION:
            raise ContentError(
                f"has version {value['guardagent_lock']!r}; expected {VERSION}; write it again with 'guardagent lock'",
                path,
            )
        return cls(path, _files(value["files"], path))

    @classmethod
    def of(cls, contents: Iterable[Content], path: Path | str) -> Lock:
        """Creates a lock of the given files."""
        lock = cls(path)
        for content in contents:
            digests = lock.files.setdefault(content.kind, {}).setdefault(content.name, [])
            if content.digest not in digests:
                digests.append(content.digest)
        return lock

    def require(self, contents: Iterable[Content]) -> None:
        """Checks that all of the given files are locked and unchanged.

        Raises:
            InputError: a file is not in the lock file, or has changed since; the message names it.
        """
        for content in contents:
            digests = self.files.get(content.kind, {}).get(content.name)
            if digests is None:
                problem = f"is not in the lock file '{self.path}' ({content.kind} {content.name!r})"
            elif content.digest not in digests:
                problem = f"has changed since it was locked in '{self.path}' ({content.kind} {content.name!r})"
            else:
                continue
            raise InputError(f"{content.path}: {problem}; nothing was run. Review it, then lock it: 'guardagent lock'")

    def to_json(self) -> str:
        files = {kind: dict(sorted(names.items())) for kind, names in sorted(self.files.items())}
        return json.dumps({"guardagent_lock": VERSION, "files": files}, indent=2, ensure_ascii=False) + "\n"


def programs(*paths: Path) -> Iterator[Content]:
    """Yields the content of guard programs."""
    for path in paths:
        yield Content("program", f"{path.resolve().parent.name}/{path.name}", path)


def agents(*folders: Path) -> Iterator[Content]:
    """Yields the content of known agents: request, specification, and the program if any."""
    for folder in folders:
        for name in ("request.md", "specification.md"):
            yield Content("agent", f"{folder.name}/{name}", folder / name)
        if (folder / "program.py").exists():
            yield from programs(folder / "program.py")


def toolboxes(*toolboxes: Toolbox) -> Iterator[Content]:
    """Yields every source file of the given toolboxes."""
    for path in sorted({tool.path for toolbox in toolboxes for tool in toolbox.values()}):
        for source in source_files(path):
            yield Content("toolbox", source.relative_to(path.parent).as_posix(), source)


def prompts(*templates: Path) -> Iterator[Content]:
    """Yields the content of prompt templates."""
    for path in templates:
        yield Content("prompt", path.name, path)


def _files(value: Any, path: Path | str) -> dict[str, dict[str, list[str]]]:
    if not isinstance(value, dict) or not set(value) <= set(get_args(Kind)):
        raise ContentError(f"key 'files' is invalid; expected kinds among {', '.join(map(repr, get_args(Kind)))}", path)
    for names in value.values():
        lists = list(names.values()) if isinstance(names, dict) else [None]
        if not all(
            isinstance(digests, list) and all(isinstance(digest, str) for digest in digests) for digests in lists
        ):
            raise ContentError("key 'files' is invalid; expected names, each with a list of digests", path)
    return value
