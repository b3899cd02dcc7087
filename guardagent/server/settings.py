"""The settings of a server, as the options of `guardagent serve` and its settings file state them.

policies:
  refunds: policies/refunds.yaml
  mail:
    files: [policies/mail.yaml]
    tenants: [shop, bank]
    principal: host
state: postgresql://guard@db.example/guards

The console, the channels to people, and the times after which a server deletes have settings of their own.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.errors import MessageError
from email.headerregistry import Address
from email.utils import parseaddr
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

from guardagent._support.files import parse_yaml, read_text
from guardagent._support.json_values import record_of
from guardagent.errors import ContentError, InputError, UnknownNameError
from guardagent.server.access import Caller, CallerRole, require_secure_url


def is_among(tenant: str, tenants: frozenset[str] | None) -> bool:
    """Whether settings that are for some tenants, or None for all, are for this one."""
    return tenants is None or tenant in tenants


_MOST_SECONDS, _MOST_DAYS = 30 * 86_400, 36_500


def _require_number(value: float, name: str, most: float, expected: str) -> None:
    if not 0 < value <= most:
        raise InputError(f"{name!r} is {value}; expected {expected}")


# --- approvals


@dataclass(frozen=True, slots=True)
class ApprovalRules:
    """The rules for the approvals of a policy.

    Attributes:
        quorum: how many approvers have to agree.
        seconds: how long a request waits; after that it is denied.
        four_eyes: whether nobody may approve a call of their own: neither the caller that requests it nor the user on
            whose behalf the agent acts.
    """

    quorum: int = 1
    seconds: float = 3600.0
    four_eyes: bool = True

    def __post_init__(self) -> None:
        _require_number(self.quorum, "quorum", 100, "1 to 100 approvers")
        _require_number(self.seconds, "seconds", _MOST_SECONDS, "seconds above 0, up to 30 days")


# --- the console


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """The time for which people stay signed in, and the address where they do.

    Attributes:
        is_served: whether there is a console at all.
        idle_seconds: without use.
        longest_seconds: in any case.
        address: the server's address as people reach it; empty if it is unknown. OpenID providers send people back
            to it, and cards and e-mails link to it.
    """

    is_served: bool = True
    idle_seconds: float = 1800.0
    longest_seconds: float = 43_200.0
    address: str = ""

    def __post_init__(self) -> None:
        for name in ("idle_seconds", "longest_seconds"):
            _require_number(getattr(self, name), name, _MOST_SECONDS, "seconds above 0, up to 30 days")
        if self.address:
            require_secure_url(self.address, "address")
            if urlsplit(self.address)[2:] != ("", "", ""):
                raise InputError(
                    f"'address' is {self.address!r}; expected it without a path, such as 'https://guard.example'"
                )


# --- retention


@dataclass(frozen=True, slots=True)
class RetentionSettings:
    """The times after which a server deletes. The log is not concerned.

    Attributes:
        answer_hours: of answers to requests with an idempotency key, for their repetitions.
        session_days: of sessions that have ended, after they were opened.
        approval_days: of approvals that are decided or expired, after they were requested.
        abandoned_days: after which a session that is still open is ended; None for never.
    """

    answer_hours: float = 1.0
    session_days: float = 90.0
    approval_days: float = 90.0
    abandoned_days: float | None = None

    def __post_init__(self) -> None:
        for name in ("answer_hours", "session_days", "approval_days", "abandoned_days"):
            if (period := getattr(self, name)) is not None:
                _require_number(period, name, _MOST_DAYS, f"a number of {name.partition('_')[2]} above 0")


# --- webhooks

ApprovalEvent = Literal["approval.requested", "approval.answered", "approval.expired", "approval.escalated"]
LogEvent = Literal[
    "call.denied", "call.halted", "stop.made", "stop.lifted", "token.created", "token.rotated", "token.revoked"
]
WebhookEvent = Literal[ApprovalEvent, LogEvent]
DEFAULT_EVENTS: tuple[ApprovalEvent, ...] = ("approval.requested", "approval.answered", "approval.expired")
EVENTS: tuple[ApprovalEvent, ...] = (*DEFAULT_EVENTS, "approval.escalated")
LOG_EVENTS: frozenset[WebhookEvent] = frozenset(get_args(LogEvent))
_PREFIX = "whsec_"
_SHORTEST, _LONGEST = 24, 64  # bytes, as the standard has it


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """An address that receives the events of approvals, and others that it names.

    Attributes:
        url: the address: https, or http on this machine.
        secret_file: a secret in each line; messages are signed with all of them, so that they can be exchanged.
        events: the events that are sent.
        tenants: the tenants whose events are sent; None for all.
        include_arguments: whether messages have the arguments of calls.
        card: whether messages have the card that reviewers read, with arguments and evidence.
    """

    url: str
    secret_file: Path
    events: tuple[WebhookEvent, ...] = DEFAULT_EVENTS
    tenants: frozenset[str] | None = None
    include_arguments: bool = False
    card: bool = False

    def __post_init__(self) -> None:
        require_secure_url(self.url, "url")
        self.secrets()
        if not self.events:
            raise InputError(f"'events' is empty; expected some of these: {', '.join((*EVENTS, *get_args(LogEvent)))}")

    def secrets(self) -> list[bytes]:
        """Reads the secrets.

        Raises:
            InputError: the file is missing, or a line is not a secret.
        """
        return [_secret(line, self.secret_file) for line in secrets_in(self.secret_file)]


def _secret(line: str, path: Path) -> bytes:
    try:
        b64decode = base64.b64decode(line.removeprefix(_PREFIX), validate=True) if line.startswith(_PREFIX) else b""
    except binascii.Error:
        b64decode = b""
    if not _SHORTEST <= len(b64decode) <= _LONGEST:
        raise InputError(
            f"{path}: a line is not a secret; expected 'whsec_' and {_SHORTEST} to {_LONGEST} bytes in base64"
        )
    return b64decode


def secrets_in(path: Path, shortest: int = 1) -> list[str]:
    """Reads the secrets in the lines of a file.

    Raises:
        InputError: the file is missing or empty, or a line is too short, or is not printable ASCII.
    """
    lines = [line.strip() for line in read_text(path, may_be_blank=True).splitlines() if line.strip()]
    if not lines:
        raise InputError(f"{path}: is empty; expected a secret in a line")
    if not all(len(line) >= shortest and line.isascii() and line.isprintable() for line in lines):
        raise InputError(f"{path}: a line is not a secret; expected {shortest} or more characters of ASCII")
    return lines


# --- answers from chats and e-mails

_SHORTEST_KEY = 32  # characters


@dataclass(frozen=True, slots=True)
class AnswerSettings:
    """The signatures of the answers that buttons and links carry.

    Attributes:
        secret_file: a secret in each line. The first one signs, each is accepted, so that they can be exchanged.
        groups: the groups of approvers, as rules with `escalate_to:` name them -> the ids of those who answer here.
    """

    secret_file: Path
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.secrets()

    def groups_of(self, approver: str) -> frozenset[str]:
        """Returns the groups of an approver."""
        return frozenset(group for group, members in self.groups.items() if approver in members)

    def secrets(self) -> list[str]:
        """Reads the secrets; raises as `secrets_in`."""
        return secrets_in(self.secret_file, _SHORTEST_KEY)


@dataclass(frozen=True, slots=True)
class SlackSettings:
    """A channel of Slack with a card for each approval.

    Attributes:
        token_file: has the token of the app's bot.
        signing_secret_file: has the secret with which Slack signs what people do.
        channel: the id of the channel.
        users: the ids of the members who may answer -> the approvers that they are.
        tenants: the tenants whose approvals are sent; None for all.
        team: the id of the only workspace whose members may answer; empty for any.
        api: the address of Slack's API.
    """

    token_file: Path
    signing_secret_file: Path
    channel: str
    users: Mapping[str, str]
    tenants: frozenset[str] | None = None
    team: str = ""
    api: str = "https://slack.com/api/"

    def __post_init__(self) -> None:
        require_secure_url(self.api, "api")
        _require_approvers(self.users)
        for path in (self.token_file, self.signing_secret_file):
            secrets_in(path)


@dataclass(frozen=True, slots=True)
class EmailSettings:
    """E-mails to approvers.

    Attributes:
        smtp: the mail server: `smtps://HOST:PORT`, or `smtp://HOST:PORT`, where TLS begins with STARTTLS. Only on this
            machine is there none.
        from_: the header `From`.
        to: the addresses of the people who may answer -> the approvers that they are.
        user: the name at the mail server; empty without a password.
        password_file: has the password.
        events: the events that are sent.
        tenants: the tenants whose approvals are sent; None for all.
    """

    smtp: str
    from_: str
    to: Mapping[str, str]
    user: str = ""
    password_file: Path | None = None
    events: tuple[ApprovalEvent, ...] = EVENTS
    tenants: frozenset[str] | None = None

    def __post_init__(self) -> None:
        _require_approvers(self.to)
        if not self.events:
            raise InputError(f"'events' is empty; expected some of these: {', '.join(EVENTS)}")
        try:
            for address in (*self.to, parseaddr(self.from_)[1]):
                Address(addr_spec=address)
            server = urlsplit(self.smtp)
            is_server = server.scheme in ("smtp", "smtps") and bool(server.hostname) and server.port != 0
        except (ValueError, IndexError, MessageError) as error:  # of an address, or of a port
            raise InputError(f"an address is invalid: {error}") from None
        if not is_server or server.username is not None:
            raise InputError(f"'smtp' is {self.smtp!r}; expected 'smtp://HOST:PORT' or 'smtps://HOST:PORT'")
        if bool(self.user) is not bool(self.password_file):
            raise InputError("one of 'user' and 'password_file' is missing; expected both or neither")
        if self.password_file is not None:
            secrets_in(self.password_file)


def _require_approvers(people: Mapping[str, str]) -> None:
    for approver in people.values():
        Caller(approver, frozenset({CallerRole.APPROVER}), DEFAULT_POLICY)


# --- the server

DEFAULT_POLICY = "default"
DEFAULT_FOLDER = "guardagent-state"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_COMMIT = re.compile(r"[0-9a-f]{4,64}(-dirty)?")
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """A policy of a server.

    Attributes:
        files: its files.
        tenants: the tenants that may use it; None for all.
        principal: `caller`, or `host` if an agent's host may name the user on whose behalf a session runs.
        state: `module:callable` of the operator, which returns the state of a session by its id; empty if the agent's
            host sends the state.
        zone: the time zone of its rules.
        max_replans: see `ToolGuard`.
        deadline: see `ToolGuard`.
        approvals: the rules for the approvals of its calls.
        commit_file: has the commit of the repository that the files come from; None if nobody writes it down.
    """

    files: tuple[Path, ...]
    tenants: frozenset[str] | None = None
    principal: Literal["caller", "host"] = "caller"
    state: str = ""
    zone: str | None = None
    max_replans: int = 3
    deadline: float = 10.0
    approvals: ApprovalRules = field(default_factory=ApprovalRules)
    commit_file: Path | None = None

    def __post_init__(self) -> None:
        if not self.files:
            raise InputError("'files' is empty; expected a path, or a list of paths")
        if self.state and not _FUNCTION.fullmatch(self.state):
            raise InputError(f"'state' is {self.state!r}; expected 'module:callable'")
        self.commit()

    def commit(self) -> str:
        """Reads the commit; empty without its file.

        Raises:
            InputError: the file is missing, or its content is no commit.
        """
        text = "" if self.commit_file is None else read_text(self.commit_file).strip()
        if self.commit_file is not None and not _COMMIT.fullmatch(text):
            raise InputError(f"{self.commit_file}: is not a commit; expected what 'git rev-parse HEAD' prints")
        return text


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """An agent whose finished runs a server judges.

    Attributes:
        agent: the name of a known agent; see `GuardAgent`.
        mode: see `GuardAgent`.
        model: see `GuardAgent`.
        locked: see `GuardAgent`.
        tenants: the tenants that may use it; None for all.
    """

    agent: str
    mode: Literal["auto", "generate", "program"] = "program"
    model: str | None = None
    locked: Path | None = None
    tenants: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class WorkflowSettings:
    """A workflow graph that the console shows, verified against a policy.

    Attributes:
        graph: the file of the graph, as `guardagent graph --out` writes it.
        policy: the name of the policy; empty for the structural checks alone.
        tenants: the tenants that may see it; None for all.
    """

    graph: Path
    policy: str = ""
    tenants: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The settings of a server.

    Attributes:
        policies: the policies by their names.
        state: the address of the state that all servers share: `sqlite:FOLDER`, `postgresql://…` or `redis://…`.
        log: a folder for a log of each tenant, or a PostgreSQL address; empty for the folder of the state.
        agents: the agents whose finished runs are judged, by their names.
        workflows: the workflow graphs that the console shows, by their names.
        console: how long people stay signed in to the console.
        webhooks: the addresses that receive the events of approvals.
        slack: the channels of Slack with approvals.
        email: the people who get e-mails about approvals.
        answers: the signatures of answers from Slack and e-mails.
        retention: how long a server keeps what it no longer needs.
        signing_key: the file of the private key that signs the logs; None for none.
    """

    policies: Mapping[str, PolicySettings]
    state: str = f"sqlite:{DEFAULT_FOLDER}"
    log: str = ""
    agents: Mapping[str, AgentSettings] = field(default_factory=dict)
    workflows: Mapping[str, WorkflowSettings] = field(default_factory=dict)
    console: ConsoleSettings = field(default_factory=ConsoleSettings)
    webhooks: tuple[WebhookSettings, ...] = ()
    slack: tuple[SlackSettings, ...] = ()
    email: tuple[EmailSettings, ...] = ()
    answers: AnswerSettings | None = None
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    signing_key: Path | None = None

    def __post_init__(self) -> None:
        if not self.policies:
            raise InputError("there is no policy; expected '--policies FILE', or 'policies' in the settings file")
        for name in self.policies:
            if not _NAME.fullmatch(name):
                raise InputError(f"the policy {name[:80]!r} has no usable name; expected letters, digits and . _ -")
        for name, workflow in self.workflows.items():
            if workflow.policy and workflow.policy not in self.policies:
                raise UnknownNameError("policy", workflow.policy, self.policies, f"the workflow {name!r}")
        if len({webhook.url for webhook in self.webhooks}) < len(self.webhooks):
            raise InputError("'webhooks' has an address twice; expected each once, with all of its events")
        for name in ("slack", "email"):
            if getattr(self, name) and self.answers is None:
                raise InputError(f"'answers' is missing; {name!r} needs its 'secret_file', which signs answers")
            if getattr(self, name) and not (self.console.is_served and self.console.address):
                raise InputError(
                    f"{name!r} needs the console and its address; expected 'console: {{address: https://…}}'"
                )

    @classmethod
    def of_files(cls, *files: Path | str, **options: Any) -> ServerSettings:
        """Returns the settings of a server with one policy, named `default`."""
        policies = {DEFAULT_POLICY: PolicySettings(tuple(map(Path, files)))} if files else {}
        return cls(policies, **options)


def read_server_settings(path: Path | str) -> ServerSettings:
    """Reads a settings file. Its paths are relative to its folder.

    Raises:
        InputError: the file is missing or invalid.
    """
    value, folder = parse_yaml(read_text(path), path), Path(path).parent
    try:
        return record_of(ServerSettings, _unabridged(value), "", {str: _line, Path: lambda text: folder / _line(text)})
    except ValueError as error:
        raise ContentError(str(error), path) from None


_FIRST = {"policies": "files", "agents": "agent", "workflows": "graph"}


def _unabridged(value: Any) -> Any:
    """Returns the content of a file without its short forms: a value instead of a mapping, or of a list."""
    if not isinstance(value, dict):
        return value
    full = {"policies": {}, **value}
    for key, first in _FIRST.items():
        if isinstance(items := full.get(key), dict):
            full[key] = {name: {first: item} if isinstance(item, str | list) else item for name, item in items.items()}
    if isinstance(policies := full["policies"], dict):
        for name, policy in policies.items():
            if isinstance(policy, dict) and isinstance(policy.get("files"), str):
                policies[name] = {**policy, "files": [policy["files"]]}
    for key in {"webhooks", "slack", "email"} & full.keys():
        full[key] = full[key] if isinstance(full[key], list) else [full[key]]
    if isinstance(is_served := full.get("console"), bool):
        full["console"] = {"is_served": is_served}
    elif isinstance(console := full.get("console"), dict) and isinstance(console.get("address"), str):
        full["console"] = {**console, "address": console["address"].removesuffix("/")}
    return full


def _line(text: str) -> str:
    if not text.isprintable():
        raise InputError(f"is {text!r}; expected a string of one line")
    return text
