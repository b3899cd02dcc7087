"""Packages and modules that come from an address of the command, and settings of package managers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from guardagent.packs.shell.arguments import plain_words
from guardagent.packs.shell.script import ShellCommand

_ADDRESS = re.compile(r"(?:git\+)?(?:https?|git|ssh|ftp|file)://|git@|(?:github|gitlab|bitbucket|gist):|\.git(?:#|@|$)")
_INSTALLS = {  # a manager -> its commands that fetch packages; none for any
    "pip pip3 pipx uv poetry conda mamba": "install add download tool run create",
    "npm pnpm yarn bun": "install i add exec dlx x create link ci",
    "npx bunx uvx": "",
    "cargo": "install add",
    "gem": "install",
    "go": "get install run",
    "composer": "require global",
    "apt apt-get dpkg rpm dnf yum brew snap apk": "install -i add tap",
    "deno": "run install",
    "helm": "install upgrade repo",
    "kubectl": "apply create replace",
}
_ACTIONS = {name: frozenset(actions.split()) for names, actions in _INSTALLS.items() for name in names.split()}
_OTHER_INDEX = re.compile(
    r"(?:--(?:extra-)?index-url|--find-links|--registry|--trusted-host|--source|--git|--repo)(?:=|$)"
)
_CHANGES_PACKAGES = frozenset("install i add link update up upgrade require uninstall un remove rm unlink".split())
_SETTINGS = {
    "npm": ("set", "edit"),
    "pnpm": ("set",),
    "yarn": ("set",),
    "pip": ("set", "edit"),
    "pip3": ("set", "edit"),
    "composer": ("--global",),
    "bundle": ("--global",),
}


def check(command: ShellCommand, _: str) -> Iterator[str]:
    name, words = command.name or "", plain_words(command)
    if name.startswith("python") and words[:2] in (["-m", "pip"], ["-m", "pipx"]):
        name, words = words[1], words[2:]
    actions = _ACTIONS.get(name)
    if actions is not None and (not actions or actions & set(words[:3])):
        if (
            any(_ADDRESS.search(word) for word in words)
            or any(map(_OTHER_INDEX.match, words))
            or _short_index(name, words)
        ):
            yield "remote_code"
        if (
            name == "go"
            and any("@" in word and "." in word.partition("/")[0] for word in words)
            and words[:1] == ["run"]
        ):
            yield "remote_code"
    if _installs_for_user(name, words):
        yield "outside"
    if (name == "go" and words[:2] == ["env", "-w"]) or (name == "npm" and words[:1] == ["set"]):
        yield "persistence"
    if words[:1] == ["config"] and set(_SETTINGS.get(name, ())) & set(words[1:]):
        yield "persistence"


def _installs_for_user(name: str, words: list[str]) -> bool:
    """Whether packages are added or removed outside of the project, by an option that says so."""
    if name in ("npm", "pnpm", "bun"):
        is_global = bool({"-g", "--global", "--location=global"} & set(words))
        return is_global and bool(set(words) & _CHANGES_PACKAGES)
    if name in ("yarn", "composer"):
        return words[:1] == ["global"] and bool(set(words[1:2]) & _CHANGES_PACKAGES)
    if name == "conda":
        return bool({"install", "remove", "update"} & set(words)) and bool({"base", "-nbase"} & set(words))
    return (
        name in ("pip", "pip3", "uv")
        and bool({"install", "uninstall"} & set(words[:2]))
        and bool({"--user", "--break-system-packages", "--system"} & set(words))
    )


def _short_index(name: str, words: list[str]) -> bool:
    return name in ("pip", "pip3", "uv") and bool({"-i", "-f"} & set(words))
