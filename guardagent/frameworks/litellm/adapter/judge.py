"""The options of the guardrail in the proxy's `config.yaml`."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from litellm.types.guardrails import LitellmParams

from guardagent.enforcement import EnforcementPoint, ToolGuard
from guardagent.enforcement.remote import RemoteGuard, wait_for_reviewers
from guardagent.errors import InputError, name_hint
from guardagent.frameworks.litellm.adapter.caller import HEADER, RolesFrom, principal
from guardagent.log import AuditLog

_LOCAL = ("policies", "ledger", "counters", "log", "answers", "approver", "facts", "state", "deadline", "max_replans")
_REMOTE = ("server", "server_policy", "token_file", "ca", "allow_http", "reviewers", "on_behalf_of")
_BOTH = ("aliases", "absent")
_IMPORTED = ("answers", "approver", "facts", "state")
_HOOKS = frozenset({"pre_call", "post_call"})


@dataclass(frozen=True, slots=True)
class GuardrailOptions:
    """The behaviour of the guardrail.

    Attributes:
        conversation: the header that names the conversation.
        replan: whether the proxy asks the model again if all calls of its response were denied.
        unguarded: the kinds of requests that pass without a guard.
        unguarded_tools: the kinds of tools that run at the provider, or in the proxy, without a guard.
        unknown_calls: with `judge`, messages may show calls that this guard never judged; rules about earlier calls
            deny then. With `refuse`, such a request is refused.
        roles_from: the metadata that names the roles of the principal.
    """

    conversation: str = HEADER
    replan: bool = True
    unguarded: frozenset[str] = frozenset()
    unguarded_tools: frozenset[str] = frozenset()
    unknown_calls: str = "refuse"
    roles_from: RolesFrom = "team"


@dataclass(slots=True)
class ReadOptions:
    """The options as they are read: each is taken once."""

    values: dict[str, Any]
    known: list[str] = field(default_factory=list)

    def take(self, name: str, kind: type | tuple[type, ...], default: Any, expected: str) -> Any:
        """Returns an option.

        Raises:
            InputError: it has another type.
        """
        value = self.values.get(name)
        if value is None:
            return default
        if not isinstance(value, kind):
            raise InputError(f"the option {name!r} of the guardrail is {value!r}; expected {expected}")
        return value

    def take_names(self, name: str) -> frozenset[str]:
        """Returns an option that is a list of strings."""
        found = self.take(name, (list, tuple, set, frozenset), (), "a list of strings")
        if not all(isinstance(one, str) for one in found):
            raise InputError(f"the option {name!r} of the guardrail is {found!r}; expected a list of strings")
        return frozenset(found)


def read_options(values: Mapping[str, Any]) -> tuple[GuardrailOptions, EnforcementPoint]:
    """Returns the behaviour of the guardrail and its guard.

    Raises:
        InputError: an option is invalid.
    """
    own = {name: one for name, one in values.items() if one is not None}
    _refuse_unknown(own)
    options = ReadOptions(own)
    return _behaviour(options), _guard(options)


def _behaviour(options: ReadOptions) -> GuardrailOptions:
    choices = {"unknown_calls": ("refuse", "judge"), "roles_from": ("team", "key")}
    chosen = {name: options.take(name, str, these[0], _either(these)) for name, these in choices.items()}
    for name, value in chosen.items():
        if value not in choices[name]:
            raise InputError(f"the option {name!r} of the guardrail is {value!r}; expected {_either(choices[name])}")
    return GuardrailOptions(
        conversation=options.take("conversation", str, HEADER, "the name of a header"),
        replan=options.take("replan", bool, default=True, expected="true or false"),
        unguarded=options.take_names("unguarded"),
        unguarded_tools=options.take_names("unguarded_tools"),
        **chosen,
    )


def _guard(options: ReadOptions) -> EnforcementPoint:
    found = [name for name in ("guard", "policies", "server") if name in options.values]
    if len(found) != 1:
        raise InputError(f"the guardrail has {_listed(found)}; expected one of 'policies', 'server' and 'guard'")
    others = {"guard": (), "policies": (*_LOCAL, *_BOTH), "server": (*_REMOTE, *_BOTH)}[found[0]]
    odd = [name for name in (*_LOCAL, *_REMOTE, *_BOTH) if name in options.values and name not in others]
    if odd:
        raise InputError(f"the option {odd[0]!r} of the guardrail does not go with {found[0]!r}")
    return {"guard": _own, "policies": _local, "server": _remote}[found[0]](options)


def _own(options: ReadOptions) -> EnforcementPoint:
    guard = options.values["guard"]
    guard = _imported(guard) if isinstance(guard, str) else guard
    if not isinstance(guard, EnforcementPoint):
        raise InputError(f"the option 'guard' is a {type(guard).__name__}; expected a ToolGuard or a RemoteGuard")
    return guard


def _local(options: ReadOptions) -> ToolGuard:
    found = {name: options.values[name] for name in (*_LOCAL, *_BOTH) if name in options.values}
    found |= {name: _imported(found[name]) for name in _IMPORTED if isinstance(found.get(name), str)}
    if isinstance(found.get("log"), str):
        found["log"] = AuditLog(found["log"])
    return ToolGuard(found.pop("policies"), principal=principal, **found)


def _remote(options: ReadOptions) -> RemoteGuard:
    found = {
        name: options.values[name] for name in ("token_file", "ca", "allow_http", *_BOTH) if name in options.values
    }
    if "reviewers" in options.values:
        found["approver"] = wait_for_reviewers(options.values["reviewers"])
    if options.take("on_behalf_of", bool, default=False, expected="true or false"):
        found["on_behalf_of"] = principal
    policy = options.take("server_policy", str, "default", "the name of a policy on the server")
    return RemoteGuard(options.take("server", str, "", "the address of a server"), policy=policy, **found)


def _imported(path: str) -> Any:
    """Returns an object by its import path, such as `my_shop.guards.answers`.

    Raises:
        InputError: there is no such object.
    """
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(f"{path!r} cannot be imported: {error}; expected 'MODULE.NAME'") from None


def check_mode(mode: Any) -> list[str]:
    """Returns the hooks of the guardrail.

    Raises:
        InputError: they are not exactly the two that it needs.
    """
    found = mode if isinstance(mode, list | tuple) else [mode]
    names = {str(getattr(one, "value", one)) for one in found}
    if names != _HOOKS:
        raise InputError(
            f"'mode' of the guardrail is {mode!r}; expected 'mode: [pre_call, post_call]', since calls are judged in "
            "the response, and their results come with the next request"
        )
    return sorted(_HOOKS)


def _refuse_unknown(values: Mapping[str, Any]) -> None:
    own = (*GuardrailOptions.__dataclass_fields__, *_LOCAL, *_REMOTE, *_BOTH, "guard")
    for name in values:
        if name not in own and name not in LitellmParams.model_fields:
            raise InputError(f"the guardrail has no option {name!r}{name_hint(name, own)}")


def _either(names: tuple[str, ...]) -> str:
    return " or ".join(map(repr, names))


def _listed(names: Sequence[str]) -> str:
    return " and ".join(map(repr, names)) or "no policies"
