"""Permissions, other users, processes, containers and scheduled commands."""

from __future__ import annotations

import re
from collections.abc import Iterator

from guardagent.packs.shell.arguments import plain_words
from guardagent.packs.shell.script import ShellCommand
from guardagent.packs.shell.words import NUMBER

MAX_MODE = 40  # characters of a mode
_OTHER_USERS = ("sudo", "su", "doas", "pkexec", "runuser", "gosu")
_CONTROL = frozenset(
    "shutdown reboot halt poweroff init telinit killall killall5 pkill skill snice iptables ip6tables nft ufw "
    "swapoff modprobe insmod "
    "rmmod useradd userdel usermod groupadd groupdel passwd chpasswd visudo vipw kexec systemctl service "
    "sysctl setenforce "
    "auditctl mount umount firewall-cmd chsh chfn gpasswd adduser deluser addgroup delgroup csrutil spctl "
    "update-alternatives update-rc.d chkconfig rc-service".split()
)
_READING = {
    "systemctl": tuple("status list-units list-unit-files list-timers is-active is-enabled is-failed show cat".split()),
    "service": ("--status-all",),
    "sysctl": ("-a", "-n"),
    "mount": ("", "-l"),
    "firewall-cmd": ("--state", "--list-all"),
    "update-alternatives": ("--list", "--display", "--query"),
    **dict.fromkeys(("csrutil", "spctl"), ("status", "--status")),
}
# Commands that change the machine's settings and what runs on it.
_ADMINISTRATION = {
    **dict.fromkeys(
        ("ip", "ifconfig", "route"), re.compile(r"(?:^| )(?:set|add|del|delete|flush|replace|change|up|down)(?: |$)")
    ),
    "nmcli": re.compile(r"\b(?:off|on|up|down|delete|modify|add|disconnect)\b"),
    **dict.fromkeys(("hostnamectl", "timedatectl", "localectl"), re.compile(r"set-|^hostname .")),
    **dict.fromkeys(("loginctl", "machinectl"), re.compile(r"terminate|kill|lock|poweroff|remove")),
    "journalctl": re.compile(r"--(?:vacuum|rotate|flush)"),
    **dict.fromkeys(("defaults", "gsettings", "dconf"), re.compile(r"^(?:write|delete|import|rename|set|reset|load)")),
    **dict.fromkeys(
        ("dscl", "scutil", "networksetup", "pmset"),
        re.compile(r"(?:^| )-+(?:delete|create|append|passwd|change|set|remove)"),
    ),
    "brew": re.compile(r"^services (?:stop|kill)"),
    **dict.fromkeys(("supervisorctl", "pm2", "initctl"), re.compile(r"^(?:stop|shutdown|remove|delete|kill)\b")),
    "ssh-add": re.compile(r"-[dD]"),
    "ssh-keygen": re.compile(r"(?:^| )-[Rp]\b"),
}
_ODD_MODES = re.compile(
    r"0?000|[0-7]?[0-7]{2}[2367]|[2467][0-7]{3}|[augo]*[ao][augo]*[+=][rxX]*w[rxXst]*|[+=][rx]*w.*|[augo]*[+=][rwx]*s.*"
)
_DEVELOPMENT_SERVER = re.compile(
    r"(?:python3? (?:-m )?|node |npx )?(?:uvicorn|gunicorn|flask run|vite|webpack|next dev|nodemon|http\.server|"
    r"(?:manage\.py )?runserver|npm run \w+|jest|pytest|storybook|playwright)(?: [\w.:=-]+)*"
)
_LEAVES_CONTAINER = re.compile(
    r"--privileged|--(?:pid|ipc|userns|net|network)[= ]host|--cap-add|docker\.sock|(?:-v|--volume)[= ]?/:|"
    r"(?:-v|--volume|--mount)[= ]?(?:\S*source=)?(?:/(?:etc|root|var|home)?|~|/(?:home|Users)/[\w.-]+)[,:]"
)


_LISTS_PROCESSES = ("ps", "pgrep", "pidof")
_PORT = re.compile(r"-?\w*i?(?:tcp)?:\d+|-i|\d+/(?:tcp|udp)")
# The ports of the machine's services, and of databases.
_SERVICE_PORT = re.compile(r"(?:.*:)?(?:\d{1,3}|1433|1521|3306|5432|5672|6379|9200|27017)(?:/\w+)?")


def _ends_found(command: ShellCommand, words: list[str]) -> bool:
    """Whether `kill` ends what its input lists, other than the server of a port and development servers."""
    if not command.sources or not all(word.startswith("-") or word == NUMBER for word in words):
        return False
    first = command.sources[0]
    if first.name == "lsof":
        return not any(map(_PORT.fullmatch, plain_words(first))) or any(
            map(_SERVICE_PORT.fullmatch, plain_words(first))
        )
    patterns = [
        word
        for one in command.sources
        if one.name in ("pgrep", "grep", "egrep", "rg")
        for word in plain_words(one)
        if not word.startswith("-") and word != "grep"
    ]
    return first.name in _LISTS_PROCESSES and not (patterns and all(map(_DEVELOPMENT_SERVER.fullmatch, patterns)))


def _ends_users_of_files(words: list[str]) -> bool:
    """Whether `fuser -k` ends the processes that use files, rather than the server of a port."""
    is_kill = any(re.fullmatch(r"-[a-z]*k[a-z]*|--kill", one) for one in words)
    return is_kill and not all(
        one.startswith("-") or (_PORT.fullmatch(one) and not _SERVICE_PORT.fullmatch(one)) for one in words
    )


def _only_reads(name: str, words: list[str]) -> bool:
    first = [*words[:1], *[word for word in words if not word.startswith("-")][:1]] or [""]
    sets = name == "sysctl" and any("=" in word for word in words)
    return not sets and bool(set(first) & set(_READING.get(name, ())))


def check(command: ShellCommand, _: str) -> Iterator[str]:
    name, words = command.name or "", plain_words(command)
    if name in _OTHER_USERS:
        yield "privilege"
    ends_server = (
        name == "pkill" and len(words) == 2 and words[0] == "-f" and bool(_DEVELOPMENT_SERVER.fullmatch(words[1]))
    )
    if name in _CONTROL and not _only_reads(name, words) and not ends_server:
        yield "control"
    is_changed = name in _ADMINISTRATION and _ADMINISTRATION[name].search(" ".join(words))
    if is_changed or (name == "kill" and words[-1:] in (["-1"], ["1"], ["0"])):
        yield "control"
    if (name == "kill" and _ends_found(command, words)) or (name == "fuser" and _ends_users_of_files(words)):
        yield "control"
    if name == "chmod" and any(_ODD_MODES.fullmatch(word[:MAX_MODE]) for word in words[:2]):
        yield "permissions"
    if name in ("chown", "setfacl", "chattr", "setcap"):
        yield "permissions"
    yield from _of_containers(name, words)
    if name == "systemd-run" and any(re.match(r"--(?:on-|timer|path-|socket-)", word) for word in words):
        yield "persistence"
    if name in ("crontab", "at", "batch", "atrm") and words != ["-l"]:
        yield "persistence"
    if (name == "systemctl" and "enable" in words) or name == "launchctl":
        yield "persistence"


def _of_containers(name: str, words: list[str]) -> Iterator[str]:
    if name in ("nsenter", "unshare", "chroot", "capsh"):
        yield "isolation"
    if name in ("docker", "podman", "nerdctl", "kubectl") and _LEAVES_CONTAINER.search(" ".join(words)):
        yield "isolation"
