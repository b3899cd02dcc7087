"""Files and shells that leave the machine."""

from __future__ import annotations

import re
from collections.abc import Iterator

from guardagent.packs.shell.arguments import plain_words
from guardagent.packs.shell.script import ShellCommand

_SOCKETS = ("nc", "ncat", "netcat", "socat", "telnet")
_SHELL_SOCKET = re.compile(r"(?:^| )-\w*[ecl]|exec:|system:|--exec|--sh-exec|listen", re.IGNORECASE)
_CURL_FILES = re.compile(r"(?:^| )(?:-T|--upload-file)|(?:^| )(?:-d|--data\S*|-F|--form) ?\S*@")
_REMOTE = re.compile(r"[\w.-]+@?[\w.-]*:")


def check(command: ShellCommand, _: str) -> Iterator[str]:
    name, text = command.name or "", " ".join(plain_words(command))
    if name in _SOCKETS:
        yield "reverse_shell" if _SHELL_SOCKET.search(text) else "upload"
    if name == "curl" and _CURL_FILES.search(text):
        yield "upload"
    if name == "wget" and re.search(r"--(?:post|body)-file", text):
        yield "upload"
    if name in ("scp", "rsync", "sftp", "ftp") and _REMOTE.search(re.sub(r"(?:https?|file)://\S+", "", text)):
        yield "upload"
    if name == "openssl" and text.startswith("s_client"):
        yield "upload"
    if name.startswith("python") and re.search(r"-m (?:http\.server|SimpleHTTPServer)", text):
        yield "upload"
