"""The package of docs/plugins.md, installed in a folder: its files, a copy of the template, and its entry points."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

from tests.docs.test_docs import BLOCK, ROOT

_TEMPLATE = ROOT / "guardagent" / "frameworks" / "_template"
_FLOWS = """
class Step:
    def __init__(self, name, tool):
        self.name, self.tool = name, tool

    def run(self, args):
        return f"{self.tool} ran with {args}"


class Flow:
    def __init__(self, steps):
        self.steps = steps
"""


def install(folder: Path, *, version: str = "1.0") -> None:
    """Writes the package and its framework as if both were installed in a folder."""
    for block in BLOCK.finditer((ROOT / "docs" / "plugins.md").read_text(encoding="utf-8")):
        if block["file"]:
            _write(folder / block["file"], block["text"])
    for file in _TEMPLATE.rglob("*.py"):
        text = file.read_text(encoding="utf-8").replace("guardagent.frameworks._template", "acme_guard.flows")
        _write(folder / "acme_guard" / "flows" / file.relative_to(_TEMPLATE), text)
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    register(folder, project["name"], project["entry-points"])
    _write(folder / "acme_flows.py", _FLOWS)
    register(folder, "acme-flows", {}, version)


def register(folder: Path, name: str, groups: Mapping[str, Mapping[str, str]], version: str = "1.0") -> None:
    """Writes the metadata of an installed distribution."""
    about = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    _write(about / "METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = [
        line
        for group, entries in groups.items()
        for line in (f"[{group}]", *(f"{entry} = {module}" for entry, module in entries.items()))
    ]
    _write(about / "entry_points.txt", "\n".join(lines) + "\n")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
