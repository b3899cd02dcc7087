"""Paths are judged after resolving links, from the workspace of the policy."""

from __future__ import annotations

from pathlib import Path

import pytest

from guardagent import Decision, InputError, load_policies


def decision(workspace: Path | str, tool: str, path: str, *folders: str) -> Decision:
    constants = {"workspace": str(workspace), "folders": list(folders)}
    entry = {"pack": "guardagent:filesystem", "constants": constants}
    return load_policies(data={"version": 1, "include": [entry]}).session().check(tool, {"path": path}).decision


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "out").symlink_to(tmp_path)
    (folder / ".env").write_text("KEY=1")
    (folder / "harmless.txt").symlink_to(folder / ".env")
    (tmp_path / "alias").symlink_to(folder)
    return folder


def test_links_out_of_the_workspace(workspace: Path) -> None:
    """A write is denied, a read needs a person."""
    assert decision(workspace, "write_file", "out/x") is Decision.DENY
    assert decision(workspace, "read_file", "out/x") is Decision.ESCALATE


def test_a_link_to_credentials(workspace: Path) -> None:
    """Its name is harmless, its target is not."""
    assert decision(workspace, "read_file", "harmless.txt") is Decision.DENY


def test_absolute_paths_in_the_workspace(workspace: Path) -> None:
    """Also by another name of it; a folder whose name only begins alike is outside."""
    alias = workspace.parent / "alias"
    assert decision(workspace, "write_file", str(alias / "x")) is Decision.ALLOW
    assert decision(alias, "write_file", str(workspace / "x")) is Decision.ALLOW
    assert decision(workspace, "write_file", f"{workspace}2/x") is Decision.DENY
    assert decision(workspace, "delete_directory", str(workspace)) is Decision.DENY


def test_further_folders(workspace: Path) -> None:
    """As in `folders`."""
    other = str(workspace.parent / "other")
    assert decision(workspace, "write_file", f"{other}/x", other) is Decision.ALLOW
    assert decision(workspace, "write_file", f"{other}/x") is Decision.DENY


def test_a_relative_workspace_is_refused() -> None:
    """It would depend on the folder in which the process runs."""
    with pytest.raises(InputError, match="constant 'workspace' is 'work'; expected an absolute folder"):
        decision("work", "read_file", "x")
