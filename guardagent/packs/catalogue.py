"""The shipped packs: their pages, rules and parameters."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from guardagent._support.content import shipped_pack, shipped_packs
from guardagent._support.files import read_text
from guardagent.policy.file.inclusion_keys import PACK
from guardagent.policy.file.policy_file import PolicyFile, read_policy_file


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
            "constants": {name: _plain(one.value) for name, one in policy.constants.items()},
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
