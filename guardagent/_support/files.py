"""Files: those of users, locks, the shipped content; and random identifiers.

- Every mistake in a user's file is an error that names the file, the line and what was expected.
- A lock admits one writer at a time among threads and processes.
- The shipped content (toolbox, memory, benchmarks) is inside a wheel, or beside the package in a checkout.
- Random identifiers need no call of the operating system each: it would let other threads run first.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections import deque
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from guardagent._support import json_values
from guardagent.errors import ContentError, InputError, UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Iterator


MAX_BYTES = 1_000_000  # of one agent input or output log; larger than any known real one
MAX_DATA_BYTES = 1_000_000_000


def read_text(path: Path | str, *, limit: int = MAX_BYTES, may_be_blank: bool = False) -> str:
    """Returns the text of a file, or of standard input for `-`.

    Raises:
        InputError: it is missing, a folder, unreadable, empty, larger than `limit` bytes, or not UTF-8 text.
    """
    data = _standard_input(limit) if str(path) == "-" else read_bytes(Path(path), limit)
    name = "standard input" if str(path) == "-" else str(path)
    if len(data) > limit:
        raise ContentError(f"has more than {limit:,} bytes; expected at most that many", name)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ContentError(f"byte {error.start} is not UTF-8; expected UTF-8 text", name, line) from None
    if "\0" in text:
        raise ContentError("contains zero bytes; expected text, not binary data", name)
    if not may_be_blank and not text.strip():
        raise ContentError("is empty; expected text", name)
    return text


def save_text(path: Path | str, text: str, *, mode: int = 0o666) -> None:
    """Writes a temporary file and renames it; `mode` are its permissions, before the umask.

    Raises:
        InputError: it cannot be written.
    """
    save_bytes(path, text.encode("utf-8"), mode=mode)


def save_bytes(path: Path | str, content: bytes, *, mode: int = 0o666) -> None:
    """Writes bytes to a temporary file and renames it, as `save_text` does."""
    import secrets

    path = Path(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(content)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise InputError(f"{path}: cannot be written: {error.strerror}; expected a writable folder") from None


def _standard_input(limit: int) -> bytes:
    if sys.stdin is None:
        raise InputError("standard input: is closed; expected text")
    return sys.stdin.buffer.read(limit + 1)


def read_bytes(path: Path, limit: int) -> bytes:
    """Returns the bytes of a file; at most one more than the limit.

    Raises:
        InputError: it is missing, a folder or unreadable.
    """
    try:
        if path.is_dir():
            raise InputError(f"{path}: is a folder; expected a file")
        with path.open("rb") as file:
            return file.read(limit + 1)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None


def require_regular(*paths: Path) -> None:
    """Requires files that can be read again: a pipe would wait for another writer.

    Raises:
        InputError: one of them is a pipe, a socket or a device.
    """
    for path in paths:
        if path.exists() and not path.is_file():
            raise InputError(f"{path}: is not a regular file, so it cannot be read again; expected one")


def parse_json(text: str, path: Path | str, line: int | None = None) -> Any:
    """Returns the value of a strict JSON string: see `json_values.loads`."""
    try:
        return json_values.loads(text)
    except json.JSONDecodeError as error:
        raise ContentError(json_problem(error), path, (line or 1) + error.lineno - 1) from None
    except ValueError as error:
        raise ContentError(json_problem(error), path, line) from None


def json_problem(error: ValueError) -> str:
    """Says why a string is not strict JSON."""
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON at column {error.colno}: {error.msg}"
    return f"not acceptable JSON: {error}"


def read_json_lines(path: Path | str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields (line number, object) for each line of a JSON Lines file and skips blank lines."""
    text = read_text(path, limit=MAX_DATA_BYTES)
    # Only "\n" separates JSON Lines: strings may hold U+2028 and the like, at which splitlines() would split.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        value = parse_json(line, path, number)
        if not isinstance(value, dict):
            raise ContentError(f"is a JSON {type(value).__name__}; expected an object", path, number)
        yield number, value


def parse_yaml(text: str, path: Path | str, first_line: int = 1) -> Any:
    """Returns the value of a YAML string (safe subset). A duplicate key is an error."""
    import yaml

    class Loader(yaml.SafeLoader):
        pass

    def mapping(loader: yaml.SafeLoader, node: yaml.MappingNode) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = str(key_node.value)
            if key in seen:
                raise ContentError(f"key {key!r} appears twice", path, key_node.start_mark.line + first_line)
            seen.add(key)
        return loader.construct_mapping(node, deep=True)

    Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)
    try:
        return yaml.load(text, Loader)  # noqa: S506 - a subclass of SafeLoader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        at = mark.line + first_line if mark else first_line
        raise ContentError(f"not YAML: {getattr(error, 'problem', None) or error}", path, at) from None
    except (ValueError, RecursionError) as error:  # an invalid date or number, or endless nesting
        raise ContentError(f"not acceptable YAML: {error}", path, first_line) from None


_NAME = ".lock"


@contextlib.contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Holds a folder's lock. The system releases it when the holder ends, however it ends.

    Raises:
        InputError: the folder cannot be written.
    """
    import fcntl

    try:
        handle = os.open(folder / _NAME, os.O_WRONLY | os.O_CREAT, 0o600)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror}") from None
    with os.fdopen(handle, "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def shared_folder_lock(folder: Path) -> Iterator[None]:
    """Holds a lock on a folder like `folder_lock`, without a file; other users of the machine can hold it too.

    Raises:
        InputError: the folder cannot be read.
    """
    import fcntl

    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise InputError(f"{folder}: cannot be read: {error.strerror}") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def replace_file(path: Path, text: str) -> None:
    """Writes a temporary file and renames it: a crash, even of the machine, leaves the old or the new file."""
    temporary = path.with_suffix(".new")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Flushes a folder to disk, so that its renames survive a crash of the machine."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


_PACKAGE = Path(__file__).resolve().parents[1]


def shipped_folder(name: str) -> Path:
    """Returns the folder of the shipped content `name`.

    Raises:
        InputError: this installation does not have it.
    """
    if (bundled := _PACKAGE / "_content" / name).is_dir():
        return bundled
    root = _PACKAGE.parent
    if (root / "pyproject.toml").is_file() and (root / name).is_dir():
        return root / name
    raise InputError(f"the folder '{name}/' is not part of this installation; run this in a checkout of the project")


def shipped_packs() -> list[str]:
    """Returns the names of the shipped packs."""
    return sorted(path.parent.name for path in (_PACKAGE / "packs").glob("*/policy.yaml"))


def shipped_pack(name: str) -> Path:
    """Returns the folder of a shipped pack.

    Raises:
        UnknownNameError: there is no pack with this name.
    """
    known = shipped_packs()
    if name not in known:
        raise UnknownNameError("pack", name, known)
    return _PACKAGE / "packs" / name


@cache
def is_in_pack(path: Path) -> bool:
    """Whether a file is one of a shipped pack."""
    return _PACKAGE / "packs" in path.parents


_BYTES = 8
_READY = 128

_ready: deque[str] = deque()
os.register_at_fork(after_in_child=_ready.clear)  # a child would give the same ones


def random_id() -> str:
    """Returns 16 random hexadecimal digits of the operating system."""
    try:
        return _ready.pop()
    except IndexError:
        made = os.urandom(_BYTES * _READY).hex()
        digits = 2 * _BYTES
        _ready.extend(made[at : at + digits] for at in range(digits, len(made), digits))
        return made[:digits]
