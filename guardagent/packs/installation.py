"""Adds a pack to a policy file. The rest of the file stays as it is written."""

from __future__ import annotations

from pathlib import Path

import yaml

from guardagent._support.files import read_text, save_text
from guardagent.errors import ContentError, InputError
from guardagent.packs.catalogue import Pack
from guardagent.policy.file.inclusion_keys import PACK
from guardagent.policy.file.policy_file import read_policy_text, read_single_file


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
        if any(one.path.parent.resolve() == folder for one in read_single_file(path).inclusions):
            raise InputError(f"{path}: already includes '{PACK}{pack.name}'")
        text = _with_entry(read_text(path), entry, path)
    read_policy_text(text, path.parent)
    save_text(path, text)
    return entry


def _with_entry(text: str, entry: str, path: Path) -> str:
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode)  # it has been read as a policy file
    found = next((value for key, value in root.value if key.value == "include"), None)
    if root.flow_style or isinstance(found, yaml.MappingNode):
        raise ContentError(f"cannot be extended as it is written; add this to the list in 'include:': {entry}", path)
    if found is None:
        version = next(value for key, value in root.value if key.value == "version")
        at = text.find("\n", version.end_mark.index) + 1 or len(text)
        before = text[:at] if text[:at].endswith("\n") else f"{text[:at]}\n"
        return f"{before}include:\n  - {entry}\n{text[at:]}"
    start, end = found.start_mark.index, found.end_mark.index
    if isinstance(found, yaml.ScalarNode):
        return f"{text[:start]}[{entry}, {text[start:end]}]{text[end:]}"
    if found.flow_style:
        return f"{text[: start + 1]}{entry}, {text[start + 1 :]}"
    return f"{text[:start]}- {entry}\n{' ' * found.start_mark.column}{text[start:]}"
