"""Rules for one task only: they are added to the rules of a policy, which they cannot remove, weaken or redefine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from guardagent.errors import ContentError, InputError
from guardagent.policy.file.inclusions import added
from guardagent.policy.file.policy_file import PolicyFile, read_policy_data, read_policy_file, read_policy_text
from guardagent.policy.load import compile_policies, functions_of, request_checks, require_locked, toolbox_functions
from guardagent.policy.policies import Policies

PREFIX = "extra."
_FIXED = {
    "tools": "the policy declares the tools",
    "failed_output": "the policy tells failed calls apart",
    "ignored": "they are not verified",
}
_SOURCES = "rules of the policy read the sources of values, and these would get other labels"


def with_extra(base: Policies, extra: Any) -> Policies:
    """The rules of a policy and more rules, with ids that begin with `extra.`.

    The added rules can use the names of the policy. A call that no rule of the policy covers stays denied where
    unlisted calls are denied: an added rule only restricts.

    Args:
        base: the policy.
        extra: the added rules: a policy file (a path), its content (a string with several lines, or a mapping), or
            loaded policies.

    Raises:
        InputError: the rules are invalid, or they would change the policy.
    """
    if base.source is None:
        raise InputError("rules for one task need policies from 'load_policies'")
    own = extra if isinstance(extra, Policies) else None
    file = _file(extra)
    if (known := base.extended.get(file.digest)) is not None:
        return known
    _refuse_changes(base.source, file, base_reads_sources=base.sources is not None)
    if base.locked is not None:
        require_locked(base.locked, file)
    functions = functions_of(file, toolbox_functions) if own is None else own.functions
    _refuse_clashes(base, file, functions)
    found = compile_policies(
        added(base.source, file, PREFIX),
        {**base.functions, **{PREFIX + name: one for name, one in functions.items()}},
        request_checks(file, own),
        base=base,
    )
    _refuse_similar_names(base, found)
    base.extended.put(file.digest, found)
    return found


def _file(extra: Any) -> PolicyFile:
    if isinstance(extra, Policies):
        if extra.source is None:
            raise InputError(
                "the rules for one task are not from 'load_policies'; expected a policy file or its content"
            )
        return extra.source
    if isinstance(extra, Mapping):
        return read_policy_data(extra)
    if isinstance(extra, str) and ("\n" in extra or extra.lstrip().startswith("{")):
        return read_policy_text(extra)
    if isinstance(extra, str | Path):
        return read_policy_file(extra)
    raise InputError(
        f"the rules for one task are a {type(extra).__name__}; expected a policy file, its content or loaded policies"
    )


def _refuse_changes(base: PolicyFile, file: PolicyFile, *, base_reads_sources: bool) -> None:
    for field, why in _FIXED.items():
        if getattr(file, field):
            key = "ignore" if field == "ignored" else field
            raise ContentError(f"rules for one task cannot have {key!r}: {why}; remove it", file.path)
    if base_reads_sources and (file.labels.sources or file.labels.ids):
        key = "labels" if file.labels.sources else "ids"
        raise ContentError(f"rules for one task cannot have {key!r}: {_SOURCES}; remove it", file.path)
    for rule in file.rules:
        if PREFIX + rule.id in {one.id for one in base.rules}:
            raise ContentError(f"policy id {PREFIX + rule.id!r} is already used by the policy", rule.path, rule.line)


def _refuse_clashes(base: Policies, file: PolicyFile, functions: Mapping[str, Callable[..., Any]]) -> None:
    source = base.source
    assert source is not None
    known = {"tags": source.tags, "constants": source.constants, "define": source.definitions}
    own = {"tags": file.tags, "constants": file.constants, "define": file.definitions}
    for key, names in own.items():
        if twice := sorted(names.keys() & known[key].keys()):
            raise ContentError(_taken(twice[0], source.place_of(key, twice[0])), file.place_of(key, twice[0]))
    if twice := sorted(functions.keys() & base.functions.keys()):
        raise ContentError(_taken(twice[0], str(source.path)), file.path)


def _taken(name: str, there: str) -> str:
    return f"the policy already declares {name!r} in {there}; rules for one task cannot redefine it"


def _refuse_similar_names(base: Policies, found: Policies) -> None:
    """Rejects names that the policy denies as misspellings: a rule about them would make them known."""
    for kind, name in found.names_beyond(base):
        if problem := base.problem(kind, name):
            raise InputError(f"the rules for one task name the {problem}; expected the policy's name")
