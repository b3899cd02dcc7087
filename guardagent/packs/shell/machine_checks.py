"""The checks of what a single command does beyond files: to the machine, its network, services and credentials.

Each yields kinds of danger.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from guardagent.packs.shell.commands import after_options, copies_example, operands, options, plain_words, printed
from guardagent.packs.shell.foreign_code import INTERPRETERS, inline_code
from guardagent.packs.shell.listings import PICKS_SECRETS
from guardagent.packs.shell.paths import holds_secrets, is_secret, paths_of, resolved, secret_kinds, zone
from guardagent.packs.shell.script import NUMBER, ShellCommand

# --- permissions, other users, processes, containers and scheduled commands

MAX_MODE = 40  # characters of a mode
_OTHER_USERS = ("sudo", "su", "doas", "pkexec", "runuser", "gosu")
_CONTROL = frozenset(
    "shutdown reboot halt poweroff init telinit killall killall5 pkill skill snice iptables ip6tables nft ufw "
    "swapoff modprobe insmod rmmod useradd userdel usermod groupadd groupdel passwd chpasswd visudo vipw kexec "
    "systemctl service sysctl setenforce auditctl mount umount firewall-cmd chsh chfn gpasswd adduser deluser "
    "addgroup delgroup csrutil spctl update-alternatives update-rc.d chkconfig rc-service reg schtasks sc vssadmin "
    "wevtutil bcdedit diskpart netsh takeown icacls wmic taskkill add-apt-repository nvram fdesetup "
    "update-ca-certificates update-ca-trust resolvectl".split()
)
_READING = {
    "systemctl": tuple("status list-units list-unit-files list-timers is-active is-enabled is-failed show cat".split()),
    "service": ("--status-all",),
    **dict.fromkeys(("reg", "sc", "schtasks", "netsh"), ("query", "/query", "show")),
    "sysctl": ("-a", "-n"),
    **dict.fromkeys(("nvram", "fdesetup", "resolvectl"), ("-p", "status", "query")),
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
    **dict.fromkeys(("loginctl", "machinectl"), re.compile(r"terminate|kill|lock|poweroff|remove|linger")),
    "journalctl": re.compile(r"--(?:vacuum|rotate|flush)"),
    **dict.fromkeys(("defaults", "gsettings", "dconf"), re.compile(r"^(?:write|delete|import|rename|set|reset|load)")),
    **dict.fromkeys(
        ("dscl", "scutil", "networksetup", "pmset"),
        re.compile(r"(?:^| )-+(?:delete|create|append|passwd|change|set|remove)"),
    ),
    "brew": re.compile(r"^services (?:stop|kill)"),
    **dict.fromkeys(("supervisorctl", "pm2", "initctl"), re.compile(r"^(?:stop|shutdown|remove|delete|kill)\b")),
    # Packages and versions of languages that other projects use, too.
    **dict.fromkeys(
        "gem pipx rustup pyenv rbenv nodenv goenv asdf mise nvm fnm volta sdk luarocks opam choco scoop".split(),
        re.compile(r"^(?:(?!component|target)\S+ )?(?:uninstall\S*|remove|rm|cleanup)(?: (?!--help)|$)"),
    ),
    "cargo": re.compile("^uninstall "),
    "uv": re.compile("^tool uninstall "),
    "dotnet": re.compile("^tool uninstall .*(?:-g|--global)"),
    **dict.fromkeys(("conda", "mamba"), re.compile(r"^(?:env )?remove .*(?:-n|--name|-p|--prefix|--all)")),
    "go": re.compile("^clean .*-modcache"),
    **dict.fromkeys(
        ("emerge", "nix-env", "nix-collect-garbage"), re.compile("-[cCed]|--(?:unmerge|depclean|uninstall|delete)")
    ),
    **dict.fromkeys(("mkcert", "security", "tmutil"), re.compile(r"^-(?:un)?install|^(?:add-|delete|disable|remove)")),
    "ssh-add": re.compile(r"-[dD]"),
    "ssh-keygen": re.compile(r"(?:^| )-[Rp]\b"),
}
_ODD_MODES = re.compile(
    r"0?000|[0-7]?[0-7]{2}[2367]|0?[2467][0-7]{3}|[augo]*[ao][augo]*[+=][rxX]*w[rxXst]*|[+=][rx]*w.*|[augo]*[+=][rwx]*s.*"
)
# Programs that stop, trace or attach to processes that others started: which of their commands do.
_ATTACHES = re.compile(r"(?:^| )(?:-\w*p|--?(?:pid|attach(?:-pid)?))[ =]?\d|^attach |^[^-\s]\S* \d+$")
_PROCESSES = {
    "kill": re.compile(r"(?:^| )-(?:s |n )?(?:SIG)?(?:STOP|TSTP|ABRT|SEGV|19|20)(?: |$)"),
    **dict.fromkeys("strace ltrace gdb lldb perf dtrace dlv py-spy rbspy bpftrace cdb".split(), _ATTACHES),
    **dict.fromkeys("gcore jmap reptyr xkill renice kill-port fkill".split(), re.compile("")),
    **dict.fromkeys(
        "docker podman nerdctl docker-compose tmux screen byobu zellij overmind".split(),
        re.compile(r"^(?:container |compose )?(?:kill|pause)(?: |$|-[as])|^delete-all|(?:^| )-X .*(?:quit|kill)"),
    ),
}
_DEVELOPMENT_SERVER = re.compile(
    r"(?:python3? (?:-m )?|node |npx )?(?:uvicorn|gunicorn|flask run|vite|webpack|next dev|nodemon|http\.server|"
    r"(?:manage\.py )?runserver|npm run \w+|jest|pytest|storybook|playwright)(?: [\w.:=-]+)*"
    r"|(?:python3?|node|ruby|php|bun run|deno run|go run|java -jar) [\w-][\w./-]*\.\w+(?: [\w.:=-]+)*"
)
_LEAVES_CONTAINER = re.compile(
    r"--privileged|--security-opt[= ]\S*(?:unconfined|disable)|"
    r"--(?:pid|ipc|userns|net|network)[= ]host|--cap-add|docker\.sock|(?:-v|--volume)[= ]?/:|"
    r"(?:-v|--volume|--mount)[= ]?(?:\S*source=)?(?:/(?:etc|root|var|home)?|~|/(?:home|Users)/[\w.-]+)[,:]"
)
_LISTS_PROCESSES = ("ps", "pgrep", "pidof", "ss", "netstat", "top", "pstree")
_PORT = re.compile(r"-?\w*i?(?:tcp)?:\d+|\d+/(?:tcp|udp)")
# The ports of the machine's services, and of databases.
_SERVICE_PORT = re.compile(r"(?:.*:)?(?:\d{1,3}|1433|1521|3306|5432|5672|6379|9200|27017)(?:/\w+)?")


def _of_found(command: ShellCommand, words: list[str]) -> Iterator[str]:
    """The kinds of a `kill` of what its input lists, other than development servers."""
    if not command.sources or not all(word.startswith("-") or word == NUMBER for word in words):
        return
    first = command.sources[0]
    if first.name == "lsof":
        yield _of_users([word for word in plain_words(first) if not re.fullmatch(r"-[a-hj-z]+|-i", word)])
    patterns = [
        word
        for source in command.sources
        if source.name in ("pgrep", "grep", "egrep", "rg")
        for word in plain_words(source)
        if not word.startswith("-") and word != "grep"
    ]
    if first.name in _LISTS_PROCESSES and not (patterns and all(map(_DEVELOPMENT_SERVER.fullmatch, patterns))):
        yield "control"


def _of_processes(command: ShellCommand, name: str, words: list[str]) -> Iterator[str]:
    if name == "kill":
        yield from _of_found(command, words)
    if name == "fuser" and any(re.fullmatch(r"-[a-z]*k[a-z]*|--kill", word) for word in words):
        yield _of_users([word for word in words if not re.match("-|tcp$", word)])
    if name in _PROCESSES and any(map(_PROCESSES[name].search, map(" ".join, after_options(words)))):
        yield "processes"


def _of_users(words: list[str]) -> str:
    """The kind of ending the processes that use ports or files: a person decides on the server of a port."""
    ports = [word for word in words if _PORT.fullmatch(word) and not _SERVICE_PORT.fullmatch(word)]
    return "processes" if ports and len(ports) == len(words) else "control"


def _only_reads(name: str, words: list[str]) -> bool:
    first = [*words[:1], *[word for word in words if not word.startswith("-")][:1]] or [""]
    sets = name == "sysctl" and any("=" in word for word in words)
    return not sets and bool(set(first) & set(_READING.get(name, ())))


def check_rights(command: ShellCommand, _: str) -> Iterator[str]:
    name, words = command.name or "", plain_words(command)
    if words == ["--help"]:
        return
    if name in _OTHER_USERS:
        yield "privilege"
    ends_server = name == "pkill" and words[:1] == ["-f"] and _DEVELOPMENT_SERVER.fullmatch(" ".join(words[1:]))
    if name in _CONTROL and not _only_reads(name, words) and not ends_server:
        yield "control"
    is_changed = name in _ADMINISTRATION and _ADMINISTRATION[name].search(" ".join(words))
    if is_changed or (name == "kill" and words[-1:] in (["-1"], ["1"], ["0"])):
        yield "control"
    yield from _of_processes(command, name, words)
    modes = words[:2] if name == "chmod" else []
    if name in ("install", "mkdir"):
        modes = re.findall(r"(?:^| )(?:-\w*m ?|--mode[= ])(\S+)", " ".join(words))
    if any(_ODD_MODES.fullmatch(mode[:MAX_MODE]) for mode in modes):
        yield "permissions"
    if name in ("chown", "chgrp", "setfacl", "chattr", "setcap"):
        yield "permissions"
    yield from _of_containers(name, words)
    is_timer = name == "systemd-run" and any(re.match(r"--(?:on-|timer|path-|socket-)", word) for word in words)
    is_job = name in ("crontab", "at", "batch", "atrm") and words != ["-l"]
    if is_timer or is_job or (name == "systemctl" and "enable" in words) or name == "launchctl":
        yield "persistence"


def _of_containers(name: str, words: list[str]) -> Iterator[str]:
    if name in ("nsenter", "unshare", "chroot", "capsh"):
        yield "isolation"
    if name in ("docker", "podman", "nerdctl", "kubectl") and _LEAVES_CONTAINER.search(" ".join(words)):
        yield "isolation"


# --- files, packages, mail and shells that leave the machine, and requests that change what is elsewhere

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
_UPLOADS = {
    "aws": re.compile(r"s3 (?:cp|mv|sync) (?!s3:)|s3api put-object"),
    "gsutil": re.compile(r"(?:-m )?(?:cp|mv|rsync) (?!gs:)"),
    "gcloud": re.compile(r"storage (?:cp|mv|rsync) (?!gs:)|compute scp"),
    "az": re.compile(r"storage (?:blob|file|fs) .*upload"),
    "rclone": re.compile(r"(?:copy|sync|move|copyto|moveto|serve)\b"),
    "s3cmd": re.compile(r"put|sync"),
    "kubectl": re.compile(r"cp .*\S+:"),
    "tailscale": re.compile("^file cp"),
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
    # Programs that run commands on other machines.
    **dict.fromkeys("ansible salt pssh parallel-ssh pdsh clush".split(), re.compile(r"^(?!-|[^-]*(?:-m |t\.)ping$)\S")),
    **dict.fromkeys(("fab", "cap"), re.compile(r"(?:^| )(?:-H|--hosts|deploy)")),
    **dict.fromkeys(
        "croc wormhole wormhole-william wormhole-rs ffsend dropbox gdrive ipfs onedrive surge onionshare".split(),
        re.compile(r"^(?!(?:receive|recv|download|get|ls|list|status|version|help|cat|pull|--?\w+$))(?:\S+ )*\S"),
    ),
    **dict.fromkeys("pastebinit wgetpaste termbin gist transfer mega-put megaput bashupload".split(), re.compile("")),
}


_HERE = re.compile(r"(?:https?://)?(?:localhost|127\.0\.0\.1|0\.0\.0\.0)(?::\d+)?(?:[/?][^@$]*)?")
_SERVER = re.compile(r"-m (?:http\.server|SimpleHTTPServer)|^-S (?:0\.0\.0\.0|\[::\])|^(?:file-server|daemon)\b")
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


def check_network(command: ShellCommand, _: str) -> Iterator[str]:
    name, words = command.name or "", plain_words(command)
    text = " ".join(words)
    if name in ("ssh", "mosh", "autossh"):
        yield "reverse_shell" if re.search(r"(?:^| )-\w*[RLDwN]", text) else "upload"
    texts = map(" ".join, after_options(words))
    if name in _UPLOADS and any(map(_UPLOADS[name].search, texts)) and "--dry-run" not in words:
        yield "upload"
    if name in _SOCKETS and not re.fullmatch(r"(?:-(?:[vnu]*z[vnu]*|v|n|w ?\d+) )+[\w.-]+ [\d-]+", text):
        yield "reverse_shell" if _SHELL_SOCKET.search(text) else "upload"
    if name in _REQUESTS and not _stays_here(words):
        yield from _of_request(command, text)
    if name in _TRANSFERS or (name in ("scp", "rsync") and _REMOTE.search(re.sub(r"(?:https?|file)://\S+", "", text))):
        yield "upload"
    if name == "openssl" and text.startswith("s_client"):
        yield "upload"
    if name.startswith(("python", "php", "caddy", "git")) and _SERVER.search(text) and not _LOCAL.search(text):
        yield "upload"


def _of_request(command: ShellCommand, text: str) -> Iterator[str]:
    """The kinds of a request to another machine."""
    files = _FILES.get(command.name or "")
    if files.search(text) if files else _sends_file(command):
        yield "upload"
    if _METHOD.search(text):
        yield "services"


# --- programs that manage services, clusters, databases and backups: which of their commands change something

_DELETES = (
    r"(?:^|[ :-]|ecto\.)(?:delete|del|destroy|terminate|remove|rm|rb|purge|drop|drop-all|wipe|uninstall|decommission"
    r"|deregister|revoke|reset|forget|undefine)(?:[- :]|$)"
)
_CLOUD = re.compile(
    rf"{_DELETES}|(?:^| )(?:stop|reboot|modify|put|update|scale)-"
    r"|create-access-key|keys create|attach-\S+-policy|add-iam-policy-binding|role assignment create"
)
_MANAGED = re.compile(
    rf"{_DELETES}|(?:^| )(?:deploy|down|promote|rollback|launch|scale|prune|suspend|d1 execute .*--remote)(?: |$)"
    r"|(?:^| )--accept-data-loss|:(?:fresh|refresh|undo:all|scale)(?: |$)"
    r"|^(?:job stop|downgrade base|flush|clean|ssh (?:console|sftp|issue)|ps:exec)(?: |$)|^--prod"
)
_CHANGES: dict[str, re.Pattern[str]] = {
    **dict.fromkeys("aws gcloud az doctl linode-cli hcloud oci ibmcloud kubectl oc".split(), _CLOUD),
    **dict.fromkeys(
        "flyctl fly heroku vercel netlify railway render wrangler firebase supabase eksctl kops serverless sls sam "
        "amplify argocd flux istioctl nomad consul etcdctl influx kafka-topics kafka-topics.sh minikube kind k3d "
        "vagrant multipass virsh lxc incus colima restic borg kopia duplicity zfs btrfs snapper timeshift tmutil "
        "rclone gsutil s3cmd s5cmd mc azcopy b2 rails rake artisan console symfony manage.py django-admin mix knex "
        "typeorm sequelize sequelize-cli prisma drizzle-kit flyway liquibase hasura dbmate sqlx diesel alembic flask "
        "hub".split(),
        _MANAGED,
    ),
    **dict.fromkeys(
        ("terraform", "tofu", "terragrunt", "pulumi", "cdk"),
        re.compile(
            r"^(?:(?:run-all|run --all|stack|workspace) )?(?:apply|destroy|import|taint|state (?:rm|mv|push|replace)|up"
            r"|down|deploy|force-unlock|apply-all|destroy-all|delete|rm|refresh|bootstrap)\b"
        ),
    ),
    **dict.fromkeys(
        ("docker", "podman"),
        re.compile(
            r"^(?:volume (?:rm|prune)|(?:system|image|container|network|builder) prune|(?:stack|service|secret) rm"
            r"|swarm leave|log(?:in|out)\b|machine (?:rm|reset))"
            r"|^compose .*\bdown\b.* (?:-v|--volumes)|^compose (?:-\S+ (?:\S+ )?)*rm\b"
        ),
    ),
    "docker-compose": re.compile(r"\bdown\b.* (?:-v|--volumes)"),
    "dotnet": re.compile(r"^(?:ef database drop|nuget (?:push|delete))"),
    "npm": re.compile(
        r"^(?:unpublish|deprecate|owner|access|token|team|org|login|adduser|logout|profile set|dist-tags? (?:add|rm))"
    ),
    "cargo": re.compile(r"^(?:yank|owner|login|logout)"),
    "gem": re.compile(r"^(?:yank|owner|signin)"),
    **dict.fromkeys(("dropdb", "dropuser"), re.compile("")),
    "pg_ctl": re.compile(r"(?:^| )(?:stop|restart|kill|promote)\b"),
    "pg_restore": re.compile(r"(?:^| )(?:-[a-zA-Z]*[cC]|--clean|--create)\b"),
    "mongorestore": re.compile(r"--drop\b"),
    "mysqladmin": re.compile(r"(?:^| )(?:drop|shutdown|password|kill|flush-privileges)\b"),
    "redis-cli": re.compile(
        r"(?:^| )(?:flushall|flushdb|shutdown|config set|debug|slaveof|replicaof)\b", re.IGNORECASE
    ),
    "rabbitmqadmin": re.compile(r"^(?:delete|purge)"),
    "rabbitmqctl": re.compile(r"^(?:delete|purge|reset|force_reset|stop)"),
    "vault": re.compile(r"^(?:delete|kv (?:delete|destroy|put)|write|operator)"),
}
_GROUPS = r"^(?:[^- ]\S* )*"  # words before the first option
_NAMED = (
    rf"{_GROUPS}(?:list\S*|ls|show\S*|get\S*|view|describe\S*|info|version|help|logs?|tail|wait|read|search"
    r"|--version|--help)(?: |$)"
)
_FORGE = re.compile(
    r"^(?:\S+ )?(?:view|list|ls|status|diff|checks|download|watch|clone|checkout|trace|lint|get|--version)(?: |$)"
    r"|^(?:pr|mr|issue) (?:create|new|edit|update|comment|note|review|ready|close|reopen|develop)\b"
    r"|^(?:search|browse|status|version|help|completion)\b|^run (?:rerun|cancel)\b|^repo set-default\b"
)
# Of these programs, what is not known to read is a change.
_READS: dict[str, re.Pattern[str]] = {
    "aws": re.compile(
        r"^\S+ (?:describe|list|get|head|batch-get|search|lookup|filter|validate|test|simulate|estimate|detect)-"
        r"|^(?:s3 (?:ls|presign)|configure (?:list\S*|get)|dynamodb (?:query|scan)|logs tail|sso login|--version)\b"
        r"|^s3 (?:cp|sync) s3://\S+ (?!s3://)|(?:^| )(?:wait|help)(?: |$)"
    ),
    "gcloud": re.compile(rf"{_NAMED}|^auth (?:login|print)|^storage (?:cat|du|cp gs://\S+ (?!gs:))|^emulators"),
    "az": re.compile(rf"{_NAMED}|^login|^account set|{_GROUPS}(?:exists|download\S*|what-if|validate|query)(?: |$)"),
    **dict.fromkeys("doctl linode-cli hcloud oci ibmcloud".split(), re.compile(_NAMED)),
    **dict.fromkeys(
        ("kubectl", "oc"),
        re.compile(
            r"^(?:get|describe|logs|top|explain|version|api-resources|api-versions|cluster-info|diff"
            r"|auth (?:can-i|whoami)|wait|port-forward|completion|kustomize|events|options|plugin list|help|cp|--help"
            r"|--version|projects?|whoami|config (?:view|current-context|get-\S+|use-context|set-context)"
            r"|rollout (?:status|history))(?: |$)|^exec .*-- \S"
        ),
    ),
    "helm": re.compile(
        r"^(?:template|lint|list|ls|get|status|history|show|search|repo|dependency|dep|version|env|create|package|pull|test"
        r"|diff|plugin list|completion|help|push)\b"
    ),
    **dict.fromkeys(("gh", "glab"), _FORGE),
    "stripe": re.compile(rf"{_NAMED}|^(?:\S+ )?retrieve |^(?:listen|login|trigger|status|open|completion)\b"),
    "ansible-playbook": re.compile(r"(?:^| )(?:--(?:syntax-check|list-(?:hosts|tasks|tags)|version|check)|-C)(?: |$)"),
}
_CALLS = ("gh", "glab")
_CALL_CHANGES = re.compile(r"(?:^| )(?:-X|--method)(?![= ]?GET)|\bmutation\b", re.IGNORECASE)
_CALL_FIELDS = re.compile(r"^(?!.*(?:-X|--method)[= ]?GET).* (?:-[fF]|--field|--raw-field|--input)\b", re.IGNORECASE)
_TRIES = re.compile(r"--dry-?run(?:=(?:client|server|true))?")
_LOCAL_CLOUD = re.compile(r"--endpoint(?:-url)?[= ]https?://(?:localhost|127\.0\.0\.1)[:/]")
_DOCKER_READS = re.compile(
    r"(?:context|ps|images?|logs|inspect|info|version|stats|top|port|events|diff|history|search"
    r"|compose (?:ps|logs|config))\b"
)


def _changes_service(command: ShellCommand) -> bool:
    """Whether a command deletes or changes services, clusters, databases or backups."""
    name, words = _program(command)
    tries = [word for word in (words[: words.index("--")] if "--" in words else words) if word.startswith("--dry")]
    if tries and _TRIES.fullmatch(tries[-1]):
        return False
    texts = [" ".join(rest) for rest in after_options(words)]
    text = texts[0]
    if name in _CALLS and any(text.startswith("api ") for text in texts):
        is_query = "graphql" in words and "--input" not in words
        return bool(_CALL_CHANGES.search(text) or (not is_query and _CALL_FIELDS.search(text)))
    if name == "aws" and _LOCAL_CLOUD.search(text):
        return False
    if name == "docker" and _is_other_machine(command, words):
        return not any(map(_DOCKER_READS.match, texts))
    reads = _READS.get(name)
    is_change = name in _CHANGES and any(map(_CHANGES[name].search, texts))
    return is_change or (reads is not None and bool(words) and not any(map(reads.search, texts)))


def _program(command: ShellCommand) -> tuple[str, list[str]]:
    """The name and arguments; those of the script for `php artisan`, `python manage.py` and their like."""
    name, words = command.name or "", plain_words(command)
    if INTERPRETERS.fullmatch(name) and words and not words[0].startswith("-"):
        name, words = words[0].rpartition("/")[2], words[1:]
    return name, words if name in _READS or name == "redis-cli" else list(_without_text(words))


def _without_text(words: list[str]) -> Iterator[str]:
    """The words that are not messages."""
    yield from (word for word in words if not any(map(str.isspace, word)))


def _is_other_machine(command: ShellCommand, words: list[str]) -> bool:
    before = words[: len(words) - len(after_options(words)[-1])]
    named = any(re.match(r"-H|--host|-c$|--context", option) for option in before)
    return named or bool({"DOCKER_HOST", "DOCKER_CONTEXT"} & set(command.variables))


# --- services, clusters and databases that a command changes, and credentials that it has them print

_STATEMENTS = re.compile(
    r"\b(?:drop\s+(?:database|table|schema|user|role|view|index|column|keyspace|collection|function|trigger|type|sequence|extension)|truncate\b|delete\s+from|alter\s+(?:table|user|role|system)"
    r"|update\s+\S+\s+set|grant\s|revoke\s|dropDatabase|deleteMany|remove\(|drop\(\)|flush(?:all|db)\b)",
    re.IGNORECASE,
)
# A plan of a statement, which does not run it.
_EXPLAINED = re.compile(
    r"(?i)\bexplain\s+(?:query\s+plan\s+|\((?![^)]*analy[sz]e)[^)]*\)\s*|verbose\s+)?(?!analy[sz]e)\w[^;]*"
)
_DATABASES = frozenset(
    "redis-cli psql mysql mariadb sqlite3 mongo mongosh sqlcmd sqlplus duckdb clickhouse-client cqlsh bq "
    "snowsql".split()
)
_CREDENTIALS: dict[str, re.Pattern[str]] = {
    "gh": re.compile(r"^auth (?:token|status .*-t)"),
    "glab": re.compile(r"^(?:config get \S*token|variable (?:get|list|export)|auth status .*-t)"),
    **dict.fromkeys(
        ("terraform", "tofu", "terragrunt"),
        re.compile(r"^(?:output|show) .*-json|^state pull|^output (?:\S+ )*\S*(?:secret|token|pass|key|cred|conn|dsn)"),
    ),
    "pulumi": re.compile(r"--show-secrets|^config get|^stack export"),
    **dict.fromkeys(("docker", "podman", "nerdctl"), re.compile(r"^(?:\w+ )?inspect .*(?:\.Config(?: ?\}|$)|\bEnv\b)")),
    **dict.fromkeys(("vercel", "netlify", "eas"), re.compile(r"\benv[: ](?:pull|get)\b|^env:list")),
    **dict.fromkeys(("railway", "infisical", "doppler"), re.compile(r"^(?:variables?|export)\b|secrets")),
    **dict.fromkeys(
        "op bw rbw lpass keepassxc-cli keyring chamber aws-vault dotenvx dashlane-cli dcli akv".split(),
        re.compile(
            r"^(?:get|list|show|export|read|clip|password|otp|decrypt|code|unlock|(?:item|document) get|inject)\b"
        ),
    ),
    **dict.fromkeys(
        "sops ansible-vault age gpg gpg2".split(),
        re.compile(r"(?:^| )(?:-\w*d|--(?:export|delete)-secret\S*|-*decrypt|view|exec-\w+ \S+ (?:print)?env)(?: |$)"),
    ),
    **dict.fromkeys(("rails", "artisan"), re.compile(r"^(?:credentials:(?:show|edit)|env:decrypt|encrypted:show)")),
    **dict.fromkeys(("tmux", "direnv", "wg"), re.compile(r"^(?:show-?env|showconf|export|dump)")),
    "gcloud": re.compile(r"auth (?:application-default )?print-|secrets versions access"),
    "aws": re.compile(
        r"sts (?:get-session-token|assume-role)|configure (?:get .*(?:key|token)|export-credentials)|get-secret-value"
        r"|get-login-password|get-parameter|get-authorization-token|generate-db-auth-token"
    ),
    "az": re.compile(r"get-access-token|keyvault secret (?:show|download)|keys? list|credential show|appsettings list"),
    **dict.fromkeys(
        ("kubectl", "oc"), re.compile(r"(?:get|describe) (?:\S+ )*secrets?\b|config view .*--raw|create token")
    ),
    "vault": re.compile(r"^(?:read|kv get|token|print)"),
    **dict.fromkeys(
        ("pass", "gopass"),
        re.compile(r"^(?:show|-c|otp|(?!(?:ls|list|git|find|help|version|init|search|sync|audit)\b)[\w.-]+(?:/\S*)?$)"),
    ),
    **dict.fromkeys(("security", "secret-tool"), re.compile(r"(?:^| )(?:find|dump)-|^(?:lookup|search)")),
    "heroku": re.compile(r"^(?:config|auth:token)"),
    "npm": re.compile(r"^token list|^config get .*_auth"),
    "git": re.compile(r"^credential (?:fill|get)"),
    **dict.fromkeys(("xclip", "xsel", "pbpaste", "wl-paste"), re.compile(r"^$|^(?!.*-i).*(?:-o\b|--output)")),
    "printenv": re.compile(r"SECRET|TOKEN|PASSW|KEY|CREDENTIAL"),
}
_TUNNELS = frozenset(
    "ngrok cloudflared localtunnel lt bore frpc chisel sish zrok sshuttle wg-quick openvpn devtunnel tunnelto pagekite "
    "inlets tmate upterm gotty ttyd sshx pinggy telebit expose".split()
)
_SCANNERS = frozenset(
    "nmap masscan zmap tcpdump tshark ettercap arp-scan hydra nikto sqlmap metasploit msfconsole john hashcat".split()
)
_REMOVES_PACKAGES = re.compile(
    r"^(?:-\S+ )*(?:remove|rm|purge|autoremove|erase|uninstall|del|-r|-P|--remove|--purge|-R\w*)\b"
)
_SYSTEM_PACKAGES = frozenset("apt apt-get dpkg rpm dnf yum zypper pacman apk brew snap flatpak".split())


def check_services(command: ShellCommand, _: str) -> Iterator[str]:
    name, text = command.name or "", " ".join(plain_words(command))
    if name not in _DATABASES and plain_words(command)[-1:] == ["--help"]:
        return
    if _changes_service(command):
        yield "services"
    statements = (text, command.text or printed(command.sources) or "")
    if name in _DATABASES and any(_STATEMENTS.search(_EXPLAINED.sub("", statement)) for statement in statements):
        yield "services"
    program, words = _program(command)
    texts = ((name, text), (program, " ".join(words)))
    if any(key in _CREDENTIALS and _CREDENTIALS[key].search(shown) for key, shown in texts):
        yield "secrets"
    is_funnel = name == "tailscale" and bool({"funnel", "serve", "up", "set", "ssh"} & set(plain_words(command)[:1]))
    if name in _TUNNELS or is_funnel or (name == "code" and text.startswith("tunnel")):
        yield "reverse_shell"
    if name in _SCANNERS or (name in _SYSTEM_PACKAGES and _REMOVES_PACKAGES.search(text)):
        yield "control"
    if name in ("code", "cursor", "codium") and "--install-extension" in text:
        yield "persistence"


# --- credentials and the history of commands

_NO_READERS = "mkdir du tree dirname basename rmdir echo printf test [ [[ ls stat".split()
_INSPECTS = re.compile(r"(?:docker|podman|nerdctl) (?:\w+ )?inspect|helm get")
_CONTAINERS = ("docker", "podman", "nerdctl")  # their `-v FOLDER:/PLACE`
_METADATA = ("169.254.169.254", "metadata.google.internal", "[fd00:ec2::254]")


def check_secrets(command: ShellCommand, workspace: str) -> Iterator[str]:
    name, words = command.name or "", plain_words(command)
    if name not in _NO_READERS and not copies_example(command) and not _reads_certificate(name, words):
        own = configuration(command, workspace)
        for word in (word for word in _names_files(command) if word not in own):
            value = word.rpartition("=")[2] or word
            yield from _of_word(value.partition(":/")[0] if name in _CONTAINERS else value, command, workspace)
    if _reads_whole_folders(command) or (name == "find" and _reads_secrets_found(words)):
        for path in paths_of(operands(command), command, workspace):
            if path is not None and holds_secrets(path):
                yield "secrets"
    inspected = (" ".join((source.name or "", *plain_words(source))) for source in command.sources)
    if any(map(_INSPECTS.match, inspected)) and re.search("(?i)env|pass|secret|token|key|cred", " ".join(words)):
        yield "secrets"
    if (name == "ps" and _lists_environments(words)) or _prints_environment(command):
        yield "secrets"
    if name == "history" or (name == "set" and "history" in words):
        yield "history"
    if name == "unset" and any(word.startswith("HIST") for word in words):
        yield "history"


# Options whose value is a file that a program reads as its environment or variables; short ones of some programs.
_CONFIGURES = re.compile(r"--?(?:env-?file(?:-if-exists)?|env-path|dotenv|var-file)(?:=|$)")
_SHORT_CONFIGURES = frozenset("dotenv dotenv-cli dotenvx env-cmd foreman honcho flask".split())  # with -e or -f
# Words that have such a program show what it has read.
_SHOWS = frozenset("env printenv export set config convert list get console".split())
_PRINTERS = frozenset("echo printf cat tee logger curl wget http https xh nc mail sendmail ls basename expr".split())


def configuration(command: ShellCommand, workspace: str) -> set[str]:
    """The words for files of the project with credentials that a program only reads, such as `--env-file=.env`."""
    name, words = command.name or "", plain_words(command)
    short = ("-e", "-f") if _SHORT_CONFIGURES.intersection((name, *words[:2])) else ()
    named = words[:1] if name in ("source", ".") else []
    for before, word in pairwise(["", *words]):
        is_after = before in short or _CONFIGURES.fullmatch(before) is not None
        named += [word] if is_after or _CONFIGURES.match(word) else []
    paths = ((word, resolved(word.rpartition("=")[2], command.folder, workspace)) for word in named)
    return {word for word, path in paths if path is not None and zone(path) == "inside" and is_secret(path)}


def shows_vars(commands: Iterable[ShellCommand], workspace: str) -> bool:
    """Whether commands of a script print or send what one of them has read as its configuration."""
    commands = list(commands)
    readers = [command for command in commands if configuration(command, workspace)]
    return any(_shows(command, is_reader=command in readers) for command in commands if readers)


def _shows(command: ShellCommand, *, is_reader: bool) -> bool:
    name, words = command.name or "", plain_words(command)
    has_variable = any(not word or "$" in word for word in words)
    if is_reader and (any("$" in word and " " in word for word in words) or _SHOWS & set(" ".join(words).split())):
        return True
    if INTERPRETERS.fullmatch(name) and inline_code(command.words) != ():
        return True
    is_heredoc = (not words or name == "tee") and not (command.text or command.sources or command.reads)
    has_code = name in _PATTERNED and re.search(r"\$ENV|ENVIRON|\benv\b", " ".join(words))
    is_dump = name in ("printenv", "envsubst") or {"env", "printenv"} & {*words} or _prints_environment(command)
    return bool(has_code or is_dump or (name in _PRINTERS and (has_variable or is_heredoc)))


# Programs whose first operand is a pattern or a script.
_PATTERNED = frozenset("grep egrep fgrep rg ag ack jq yq sed awk gawk mawk".split())


def _names_files(command: ShellCommand) -> list[str]:
    """The words of a command that can be files, without patterns."""
    name, words = command.name or "", plain_words(command)
    if name == "git":
        return _shown_files(words)
    if name == "find" and not any(word.startswith(("-exec", "-ok", "-f")) for word in words):
        return [word for before, word in pairwise(["", *words]) if before not in _FIND_TESTS]
    if name not in _PATTERNED or {"--files", "-f"} & set(words):
        return words
    named = [word for before, word in pairwise(["", *words]) if re.fullmatch(r"-\w*e|--(?:regexp|expression)", before)]
    patterns = named or [word for word in words if not word.startswith("-")][:1]
    return [word for word in words if word not in patterns]


_SHOWS_FILES = re.compile(
    r"^(?:show|diff|cat-file|blame|annotate|grep|archive|log .*(?:-p|-u|--patch|-L)\b|stash show .*-p)"
)
_ONLY_NAMED = ("--stat", "--name-only", "--name-status", "--shortstat", "--quiet", "-q", "-l", "-t", "-s")


def _shown_files(words: list[str]) -> list[str]:
    """The files whose content `git` shows: operands, and `REVISION:FILE`."""
    shows = any(map(_SHOWS_FILES.match, map(" ".join, after_options(words)))) and not {*words} & {*_ONLY_NAMED}
    return [word.rpartition(":")[2] for word in words if not word.startswith((":!", ":^", "-"))] if shows else []


_FIND_TESTS = ("-name", "-iname", "-path", "-ipath", "-wholename", "-regex", "-iregex")


def _reads_certificate(name: str, words: list[str]) -> bool:
    """Whether openssl reads the public part of a file only."""
    return name == "openssl" and words[:1] in (["x509"], ["verify"], ["crl"], ["s_client"]) and "-signkey" not in words


def _lists_environments(words: list[str]) -> bool:
    """Whether `ps` shows the environment of processes: `ps auxe`, `ps -p 1 e`."""
    letters = [
        word for before, word in pairwise(["", *words]) if not re.fullmatch(r"--?(?:\w*[opuUCtgGNq]|\w{3,})", before)
    ]
    return any(re.fullmatch(r"[a-zA-Z]*e[a-zA-Z]*", word) for word in letters)


def _of_word(word: str, command: ShellCommand, workspace: str) -> Iterator[str]:
    path = resolved(word.lstrip("@").rpartition("@")[2], command.folder, workspace)
    yield from secret_kinds(path or "")
    if any(address in word for address in _METADATA):
        yield "secrets"
    if re.search(r"/dev/(?:tcp|udp)/", word):
        yield "reverse_shell"


def _reads_whole_folders(command: ShellCommand) -> bool:
    name = command.name or ""
    if name in ("grep", "egrep", "fgrep", "cp", "zip", "scp", "diff"):
        return any(re.match(r"-[a-zA-Z]*[rR]|--(?:dereference-)?recursive", option) for option in options(command)) or (
            name == "cp" and bool({"-a", "--archive"} & options(command))
        )
    return name in ("rg", "ag", "ack", "tar", "rsync", "7z")


def _reads_secrets_found(words: list[str]) -> bool:
    """Whether `find` runs a command for all files, or for those with a name like that of a credential."""
    names = [after for word, after in pairwise(words) if word in ("-name", "-iname", "-path", "-regex")]
    runs = any(word.startswith(("-exec", "-ok")) for word in words)
    return runs and (not names or any(map(PICKS_SECRETS.search, names)))


def _prints_environment(command: ShellCommand) -> bool:
    if command.name in ("env", "set"):
        return len(command.words) == 1
    return command.name in ("printenv", "export", "declare", "typeset") and not operands(command)
