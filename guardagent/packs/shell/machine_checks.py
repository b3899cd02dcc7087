"""Programs that manage services, clusters, databases and backups: which of their commands change something."""

from __future__ import annotations

import re
from collections.abc import Iterator

from guardagent.packs.shell.arguments import after_options, plain_words
from guardagent.packs.shell.foreign_code import INTERPRETERS
from guardagent.packs.shell.script import ShellCommand

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
    r"|^(?:job stop|downgrade base|flush|clean)(?: |$)|^--prod"
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
            r"|rollout (?:status|history))(?: |$)"
        ),
    ),
    "helm": re.compile(
        r"^(?:template|lint|list|ls|get|status|history|show|search|repo|dependency|dep|version|env|create|package|pull|test"
        r"|diff|plugin list|completion|help|push)\b"
    ),
    **dict.fromkeys(("gh", "glab"), _FORGE),
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


def changes_service(command: ShellCommand) -> bool:
    """Whether a command deletes or changes services, clusters, databases or backups."""
    name, words = _program(command)
    tries = [one for one in (words[: words.index("--")] if "--" in words else words) if one.startswith("--dry")]
    if tries and _TRIES.fullmatch(tries[-1]):
        return False
    texts = [" ".join(rest) for rest in after_options(words)]
    text = texts[0]
    if name in _CALLS and any(one.startswith("api ") for one in texts):
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
    """The words that are no messages."""
    yield from (one for one in words if not any(map(str.isspace, one)))


def _is_other_machine(command: ShellCommand, words: list[str]) -> bool:
    options = words[: len(words) - len(after_options(words)[-1])]
    named = any(re.match(r"-H|--host|-c$|--context", one) for one in options)
    return named or bool({"DOCKER_HOST", "DOCKER_CONTEXT"} & set(command.variables))
