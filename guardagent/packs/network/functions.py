"""The functions of the pack's rules: the use of the network by shell commands, and files with credentials."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from guardagent.packs import is_credential_place, named_values, strings
from guardagent.packs.shell.commands import all_commands, plain_words
from guardagent.packs.shell.findings import shell_kinds
from guardagent.packs.shell.script import ShellCommand, require_parser
from guardagent.packs.web import is_known, plain_host

require_parser()
_COMMANDS = frozenset("command cmd script commands bashcommand shellcommand commandline argv code input".split())
_PATHS = frozenset("path paths file files filepath filename absolutepath notebookpath targetfile".split())
_CLIENTS = frozenset(
    "curl wget http https xh aria2c ssh scp sftp mosh ftp lftp telnet nc ncat netcat socat rclone dig nslookup host "
    "ping traceroute whois mail sendmail mutt aws gcloud gsutil az gh glab kubectl helm heroku vercel netlify flyctl "
    "twine ngrok cloudflared".split()
)
# A program -> its commands that use the network.
_ACTIONS = {
    "git": re.compile(
        r"(?:^| )(?:push|fetch|pull|clone|ls-remote|submodule (?:update|add)|remote update|send-email|lfs)\b"
    ),
    "rsync": re.compile(r"\S+:"),
    **dict.fromkeys(
        "npm pnpm yarn bun pip pip3 uv poetry pipx cargo gem bundle composer go mix".split(),
        re.compile(
            r"(?:^| )(?:install|i|ci|add|update|upgrade|publish|get|mod download|sync|fetch|download|push|login)\b"
        ),
    ),
    **dict.fromkeys(("docker", "podman"), re.compile(r"(?:^| )(?:pull|push|login|build)\b")),
    **dict.fromkeys("apt apt-get brew dnf yum apk".split(), re.compile(r"(?:^| )(?:install|update|upgrade|add)\b")),
    "openssl": re.compile(r"^s_client"),
}
_IN_CODE = re.compile(
    r"\b(?:requests|urllib|httpx|aiohttp|socket|http\.client|fetch\(|https?\.(?:get|request)|LWP|Net::HTTP|open-uri)"
)
_BUCKET = r"(?<![a-z0-9+.-])(?!(?:s3|gs|gcs|az|r2|b2)://)"  # no host: its client is judged by what it does
_URL = re.compile(
    _BUCKET + r"(?:[a-z][a-z0-9+.-]*://)(?:[^\s/@]*@)?(\[[0-9a-f:]+\]|[^\s/:?#'\"\\]+)",
    re.IGNORECASE,
)
_REMOTE = re.compile(r"(?:[\w.-]+@)?([\w-]+(?:\.[\w-]+)+):")
_LOCAL = re.compile(
    r"localhost|127(?:\.\d+){3}|\[?::1\]?|0\.0\.0\.0|host\.docker\.internal|[\w.-]+\.(?:localhost|local|test)"
)
# All addresses of the machine; a `*` is one for an option that says so, or with a port.
_LISTENS = re.compile(
    r"(?:--(?:host|bind|listen|addr(?:ess)?|ip)[= ]|-b |-H |(?:^| ))(?:0\.0\.0\.0|\[?::\]?|\*(?=:))(?::\d+)?(?: |$)"
    r"|--(?:host|bind|listen|addr(?:ess)?|ip)[= ]\*(?: |$)"
    r"|(?:^| )--(?:host(?: -|$)|bind_ip_all)|-m http\.server(?!.*(?:127\.|localhost))"
)
_MENTIONS = frozenset("grep egrep fgrep rg ag ack sed awk jq echo printf git gh find pgrep pkill test [ [[".split())


def network_use(arguments: dict[str, Any], hosts: Sequence[str]) -> list[str]:
    """The use of the network by a shell command: `network`, `other` hosts than those of a list, and `listens`."""
    network_use: set[str] = set()
    for text in _texts(arguments):
        network_use |= _of_script(text, tuple(hosts))
    return sorted(network_use)


def reads_secret(arguments: dict[str, Any]) -> bool:
    """Whether a shell command reads a file with credentials."""
    return any("secrets" in shell_kinds(text) for text in _texts(arguments))


def names_secret(arguments: dict[str, Any]) -> bool:
    """Whether a call names a file with credentials."""
    paths = (path for value in named_values(arguments, _PATHS) for path in strings(value) or ())
    return any(is_credential_place(path) for path in paths)


def _texts(arguments: dict[str, Any]) -> Iterator[str]:
    for value in named_values(arguments, _COMMANDS):
        if isinstance(value, list):
            yield " ".join(map(str, value))
        elif isinstance(value, str):
            yield value


@lru_cache(1024)
def _of_script(text: str, hosts: tuple[str, ...]) -> frozenset[str]:
    return frozenset(kind for command in all_commands(text) if command for kind in _of_command(command, hosts))


def _of_command(command: ShellCommand, hosts: tuple[str, ...]) -> Iterator[str]:
    name, words = command.name or "", plain_words(command)
    text = " ".join(words)
    is_address = name not in _MENTIONS and _LISTENS.search(text) is not None
    if is_address or (name in ("nc", "ncat", "netcat", "socat") and re.search(r"(?:^| )-\w*l|LISTEN", text)):
        yield "listens"
    action = _ACTIONS.get(name)
    code = "" if action is not None else f"{text} {command.text or ''}"
    if not (name in _CLIENTS or (action is not None and action.search(text)) or _IN_CODE.search(code)):
        return
    named = [
        plain_host(match)
        for word in (*words, command.text or "")
        for match in (*_URL.findall(word), *_REMOTE.findall(word))
    ]
    if name in ("ssh", "mosh", "ping", "nc", "ncat", "telnet", "curl", "wget", "http"):
        named += [plain_host(re.split("[/:]", word.rpartition("@")[2])[0]) for word in words[-2:] if _names_host(word)]
    if named and all(map(_LOCAL.fullmatch, named)):
        return
    yield "network"
    if hosts and not all(is_known(named_host, hosts) or _LOCAL.fullmatch(named_host) for named_host in named):
        yield "other"


def _names_host(word: str) -> bool:
    return bool(re.fullmatch(r"(?:[\w.-]+@)?(?:localhost|[\w-]+(?:\.[\w-]+)+)(?::\d+)?(?:/\S*)?", word))
