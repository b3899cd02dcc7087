"""The files of docs/deploying.md: what they promise, and that the server accepts them."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from guardagent.server.settings import read_server_settings
from tests.server.servers import POLICIES, local_server, server_processes, tokens_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "deploying.md").read_text(encoding="utf-8")
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def compose() -> Any:
    return yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text(encoding="utf-8"))


def options_of(*command: str) -> set[str]:
    shown = [sys.executable, "-m", "guardagent", *command, "--help"]
    return set(re.findall(r"--[a-z-]+", subprocess.run(shown, capture_output=True, text=True, check=True).stdout))


@pytest.mark.parametrize("name", ["first", "second", "database"])
def test_each_container_has_few_rights(name: str) -> None:
    service = compose()["services"][name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
    secrets = ("PASSWORD", "TOKEN", "SECRET", "KEY")
    assert not [key for key in service.get("environment", {}) if key.endswith(secrets)]


def test_the_image_runs_without_root_and_with_known_extras_and_options() -> None:
    assert re.search(r"^USER 10001:10001$", DOCKERFILE, re.MULTILINE)
    extras = re.search(r"'\.\[([a-z,]+)\]'", DOCKERFILE)
    known = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert extras
    assert set(extras[1].split(",")) <= set(known)
    command = json.loads(re.findall(r"^CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)[-1])
    assert {word for word in command if word.startswith("--")} <= options_of(*command[:1])


def test_the_commands_of_the_page_have_their_options() -> None:
    commands = re.findall(r"--rm first (.*)$", PAGE.replace("\\\n", ""), re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        words = shlex.split(command)
        assert {word for word in words if word.startswith("--")} <= options_of(*words[:2])


def test_the_settings_and_policies_are_read() -> None:
    settings = read_server_settings(ROOT / "deploy" / "server.yaml")
    assert settings.state.startswith("postgresql://guardagent@database/")
    mounted = {config["target"] for config in compose()["services"]["first"]["configs"]}
    assert mounted == {"/etc/guardagent/server.yaml", "/etc/guardagent/policies.yaml"}


def test_secrets_are_created_once_and_for_their_owner_alone(tmp_path: Path) -> None:
    shutil.copy(ROOT / "deploy" / "create_secrets.py", tmp_path / "create_secrets.py")
    create = [sys.executable, str(tmp_path / "create_secrets.py")]
    subprocess.run(create, check=True, capture_output=True)
    made = {name: (tmp_path / name).read_text() for name in ("pgpass", "database_password")}
    assert made["pgpass"] == f"database:5432:guardagent:guardagent:{made['database_password']}\n"
    assert {(tmp_path / name).stat().st_mode & 0o777 for name in made} == {0o600}
    again = subprocess.run(create, check=False, capture_output=True, text=True)
    assert again.returncode == 1
    assert "is there already" in again.stderr
    assert {name: (tmp_path / name).read_text() for name in made} == made


def test_the_metrics_of_the_page_exist(tmp_path: Path) -> None:
    with local_server(tmp_path) as server:
        server.service.channels.counts["hooks.example", "abandoned"] += 1
        agent = server.client()
        agent.check(agent.session(), "c1", "refund", order="a", amount=1)
        shown = server.client("shop.admin").request("GET", "/metrics").text
    for name in re.findall(r"`(guardagent_[a-z_]+)(?:\{([a-z]+)=\"([a-z]+)\"\})?`", PAGE):
        assert name[0] in shown
        assert not name[1] or f'{name[1]}="{name[2]}"' in shown


@pytest.mark.slow
def test_the_health_check_succeeds_and_fails(tmp_path: Path) -> None:
    match = re.search(r"CMD (\[\"python\".*\])$", DOCKERFILE, re.MULTILINE)
    assert match
    command = [sys.executable, *json.loads(match[1])[1:]]
    (tmp_path / "policies.yaml").write_text(POLICIES)
    tokens_of(tmp_path)
    with server_processes(tmp_path, f"sqlite:{tmp_path / 'state'}", 1) as (server,):
        port = server.url.rpartition(":")[2]
        command[-1] = command[-1].replace("8764", port)
        assert subprocess.run(command, check=False, capture_output=True).returncode == 0
    assert subprocess.run(command, check=False, capture_output=True).returncode == 1
