"""The shipped packs: their pages, rules and parameters, and the entry that adds one to a policy file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from guardagent._support.files import read_text, save_text, shipped_pack, shipped_packs
from guardagent.errors import ContentError, InputError
from guardagent.policy.file.inclusion_keys import PACK
from guardagent.policy.file.policy_file import PolicyFile, read_policy_file, read_policy_text, read_single_file


@dataclass(frozen=True, slots=True)
class Pack:
    """A shipped pack."""

    name: str
    folder: Path

    @property
    def page(self) -> str:
        """The page about the pack: the dangers that it stops, and those that it does not."""
        return read_text(self.folder / "README.md")

    @property
    def summary(self) -> str:
        """The first sentence of the page."""
        return self.page.split("\n\n")[1].replace("\n", " ")

    @property
    def cases(self) -> Path:
        return self.folder / "cases.jsonl"

    @property
    def policy(self) -> PolicyFile:
        return read_policy_file(self.folder / "policy.yaml")

    def description(self) -> dict[str, Any]:
        """The pack as JSON: its rules, and the parameters that a policy can set."""
        policy = self.policy
        return {
            "name": f"{PACK}{self.name}",
            "summary": self.summary,
            "rules": [rule.id for rule in policy.rules],
            "constants": {name: _plain(constant.value) for name, constant in policy.constants.items()},
            "tools": {tag: sorted(tools) for tag, tools in policy.tags.items()},
        }


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value if isinstance(value, str | bool | int) else str(value)


def packs() -> list[Pack]:
    """All shipped packs."""
    return [pack(name) for name in shipped_packs()]


def pack(name: str) -> Pack:
    """A shipped pack.

    Raises:
        UnknownNameError: there is no pack with this name.
    """
    plain = name.removeprefix(PACK)
    return Pack(plain, shipped_pack(plain))


def add_pack(pack: Pack, path: Path, *, trial: bool = False) -> str:
    """Writes the entry of a pack into `include:` of a policy file, which is created if it is missing.

    Args:
        pack: the pack.
        path: the policy file.
        trial: whether a violation of its rules only warns.

    Returns:
        The entry.

    Raises:
        InputError: the file is invalid, already includes the pack, or would become invalid.
    """
    entry = f"{{pack: {PACK}{pack.name}, on_violation: warn}}" if trial else f"{PACK}{pack.name}"
    if not path.exists():
        text = f"version: 1\ninclude:\n  - {entry}\n"
    else:
        folder = pack.folder.resolve()
        if any(inclusion.path.parent.resolve() == folder for inclusion in read_single_file(path).inclusions):
            raise InputError(f"{path}: already includes '{PACK}{pack.name}'")
        text = _with_entry(read_text(path), entry, path)
    read_policy_text(text, path.parent)
    save_text(path, text)
    return entry


def _with_entry(text: str, entry: str, path: Path) -> str:
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode)  # it has been read as a policy file
    include_node = next((value for key, value in root.value if key.value == "include"), None)
    if root.flow_style or isinstance(include_node, yaml.MappingNode):
        raise ContentError(f"cannot be extended as it is written; add this to the list in 'include:': {entry}", path)
    if include_node is None:
        version = next(value for key, value in root.value if key.value == "version")
        at = text.find("\n", version.end_mark.index) + 1 or len(text)
        before = text[:at] if text[:at].endswith("\n") else f"{text[:at]}\n"
        return f"{before}include:\n  - {entry}\n{text[at:]}"
    start, end = include_node.start_mark.index, include_node.end_mark.index
    if isinstance(include_node, yaml.ScalarNode):
        return f"{text[:start]}[{entry}, {text[start:end]}]{text[end:]}"
    if include_node.flow_style:
        return f"{text[: start + 1]}{entry}, {text[start + 1 :]}"
    return f"{text[:start]}- {entry}\n{' ' * include_node.start_mark.column}{text[start:]}"
