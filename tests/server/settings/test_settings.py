"""The settings of a server, as a file states them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

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
    assert settings.policies["b"].tenants == frozenset({"shop"})
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
        ("policies: {a: {}}", "policies.a: the key 'files'"),
        ("policies: {a: {files: a.yaml, tenant: x}}", "did you mean 'tenants'"),
        ("policies: {a: {files: a.yaml, tenants: x}}", "policies.a.tenants: is"),
        ("policies: {a: {files: a.yaml, principal: anybody}}", "policies.a.principal: .* 'caller', 'host'"),
        ("policies: {a: {files: a.yaml, state: 'os.system'}}", "expected 'module:callable'"),
        ("policies: {a: {files: a.yaml, commit_file: COMMIT}}", "COMMIT: "),
        ("policies: {a: {files: a.yaml, deadline: true}}", "expected a number"),
        ("policies: {a: a.yaml}\nstate: 5", "expected a string"),
        ("policies: {a: a.yaml}\nagents: {x: {mode: program}}", "agents.x: the key 'agent' is missing"),
        ("policies: {a: a.yaml}\nagents: {x: {agent: ehr, mode: x}}", "agents.x.mode: .* 'auto'"),
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
        ({"url": 3}, "url: is 3"),
        ({"events": []}, "'events'"),
        ({"events": ["approval.request"]}, "events.0.: is"),
        ({"tenants": "shop"}, "tenants: is"),
        ({"include_arguments": "yes"}, "include_arguments: is"),
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
    text = "policies: {a: a.yaml}\nwebhooks: "
    (webhook,) = read(tmp_path, text + json.dumps(value)).webhooks
    assert webhook.secrets() == [b"x" * 32]
    with pytest.raises(InputError, match=problem):
        read(tmp_path, text + json.dumps({**value, **change}))


def test_an_address_occurs_once(tmp_path: Path) -> None:
    (tmp_path / "good").write_text(GOOD)
    (tmp_path / "rules.yaml").write_text("version: 1\npolicies: [{id: a, temporal: G !tool:x}]\n")
    entry = "  - {url: https://hooks.example/, secret_file: good}\n"
    (tmp_path / "server.yaml").write_text(f"policies: {{p: rules.yaml}}\nwebhooks:\n{entry}{entry}")
    with pytest.raises(InputError, match="twice"):
        read_server_settings(tmp_path / "server.yaml")


# --- the settings of Slack, e-mails and answers


SLACK = "slack: {token_file: bot, signing_secret_file: bot, channel: C1, users: {U1: ann}}\n"
EMAIL = "email: {smtp: 'smtps://mail.example', from: Guard <guard@example.com>, to: {ann@example.com: ann}}\n"
ADDRESS = "console: {address: 'https://guard.example/'}\n"
ANSWERS = "answers: {secret_file: key}\n" + ADDRESS


def read_channels(folder: Path, text: str) -> ServerSettings:
    (folder / "bot").write_text("xoxb-1\n")
    (folder / "key").write_text("k" * 32)
    (folder / "short").write_text("k" * 31)
    (folder / "empty").write_text(" \n")
    (folder / "binary").write_bytes(b"\xff\xfe")
    return read(folder, "policies: {a: a.yaml}\n" + text)


def test_channels_are_read_alone_or_as_a_list(tmp_path: Path) -> None:
    settings = read_channels(tmp_path, SLACK + EMAIL + ANSWERS)
    assert (settings.slack[0].users, settings.slack[0].token_file) == ({"U1": "ann"}, tmp_path / "bot")
    assert (settings.email[0].to, settings.email[0].from_) == ({"ann@example.com": "ann"}, "Guard <guard@example.com>")
    assert settings.answers is not None
    assert (settings.console.address, settings.answers.secrets()) == ("https://guard.example", ["k" * 32])
    grouped = ANSWERS.replace("key}", "key, groups: {lead: [ann], all: [ann, bob]}}")
    answers = read_channels(tmp_path, SLACK + grouped).answers
    assert answers is not None
    assert [answers.groups_of(name) for name in ("ann", "bob")] == [{"lead", "all"}, {"all"}]
    shop, bank = (f"  - {SLACK[7:-2]}, tenants: [{tenant}]}}\n" for tenant in ("shop", "bank"))
    listed = read_channels(tmp_path, f"slack:\n{shop}{bank}{ANSWERS}").slack
    assert [settings.tenants for settings in listed] == [frozenset({"shop"}), frozenset({"bank"})]


@pytest.mark.parametrize(
    ("text", "old", "new", "problem"),
    [
        (SLACK, ANSWERS, "", "'answers' is missing"),
        (SLACK, "answers: {secret_file: key}", "", "'answers' is missing"),
        (EMAIL, ADDRESS, "console: false", "'email' needs the console and its address"),
        (SLACK, ADDRESS, "", "'slack' needs the console and its address"),
        (SLACK, "secret_file: key", "secret_file: key, address: 'https://guard.example'", "unknown key 'address'"),
        (SLACK, "channel: C1, ", "", "slack.0.: the key 'channel' is missing"),
        (SLACK, "users:", "user:", "did you mean 'users'"),
        (SLACK, "{U1: ann}", "[U1]", "expected a mapping"),
        (SLACK, "U1: ann", "U1: 5", "slack.0..users.U1: is 5"),
        (SLACK, "U1: ann", "U1: ''", "the principal is ''"),
        (SLACK, "channel: C1", 'channel: "C1\\n"', "slack.0..channel: is"),
        (SLACK, "token_file: bot", "token_file: none", "none"),
        (SLACK, "token_file: bot", "token_file: empty", "is empty"),
        (SLACK, "token_file: bot", "token_file: binary", "UTF-8"),
        (SLACK, "channel: C1", "channel: C1, api: 'http://slack.example/'", "slack.0.: 'api' is"),
        (SLACK, "channel: C1", "channel: C1, api: 'https://u:p@slack.example/'", "slack.0.: 'api' is"),
        (EMAIL, "smtps://mail.example", "mail.example:25", "email.0.: 'smtp' is"),
        (EMAIL, "smtps://mail.example", "smtps://u:p@mail.example", "email.0.: 'smtp' is"),
        (EMAIL, "smtps://mail.example", "smtp://mail.example:99999", "Port out of range"),
        (EMAIL, "ann@example.com: ann", "ann: ann", "email.0.: an address is invalid"),
        (EMAIL, "ann@example.com: ann", '"a@b.c\\nBcc: d@e.f": ann', "email.0.: an address is invalid"),
        (EMAIL, "Guard <guard@example.com>", "Guard", "email.0.: an address is invalid"),
        (EMAIL, "to:", "user: ann, to:", "one of 'user' and 'password_file'"),
        (EMAIL, "to:", "user: ann, password_file: none, to:", "none"),
        (EMAIL, "to:", "events: [approval.opened], to:", "email.0..events.0.: is"),
        (EMAIL, "secret_file: key", "secret_file: short", "32 or more characters"),
        (EMAIL, "https://guard.example/", "http://guard.example/", "console: 'address' is"),
        (EMAIL, "https://guard.example/", "https://guard.example/?x", "console: 'address' is"),
    ],
)
def test_mistakes_in_channels_are_named(text: str, old: str, new: str, problem: str, tmp_path: Path) -> None:
    whole = text + ANSWERS
    assert old in whole
    with pytest.raises(InputError, match=problem):
        read_channels(tmp_path, whole.replace(old, new))
