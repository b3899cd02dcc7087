"""No tool changes what guards the agent; reading it is allowed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tree_sitter_bash")

from guardagent.hooks.protection import Protection


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name in (".claude", ".state", "work"):
        (tmp_path / name).mkdir()
    (tmp_path / ".claude" / "settings.json").write_text("{}")
    (tmp_path / "policy.yaml").write_text("version: 1\n")
    (tmp_path / "work" / "link").symlink_to(tmp_path / ".claude")
    return tmp_path


@pytest.fixture
def protection(home: Path) -> Protection:
    return Protection([str(home / ".claude" / "settings.json"), str(home / "policy.yaml"), str(home / ".state")])


CHANGES = [
    "echo x > H/.claude/settings.json",
    "cat <<'E' > H/policy.yaml\nx\nE",
    "cd H && rm policy.yaml",
    "cd H/.claude && echo x > settings.json",
    "rm -rf H/.claude",
    "rm -rf H/.cl*",
    "mv H/.claude H/other",
    "cp /dev/null H/.state/ledger.db",
    "sed -i s/a/b/ ../policy.yaml",
    "echo x > link/settings.json",
    "tee link/settings.json < x",
    "ln -sf /dev/null H/policy.yaml",
    "chmod 000 H/.state",
    "bash -c 'echo x > H/policy.yaml'",
    "find H/.claude -name '*.json' -delete",
    "python3 -c \"open('H/.claude/settings.json','w')\"",
    "python3 x.py --out=H/policy.yaml",
    "F=H/policy.yaml; echo x > $F",
    "F=$(ls H/.claude/settings.json); echo x > $F",
    "tar xf a.tar -C H/.state",
    "guardagent hook uninstall claude-code",
    "python -m guardagent hook install claude-code -p mine.yaml",
    "pkill -f hook_daemon",
    "vim H/policy.yaml",
    "git -C H/.state init",
    "pip uninstall -y guardagent",
    "python -mpip uninstall -y guardagent",
    "uv pip install 'guardagent[hooks]==0.1'",
    "pip install guardagent",
    "pip3.12 install -U guardagent",
    "python -m pip install --force-reinstall 'guardagent[all]'",
    "uv add guardagent",
    "uv sync --reinstall-package=guardagent",
    "pip install dist/guardagent-9.0-py3-none-any.whl",
    "python -m venv --clear H/.state",
    "virtualenv --clear H/",
    "cd H/.state/.. && uv venv -c --python 3.12 .",
]
READS = [
    "cat H/.claude/settings.json",
    "ls -la H/.claude H/.state",
    "grep hooks H/.claude/settings.json | head",
    "diff H/policy.yaml H/policy.yaml",
    "echo x > notes.txt",
    "rm -rf build",
    "cp H/work/a H/work/b",
    "guardagent hook status",
    "guardagent lint H/work/p.yaml",
    "python3 -c 'print(1)'",
    "find . -name '*.pyc' -delete",
    "pip show guardagent",
    "uv run guardagent lint H/work/p.yaml",
    "pip install guardagents -r guardagent/requirements.txt",
    "python -m venv --clear H/work/.venv",
    "python -m venv H/",
    "tar -cf x.tar H/work/venv",
    "git commit -m 'Uninstall guardagent'",
]


@pytest.mark.parametrize("command", CHANGES)
def test_commands_that_change_it_are_denied(command: str, home: Path, protection: Protection) -> None:
    args = {"command": command.replace("H/", f"{home}/").replace("cd H ", f"cd {home} ")}
    assert protection.problem("Bash", args, str(home / "work")) is not None


@pytest.mark.parametrize("command", READS)
def test_other_commands_are_left_alone(command: str, home: Path, protection: Protection) -> None:
    args = {"command": command.replace("H/", f"{home}/")}
    assert protection.problem("Bash", args, str(home / "work")) is None


@pytest.mark.parametrize(
    ("tool", "args", "is_denied"),
    [
        ("Write", {"file_path": "H/policy.yaml", "content": "x"}, True),
        ("Write", {"file_path": "H/work/../policy.yaml", "content": "x"}, True),
        ("Edit", {"file_path": "link/settings.json"}, True),
        ("apply_patch", {"patch": "*** Begin Patch\n*** Update File: H/.claude/settings.json\n"}, True),
        ("apply_patch", {"patch": "*** Begin Patch\n*** Add File: a.py\n+x\n", "cwd": "H/", "git_branch": ""}, False),
        ("mcp__files__write_file", {"path": "H/.state/x", "content": "x"}, True),
        ("mcp__files__move", {"from": "a", "to": ["H/.state"]}, True),
        ("mcp__files__read_file", {"path": "H/policy.yaml"}, False),
        ("Read", {"file_path": "H/policy.yaml"}, False),
        ("Write", {"file_path": "H/work/a.py", "content": "x"}, False),
        ("Task", {"prompt": "look at the code"}, False),
    ],
)
def test_other_tools(tool: str, args: dict[str, Any], is_denied: bool, home: Path, protection: Protection) -> None:
    def placed(value: Any) -> Any:
        return [placed(part) for part in value] if isinstance(value, list) else value.replace("H/", f"{home}/")

    problem = protection.problem(tool, {name: placed(argument) for name, argument in args.items()}, str(home / "work"))
    assert (problem is not None) == is_denied


@pytest.fixture
def project(home: Path) -> Path:
    """A project with the settings of its hooks, its policy file, and another folder that has both, too."""
    for folder in (home / "work", home / "evil"):
        (folder / ".claude").mkdir(parents=True)
        (folder / ".claude" / "settings.local.json").write_text("{}")
        (folder / "guardagent.yaml").write_text("version: 1\n")
    (home / "plain").mkdir()
    return home / "work"


@pytest.mark.parametrize(
    ("command", "is_stopped"),
    [
        ("find . -name '*.pyc' -delete", False),
        ("find . -type f -exec wc -l {} +", False),
        ("find . -name '*.py' -o -name '*.pyi'", False),
        ("find . -path './node_modules/*' -delete", False),
        ("rsync -a ./ /tmp/x", False),
        ("rsync -a H/plain/ ./", False),
        ("cp guardagent.yaml /tmp/", False),
        ("cp -r H/plain/. .", False),
        ("mv H/plain .", False),
        ("git add guardagent.yaml .claude", False),
        ("git commit -m 'Write hook install and work/guardagent.yaml'", False),
        ("git stash -u", False),
        ("yamllint guardagent.yaml", False),
        ("grep -rn 'guardagent hook install' docs", False),
        ("chmod -R u+w .", False),
        ("python -c \"open('guardagent.yaml').read()\"", False),
        ("git diff --name-only main | xargs ruff check", False),
        ("git diff --name-only main | xargs ruff check --fix", True),
        ("git diff --name-only | xargs prettier --check", False),
        ("git diff --name-only | xargs prettier --write", True),
        ("find . -name '*.json' -delete", True),
        ("find . -iname 'SETTINGS*' -delete", True),
        ("find . ! -name '*.py' -delete", True),
        ("find . -path './.claude/*' -delete", True),
        ("find . -type f -exec rm {} +", True),
        ("rsync -a H/evil/ ./", True),
        ("rsync -a --delete H/plain/ ./", True),
        ("rsync -a --remove-source-files ./ /tmp/x", True),
        ("cp H/evil/guardagent.yaml .", True),
        ("cp -r H/evil/. .", True),
        ("cp -r H/evil/.claude .", True),
        ("mv guardagent.yaml /tmp/", True),
        ("mv -t . H/evil/.claude", True),
        ("git stash --all", True),
        ("git clean -fdx", True),
        ("chmod -R 000 .", True),
        ("echo x >> guardagent.yaml", True),
        ("sed -i s/a/b/ guardagent.yaml", True),
        ("python -c \"open('guardagent.yaml', 'w')\"", True),
        ("guardagent hook trial", True),
        ("alias g='guardagent hook'; g enforce", True),
        ("uv run guardagent watch", True),
    ],
)
def test_a_project_with_its_own_hooks(command: str, is_stopped: bool, home: Path, project: Path) -> None:
    guarded = Protection([str(project / ".claude" / "settings.local.json")], sources=[str(project / "guardagent.yaml")])
    problem = guarded.problem("Bash", {"command": command.replace("H/", f"{home}/")}, str(project))
    assert (problem is not None) == is_stopped, problem


@pytest.mark.parametrize(
    ("tool", "args", "is_stopped"),
    [
        ("Write", {"file_path": "README.md", "content": "see .claude/settings.local.json"}, False),
        ("Task", {"prompt": "explain work/guardagent.yaml and .claude/settings.local.json"}, False),
        ("Write", {"file_path": "guardagent.yaml", "content": "x"}, True),
        ("Edit", {"file_path": ".claude/settings.local.json"}, True),
    ],
)
def test_contents_may_name_it(tool: str, args: dict[str, Any], is_stopped: bool, project: Path) -> None:
    guarded = Protection([str(project / ".claude" / "settings.local.json")], sources=[str(project / "guardagent.yaml")])
    assert (guarded.problem(tool, args, str(project)) is not None) == is_stopped


@pytest.mark.parametrize(
    ("command", "is_stopped"),
    [
        ("git diff --output={state}/x.json", True),
        ("git log --outp {state}/x.json", True),
        ("git archive -o {state}/log.db HEAD", True),
        ("git archive -o{project}/guardagent.yaml HEAD", True),
        ("git -c core.pager='tee {state}/x' log", True),
        ("git diff --output=a.patch", False),
        ("git archive -o /tmp/a.tar HEAD", False),
        ("git log --oneline --stat", False),
        ("git add guardagent.yaml", False),
        ("git -c color.ui=always diff", False),
    ],
)
def test_the_outputs_of_git(command: str, is_stopped: bool, tmp_path: Path) -> None:
    """A command that only reads writes where its options say."""
    state, project = tmp_path / "state", tmp_path / "project"
    project.mkdir()
    protection = Protection([str(state)], sources=[str(project / "guardagent.yaml")])
    text = command.format(state=state, project=project)
    assert (protection.problem("Bash", {"command": text}, str(project)) is not None) is is_stopped


@pytest.mark.parametrize(
    ("args", "is_stopped"),
    [
        ({"filename": "{state}/log.db", "new_string": "x"}, True),
        ({"edits": [{"uri": "{state}/log.db", "new_string": "x"}]}, True),
        ({"filename": "a.py", "new_string": "{state}/log.db"}, False),
        ({"edits": [{"path": "a.py", "old_string": "{state}/log.db"}]}, False),
    ],
)
def test_an_editor_may_name_its_file_as_it_likes(args: dict[str, Any], is_stopped: bool, tmp_path: Path) -> None:
    """Only arguments that are known to be contents may name what guards the agent."""
    protection = Protection([str(tmp_path / "state")])
    written = json.loads(json.dumps(args).replace("{state}", str(tmp_path / "state")))
    assert (protection.problem("Edit", written, str(tmp_path)) is not None) is is_stopped
