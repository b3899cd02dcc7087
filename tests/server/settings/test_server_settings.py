"""The settings of a server, as a file states them."""

from __future__ import annotations

from pathlib import Path

import pytest

from guardagent.errors import InputError
from guardagent.server.settings import ServerSettings, read_server_settings


def read(folder: Path, text: str) -> ServerSettings:
    (folder / "server.yaml").write_text(text)
    return read_server_settings(folder / "server.yaml")


def test_a_file_names_policies_and_agents(tmp_path: Path) -> None:
    settings = read(
        tmp_path,
        "policies:\n  a: a.yaml\n  b: {files: [b.yaml, c.yaml], tenants: [shop], principal: host, deadline: 5}\n"
        "agents: {nurse: ehr}\nstate: sqlite:here\n",
    )
    assert settings.policies["a"].files == (tmp_path / "a.yaml",)
    assert [settings.policies["b"].may_be_used_by(tenant) for tenant in ("shop", "bank")] == [True, False]
    assert (settings.state, settings.agents["nurse"].agent, settings.agents["nurse"].mode) == (
        "sqlite:here",
        "ehr",
        "program",
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("policy: {a: a.yaml}", "did you mean 'policies'"),
        ("policies: {}", "there is no policy"),
        ("policies: {a/b: a.yaml}", "no usable name"),
        ("policies: {a: {}}", "'files' of"),
        ("policies: {a: {files: a.yaml, tenant: x}}", "did you mean 'tenants'"),
        ("policies: {a: {files: a.yaml, tenants: x}}", "expected a list of names"),
        ("policies: {a: {files: a.yaml, principal: anybody}}", "expected 'caller' or 'host'"),
        ("policies: {a: {files: a.yaml, state: 'os.system'}}", "expected 'module:callable'"),
        ("policies: {a: {files: a.yaml, deadline: true}}", "expected a number"),
        ("policies: {a: a.yaml}\nstate: 5", "expected a string"),
        ("policies: {a: a.yaml}\nagents: {x: {mode: program}}", "lacks 'agent'"),
        ("policies: {a: a.yaml}\nagents: {x: {agent: ehr, mode: x}}", "expected 'auto'"),
        ("policies: {a: a.yaml}\npolicies: {b: b.yaml}", "server.yaml"),
        ("[]", "expected a mapping"),
    ],
)
def test_mistakes_are_named(text: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=problem):
        read(tmp_path, text)
