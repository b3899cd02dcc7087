"""Plug-ins are found by folder and entry point; what is not whole, or not the only one of its name, is refused."""

from __future__ import annotations

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
from guardagent.workflow.extraction.parts import FRAMEWORKS
from tests._support.contracts import every_member
from tests._support.plugin_package import register
from tests.docs.test_docs import ROOT

Install = Callable[..., Plugins]
SHIPPED = "guardagent.workflow.drawing"


def kind_of(group: str) -> Plugins:
    """A kind with a group of its own: what is registered is read once for each."""
    return Plugins("picture", SHIPPED, ("render",), group=group)


@pytest.fixture
def registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Install:
    """Installs packages, each with the entry points given, and gives the kind that they are of."""
    group = f"tests.{request.node.name}"
    monkeypatch.syspath_prepend(tmp_path)

    def install(**packages: dict[str, str]) -> Plugins:
        for package, entries in packages.items():
            register(tmp_path, package, {group: entries})
        return kind_of(group)

    return install


@pytest.mark.parametrize(
    ("kind", "contract", "name"), [pytest.param(*one, id=f"{one[0].kind}: {one[2]}") for one in every_member()]
)
def test_every_plugin_keeps_the_contract_of_its_kind(
    kind: Plugins, contract: Callable[[Any, str], None], name: str
) -> None:
    """Whoever writes one knows from the others how it has to be."""
    contract(kind.load(name), name)


def test_names_are_told_without_loading_anything(registered: Install) -> None:
    """A module that is not there is found out when it is asked for, and its package is named."""
    kind = registered(acme={"neat": "acme_gone"})
    assert list(kind) == ["dot", "json", "mermaid", "svg", "neat"]
    assert kind.load("dot").render
    with pytest.raises(InputError, match=r"picture 'neat' of acme 1\.0 cannot be loaded: .*acme_gone.*uninstall"):
        kind.load("neat")


def test_an_unknown_name_is_said_with_the_nearest(registered: Install) -> None:
    """Also where that is another package's."""
    with pytest.raises(UnknownNameError, match="unknown picture 'neet'; did you mean 'neat'"):
        registered(acme={"neat": "json"}).load("neet")


def test_what_lacks_something_is_refused(registered: Install) -> None:
    """The error names the package, and what is missing."""
    with pytest.raises(InputError, match=r"picture 'neat' of acme 1\.0 lacks 'render'; expected 'render'"):
        registered(acme={"neat": "json"}).load("neat")


def test_a_shipped_name_is_never_replaced(registered: Install) -> None:
    """The shipped one is loaded; where all are wanted, the package that says it has that name is refused."""
    kind = registered(acme={"svg": "json"})
    assert kind.load("svg").__name__ == f"{SHIPPED}.svg"
    with pytest.raises(InputError, match=r"'svg' is registered by both this package and acme 1\.0; uninstall"):
        list(kind.load_all())


def test_two_packages_with_one_name_are_refused(registered: Install) -> None:
    """Both are named, and neither is loaded."""
    kind = registered(acme={"neat": "json"}, other={"neat": "html"})
    with pytest.raises(InputError, match=r"'neat' is registered by both (acme|other) 1\.0 and (acme|other) 1\.0"):
        kind.load("neat")


@pytest.mark.parametrize("name", FRAMEWORKS.shipped())
def test_a_framework_was_tried_with_what_its_extra_installs(name: str) -> None:
    """The oldest versions stand in pyproject.toml as they stand with the framework."""
    facts = import_module(f"guardagent.frameworks.{name}.package")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    needed = {f"{one}>={least}" for one, least in facts.DISTRIBUTIONS.items()}
    assert needed <= set(extras.get(facts.EXTRA, ()))


def test_the_template_is_no_framework() -> None:
    """It is there to be copied."""
    assert "_template" not in list(FRAMEWORKS)
    assert _template.__all__ == ["guarded"]


def test_an_object_loads_only_the_extractor_of_its_framework() -> None:
    """By the module of its class: nothing else is imported to find out whose it is."""
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
