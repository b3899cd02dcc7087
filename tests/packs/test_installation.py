"""`pack add` writes an entry, and leaves the rest as it is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from guardagent import load_policies
from guardagent.errors import InputError
from guardagent.packs.catalogue import pack
from guardagent.packs.installation import add_pack

RULES = "policies: # mine\n  - {id: a, temporal: 'G !tool:x'}\n"
OTHER = "version: 1\npolicies: [{id: b, temporal: 'G !tool:y'}]\n"


@pytest.mark.parametrize(
    "include",
    ["", "include: other.yaml\n", "include: [other.yaml] # one\n", "include:\n- other.yaml\n",
     "include:\n    # one\n    - other.yaml\n"],
)  # fmt: skip
@pytest.mark.parametrize("trial", [False, True])
def test_the_rules_of_the_pack_hold_then(tmp_path: Path, include: str, trial: bool) -> None:
    """However the list is written."""
    (tmp_path / "other.yaml").write_text(OTHER)
    path = tmp_path / "p.yaml"
    path.write_text(f"version: 1\n{include}{RULES}")
    before = load_policies(path).ids
    add_pack(pack("shell"), path, trial=trial)
    policies = load_policies(path)
    assert set(before) < set(policies.ids)
    assert path.read_text().endswith(RULES)
    verdict = policies.session().check("bash", {"command": "rm -rf ~"})
    assert (verdict.rules, verdict.label) == (("shell.delete",), 0 if trial else 1)
    with pytest.raises(InputError, match="already includes"):
        add_pack(pack("shell"), path)


def test_a_missing_file_is_created(tmp_path: Path) -> None:
    """With the pack alone."""
    add_pack(pack("guardagent:shell"), tmp_path / "new.yaml")
    assert load_policies(tmp_path / "new.yaml").session().check("bash", {"command": "ls"}).label == 0


@pytest.mark.parametrize("text", ["{version: 1, include: [other.yaml]}\n", "version: 1\ninclude: {file: other.yaml}\n"])
def test_a_file_that_cannot_be_extended_stays(tmp_path: Path, text: str) -> None:
    """The message has the entry to add."""
    (tmp_path / "other.yaml").write_text(OTHER)
    path = tmp_path / "p.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match="add this to the list in 'include:': guardagent:shell"):
        add_pack(pack("shell"), path)
    assert path.read_text() == text


def test_parameters_of_the_pack(tmp_path: Path) -> None:
    """The including file names its own tools, and the workspace."""
    path = tmp_path / "p.yaml"
    entry = "{pack: guardagent:shell, tools: {shell: [sandbox]}, constants: {workspace: /srv/app}}"
    path.write_text(f"version: 1\ninclude: {entry}\n")
    session = load_policies(path).session()
    assert session.check("sandbox", {"command": "cp a /srv/app/b"}, reserve=False).label == 0
    assert session.check("sandbox", {"command": "cp a /srv/other"}, reserve=False).rules == ("shell.system",)
    assert session.check("bash", {"command": "rm -rf /"}, reserve=False).label == 0
