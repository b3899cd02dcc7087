"""Credentials and the history of commands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from guardagent.packs.shell.arguments import copies_example, operands, options, plain_words
from guardagent.packs.shell.effects import paths_of, secret_kinds
from guardagent.packs.shell.listings import PICKS_SECRETS
from guardagent.packs.shell.paths import holds_secrets, resolved
from guardagent.packs.shell.script import ShellCommand

_NO_READERS = ("git", "mkdir", "rmdir", "echo", "printf", "test", "[", "[[", "ls", "stat")
_CONTAINERS = ("docker", "podman", "nerdctl")  # their `-v FOLDER:/PLACE`
_METADATA = ("169.254.169.254", "metadata.google.internal", "[fd00:ec2::254]")
_KEY_STORES = {
    "security": ("find-generic-password", "find-internet-password", "dump-keychain"),
    "secret-tool": ("lookup", "search"),
    "pass": ("show",),
    "gpg": ("--export-secret-keys", "--export-secret-subkeys"),
}


def check(command: ShellCommand, workspace: str) -> Iterator[str]:
    name, words = command.name or "", plain_words(command)
    if name not in _NO_READERS and not copies_example(command):
        for word in words:
            value = word.rpartition("=")[2] or word
            yield from _of_word(value.partition(":/")[0] if name in _CONTAINERS else value, command, workspace)
    if _reads_whole_folders(command) or (name == "find" and _reads_secrets_found(words)):
        for path in paths_of(operands(command), command, workspace):
            if path is not None and holds_secrets(path):
                yield "secrets"
    if _prints_environment(command) or set(words) & set(_KEY_STORES.get(name, ())):
        yield "secrets"
    if name == "history" or (name == "set" and "history" in words):
        yield "history"
    if name == "unset" and any(word.startswith("HIST") for word in words):
        yield "history"


def _of_word(word: str, command: ShellCommand, workspace: str) -> Iterator[str]:
    path = resolved(word.lstrip("@").rpartition("@")[2], command.folder, workspace)
    yield from secret_kinds(path or "")
    if any(one in word for one in _METADATA):
        yield "secrets"
    if re.search(r"/dev/(?:tcp|udp)/", word):
        yield "reverse_shell"


def _reads_whole_folders(command: ShellCommand) -> bool:
    name = command.name or ""
    if name in ("grep", "egrep", "fgrep", "cp", "zip", "scp", "diff"):
        return any(re.match(r"-[a-zA-Z]*[rR]|--(?:dereference-)?recursive", one) for one in options(command)) or (
            name == "cp" and bool({"-a", "--archive"} & options(command))
        )
    return name in ("rg", "ag", "ack", "tar", "rsync", "7z")


def _reads_secrets_found(words: list[str]) -> bool:
    """Whether `find` runs a command for all files, or for those with a name like that of a credential."""
    names = [after for one, after in pairwise(words) if one in ("-name", "-iname", "-path", "-regex")]
    runs = any(one.startswith(("-exec", "-ok")) for one in words)
    return runs and (not names or any(map(PICKS_SECRETS.search, names)))


def _prints_environment(command: ShellCommand) -> bool:
    if command.name in ("env", "set"):
        return len(command.words) == 1
    return command.name in ("printenv", "export", "declare", "typeset") and not operands(command)
