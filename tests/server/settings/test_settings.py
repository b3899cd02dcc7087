"""The settings of a server, as a file states them."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from guardagent.errors import InputError
from guardagent.server.settings import ServerSettings, read_server_settings, read_webhook


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


# --- the settings of webhooks


GOOD = f"whsec_{base64.b64encode(b'x' * 32).decode()}"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"url": "http://hooks.example/"}, "'url'"),
        ({"url": "https://user:pw@hooks.example/"}, "without a user"),
        ({"url": "https://"}, "'url'"),
        ({"url": 3}, "lacks 'url'"),
        ({"events": []}, "'events'"),
        ({"events": ["approval.request"]}, "'events'"),
        ({"tenants": "shop"}, "'tenants'"),
        ({"include_arguments": "yes"}, "'include_arguments'"),
        ({"secret": "x"}, "unknown key 'secret'"),
        ({"secret_file": "missing"}, "missing"),
        ({"secret_file": "short"}, "not a secret"),
        ({"secret_file": "empty"}, "is empty"),
    ],
)
def test_what_is_invalid_is_named(tmp_path: Path, change: dict[str, Any], problem: str) -> None:
    (tmp_path / "good").write_text(GOOD)
    (tmp_path / "short").write_text("whsec_c2hvcnQ=")
    (tmp_path / "empty").write_text("\n")
    value = {"url": "https://hooks.example/approvals", "secret_file": "good"}
    assert read_webhook(value, "webhook 1", tmp_path).secrets() == [b"x" * 32]
    with pytest.raises(InputError, match=problem):
        read_webhook({**value, **change}, "webhook 1", tmp_path)


def test_an_address_occurs_once(tmp_path: Path) -> None:
    (tmp_path / "good").write_text(GOOD)
    (tmp_path / "rules.yaml").write_text("version: 1\npolicies: [{id: a, temporal: G !tool:x}]\n")
    entry = "  - {url: https://hooks.example/, secret_file: good}\n"
    (tmp_path / "server.yaml").write_text(f"policies: {{p: rules.yaml}}\nwebhooks:\n{entry}{entry}")
    with pytest.raises(InputError, match="twice"):
        read_server_settings(tmp_path / "server.yaml")
