"""Services, clusters and databases that a command deletes or changes, and credentials that it has them print."""

from __future__ import annotations

import re
from collections.abc import Iterator

from guardagent.packs.shell.arguments import plain_words
from guardagent.packs.shell.incoming import printed
from guardagent.packs.shell.script import ShellCommand

_DELETES = (
    r"(?:^|[ :-])(?:delete|destroy|terminate|remove|rm|rb|purge|drop"
    r"|uninstall|decommission|wipe|deregister|revoke|reset)"
)
_CLOUDS = re.compile(
    rf"{_DELETES}(?:[- :]|$)|(?:^| )(?:stop|reboot|modify|put|update|scale)-"
    r"|create-access-key|keys create|attach-\S+-policy|add-iam-policy-binding|role assignment create"
)
_CHANGES: dict[str, re.Pattern[str]] = {
    **dict.fromkeys(
        "aws gcloud az doctl linode-cli hcloud oci ibmcloud flyctl fly heroku vercel netlify".split(), _CLOUDS
    ),
    **dict.fromkeys("railway render wrangler firebase supabase eksctl kops".split(), _CLOUDS),
    "kubectl": re.compile(
        r"(?:^| )(?:delete|drain|cordon|replace|scale|rollout (?:undo|restart)|taint|exec|edit|patch)\b"
        r"|(?:^| )create (?:cluster)?role|(?:^| )auth reconcile"
    ),
    "helm": re.compile(r"^(?:uninstall|delete|rollback|upgrade)\b"),
    **dict.fromkeys(
        ("terraform", "tofu", "terragrunt", "pulumi", "cdk"),
        re.compile(r"^(?:-\S+ )*(?:apply|destroy|import|taint|state (?:rm|mv|push)|up|down|deploy|force-unlock)\b"),
    ),
    **dict.fromkeys(
        ("docker", "podman"),
        re.compile(
            r"^(?:volume (?:rm|prune)|(?:system|image|container|network) prune|(?:stack|service|secret) rm|swarm leave)"
            r"|^compose .*\bdown\b.* (?:-v|--volumes)|^compose (?:-\S+ (?:\S+ )?)*rm\b"
        ),
    ),
    "docker-compose": re.compile(r"\bdown\b.* (?:-v|--volumes)"),
    "gh": re.compile(
        r"^(?:repo|release|secret|variable|run|cache|gist|label|issue|workflow|ssh-key|gpg-key) "
        r"(?:delete|remove|archive|transfer|disable)"
        r"|^api .*(?:-X|--method)[= ]?(?:DELETE|PUT|PATCH|POST)|^pr merge|^repo (?:edit|rename|archive)|^secret set"
    ),
    "glab": re.compile(r"(?:delete|mr merge)"),
    "npm": re.compile(r"^(?:unpublish|deprecate|owner|access|token|dist-tag (?:add|rm))"),
    "dropdb": re.compile(""),
    "dropuser": re.compile(""),
    "pg_restore": re.compile(r"(?:^| )(?:-[a-zA-Z]*[cC]|--clean|--create)\b"),
    "mongorestore": re.compile(r"--drop\b"),
    "mysqladmin": re.compile(r"(?:^| )(?:drop|shutdown|password|kill|flush-privileges)\b"),
    "redis-cli": re.compile(
        r"(?:^| )(?:flushall|flushdb|shutdown|config set|debug|slaveof|replicaof)\b", re.IGNORECASE
    ),
    "rabbitmqadmin": re.compile(r"^(?:delete|purge)"),
    "rabbitmqctl": re.compile(r"^(?:delete|purge|reset|force_reset|stop)"),
    "ansible-playbook": re.compile(r"^(?!.*--(?:syntax-check|list-(?:hosts|tasks|tags)|version)\b)"),
    "vault": re.compile(r"^(?:delete|kv (?:delete|destroy|put)|write|operator)"),
}
_STATEMENTS = re.compile(
    r"\b(?:drop\s+(?:database|table|schema|user|role|view|index|column)|truncate\b|delete\s+from|alter\s+(?:table|user|role|system)"
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
_TUNNELS = frozenset("ngrok cloudflared localtunnel lt bore frpc chisel sish zrok".split())
_SCANNERS = frozenset(
    "nmap masscan zmap tcpdump tshark ettercap arp-scan hydra nikto sqlmap metasploit msfconsole john hashcat".split()
)
_REMOVES_PACKAGES = re.compile(r"^(?:-\S+ )*(?:remove|purge|autoremove|erase|uninstall|-r|--remove|-R\w*)\b")
_SYSTEM_PACKAGES = frozenset("apt apt-get dpkg rpm dnf yum zypper pacman apk brew snap flatpak".split())


def check(command: ShellCommand, _: str) -> Iterator[str]:
    name, text = command.name or "", " ".join(plain_words(command))
    if name not in _DATABASES and plain_words(command)[-1:] == ["--help"]:
        return
    if name in _CHANGES and _CHANGES[name].search(text):
        yield "services"
    if name in _DATABASES and any(map(_STATEMENTS.search, (text, command.text or printed(command.sources) or ""))):
        yield "services"
    if name in _CREDENTIALS and _CREDENTIALS[name].search(text):
        yield "secrets"
    if name in _TUNNELS:
        yield "reverse_shell"
    if name in _SCANNERS or (name in _SYSTEM_PACKAGES and _REMOVES_PACKAGES.search(text)):
        yield "control"
    if name in ("code", "cursor", "codium") and "--install-extension" in text:
        yield "persistence"
