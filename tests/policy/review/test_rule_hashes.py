"""The hash of a rule changes with everything that decides its meaning, and with nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from guardagent import load_policies
from guardagent.policy.file.policy_file import PolicyFile
from guardagent.policy.load import read_policies
from guardagent.policy.mutants import mutants_of
from guardagent.policy.review import rule_hashes
from tests.policy.mutants.test_mutants import CHANGES as FORMULAS
from tests.policy.mutants.test_mutants import SMT, SOLVER, TAGS

POLICY = """\
version: 1
toolbox: [tools.py]
constants: {limit: 100, unused: 3}
define: {"small(a)": a <= limit, "roles(r)": 'r in ["a", "b"]'}
tags: {closing: [close_account], other.ones: [open_account], idle: [wait]}
labels: {web: get_page}
ids: ["[A-Z]{6}"]
counters:
  spent: {on: refund(amount=a), sum: a, window: 24h}
  calls: {on: wait()}
failed_output: ^Error
unlisted: allow
shadow: shadow.yaml
policies:
- {id: refunds, temporal: "forall(refund(amount=a), small(a))"}
- {id: closing, temporal: "forall(@closing(), fact(role) == \\"x  y\\")", applies_to: {roles: [staff]}}
- {id: others, temporal: "forall(@other.ones(to=t), \\"web\\" in sources(t))"}
- {id: spending, temporal: "forall(refund(), counter(spent) <= 5)", message: Too much., remedy: Wait.}
- {id: state, temporal: "forall(refund(id=i), state(old(i)))", on_violation: warn}
- {id: solved, solver: {smt_file: a.smt2, tools: {pay: {permit: ok, variables: {a: {from: args.amount}}}}}}
- {id: polite, request: Be polite., program: polite.py}
"""
TOOLS = '''
from ._private import DAYS


def old(state, i: str) -> bool:
    """Old."""
    return DAYS > 1


def spare(state) -> bool:
    """Spare."""
'''
FILES: dict[str, str] = {
    "policies.yaml": POLICY,
    "tools.py": TOOLS,
    "_private.py": "DAYS = 3\n",
    "a.smt2": SMT,
    "polite.py": "def check(agent_input, agent_output, facts):\n    return {'label': 0}\n",
    "shadow.yaml": "version: 1\npolicies:\n- {id: a, temporal: G !tool:b}\n",
}
ALL = {"refunds", "closing", "others", "spending", "state", "solved", "polite"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path / "policies.yaml"


def hashes(path: Path) -> Mapping[str, str]:
    return rule_hashes(read_policies(path))


CHANGES: list[tuple[str, str, str, set[str]]] = [
    ("policies.yaml", "limit: 100", "limit: 101", {"refunds"}),
    ("policies.yaml", "a <= limit", "a < limit", {"refunds"}),
    ("policies.yaml", "[close_account]", "[close_account, end]", {"closing"}),
    ("policies.yaml", "[open_account]", "[open_account, end]", {"others"}),
    ("policies.yaml", "web: get_page", "web: get_pages", {"others"}),
    ("policies.yaml", "{6}", "{7}", {"others"}),
    ("policies.yaml", "sum: a,", "", {"spending"}),
    ("policies.yaml", "24h", "25h", {"spending"}),
    ("policies.yaml", "roles: [staff]", "roles: [stuff]", {"closing"}),
    ("policies.yaml", "x  y", "x y", {"closing"}),
    ("policies.yaml", "Too much.", "Much.", {"spending"}),
    ("policies.yaml", "Wait.", "Go.", {"spending"}),
    ("policies.yaml", "on_violation: warn", "on_violation: halt", {"state"}),
    ("policies.yaml", "permit: ok", 'permit: "(not ok)"', {"solved"}),
    ("policies.yaml", "Be polite.", "Be quiet.", {"polite"}),
    ("policies.yaml", "^Error", "^Fail", ALL),
    ("policies.yaml", "unlisted: allow", "unlisted: deny", ALL),
    ("policies.yaml", "[wait]", "[waits]", ALL),
    ("policies.yaml", "on: wait()", "on: refund()", ALL),
    ("policies.yaml", "shadow: shadow.yaml\n", "", ALL),
    ("tools.py", "> 1", "> 2", {"state", "polite"}),
    ("_private.py", "3", "4", {"state", "polite"}),
    ("a.smt2", "5", "6", {"solved"}),
    ("polite.py", "0", "1", {"polite"}),
    ("shadow.yaml", "!tool:b", "tool:b", ALL),
    # nothing that decides a verdict
    ("policies.yaml", "unused: 3", "unused: 4", set()),
    ("policies.yaml", "unlisted: allow\n", "# a comment\n\n", set()),
    ("shadow.yaml", "version: 1", "# a comment\nversion: 1", set()),
]


@pytest.mark.parametrize(("name", "old", "new", "changed"), CHANGES)
def test_exactly_the_rules_that_an_edit_concerns_change(
    path: Path, name: str, old: str, new: str, changed: set[str]
) -> None:
    before = hashes(path)
    assert old in FILES[name]
    path.with_name(name).write_text(FILES[name].replace(old, new))
    after = hashes(path)
    assert {rule for rule in before if before[rule] != after[rule]} == changed


def test_a_toolbox_that_no_rule_uses_runs_too(path: Path) -> None:
    path.write_text("version: 1\ntoolbox: tools.py\npolicies: [{id: a, temporal: G !tool:b}]\n")
    before = hashes(path)
    path.with_name("tools.py").write_text(FILES["tools.py"] + "\n\nprint()\n")
    assert hashes(path) != before


def test_layout_order_and_place_do_not_change_a_hash(path: Path, tmp_path: Path) -> None:
    before = hashes(path)
    head, _, rules = POLICY.partition("policies:\n")
    lines = rules.splitlines(keepends=True)
    text = (head + "policies:\n" + "".join(reversed(lines))).replace(
        'temporal: "forall(refund(amount=a), small(a))"}',
        'temporal:\n    "forall(refund(amount=a),\n\n      small(a))" }',
    )
    folder = tmp_path / "moved"
    folder.mkdir()
    for name, content in (FILES | {"policies.yaml": text}).items():
        (folder / name).write_text(content)
    assert hashes(folder / "policies.yaml") == before


def test_a_comment_in_a_formula_ends_with_its_line() -> None:
    """So its line break decides the meaning."""
    text_hashes = [
        rule_hashes(load_policies(data={"version": 1, "policies": [{"id": "a", "temporal": text}]}))["a"]
        for text in ("G !a # b\n AND !c", "G !a # b AND !c", "G !a\n  AND !c", "G !a AND !c")
    ]
    assert text_hashes[2] == text_hashes[3]
    assert len(set(text_hashes)) == 3


def test_an_included_rule_changes_with_its_entry(path: Path, tmp_path: Path) -> None:
    """The prefix, the constants and tags that it sets, its response, and the included file itself."""
    pack = "version: 1\nconstants: {limit: 1}\ntags: {t: [a]}\n"
    pack += "policies: [{id: r, temporal: 'forall(@t(n=n), n < limit)'}]\n"
    entries = ["{file: p.yml}", "{file: p.yml, constants: {limit: 2}}", "{file: p.yml, tools: {t: [b]}}"]
    entries += ["{file: p.yml, on_violation: warn}", "{file: p.yml, as: q}"]
    (tmp_path / "p.yml").write_text(pack)
    all_hashes = []
    for entry in entries:
        path.write_text(f"version: 1\ninclude: [{entry}]\npolicies: [{{id: limit, temporal: G !tool:z}}]\n")
        all_hashes.append(hashes(path))
    assert len({digest.get("p.r", digest.get("q.r")) for digest in all_hashes}) == len(entries)
    assert len({digest["limit"] for digest in all_hashes}) == 1
    (tmp_path / "p.yml").write_text(pack.replace("limit: 1", "limit: 3"))
    path.write_text(f"version: 1\ninclude: [{entries[0]}]\npolicies: [{{id: limit, temporal: G !tool:z}}]\n")
    assert hashes(path)["p.r"] not in {digest.get("p.r") for digest in all_hashes}


@pytest.mark.parametrize("rule", [*({"temporal": formula} for formula in FORMULAS), {"solver": SOLVER}], ids=str)
def test_every_mutant_has_another_hash(rule: dict[str, Any]) -> None:
    rule |= {"applies_to": {"roles": ["a", "b"], "not": {"agents": ["c"]}}}
    policies = load_policies(data={"version": 1, "tags": TAGS, "policies": [{"id": "a", **rule}]})
    assert policies.source
    mutants = mutants_of(policies, "a").mutants
    mutant_hashes = {rule_hashes(replace(policies.source, rules=(mutant.source,)))["a"] for mutant in mutants}
    assert mutants
    assert len(mutant_hashes | {rule_hashes(policies)["a"]}) == len(mutants) + 1


def test_each_key_of_a_policy_file_is_decided() -> None:
    """A new field must be hashed, or be listed here."""
    unhashed = {
        "path",
        "files",
        "ignored",
        "views",
        "inclusions",
        "places",
        "digest",
        "effects",  # they are tags, too
        "timeouts",  # of tools, whatever the rules say
    }
    hashed = {"toolboxes", "tags", "constants", "definitions", "counters", "labels", "rules"}
    frame = {"tools", "unlisted", "failed_output", "shadow", "dispatch"}
    assert {field.name for field in fields(PolicyFile)} == unhashed | hashed | frame
