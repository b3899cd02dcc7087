"""Standards that ask something of agents: what is met by which page and test, and what a configuration switches off.

`guardagent doctor --standard aisvs` reads the policy files and the settings of a server, and names the requirements
that GuardAgent can meet and this configuration does not use. docs/standards.md has all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from guardagent._support.files import parse_yaml, read_text
from guardagent.errors import UnknownNameError
from guardagent.policy.file.policy_file import PolicyFile
from guardagent.server.settings import ServerSettings
from guardagent.types import Decision

Status = Literal["met", "partly", "not", "not ours"]
_FILE = Path(__file__).with_name("standards.yaml")


@dataclass(frozen=True, slots=True)
class Requirement:
    """A requirement of a standard.

    Attributes:
        id: its number there.
        title: its subject, in our words.
        status: whether a guard meets it; `not ours` if a policy layer cannot.
        page: the page of the documentation.
        test: the test that shows it, as pytest names it.
        note: what is missing.
        check: the check of a configuration; empty if it needs none.
        level: its level in OWASP AISVS.
    """

    id: str
    title: str
    status: Status
    page: str = ""
    test: str = ""
    note: str = ""
    check: str = ""
    level: int = 0


@dataclass(frozen=True, slots=True)
class StandardResult:
    """A requirement, and how to switch on what the configuration lacks; empty if nothing is off."""

    requirement: Requirement
    missing: str

    @property
    def json(self) -> dict[str, Any]:
        return {**asdict(self.requirement), "missing": self.missing}


def requirements(standard: str) -> list[Requirement]:
    """Returns the requirements of a standard.

    Raises:
        UnknownNameError: there is no such standard.
    """
    known = parse_yaml(read_text(_FILE), _FILE)
    if standard not in known:
        raise UnknownNameError("standard", standard, known)
    return [Requirement(**{**entry, "id": str(entry["id"])}) for entry in known[standard]]


def compared(standard: str, policies: PolicyFile | None, settings: ServerSettings | None) -> list[StandardResult]:
    """Compares a configuration with a standard.

    Args:
        standard: its name, such as `aisvs`.
        policies: the policy files; None without any, so that every check of them fails.
        settings: the settings of a server; None if there is no server.

    Raises:
        UnknownNameError: there is no such standard.
    """
    configuration = _Configuration(policies, settings)
    return [StandardResult(each, _missing(each, configuration)) for each in requirements(standard)]


@dataclass(frozen=True, slots=True)
class _Configuration:
    policies: PolicyFile | None
    settings: ServerSettings | None

    def includes(self, *packs: str) -> bool:
        rules = () if self.policies is None else self.policies.rules
        return any(rule.in_pack and rule.path.parent.name in packs for rule in rules)

    def escalates(self) -> bool:
        rules = () if self.policies is None else self.policies.rules
        return any(rule.on_violation is Decision.ESCALATE and not rule.on_trial for rule in rules)

    def has(self, field: str) -> bool:
        return bool(getattr(self.policies, field, None))

    def requires(self) -> bool:
        return self.policies is not None and any(rule.id.startswith("require_") for rule in self.policies.rules)

    def lists(self, name: str) -> bool:
        constants = {} if self.policies is None else self.policies.constants
        return any(f".{known}".endswith(f".{name}") and constant.value for known, constant in constants.items())


_Check = tuple[Callable[[_Configuration], bool], str]
_CHECKS: Mapping[str, _Check] = {
    "approval": (_Configuration.escalates, "no rule asks a person; write 'on_violation: escalate' or 'require:'"),
    "budgets": (lambda it: it.has("counters") or it.includes("runaway"), "write 'counters:', or include runaway"),
    "effects": (lambda it: it.has("effects"), "write 'effects:' for the tools"),
    "instructions": (lambda it: it.includes("instructions"), "include the pack guardagent:instructions"),
    "require": (_Configuration.requires, "write 'require: {irreversible: approval}'"),
    "secrets": (lambda it: it.includes("secrets"), "include the pack guardagent:secrets"),
    "packages": (lambda it: it.lists("shell.packages"), "include guardagent:shell with the constant 'packages'"),
    "servers": (lambda it: it.lists("mcp.servers"), "include guardagent:mcp with the constant 'servers'"),
    "signing": (
        lambda it: it.settings is not None and it.settings.signing_key is not None,
        "write 'signing_key:' into the settings of the server",
    ),
    "timeouts": (lambda it: it.has("timeouts"), "write 'timeouts:' for the tools that may hang"),
    "unlisted": (
        lambda it: it.policies is not None and (it.policies.unlisted == "deny" or it.policies.tools is not None),
        "write 'unlisted: deny' or 'tools:', so that other calls are denied",
    ),
}


def _missing(requirement: Requirement, configuration: _Configuration) -> str:
    if not requirement.check:
        return ""
    holds, how = _CHECKS[requirement.check]
    return "" if holds(configuration) else how
