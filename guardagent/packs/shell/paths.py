"""Places in the file system that commands should not touch, and the kinds of danger in using them."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from guardagent.packs import is_credential_place
from guardagent.packs.shell.script import ShellCommand, Word

_SYSTEM = "bin boot dev etc lib lib32 lib64 opt proc root run sbin srv sys usr var System Library Applications".split()
_TEMPORARY = ("/tmp", "/var/tmp", "/private/tmp")  # noqa: S108 - paths that commands name
_ELSEWHERE = re.compile(rf"~|/(?:home|Users|{'|'.join(_SYSTEM)})(?:/|$)|(?:.*/)?\.\./")
_SAFE_DEVICES = ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/stdin", "/dev/tty", "/dev/zero", "/dev/fd")
_EXAMPLES = (
    "/etc/shadow", "/etc/sudoers", "~/.ssh/id_rsa", "~/.ssh/id_ed25519", "~/.aws/credentials", "~/.netrc",
    "~/.git-credentials", "/root/.ssh/id_rsa", "/home/user/.ssh/id_rsa", "/home/user/.aws/credentials",
    "~/.kube/config", "~/.bash_history", ".env", "/proc/self/environ", "/proc/1/environ",
)  # fmt: skip
_HOMES = re.compile(
    r"/|(?:~|/root|/(?:home|Users)(?:/[^/]+)?)(?:/\.config|/\.docker|/\.kube)?(?:/\*{0,2})?|/proc(?:/[^/]+)?"
)
_SECRET_NAME = re.compile(r"secret|token|pass|key|cred|auth|private|session|dsn|_url$|_uri$", re.IGNORECASE)
_HISTORY = re.compile(
    r"(?:^|/)\.(?:bash|zsh|sh|python|psql|mysql|sqlite|node_repl|irb|rediscli|lesshst)_?history$|(?:^|/)\.lesshst$|fish/fish_history$"
)
_STARTUP = re.compile(
    r"(?:^|/)\.(?:bashrc|bash_profile|bash_login|bash_logout|profile|zshrc|zprofile|zshenv|zlogin|inputrc|vimrc|"
    r"gitconfig|ssh/(?:authorized_keys2?|config|rc)|config/(?:autostart|systemd|fish).*|git/hooks/.*)$"
    r"|(?:^|/)\.git/(?:hooks|config|refs|HEAD|info|objects)|(?:^|/)\.(?:husky|github/workflows|circleci|buildkite)/"
    r"|(?:^|/)(?:\.gitlab-ci\.yml|Jenkinsfile|\.pre-commit-config\.yaml|azure-pipelines\.yml)$|(?:^|/)\.vscode/tasks\.json$|^/etc/(?:cron|profile|rc|init|systemd|ld\.so|pam)|LaunchAgents|LaunchDaemons|^/var/spool/cron"
)


class PlacedPath(str):  # noqa: SLOT000 - it has defaults
    """A resolved path, with what the policy says of its place.

    Attributes:
        is_allowed: whether it is in a further folder that may be changed.
        is_folder: whether it is such a folder itself.
        is_protected: whether it is in a path that must stay as it is.
        holds_protected: whether such a path is in it.
    """

    is_allowed = is_folder = is_protected = holds_protected = False


def places(workspace: str, folders: Iterable[str], protected: Iterable[str]) -> str:
    """The workspace as checks pass it on, with further folders and protected paths behind it."""
    more = [*(f"+{folder}" for folder in folders), *(f"-{path}" for path in protected)]
    return "\0".join((workspace, *more))


def workspace_of(places: str) -> str:
    return places.partition("\0")[0]


@lru_cache(64)
def _places(text: str) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """(the workspace, the further folders, the protected paths) of a text that `places` made."""
    workspace, *more = text.split("\0")
    root = posixpath.normpath(workspace) if workspace else ""
    folders = tuple(posixpath.normpath(entry[1:]) for entry in more if entry[0] == "+")
    return root, folders, tuple(_within(posixpath.normpath(entry[1:]), root) for entry in more if entry[0] == "-")


def _within(path: str, root: str) -> str:
    """A path relative to the workspace if it is inside."""
    is_inside = root and (path == root or path.startswith(root.rstrip("/") + "/"))
    return posixpath.relpath(path, root) if is_inside else path


def _placed(path: str, folders: tuple[str, ...], protected: tuple[str, ...]) -> PlacedPath:
    place = PlacedPath(path)
    place.is_folder = path.rstrip("/*") in folders
    place.is_allowed = place.is_folder or path.startswith(tuple(f"{folder}/" for folder in folders))
    meeting = [entry for entry in protected if _meets(_parts(path), _parts(entry))]
    place.is_protected = any(len(_parts(path)) >= len(_parts(entry)) for entry in meeting)
    place.holds_protected = bool(meeting)
    return place


def _parts(path: str) -> list[str]:
    return [part for at, part in enumerate(path.split("/")) if part not in ("", ".") or (at == 0 and path[:1] == "/")]


def _meets(path: list[str], entry: list[str]) -> bool:
    """Whether one path, which may be a pattern, is the other one or in it."""
    pairs = list(zip(path, entry, strict=False))
    return "**" in path or all(fnmatch.fnmatchcase(other, part) for part, other in pairs)


def resolved(path: str, folder: str | None, workspace: str) -> str | None:
    """A path without `.` and `..`, relative to the workspace if it is inside; None if it is unknown."""
    path = re.sub(r"^(?:file://|-+[\w-]*=)", "", path)
    if not path.startswith(("/", "~")):
        if folder is None:
            return None
        path = posixpath.join(folder, path)
    if path.startswith("~/"):
        path = "~" + posixpath.normpath("/" + path[2:]).rstrip("/") if ".." not in path else _outside_home(path)
    else:
        path = posixpath.normpath(path)
    path = re.sub(r"^//+", "/", path)
    root, folders, protected = _places(workspace)
    path = _within(path, root)
    return _placed(path, folders, protected) if folders or protected else path


def is_elsewhere(text: str) -> bool:
    """Whether a string in code names a place of the machine, rather than a route such as `/api/v1`."""
    return _ELSEWHERE.match(text) is not None


def _outside_home(path: str) -> str:
    inner = posixpath.normpath(path[2:])
    return "/" if inner.startswith("..") else f"~/{inner}"


def zone(path: str) -> str:
    """The zone of a resolved path: inside, temporary, device, startup, system, home or outside."""
    if path in _SAFE_DEVICES or path.startswith("/dev/fd/"):
        return "temporary"
    if _STARTUP.search(path):
        return "startup"
    if path.startswith("/dev"):
        return "device"
    if isinstance(path, PlacedPath) and path.is_allowed:
        return "temporary"
    if path in _TEMPORARY or path.startswith(tuple(f"{folder}/" for folder in _TEMPORARY)):
        return "temporary"
    if path.startswith("/"):
        first = path.split("/")[1]
        globbed = any(sign in first for sign in "*?[")
        return "system" if not first or globbed or first in _SYSTEM or path.count("/") == 1 else "outside"
    if path.startswith("~"):
        return "home" if path.count("/") < 2 else "outside"
    return "outside" if path == ".." or path.startswith("../") else "inside"


def is_secret(path: str) -> bool:
    """Whether a path can be that of credentials, or of the machine's sockets. A pattern can be if it matches some."""
    if re.match(r"/(?:var/)?run/docker\.sock$", path):
        return True
    if is_credential_place(path):
        return True
    patterns = {path, path.replace("**/", "")} - {"*", "**"} if any(sign in path for sign in "*?[") else ()
    return any(fnmatch.fnmatchcase(example, pattern) for example in _EXAMPLES for pattern in patterns)


def holds_secrets(folder: str) -> bool:
    """Whether a folder has credentials in it or in folders in it: a home, one of its settings, or a folder around."""
    return _HOMES.fullmatch(folder) is not None


def is_secret_name(name: str) -> bool:
    """Whether a variable of the environment is named like a credential."""
    return _SECRET_NAME.search(name) is not None


def is_history(path: str) -> bool:
    return bool(_HISTORY.search(path))


# --- kinds of danger


def paths_of(words: Iterable[Word], command: ShellCommand, workspace: str) -> Iterator[str | None]:
    for word in words:
        if not word:
            yield None
        for value in word:
            yield resolved(value, command.folder, workspace)


def changed(path: str | None) -> Iterator[str]:
    if path is None:
        yield "unreadable"
        return
    where = zone(path)
    if isinstance(path, PlacedPath) and path.is_protected:
        yield "protected"
    if path.startswith(("/dev/tcp/", "/dev/udp/")):
        yield "reverse_shell"
    elif where not in ("inside", "temporary"):
        yield {"home": "outside", "startup": "persistence"}.get(where, where)
    yield from secret_kinds(path)


def read(path: str | None) -> Iterator[str]:
    if path is None:
        yield "unreadable"
    elif path.startswith(("/dev/tcp/", "/dev/udp/")):
        yield "reverse_shell"
    else:
        yield from secret_kinds(path)


def secret_kinds(path: str) -> Iterator[str]:
    """The kinds of reading or changing a path."""
    if is_secret(path):
        yield "secrets"
    if is_history(path):
        yield "history"


def deleted(path: str | None) -> Iterator[str]:
    """As a change; whole folders are more."""
    if isinstance(path, PlacedPath) and path.holds_protected:
        yield "protected"
    if isinstance(path, PlacedPath) and path.is_folder:
        yield "delete"
    if path in (None, "/", "~", ".", "..", "*", "**", "./*", ".*", "~/*", "/*") or (path or "").endswith("/.git"):
        yield "delete" if path is not None else "unreadable"
    elif path is not None and zone(path) not in ("inside", "temporary"):
        yield "delete"
    if path == ".git" or (path or "").rstrip("/*") in ("/tmp", "/var/tmp"):  # noqa: S108
        yield "delete"
