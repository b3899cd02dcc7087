"""Services, clusters and databases that a command deletes or changes, and credentials that it has them print."""

from __future__ import annotations

import re
from collections.abc import Iterator

from guardagent.packs.shell.arguments import plain_words
from guardagent.packs.shell.incoming import printed
from guardagent.packs.shell.machine_checks import changes_service
from guardagent.packs.shell.script import ShellCommand

_STATEMENTS = re.compile(
    r"\b(?:drop\s+(?:database|table|schema|user|role|view|index|column|keyspace|collection|function|trigger|type|sequence|extension)|truncate\b|delete\s+from|alter\s+(?:table|user|role|system)"
    r"|update\s+\S+\s+set|grant\s|revoke\s|dropDatabase|deleteMany|remove\(|drop\(\)|flush(?:all|db)\b)",
    re.IGNORECASE,
)
_DATABASES = frozenset(
    "redis-cli psql mysql mariadb sqlite3 mongo mongosh sqlcmd sqlplus duckdb clickhouse-client cqlsh bq "
    "snowsql".split()
)
_CREDENTIALS: dict[str, re.Pattern[str]] = {
    "gh": re.compile(r"^auth (?:token|status .*-t)"),
    "gcloud": re.compile(r"auth (?:application-default )?print-|secrets versions access"),
    "aws": re.compile(
        r"sts get-session-token|configure (?:get|export-credentials)|get-secret-value|get-login-password|get-parameter"
    ),
    "az": re.compile(r"account get-access-token|keyvault secret show|keys list"),
    "kubectl": re.compile(r"(?:get|describe) (?:\S+ )*secrets?\b|config view .*--raw|create token"),
    "vault": re.compile(r"^(?:read|kv get|token|print)"),
    "op": re.compile(r"^(?:read|item get|inject)"),
    "pass": re.compile(r"^(?:show|-c|\w+/)"),
    "security": re.compile(r"^(?:find|dump)-"),
    "doppler": re.compile(r"secrets"),
    "heroku": re.compile(r"^(?:config|auth:token)"),
    "npm": re.compile(r"^token list|^config get .*_auth"),
    "git": re.compile(r"^credential (?:fill|get)"),
    "printenv": re.compile(r"SECRET|TOKEN|PASSW|KEY|CREDENTIAL"),
}
_TUNNELS = frozenset("ngrok cloudflared localtunnel lt bore frpc chisel sish zrok sshuttle wg-quick openvpn".split())
_SCANNERS = frozenset(
    "nmap masscan zmap tcpdump tshark ettercap arp-scan hydra nikto sqlmap metasploit msfconsole john hashcat".split()
)
_REMOVES_PACKAGES = re.compile(r"^(?:-\S+ )*(?:remove|purge|autoremove|erase|uninstall|-r|--remove|-R\w*)\b")
_SYSTEM_PACKAGES = frozenset("apt apt-get dpkg rpm dnf yum zypper pacman apk brew snap flatpak".split())


def check(command: ShellCommand, _: str) -> Iterator[str]:
    name, text = command.name or "", " ".join(plain_words(command))
    if name not in _DATABASES and plain_words(command)[-1:] == ["--help"]:
        return
    if changes_service(command):
        yield "services"
    if name in _DATABASES and any(map(_STATEMENTS.search, (text, command.text or printed(command.sources) or ""))):
        yield "services"
    if name in _CREDENTIALS and _CREDENTIALS[name].search(text):
        yield "secrets"
    is_funnel = name == "tailscale" and bool({"funnel", "serve", "up", "set", "ssh"} & set(plain_words(command)[:1]))
    if name in _TUNNELS or is_funnel or (name == "code" and text.startswith("tunnel")):
        yield "reverse_shell"
    if name in _SCANNERS or (name in _SYSTEM_PACKAGES and _REMOVES_PACKAGES.search(text)):
        yield "control"
    if name in ("code", "cursor", "codium") and "--install-extension" in text:
        yield "persistence"
