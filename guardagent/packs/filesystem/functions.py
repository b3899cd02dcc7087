"""The functions of the pack's rules."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from guardagent.packs import is_credential_place, plain_name, strings
from guardagent.packs.filesystem import FilePlace, places, roots, runs_later

_PATHS = frozenset(
    "path paths file files filepath filepaths filename filenames target targets targetfile targetpath "
    "targetdirectory source sources "
    "sourcepath sourcefile destination destinationpath destinationfile dest destpath dst dstpath src srcpath from "
    "to oldpath newpath "
    "oldname newname oldfile newfile frompath topath uri uris notebookpath relativepath absolutepath "
    "relativeworkspacepath outputpath "
    "inputpath outputfile inputfile location link linkpath linkname symlink glob include includes includepattern "
    "pathname fullpath document key".split()
)
_FOLDERS = frozenset(
    "directory directories dir dirpath dirname directorypath folder folderpath foldername root rootpath rootdir "
    "basepath basedir base cwd "
    "workdir workingdirectory workingdir parent parentpath parentdirectory".split()
)
_CONTENTS = frozenset(
    "content contents text filetext data body oldstr newstr oldstring newstring oldtext newtext insert inserttext "
    "search replace replacement "
    "query pattern regex description instruction instructions explanation codeedit message edits encoding mode "
    "command action operation "
    "reason thought newsource type".split()
)
_PATCHES = frozenset("patch diff patchtext input".split())
_PATH = re.compile(r"/|~|\.\.|file:|\\\\|[A-Za-z]:\\")  # in an argument with another name
_WITHOUT_PATH = ("list", "search")
_ACTIONS = frozenset("command action operation op method mode".split())
_READING = re.compile(
    r"(?:view|read|open|get|cat|show|list|ls|search|find|stat|info|exists|tree|r|rb|load|head|tail)(?:_.*)?$",
    re.IGNORECASE,
)
_REMOVING = re.compile(r"(?:delete|remove|rm|rmdir|unlink|move|rename|mv|trash)(?:_.*)?$", re.IGNORECASE)
_PATCHED = re.compile(
    r"^(?:\+\+\+ |--- |\*\*\* (?:Add|Update|Delete) File: |\*\*\* Move to: |rename (?:from|to) |copy (?:from"
    r"|to) )(?:[ab]/)?([^\t\n\r]+)",
    re.MULTILINE,
)


def file_findings(arguments: dict[str, Any], action: str, workspace: str, folders: Sequence[str]) -> list[str]:
    """The kinds of danger in the arguments of a call that uses files; without a path, it is unreadable.

    Args:
        arguments: the arguments; the paths are `path`, `file_path`, `source`, ...
        action: list, search, read, write or remove; `any` if the arguments say it, or have a patch.
        workspace: the absolute folder that may be changed; empty for the working folder of this process.
        folders: further ones.
    """
    inside = roots(workspace, tuple(folders))
    if action == "any":
        action = _action(arguments)
    values = list(_values(arguments, action))
    if not values:
        return [] if action in _WITHOUT_PATH else ["unreadable"]
    bases = [value for folder, value in values if folder and isinstance(value, str)]
    kinds: set[str] = set()
    for folder, value in values:
        texts = strings(value)
        kinds |= {"unreadable"} if texts is None else set()
        for text in texts or ():
            for base in ("",) if folder else (*bases, *([] if bases else [""])):
                kinds.update(_of_path(text, base, action, inside))
    return sorted(kinds)


def _action(arguments: Mapping[str, Any]) -> str:
    values = [value for key, value in arguments.items() if plain_name(key) in _ACTIONS]
    if values and all(isinstance(value, str) and _READING.match(value) for value in values):
        return "read"
    return "remove" if any(isinstance(value, str) and _REMOVING.match(value) for value in values) else "write"


def _values(arguments: Any, action: str) -> Iterator[tuple[bool, Any]]:
    """The paths among arguments at any depth, with whether each is a folder that others are relative to."""
    if isinstance(arguments, list | tuple):
        for inner in arguments:
            yield from _values(inner, action)
    elif isinstance(arguments, Mapping):
        for key, value in arguments.items():
            yield from _of_argument(plain_name(key), value, action)


def _of_argument(name: str, value: Any, action: str) -> Iterator[tuple[bool, Any]]:
    folder = name in _FOLDERS
    if folder or name in _PATHS or (name == "pattern" and action == "list"):
        if isinstance(value, list) and any(isinstance(entry, Mapping) for entry in value):
            yield from _values(value, action)
        elif value not in (None, "", []) or not (folder or action in _WITHOUT_PATH):
            yield folder, value
    elif name in _PATCHES and isinstance(value, str):
        yield from ((False, path.strip()) for path in _PATCHED.findall(value) if path.strip() != "/dev/null")
    elif isinstance(value, str):
        if name not in _CONTENTS and _PATH.match(value):
            yield False, value
    elif name not in _CONTENTS or name in ("edits", "data", "input"):
        yield from _values(value, action)


def _of_path(text: str, base: str, action: str, inside: tuple[str, ...]) -> Iterator[str]:
    file_places = places(text, base, inside) if text.strip() else None
    if file_places is None:
        yield "unreadable"
    for place in file_places or ():
        yield from _of_place(place, action)


def _of_place(place: FilePlace, action: str) -> Iterator[str]:
    changes = action in ("write", "remove")
    if not place.root:
        yield "outside" if changes else "outside_read"
    if is_credential_place(place.lower):
        yield "secrets"
    if changes and runs_later(place.lower):
        yield "later"
    if action == "remove" and (place.lower in (".", ".git") or any(sign in place.path for sign in "*?")):
        yield "delete"
