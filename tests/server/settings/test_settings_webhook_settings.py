"""The settings of webhooks."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from guardagent.errors import InputError
from guardagent.server.settings import read_server_settings, read_webhook

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
