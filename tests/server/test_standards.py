"""Standards: what is met has a test that exists, the page says the same, and configurations are compared."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest

from guardagent.errors import UnknownNameError
from guardagent.server.standards import _CHECKS, Requirement, requirements
from tests.conftest import Cli

ROOT = Path(__file__).parents[2]
STANDARDS = ("aisvs", "asi", "ai_act")
ALL = [each for standard in STANDARDS for each in requirements(standard)]
FULL = """\
version: 1
timeouts: {"@read": 30s}
unlisted: deny
include:
- guardagent:runaway
- guardagent:instructions
- guardagent:secrets
- {pack: guardagent:mcp, constants: {servers: [a]}}
- {pack: guardagent:shell, constants: {packages: [a]}}
effects:
  {Read: read, fetch: read, elicitation.create: read, sampling.create: read, Edit: reversible, bash: irreversible,
   send_email: irreversible}
require: {irreversible: approval}
"""


def row_of(requirement: Requirement) -> str:
    """A row of the page."""
    page = "" if not requirement.page else f"[{requirement.page.removesuffix('.md')}]({requirement.page})"
    test = "" if not requirement.test else f"`{requirement.test.removeprefix('tests/')}`"
    evidence = "; ".join(filter(None, [page, test, requirement.note]))
    level = f" {requirement.level} |" if requirement.level else ""
    return f"| {requirement.id} |{level} {requirement.title} | {requirement.status} | {evidence} |"


@pytest.mark.parametrize("each", ALL, ids=lambda each: each.id)
def test_what_is_met_has_a_page_and_a_test_that_exist(each: Requirement) -> None:
    """The others say why."""
    assert each.status in ("met", "partly", "not", "not ours")
    assert bool(each.test) is (each.status == "met")
    assert each.page or each.status in ("not", "not ours")
    assert each.note or each.status == "met"
    assert not each.page or (ROOT / "docs" / each.page).is_file()
    if each.test:
        path, _, name = each.test.partition("::")
        assert re.search(rf"^(?:async )?def {name}\(", (ROOT / path).read_text("utf-8"), re.MULTILINE), each.test


def test_the_page_has_the_same_rows_and_numbers() -> None:
    page = (ROOT / "docs" / "standards.md").read_text("utf-8")
    rows = [line for line in page.splitlines() if re.match(r"\| (\d+[.(]|ASI)", line)]
    assert rows == [row_of(each) for each in ALL]
    assert len(requirements("aisvs")) == 57
    numbers = Counter[str](each.status for each in requirements("aisvs"))
    words = [f"{numbers[status]} {text}" for status, text in (("met", "are met"), ("partly", "partly"), ("not", "not"))]
    assert f"{', '.join(words)}, and {numbers['not ours']} not ours" in page


def test_no_number_comes_twice_and_every_check_is_used() -> None:
    assert len({each.id for each in ALL}) == len(ALL)
    assert {each.check for each in ALL} - {""} == set(_CHECKS)
    with pytest.raises(UnknownNameError, match="standard"):
        requirements("iso")


def test_doctor_names_what_a_configuration_switches_off(tmp_path: Path, cli: Cli) -> None:
    bare = tmp_path / "bare.yaml"
    bare.write_text("version: 1\npolicies: [{id: a, temporal: 'G(NOT none)'}]\n")
    shown = cli("doctor", "--standard", "aisvs", "--policies", bare, "--json")
    missing = {row["check"] for row in json.loads(shown.out)["requirements"] if row["missing"]}
    assert (shown.status, missing) == (1, set(_CHECKS))
    text = cli("doctor", "--standard", "aisvs", "--policies", bare).out
    assert "9.2.3      off      a class of reversibility for each action; off: write 'effects:' for the tools" in text


def test_doctor_finds_nothing_off_in_a_full_configuration(tmp_path: Path, cli: Cli) -> None:
    pytest.importorskip("cryptography")
    (tmp_path / "full.yaml").write_text(FULL)
    assert cli("log", "new-key", tmp_path / "key").status == 0
    settings = tmp_path / "settings.yaml"
    settings.write_text("policies: {shop: full.yaml}\nsigning_key: key\n")
    shown = cli("doctor", "--standard", "aisvs", "--settings", settings, "--json")
    off = [row["id"] for row in json.loads(shown.out)["requirements"] if row["missing"]]
    assert (shown.status, off) == (0, [])
    assert cli("doctor", "--settings", settings).status == 2
    assert cli("doctor", "--standard", "iso").status == 2
