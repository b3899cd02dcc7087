"""Arguments as rules judge them: with the working folder, and without links."""

from __future__ import annotations

from pathlib import Path

from guardagent.hooks.calls import checked_out_branch, judged_arguments


def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    arguments = judged_arguments("Write", {"file_path": "link/a.py", "content": "x"}, str(tmp_path))
    assert arguments == {"file_path": str(tmp_path / "real" / "a.py"), "content": "x"}


def test_a_command_has_its_folder_and_its_branch(tmp_path: Path) -> None:
    assert judged_arguments("Bash", {"command": "ls"}, str(tmp_path)) == {
        "command": "ls",
        "cwd": str(tmp_path),
        "git_branch": "",
    }
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/topic/a\n")
    (tmp_path / "src").mkdir()
    arguments = judged_arguments("run_shell_command", {"command": "ls", "directory": "src"}, str(tmp_path))
    assert (arguments["cwd"], arguments["git_branch"]) == (str(tmp_path / "src"), "topic/a")


def test_a_branch_is_unknown_if_the_head_is_elsewhere(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: /elsewhere\n")
    assert checked_out_branch(str(tmp_path)) is None


def test_a_patch_is_named_so() -> None:
    patch = "*** Begin Patch\n*** Update File: a.py\n"
    assert judged_arguments("apply_patch", {"command": patch}, "/srv") == {
        "patch": patch,
        "cwd": "/srv",
        "git_branch": "",
    }
