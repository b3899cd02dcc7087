"""The settings of a server, as the options of `guardagent serve` and its settings file state them.

policies:
  refunds: policies/refunds.yaml
  mail:
    files: [policies/mail.yaml]
    tenants: [shop, bank]
    principal: host
state: postgresql://guard@db.example/guards

The console, webhooks, and the times after which a server deletes have settings of their own.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from guardagent._support.files import parse_yaml, read_text
from guardagent._support.http import is_loopback
from guardagent.errors import ContentError, InputError, UnknownNameError, name_hint

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

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


# --- the console


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """The time for which people stay signed in.

    Attributes:
        is_served: whether there is a console at all.
        idle_seconds: without use.
        longest_seconds: in any case.
    """

    is_served: bool = True
    idle_seconds: float = 1800.0
    longest_seconds: float = 43_200.0


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


def read_retention(value: Mapping[str, Any]) -> RetentionSettings:
    """Reads the settings.

    Raises:
        InputError: a time is invalid.
    """
    for name, days in value.items():
        is_never = days is None and name == "abandoned_days"
        if not (is_never or (type(days) in (int, float) and 0 < days <= 36_500)):
            unit = name.partition("_")[2]
            raise InputError(f"{name!r} of 'retention' is {days!r}; expected a number of {unit} above 0")
    return RetentionSettings(**value)


# --- webhooks

WebhookEvent = Literal["approval.requested", "approval.answered", "approval.expired"]
EVENTS: tuple[WebhookEvent, ...] = ("approval.requested", "approval.answered", "approval.expired")
_PREFIX = "whsec_"
_SHORTEST, _LONGEST = 24, 64  # bytes, as the standard has it


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """An address that receives the events of approvals.

    Attributes:
        url: the address: https, or http on this machine.
        secret_file: a secret in each line; messages are signed with all of them, so that they can be exchanged.
        events: the events that are sent.
        tenants: the tenants whose events are sent; None for all.
        include_arguments: whether messages have the arguments of calls.
    """

    url: str
    secret_file: Path
    events: tuple[WebhookEvent, ...] = EVENTS
    tenants: frozenset[str] | None = None
    include_arguments: bool = False

    def secrets(self) -> list[bytes]:
        """Reads the secrets.

        Raises:
            InputError: the file is missing, or a line is not a secret.
        """
        lines = [line.strip() for line in read_text(self.secret_file).splitlines() if line.strip()]
        if not lines:
            raise InputError(f"{self.secret_file}: is empty; expected a line 'whsec_' and base64")
        return [_secret(line, self.secret_file) for line in lines]


def read_webhook(value: Any, place: str, folder: Path) -> WebhookSettings:
    """Reads a webhook of a settings file, and its secrets once.

    Raises:
        InputError: it is invalid.
    """
    keys = _keys(WebhookSettings)
    if not isinstance(value, dict):
        raise InputError(f"{place} is {type(value).__name__}; expected a mapping with {', '.join(keys)}")
    for name in value:
        if name not in keys:
            raise InputError(f"{place} has the unknown key {name!r}{name_hint(str(name), keys)}")
    for name in ("url", "secret_file"):
        if not isinstance(value.get(name), str):
            raise InputError(f"{place} lacks {name!r}; expected a string")
    events = value.get("events", list(EVENTS))
    if not (isinstance(events, list) and events and all(event in EVENTS for event in events)):
        raise InputError(f"'events' of {place} is {events!r}; expected a list of these: {', '.join(EVENTS)}")
    tenants = _tenants(value.get("tenants"), place)
    if type(value.get("include_arguments", False)) is not bool:
        raise InputError(f"'include_arguments' of {place} is {value['include_arguments']!r}; expected true or false")
    webhook_settings = WebhookSettings(
        _url(value["url"], place),
        folder / value["secret_file"],
        tuple(events),
        tenants,
        value.get("include_arguments", False),
    )
    webhook_settings.secrets()
    return webhook_settings


def _url(text: str, place: str) -> str:
    try:
        parts = urlsplit(text)
        is_safe = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname))
        is_safe = is_safe and bool(parts.hostname) and parts.username is None and text.isprintable()
    except ValueError:
        is_safe = False
    if not is_safe:
        raise InputError(f"'url' of {place} is {text!r}; expected 'https://…' without a user, or http on this machine")
    return text


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


# --- the server

DEFAULT_POLICY = "default"
DEFAULT_FOLDER = "guardagent-state"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_KINDS: dict[str, tuple[type, ...]] = {"max_replans": (int,), "deadline": (int, float), "zone": (str,)}
_CONSOLE_KEYS = ("idle_seconds", "longest_seconds")


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
    """

    files: tuple[Path, ...]
    tenants: frozenset[str] | None = None
    principal: Literal["caller", "host"] = "caller"
    state: str = ""
    zone: str | None = None
    max_replans: int = 3
    deadline: float = 10.0
    approvals: ApprovalRules = field(default_factory=ApprovalRules)

    def may_be_used_by(self, tenant: str) -> bool:
        """Whether agents of a tenant may use this policy."""
        return self.tenants is None or tenant in self.tenants


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
        webhooks: the addresses that receive the events of approvals, by their URLs.
        retention: how long a server keeps what it no longer needs.
    """

    policies: Mapping[str, PolicySettings]
    state: str = f"sqlite:{DEFAULT_FOLDER}"
    log: str = ""
    agents: Mapping[str, AgentSettings] = field(default_factory=dict)
    workflows: Mapping[str, WorkflowSettings] = field(default_factory=dict)
    console: ConsoleSettings = field(default_factory=ConsoleSettings)
    webhooks: Mapping[str, WebhookSettings] = field(default_factory=dict)
    retention: RetentionSettings = field(default_factory=RetentionSettings)

    def __post_init__(self) -> None:
        if not self.policies:
            raise InputError("there is no policy; expected '--policies FILE', or 'policies' in the settings file")
        for name in self.policies:
            if not _NAME.fullmatch(name):
                raise InputError(f"the policy {name[:80]!r} has no usable name; expected letters, digits and . _ -")
        for name, workflow in self.workflows.items():
            if workflow.policy and workflow.policy not in self.policies:
                raise UnknownNameError("policy", workflow.policy, self.policies, f"the workflow {name!r}")

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
    value = parse_yaml(read_text(path), path)
    try:
        mapping = _mapping(value, "the file", _keys(ServerSettings))
        policies = _mapping(mapping.get("policies", {}), "'policies'", None)
        agents = _mapping(mapping.get("agents", {}), "'agents'", None)
        workflows = _mapping(mapping.get("workflows", {}), "'workflows'", None)
        folder = Path(path).parent
        return ServerSettings(
            {name: _policy(policy, f"the policy {name!r}", folder) for name, policy in policies.items()},
            **{name: _string(mapping[name], name) for name in ("state", "log") if name in mapping},
            agents={name: _agent(agent, f"the agent {name!r}", folder) for name, agent in agents.items()},
            workflows={
                name: _workflow(workflow, f"the workflow {name!r}", folder) for name, workflow in workflows.items()
            },
            console=_console(mapping.get("console", True)),
            webhooks=_webhooks(mapping.get("webhooks", []), folder),
            retention=read_retention(_mapping(mapping.get("retention", {}), "'retention'", _keys(RetentionSettings))),
        )
    except ContentError:
        raise
    except InputError as error:
        raise ContentError(str(error), path) from None


def _policy(value: Any, place: str, folder: Path) -> PolicySettings:
    if isinstance(value, str | list):
        value = {"files": value}
    mapping = _mapping(value, place, _keys(PolicySettings))
    files = mapping.pop("files", None)
    files = [files] if isinstance(files, str) else files
    if not (isinstance(files, list) and files and all(isinstance(file, str) for file in files)):
        raise InputError(f"'files' of {place} is {files!r}; expected a path, or a list of paths")
    tenants = _tenants(mapping.pop("tenants", None), place)
    if mapping.get("principal", "caller") not in ("caller", "host"):
        raise InputError(f"'principal' of {place} is {mapping['principal']!r}; expected 'caller' or 'host'")
    if "state" in mapping and not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", _string(mapping["state"], "state")):
        raise InputError(f"'state' of {place} is {mapping['state']!r}; expected 'module:callable'")
    for name, kinds in _KINDS.items():
        if name in mapping and (not isinstance(mapping[name], kinds) or isinstance(mapping[name], bool)):
            raise InputError(f"{name!r} of {place} is {mapping[name]!r}; expected a number, or a name of a zone")
    if "approvals" in mapping:
        mapping["approvals"] = _approvals(mapping["approvals"], f"'approvals' of {place}")
    return PolicySettings(tuple(folder / file for file in files), tenants, **mapping)


def _approvals(value: Any, place: str) -> ApprovalRules:
    mapping = _mapping(value, place, _keys(ApprovalRules))
    if type(mapping.get("quorum", 1)) is not int or not 1 <= mapping.get("quorum", 1) <= 100:
        raise InputError(f"'quorum' of {place} is {mapping['quorum']!r}; expected 1 to 100 approvers")
    seconds = mapping.get("seconds", 1)
    if type(seconds) not in (int, float) or not 0 < seconds <= 30 * 86_400:
        raise InputError(f"'seconds' of {place} is {seconds!r}; expected seconds, up to 30 days")
    if type(mapping.get("four_eyes", True)) is not bool:
        raise InputError(f"'four_eyes' of {place} is {mapping['four_eyes']!r}; expected true or false")
    return ApprovalRules(**mapping)


def _agent(value: Any, place: str, folder: Path) -> AgentSettings:
    mapping = _mapping({"agent": value} if isinstance(value, str) else value, place, _keys(AgentSettings))
    tenants = _tenants(mapping.pop("tenants", None), place)
    for name, setting in mapping.items():
        _string(setting, f"{name} of {place}")
    if "agent" not in mapping:
        raise InputError(f"{place} lacks 'agent'; expected the name of a known agent")
    if mapping.get("mode", "program") not in ("auto", "generate", "program"):
        raise InputError(f"'mode' of {place} is {mapping['mode']!r}; expected 'auto', 'generate' or 'program'")
    locked = mapping.pop("locked", None)
    return AgentSettings(**mapping, locked=None if locked is None else folder / locked, tenants=tenants)


def _workflow(value: Any, place: str, folder: Path) -> WorkflowSettings:
    mapping = _mapping({"graph": value} if isinstance(value, str) else value, place, _keys(WorkflowSettings))
    tenants = _tenants(mapping.pop("tenants", None), place)
    for name, setting in mapping.items():
        _string(setting, f"{name} of {place}")
    if "graph" not in mapping:
        raise InputError(f"{place} lacks 'graph'; expected the file of a graph")
    return WorkflowSettings(folder / mapping["graph"], mapping.get("policy", ""), tenants)


def _webhooks(value: Any, folder: Path) -> dict[str, WebhookSettings]:
    if not isinstance(value, list):
        raise InputError(f"'webhooks' is {type(value).__name__}; expected a list")
    webhooks = [read_webhook(webhook, f"webhook {at}", folder) for at, webhook in enumerate(value, 1)]
    if len({webhook.url for webhook in webhooks}) < len(webhooks):
        raise InputError("'webhooks' has an address twice; expected each once, with all of its events")
    return {webhook.url: webhook for webhook in webhooks}


def _console(value: Any) -> ConsoleSettings:
    if isinstance(value, bool):
        return ConsoleSettings(is_served=value)
    mapping = _mapping(value, "'console'", _CONSOLE_KEYS)
    for name, seconds in mapping.items():
        if type(seconds) not in (int, float) or not 0 < seconds <= 30 * 86_400:
            raise InputError(f"{name!r} of 'console' is {seconds!r}; expected seconds, up to 30 days")
    return ConsoleSettings(**mapping)


def _tenants(value: Any, place: str) -> frozenset[str] | None:
    if not (value is None or (isinstance(value, list) and all(isinstance(tenant, str) for tenant in value))):
        raise InputError(f"'tenants' of {place} is {value!r}; expected a list of names")
    return None if value is None else frozenset(value)


def _keys(settings: type[DataclassInstance]) -> tuple[str, ...]:
    """The keys of a mapping, which are the fields of its settings."""
    return tuple(key.name for key in fields(settings))


def _mapping(value: Any, place: str, known: tuple[str, ...] | None) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise InputError(f"{place} is {type(value).__name__}; expected a mapping of names to values")
    for name in value if known is not None else ():
        if name not in known:  # type: ignore[operator]
            raise InputError(f"{place} has the unknown key {name!r}{name_hint(name, known or ())}")
    return dict(value)


def _string(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"{name!r} is {value!r}; expected a string")
    return value
