"""The package of docs/plugins.md is installed, and each of its plug-ins is used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests._support.plugin_package import install
from tests.docs.test_docs import ROOT
from tests.tiers import slow_after

APP = 'from acme_flows import Flow, Step\n\nflow = Flow([Step("look", "find_order"), Step("pay", "refund")])\n'
POLICIES = """
version: 1
unlisted: allow
policies:
  - id: {id}
    temporal: G(tool:refund -> O tool:find_order)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Returns a folder with an app, a policy and the installed package."""
    install(tmp_path / "site")
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "policies.yaml").write_text(POLICIES.format(id="paid"))
    return tmp_path


def ran(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Runs Python with the packages that are installed in a folder."""
    environment = {**os.environ, "PYTHONPATH": f"{folder / 'site'}{os.pathsep}{ROOT}"}
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def guardagent(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return ran(folder, "-m", "guardagent", *arguments)


def test_its_plugins_satisfy_every_contract(folder: Path) -> None:
    """The built-in implementations pass the same checks."""
    checked = ran(folder, "-m", "tests._support.contracts")
    assert checked.returncode == 0, checked.stderr
    assert {line.split()[-1] for line in checked.stdout.splitlines()} >= {
        "acme",
        "acme_names",
        "acme_steps",
        "acme_flows",
    }


def test_its_model_answers(folder: Path) -> None:
    """The model is loaded by its registered name."""
    code = (
        "from guardagent.models import Message, load_model\n"
        "print(load_model('acme/large').complete([Message('user', 'Hello?')]).text)"
    )
    assert ran(folder, "-c", code).stdout == "acme/large was asked: Hello?\n"


@pytest.mark.slow
def test_its_store_keeps_a_log(folder: Path) -> None:
    """A log with its suffix is written and verified by the store."""
    code = "from guardagent import AuditLog\nAuditLog('run.acme').append({'kind': 'check'})"
    written = ran(folder, "-c", code)
    assert '"kind":"check"' in written.stderr
    verified = guardagent(folder, "log", "verify", "run.acme")
    assert "end not checked (no head), 1 entries" in verified.stdout, verified.stderr


@pytest.mark.slow
def test_its_lint_check_finds_a_fault(folder: Path) -> None:
    """It runs in addition to the built-in checks."""
    folder_guardagent = guardagent(folder, "lint", "policies.yaml")
    assert (folder_guardagent.returncode, folder_guardagent.stdout.partition("\n")[0]) == (
        1,
        "naming: paid: its id does not begin with `acme-`; rename it",
    )
    (folder / "policies.yaml").write_text(POLICIES.format(id="acme-paid"))
    assert guardagent(folder, "lint", "policies.yaml").returncode == 0


@pytest.mark.parametrize("target", slow_after(1, ["app.py", "app.py:flow"]))
def test_its_framework_is_verified(folder: Path, target: str) -> None:
    """The rule is proved both from the source alone and from the live object."""
    folder_guardagent = guardagent(folder, "verify", target, "--policies", "policies.yaml", "--format", "json")
    assert folder_guardagent.returncode == 0, folder_guardagent.stderr
    assert '"framework": "acme-flows"' in folder_guardagent.stdout
    assert '"proved"' in folder_guardagent.stdout


def test_its_framework_is_guarded(folder: Path) -> None:
    """A step that breaks a rule does not run, and the error has the verdict."""
    code = (
        "from acme_guard.flows import guarded\nfrom app import flow\nfrom guardagent import ToolDenied, ToolGuard\n"
        "look, pay = guarded(flow, ToolGuard('policies.yaml'), conversation='c').steps\n"
        "try:\n    pay.run({})\nexcept ToolDenied as error:\n    print(error.verdict.decision)\n"
        "look.run({})\nprint(pay.run({}))"
    )
    assert ran(folder, "-c", code).stdout == "deny\nrefund ran with {}\n"


@pytest.mark.slow
def test_its_structural_check_is_in_the_report(folder: Path) -> None:
    """The report has the check's own message."""
    (folder / "app.py").write_text(APP.replace("[Step(", "[Step(str(i), 't') for i in range(6)] + [Step("))
    report = guardagent(folder, "verify", "app.py:flow", "--format", "github").stdout
    assert "title=acme_steps%3A At most five steps" in report
