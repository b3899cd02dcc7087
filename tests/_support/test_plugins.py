"""Plug-ins are found by folder and entry point; an incomplete or ambiguous one is rejected."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from guardagent._support.plugins import Plugins
from guardagent.errors import InputError, UnknownNameError
from guardagent.frameworks import _template
from guardagent.workflow.extraction import FRAMEWORKS
from tests._support.contracts import every_member
from tests._support.plugin_package import register
from tests.docs.test_docs import ROOT

Install = Callable[..., Plugins]
SHIPPED = "guardagent.models.backends"


def kind_of(group: str) -> Plugins:
    """Returns a kind with its own group, since entry points are cached for each group."""
    return Plugins("backend", SHIPPED, ("Backend",), group=group)


@pytest.fixture
def registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Install:
    """Installs packages with these entry points, and returns their kind."""
    group = f"tests.{request.node.name}"
    monkeypatch.syspath_prepend(tmp_path)

    def install(**packages: dict[str, str]) -> Plugins:
        for package, entries in packages.items():
            register(tmp_path, package, {group: entries})
        return kind_of(group)

    return install


@pytest.mark.parametrize(
    ("kind", "contract", "name"),
    [pytest.param(*member, id=f"{member[0].kind}: {member[2]}") for member in every_member()],
)
def test_every_plugin_fulfils_the_contract_of_its_kind(
    kind: Plugins, contract: Callable[[Any, str], None], name: str
) -> None:
    """The author of a new one can follow any existing one."""
    contract(kind.load(name), name)


def test_listing_names_loads_nothing(registered: Install) -> None:
    """A missing module is detected when it is requested, and the error names its package."""
    kind = registered(acme={"neat": "acme_gone"})
    assert list(kind) == [*kind.shipped(), "neat"]
    assert kind.load("folder").Backend
    with pytest.raises(InputError, match=r"backend 'neat' of acme 1\.0 cannot be loaded: .*acme_gone.*uninstall"):
        kind.load("neat")


def test_an_unknown_name_comes_with_the_nearest(registered: Install) -> None:
    """The nearest may be from another package."""
    with pytest.raises(UnknownNameError, match="unknown backend 'neet'; did you mean 'neat'"):
        registered(acme={"neat": "json"}).load("neet")


def test_an_incomplete_plugin_is_rejected(registered: Install) -> None:
    """The error has the package and the missing name."""
    with pytest.raises(InputError, match=r"backend 'neat' of acme 1\.0 lacks 'Backend'; expected 'Backend'"):
        registered(acme={"neat": "json"}).load("neat")


def test_a_shipped_name_is_never_replaced(registered: Install) -> None:
    """The shipped one is loaded; listing all of them rejects the other package."""
    kind = registered(acme={"folder": "json"})
    assert kind.load("folder").__name__ == f"{SHIPPED}.folder"
    with pytest.raises(InputError, match=r"'folder' is registered by both this package and acme 1\.0; uninstall"):
        list(kind.load_all())


def test_two_packages_with_one_name_are_rejected(registered: Install) -> None:
    """The error has both, and neither is loaded."""
    kind = registered(acme={"neat": "json"}, other={"neat": "html"})
    with pytest.raises(InputError, match=r"'neat' is registered by both (acme|other) 1\.0 and (acme|other) 1\.0"):
        kind.load("neat")


def test_members_of_a_table_are_loaded_on_demand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A place is loaded when its member is requested, and other packages are adapted to the members."""
    monkeypatch.syspath_prepend(tmp_path)
    register(tmp_path, "acme", {"tests.members": {"neat": "json"}})
    table = {"plain": len, "placed": "json:dumps", "broken": "acme_gone:render"}
    kind = Plugins("backend", "", ("loads",), group="tests.members", members=table, adapt=lambda module: module.loads)
    assert list(kind) == ["broken", "placed", "plain", "neat"]
    assert [kind.load(name) for name in ("plain", "placed", "neat")] == [len, json.dumps, json.loads]


@pytest.mark.parametrize("name", FRAMEWORKS.shipped())
def test_an_extra_requires_the_oldest_tested_versions(name: str) -> None:
    """The versions in pyproject.toml are those of the framework's package.py."""
    facts = import_module(f"guardagent.frameworks.{name}.package")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    needed = {f"{name}>={least}" for name, least in facts.DISTRIBUTIONS.items()}
    assert needed <= {requirement.partition(",")[0] for requirement in extras.get(facts.EXTRA, ())}


def test_the_template_is_not_a_framework() -> None:
    """It is there to be copied."""
    assert "_template" not in list(FRAMEWORKS)
    assert _template.__all__ == ["guarded"]


def test_an_object_loads_only_the_extractor_of_its_framework() -> None:
    """The module of its class decides, so nothing else is imported."""
    code = """
import sys
from guardagent.errors import InputError
from guardagent.workflow.extraction import extract
for module in ("agents.agent", "elsewhere"):
    try:
        extract(type("AgentBase", (), {"__module__": module})())
    except Exception as error:
        print(type(error).__name__)
    print(sorted(one for one in sys.modules if one.startswith("guardagent.frameworks.") and one.endswith(".extractor")))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert ran.stdout.splitlines()[1::2] == ["['guardagent.frameworks.openai_agents.extractor']"] * 2, ran.stderr
