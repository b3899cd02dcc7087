"""The dangers of a shell command. Each is a kind, which a rule of the pack denies."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from guardagent.packs.shell.foreign_code import is_harmless_python
from guardagent.packs.shell.paths import is_history, is_secret, resolved, zone
from guardagent.packs.shell.script import Command, Script, read_script
from guardagent.packs.shell.words import SUBSTITUTED, Word
from guardagent.packs.shell.wrappers import SHELLS, inner_commands, inner_scripts

KINDS = (
    "unreadable", "delete", "system", "device", "outside", "remote_code", "obfuscated", "secrets", "history", "privilege",
    "permissions", "persistence", "upload", "reverse_shell", "control", "fork_bomb", "isolation",
)  # fmt: skip
MAX_DEPTH = 8
_INTERPRETERS = re.compile(r"(?:python|perl|ruby|node|nodejs|php|lua|deno|bun|Rscript|osascript|pwsh|tclsh)[\d.]*$")
_DOWNLOADS = frozenset(
    "curl wget fetch aria2c http https lynx nc ncat netcat socat ftp scp rsync gh ssh dig nslookup telnet".split()
)
_DECODERS = re.compile(
    r"(?:base(?:32|64)|xxd|openssl|gunzip|zcat|bzcat|xzcat|uudecode|rev|tr|gpg|hexdump|od|unxz|bunzip2|sed|awk|printf|cut)$"
)
_HARMLESS = frozenset(
    "echo printf test [ [[ true false date basename dirname expr seq sleep exit return wait kill cd pushd popd pwd whoami id "
    "uname hostname let shift break continue ls du df which type command pgrep ps set local read".split()
)
_CONTROL = frozenset(
    "shutdown reboot halt poweroff init telinit killall killall5 pkill iptables ip6tables nft ufw swapoff modprobe insmod rmmod "
    "useradd userdel usermod groupadd groupdel passwd chpasswd visudo vipw kexec systemctl service sysctl setenforce auditctl".split()
)
_READ_ONLY = {
    "systemctl": ("status", "list-units", "is-active", "show", "cat"),
    "service": ("--status-all",),
    "sysctl": ("-a", "-n"),
}
_FORMATTERS = re.compile(
    r"(?:mkfs(?:\..*)?|wipefs|fdisk|sfdisk|gdisk|sgdisk|parted|blkdiscard|mkswap|hdparm|cryptsetup|lvremove|vgremove|pvremove|zpool|badblocks|diskutil)$"
)
_LOADERS = re.compile(
    r"(?:LD_PRELOAD|LD_LIBRARY_PATH|LD_AUDIT|DYLD_\w+|BASH_ENV|ENV|PROMPT_COMMAND|PATH|IFS|SHELLOPTS|PS4|GIT_SSH_COMMAND|GIT_EXTERNAL_DIFF|GIT_PAGER|PAGER|EDITOR|VISUAL|PYTHONSTARTUP|PERL5OPT|RUBYOPT|NODE_OPTIONS)$"
)
# Options by which other programs run commands of their own, or write elsewhere.
_ESCAPES = re.compile(
    r"^--checkpoint-action|^--to-command|^--use-compress-program|^--rsh|^-oProxyCommand|^ProxyCommand=|^LocalCommand=|"
    r"(?:core\.(?:sshCommand|editor|pager|hooksPath|fsmonitor)|alias\.[\w-]+|diff\.external|credential\.helper)=|^--upload-pack=|^--exec="
)
_EDITORS = frozenset("vi vim nvim ex ed emacs nano view less more man".split())


def shell_kinds(text: str, workspace: str = "", folder: str | None = "") -> frozenset[str]:
    """The kinds of danger in a script.

    Args:
        text: the script.
        workspace: the absolute folder where everything may be changed; empty for the working folder.
        folder: the working folder.
    """
    return frozenset(_of_script(text, workspace, folder, 0))


def argument_kinds(words: list[str], workspace: str = "", folder: str | None = "") -> frozenset[str]:
    """The kinds of danger in a command whose words are separate arguments, without a shell."""
    command = Command(tuple((word,) for word in words), folder=folder)
    return frozenset(_of_command(command, workspace, 0, frozenset()))


def _of_script(text: str, workspace: str, folder: str | None, depth: int) -> Iterator[str]:
    if depth > MAX_DEPTH:
        yield "unreadable"
        return
    script = read_script(text, folder)
    yield from _of_whole(script)
    downloads = frozenset(_downloaded(script.commands))
    for command in script.commands:
        yield from _of_command(command, workspace, depth, downloads)


def _of_whole(script: Script) -> Iterator[str]:
    if not script.readable:
        yield "unreadable"
    if script.recursive:
        yield "fork_bomb"
    if any(_LOADERS.match(name) for name in script.variables):
        yield "unreadable"
    if any(name.startswith("HIST") for name in script.variables):
        yield "history"


def _of_command(command: Command, workspace: str, depth: int, downloads: frozenset[str]) -> Iterator[str]:
    if depth > MAX_DEPTH:
        yield "unreadable"
        return
    if any(_LOADERS.match(name) and name != "IFS" for name in command.variables):
        yield "unreadable"
    for path in _paths(command.writes, command, workspace):
        yield from _changed(path)
    for path in _paths(command.reads, command, workspace):
        yield from _read(path)
    if not command.words:
        return
    if command.name is None:
        yield from _dynamic_name(command)
        return
    for check in _CHECKS:
        yield from check(command, workspace)
    yield from _of_input(command, workspace, depth, downloads)
    for inner in inner_commands(command):
        yield from _of_command(inner, workspace, depth + 1, downloads)
    for text in inner_scripts(command):
        yield from (
            ("unreadable", *_of_sources(command))
            if text is None
            else _of_script(text, workspace, command.folder, depth + 1)
        )


def _dynamic_name(command: Command) -> Iterator[str]:
    yield "unreadable"
    yield from _of_sources(command)


# --- code that comes from elsewhere


def _of_sources(command: Command) -> Iterator[str]:
    """The kinds of running the output of other commands."""
    names = {name for one in command.sources for name in _all_names(one)}
    if names & _DOWNLOADS:
        yield "remote_code"
    if any(_DECODERS.match(name) for name in names):
        yield "obfuscated"


def _all_names(command: Command) -> Iterator[str]:
    yield command.name or ""
    for inner in inner_commands(command):
        yield from _all_names(inner)


def _of_input(command: Command, workspace: str, depth: int, downloads: frozenset[str]) -> Iterator[str]:
    """The kinds of an interpreter that reads a script from its input, or from a file."""
    name = command.name or ""
    arguments = [word for word in command.words[1:] if not (word and word[0].startswith("-") and word[0] != "-")]
    files = {value for word in command.words for value in word}
    if (downloads & files or f"./{name}" in downloads) and (name in SHELLS or _runs_file(command, downloads)):
        yield "remote_code"
    if name not in SHELLS and not _INTERPRETERS.match(name) and name not in ("source", "."):
        return
    if any(word in ((), (SUBSTITUTED,)) for word in arguments):
        yield from ("unreadable", *_of_sources(command))
    has_script = any(
        word and re.fullmatch(r"-[a-zA-Z]*[ce]|--command|--eval|-", word[0]) and word != ("-",)
        for word in command.words[1:]
    )
    reads_input = not has_script and (
        not arguments or arguments[0] in (("-",), ("/dev/stdin",)) or ("-s",) in command.words
    )
    if not reads_input:
        return
    text = command.text if command.text is not None else _printed(command.sources)
    if name in SHELLS and text is not None:
        yield from _of_script(text, workspace, command.folder, depth + 1)
    elif text is not None and name.startswith("python"):
        yield from () if is_harmless_python(text) else ("unreadable",)
    elif command.sources or text is not None:
        yield from _of_sources(command)
        yield from () if _is_file(command.sources) else ("unreadable",)


def _runs_file(command: Command, downloads: frozenset[str]) -> bool:
    name = command.words[0][0]
    return (
        name in downloads
        or f"./{name}" in downloads
        or bool(_INTERPRETERS.match(command.name or ""))
        or command.name in ("source", ".", "chmod")
    )


def _printed(sources: tuple[Command, ...]) -> str | None:
    """The output of a pipeline that only prints literals."""
    if len(sources) != 1 or sources[0].name not in ("echo", "printf", "cat"):
        return None
    words = [word for word in sources[0].words[1:] if word not in (("-e",), ("-n",), ("-en",))]
    if sources[0].name == "cat":
        return sources[0].text if not words else None
    if any(len(word) != 1 for word in words) or any("\\" in word[0] for word in words):
        return None
    return " ".join(word[0] for word in words)


def _is_file(sources: tuple[Command, ...]) -> bool:
    return len(sources) == 1 and sources[0].name == "cat" and all(len(word) == 1 for word in sources[0].words)


def _downloaded(commands: Iterable[Command]) -> Iterator[str]:
    """The files that a script downloads."""
    for command in (inner for one in commands for inner in (one, *inner_commands(one))):
        if command.name in ("curl", "wget", "aria2c", "fetch"):
            words = [word[0] if word else "" for word in command.words]
            named = [
                words[at + 1]
                for at, word in enumerate(words[:-1])
                if word in ("-o", "-O", "--output", "--output-document", "-qO", "-sLo", "-fsSLo", "-so", "-Lo")
            ]
            named += [word.rpartition("/")[2] for word in words if "/" in word and not word.startswith("-")]
            named += [value for word in command.writes for value in word]
            yield from (form for one in named if one for form in (one, f"./{one.removeprefix('./')}"))


# --- paths


def _paths(words: Iterable[Word], command: Command, workspace: str) -> Iterator[str | None]:
    for word in words:
        if not word:
            yield None
        for value in word:
            yield resolved(value, command.folder, workspace)


def _changed(path: str | None) -> Iterator[str]:
    if path is None:
        yield "unreadable"
        return
    where = zone(path)
    if path.startswith(("/dev/tcp/", "/dev/udp/")):
        yield "reverse_shell"
    elif where not in ("inside", "temporary"):
        yield {"home": "outside", "startup": "persistence"}.get(where, where)
    if is_secret(path):
        yield "secrets"
    if is_history(path):
        yield "history"


def _read(path: str | None) -> Iterator[str]:
    if path is None:
        yield "unreadable"
    elif path.startswith(("/dev/tcp/", "/dev/udp/")):
        yield "reverse_shell"
    elif is_secret(path):
        yield "secrets"
    elif is_history(path):
        yield "history"


def _deleted(path: str | None) -> Iterator[str]:
    """As a change; whole folders are more."""
    if path in (None, "/", "~", ".", "..", "*", "./*", ".*", "~/*", "/*") or (path or "").endswith("/.git"):
        yield "delete" if path is not None else "unreadable"
    elif path is not None and zone(path) not in ("inside", "temporary"):
        yield "delete"
    if path == ".git" or (path or "").rstrip("/*") in ("/tmp", "/var/tmp"):  # noqa: S108
        yield "delete"


# --- checks of single commands


def _operands(command: Command) -> tuple[Word, ...]:
    return tuple(word for word in command.words[1:] if not (word and word[0].startswith("-")))


def _options(command: Command) -> set[str]:
    return {value for word in command.words[1:] for value in word if value.startswith("-")}


def _dynamic_arguments(command: Command, _: str) -> Iterator[str]:
    if command.name not in _HARMLESS and any(not word for word in command.words[1:]):
        yield "unreadable"


def _secrets(command: Command, workspace: str) -> Iterator[str]:
    if command.name in ("git", "mkdir", "rmdir", "echo", "printf"):
        return
    words = (
        word if word and "=" not in word[0] else tuple(one.partition("=")[2] for one in word)
        for word in command.words[1:]
        if word
    )
    for word in words:
        for value in word:
            stripped = value.lstrip("@").rpartition("@")[2]
            path = resolved(stripped, command.folder, workspace) or ""
            if is_secret(path) or "169.254.169.254" in value or "metadata.google.internal" in value:
                yield "secrets"
            if is_history(path):
                yield "history"
            if re.search(r"/dev/(?:tcp|udp)/", value):
                yield "reverse_shell"
    name, options = command.name, _options(command)
    if (name == "printenv" and not _operands(command)) or (
        name in ("env", "export", "set", "declare") and len(command.words) == 1
    ):
        yield "secrets"
    if name in ("security", "secret-tool", "pass", "gpg") and options | {w[0] for w in _operands(command) if w} & {
        "find-generic-password",
        "dump-keychain",
        "lookup",
        "show",
        "--export-secret-keys",
    }:
        yield "secrets"
    if (
        name == "history"
        or (name == "set" and ("history",) in command.words)
        or (name == "unset" and any(w and w[0].startswith("HIST") for w in command.words))
    ):
        yield "history"


def _deletes(command: Command, workspace: str) -> Iterator[str]:
    name = command.name
    if name in ("rm", "rmdir", "unlink", "shred", "srm", "trash"):
        for path in _paths(_operands(command), command, workspace):
            yield from _deleted(path)
        if "--no-preserve-root" in _options(command) or name == "shred":
            yield "delete"
    if name == "xargs" and any(word in (("rm",), ("shred",), ("unlink",)) for word in command.words):
        yield "delete"
    if name in ("xargs", "parallel") and any(word and word[0] in SHELLS for word in command.words[1:]):
        yield "unreadable"
    if name == "find" and (
        {"-delete"} & _options(command) or any(word in (("rm",), ("shred",)) for word in command.words)
    ):
        folders = _operands(command)[:1] or ((".",),)
        narrowed = {"-name", "-iname", "-path", "-regex", "-empty"} & _options(command)
        for path in _paths(folders, command, workspace):
            if path is None or zone(path) not in ("inside", "temporary") or not narrowed:
                yield "delete"
    if name == "truncate" or (name == "mv" and ("/dev/null",) in command.words):
        yield "delete" if name == "mv" else ""
    if (
        name == "git"
        and ("clean",) in command.words
        and any("f" in one and "n" not in one for one in _options(command))
    ):
        yield "delete"


def _targets(command: Command) -> tuple[Word, ...]:
    """The files that a command changes."""
    name, operands, words = command.name, _operands(command), command.words
    after = {words[at][0]: words[at + 1] for at in range(1, len(words) - 1) if words[at]}
    if name in ("ln", "link"):
        return operands
    if name in ("cp", "install", "rsync", "scp"):
        return tuple(filter(None, (after.get("-t"),))) or operands[-1:]
    if name == "mv":
        return operands
    if name in (
        "tee",
        "touch",
        "mkdir",
        "truncate",
        "chmod",
        "chown",
        "chgrp",
        "chattr",
        "setfacl",
        "mkfifo",
        "mknod",
        "unzip",
        "gunzip",
        "patch",
    ):
        return (
            operands[1:]
            if name in ("chmod", "chown", "chgrp", "chattr")
            else operands
            if name not in ("unzip", "patch")
            else tuple(filter(None, (after.get("-d"),)))
        )
    if name == "sed" and any(re.match(r"-[a-zA-Z]*i|--in-place", one) for one in _options(command)):
        return operands[1:]
    if name in ("curl", "wget", "aria2c"):
        return tuple(
            word
            for option in ("-o", "-O", "-P", "--output", "-d")
            if (word := after.get(option)) and (option, name) not in (("-O", "curl"), ("-d", "curl"), ("-o", "wget"))
        )
    if name == "tar":
        return tuple(filter(None, (after.get("-C"), after.get("--directory"))))
    if name == "dd":
        return tuple((value.removeprefix("of="),) for word in words for value in word if value.startswith("of="))
    if name == "git" and ("clone",) in words:
        return operands[2:3]
    return ()


def _changes(command: Command, workspace: str) -> Iterator[str]:
    for path in _paths(_targets(command), command, workspace):
        yield from _changed(path)
        if command.name == "mv" and path in ("/", "~", "."):
            yield "delete"
    if _FORMATTERS.match(command.name or ""):
        yield "device"


def _permissions(command: Command, _: str) -> Iterator[str]:
    modes = [value for word in command.words[1:3] for value in word]
    if command.name == "chmod" and any(
        re.fullmatch(
            r"[0-7]?[0-7]{2}[2367]|[2467][0-7]{3}|[augo]*[ao][augo]*\+[rxX]*w[rxXst]*|\+[rx]*w.*|[ugo]*\+[rwx]*s", one
        )
        for one in modes
    ):
        yield "permissions"
    if command.name in ("chown", "chgrp", "setfacl", "chattr", "setcap") and command.name != "chgrp":
        yield "permissions"


def _rights(command: Command, _: str) -> Iterator[str]:
    name, words = command.name or "", [word[0] if word else "" for word in command.words[1:]]
    if name in ("sudo", "su", "doas", "pkexec", "runuser", "gosu"):
        yield "privilege"
    if name in _CONTROL and not (words and words[0] in _READ_ONLY.get(name, ())):
        yield "control"
    if name == "kill" and any(one in ("-1", "1", "0") for one in words[-1:]) and len(words) > 0:
        yield "control"
    if name in ("mount", "umount") and words:
        yield "control"
    if name in ("nsenter", "unshare", "chroot", "capsh"):
        yield "isolation"
    if name in ("docker", "podman", "nerdctl", "kubectl") and re.search(
        r"--privileged|--pid[= ]host|--net(?:work)?[= ]host|--cap-add|docker\.sock|(?:-v|--volume)[= ]?/:|(?:-v|--volume|--mount)[= ]?(?:\S*source=)?/(?:etc|root|var|home)?[,:]",
        " ".join(words),
    ):
        yield "isolation"
    if name in ("crontab", "at", "batch") and words != ["-l"]:
        yield "persistence"
    if (name == "systemctl" and "enable" in words) or name == "launchctl":
        yield "persistence"
    if name in ("docker", "podman") and words[:2] in (["system", "prune"], ["volume", "prune"]):
        yield "delete"


def _network(command: Command, _: str) -> Iterator[str]:
    name, words = command.name or "", [word[0] if word else "" for word in command.words[1:]]
    text = " ".join(words)
    if name in ("nc", "ncat", "netcat", "socat", "telnet"):
        yield (
            "reverse_shell"
            if re.search(r"(?:^| )-\w*[ecl]|exec:|system:|--exec|--sh-exec|listen", text, re.IGNORECASE)
            else "upload"
        )
    if name == "curl" and re.search(r"(?:^| )(?:-T|--upload-file)|(?:^| )(?:-d|--data\S*|-F|--form) ?\S*@", text):
        yield "upload"
    if name == "wget" and "--post-file" in text:
        yield "upload"
    if name in ("curl", "wget") and command.sources and re.search(r"(?:^| )(?:-d|--data\S*|-F|-T) ?@?-|\$\(", text):
        yield "upload"
    if name in ("scp", "rsync", "sftp", "ftp") and re.search(
        r"[\w.-]+@?[\w.-]*:", re.sub(r"(?:https?|file)://\S+", "", text)
    ):
        yield "upload"
    if (
        name in SHELLS
        and ("-i",) in command.words
        and any("/dev/tcp" in value for word in (*command.writes, *command.reads) for value in word)
    ):
        yield "reverse_shell"


def _foreign(command: Command, _: str) -> Iterator[str]:
    """Code of another language, and options that run commands."""
    name = command.name or ""
    words = [word[0] if len(word) == 1 else None for word in command.words[1:]]
    if _INTERPRETERS.match(name):
        for at, word in enumerate(words):
            if word is not None and re.fullmatch(r"-[a-zA-Z]*[ceEr]|--eval|--execute|-p|--print", word):
                code = words[at + 1] if at + 1 < len(words) else None
                if not (name.startswith("python") and word == "-c" and code is not None and is_harmless_python(code)):
                    yield "unreadable"
                break
            if word is not None and not word.startswith("-"):
                break
    if name in ("awk", "gawk", "mawk", "nawk") and any(
        word is None or re.search(r"system\s*\(|getline|\|\s*\"|>\s*\"|@load", word) for word in words
    ):
        yield "unreadable"
    if name == "sed" and any(
        word is not None and re.search(r"(?:^|[;{}\n/\d])\s*e\b|/[gip0-9]*e[gip]*(?:$|[;}\n])|[/;]\s*w\s", word)
        for word in words
    ):
        yield "unreadable"
    if name in _EDITORS and (
        name in ("ed", "ex")
        or any(word is not None and word.startswith(("-c", "+", "-es", "--cmd", "-S")) for word in words)
    ):
        yield "unreadable"
    if any(word is not None and _ESCAPES.search(word) for word in words):
        yield "unreadable"
    if name in ("complete", "bind", "enable", "hash", "dlopen", "gdb", "at"):
        yield "unreadable" if words else ""


_CHECKS: tuple[Callable[[Command, str], Iterator[str]], ...] = (
    _dynamic_arguments, _secrets, _deletes, _changes, _permissions, _rights, _network, _foreign,
)  # fmt: skip
