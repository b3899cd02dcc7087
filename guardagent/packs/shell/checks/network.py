"""Files and shells that leave the machine."""

from __future__ import annotations

import re
from collections.abc import Iterator

from guardagent.packs.shell.arguments import plain_words
from guardagent.packs.shell.script import ShellCommand

_SOCKETS = ("nc", "ncat", "netcat", "socat", "telnet")
_TRANSFERS = ("sftp", "ftp", "lftp")
_SHELL_SOCKET = re.compile(r"(?:^| )-\w*[ecl]|exec:|system:|--exec|--sh-exec|listen", re.IGNORECASE)
_CURL_FILES = re.compile(r"(?:^| )(?:-T|--upload-file)|(?:^| )(?:-d|--data\S*|-F|--form) ?\S*@")
_REMOTE = re.compile(r"[\w.-]+@?[\w.-]*:")


_CLOUD = {
    "aws": re.compile(r"s3 (?:cp|mv|sync) (?!s3:)|s3api put-object"),
    "gsutil": re.compile(r"(?:-m )?(?:cp|mv|rsync) (?!gs:)"),
    "gcloud": re.compile(r"storage (?:cp|mv|rsync) (?!gs:)|compute scp"),
    "az": re.compile(r"storage (?:blob|file|fs) .*upload"),
    "rclone": re.compile(r"(?:copy|sync|move|copyto|moveto|serve)\b"),
    "s3cmd": re.compile(r"put|sync"),
    "kubectl": re.compile(r"cp .*\S+:"),
    "docker": re.compile(r"push\b"),
    "twine": re.compile(r"upload"),
    "npm": re.compile(r"publish"),
    "cargo": re.compile(r"publish"),
    "gem": re.compile(r"push"),
    "gh": re.compile(r"gist create|release upload|secret set"),
}


_HERE = re.compile(r"(?:https?://)?(?:localhost|127\.0\.0\.1|0\.0\.0\.0)(?::\d+)?(?:[/?][^@$]*)?")
_SERVER = re.compile(r"-m (?:http\.server|SimpleHTTPServer)")
_LOCAL = re.compile(r" (?:-b|--bind)[ =](?:localhost|127\.0\.0\.1|::1)(?: |$)")
_OTHER_HOST = re.compile(
    r"://|^[\w-]+(?:\.[\w-]+)+(?::\d+)?(?:[/?]|$)|^-(?:x|-proxy|-connect-to|-resolve|K|-config|L)", re.ASCII
)


def _sends_file(command: ShellCommand) -> bool:
    """Whether HTTPie sends a file: `@file`, `field@file`, `field:=@file`, or its standard input."""
    has_file = any(re.match(r"(?:[\w.-]*:?=?)@", word) for word in plain_words(command))
    return has_file or bool(command.sources or command.reads)


def _stays_here(words: list[str]) -> bool:
    """Whether all addresses of a command are of this machine."""
    here = [word for word in words if _HERE.fullmatch(word)]
    return bool(here) and not any(_OTHER_HOST.search(word) for word in words if word not in here)


def check(command: ShellCommand, _: str) -> Iterator[str]:
    name, text = command.name or "", " ".join(plain_words(command))
    if name in ("ssh", "mosh", "autossh"):
        yield "reverse_shell" if re.search(r"(?:^| )-\w*[RLDwN]", text) else "upload"
    if name in _CLOUD and _CLOUD[name].search(text):
        yield "upload"
    if name in _SOCKETS and not re.fullmatch(r"(?:-(?:[vnu]*z[vnu]*|v|n|w ?\d+) )+[\w.-]+ [\d-]+", text):
        yield "reverse_shell" if _SHELL_SOCKET.search(text) else "upload"
    if name == "curl" and _CURL_FILES.search(text) and not _stays_here(plain_words(command)):
        yield "upload"
    if name == "wget" and re.search(r"--(?:post|body)-file", text):
        yield "upload"
    if name in ("http", "https", "xh") and _sends_file(command) and not _stays_here(plain_words(command)):
        yield "upload"
    if name in _TRANSFERS or (name in ("scp", "rsync") and _REMOTE.search(re.sub(r"(?:https?|file)://\S+", "", text))):
        yield "upload"
    if name == "openssl" and text.startswith("s_client"):
        yield "upload"
    if (
        name.startswith("python")
        and re.search(r"-m (?:http\.server|SimpleHTTPServer)", text)
        and not _LOCAL.search(text)
    ):
        yield "upload"
