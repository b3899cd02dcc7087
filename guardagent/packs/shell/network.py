"""Files, packages, mail and shells that leave the machine, and requests that change what is elsewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator

from guardagent.packs.shell.arguments import after_options, plain_words
from guardagent.packs.shell.script import ShellCommand

_SOCKETS = ("nc", "ncat", "netcat", "socat", "telnet")
_TRANSFERS = ("sftp", "ftp", "lftp", "sshfs", "ssh-copy-id", "mail", "mailx", "sendmail", "msmtp", "mutt", "swaks")
_METHOD = re.compile(r"(?:(?:^| )(?:-\w*X ?|--request[ =]|--method=)|^(?:-\S+ )*)(?:DELETE|PUT|PATCH)(?: |$)")
_SHELL_SOCKET = re.compile(r"(?:^| )-\w*[ecl]|exec:|system:|--exec|--sh-exec|listen", re.IGNORECASE)
_REQUESTS = ("curl", "wget", "http", "https", "xh")
_FILES = {
    "curl": re.compile(r"(?:^| )(?:-T|--upload-file)|(?:^| )(?:-d|--data\S*|-F|--form) ?\S*@"),
    "wget": re.compile(r"--(?:post|body)-file"),
}
_REMOTE = re.compile(r"[\w.-]+@?[\w.-]*:")


_CLOUD = {
    "aws": re.compile(r"s3 (?:cp|mv|sync) (?!s3:)|s3api put-object"),
    "gsutil": re.compile(r"(?:-m )?(?:cp|mv|rsync) (?!gs:)"),
    "gcloud": re.compile(r"storage (?:cp|mv|rsync) (?!gs:)|compute scp"),
    "az": re.compile(r"storage (?:blob|file|fs) .*upload"),
    "rclone": re.compile(r"(?:copy|sync|move|copyto|moveto|serve)\b"),
    "s3cmd": re.compile(r"put|sync"),
    "kubectl": re.compile(r"cp .*\S+:"),
    **dict.fromkeys(
        "docker podman nerdctl buildah gem helm dotnet snap nuget cf".split(),
        re.compile(r"(?:^|^compose |^nuget |^manifest |^image )push\b|^(?:buildx )?build .*--push\b"),
    ),
    **dict.fromkeys(
        "npm pnpm yarn bun deno lerna changeset poetry uv hatch flit pdm cargo vsce ovsx jsr dart flutter twine stack "
        "cabal mix pod luarocks snapcraft charmcraft".split(),
        re.compile(r"^(?:npm |pub |trunk |hex\.)?(?:publish|upload|push)\b"),
    ),
    **dict.fromkeys(
        "mvn mvnw gradle gradlew".split(),
        re.compile(r"(?:^|[ :])(?:deploy|release:perform|publish(?!ToMavenLocal)\w*)(?: |$)"),
    ),
    "goreleaser": re.compile(r"^release(?!.*--(?:snapshot|skip=\S*publish))"),
    "semantic-release": re.compile(r""),
    **dict.fromkeys(("skopeo", "crane", "oras"), re.compile(r"^(?:copy|cp|sync|push|delete|tag)\b")),
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
    name, words = command.name or "", plain_words(command)
    text = " ".join(words)
    if name in ("ssh", "mosh", "autossh"):
        yield "reverse_shell" if re.search(r"(?:^| )-\w*[RLDwN]", text) else "upload"
    texts = map(" ".join, after_options(words))
    if name in _CLOUD and any(map(_CLOUD[name].search, texts)) and "--dry-run" not in words:
        yield "upload"
    if name in _SOCKETS and not re.fullmatch(r"(?:-(?:[vnu]*z[vnu]*|v|n|w ?\d+) )+[\w.-]+ [\d-]+", text):
        yield "reverse_shell" if _SHELL_SOCKET.search(text) else "upload"
    if name in _REQUESTS and not _stays_here(words):
        yield from _of_request(command, text)
    if name in _TRANSFERS or (name in ("scp", "rsync") and _REMOTE.search(re.sub(r"(?:https?|file)://\S+", "", text))):
        yield "upload"
    if name == "openssl" and text.startswith("s_client"):
        yield "upload"
    if name.startswith("python") and _SERVER.search(text) and not _LOCAL.search(text):
        yield "upload"


def _of_request(command: ShellCommand, text: str) -> Iterator[str]:
    """The kinds of a request to another machine."""
    files = _FILES.get(command.name or "")
    if files.search(text) if files else _sends_file(command):
        yield "upload"
    if _METHOD.search(text):
        yield "services"
