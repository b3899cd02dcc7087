"""The report of an import: each rule with its status, and texts of others shown safely."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from guardagent.policy.load import load_policies
from guardagent.translation.imports.report import ImportedRule, ImportReport, Status

POLICY = {"version": 1, "policies": [{"id": "r", "temporal": "forall(pay(amount=a), a <= 5)"}]}
STATUSES: list[tuple[list[Status], Status, bool]] = [
    ([], "same", True),
    (["same", "stricter"], "stricter", True),
    (["wider", "stricter"], "wider", False),
    (["wider", "not translated"], "not translated", False),
]


def report(*rules: ImportedRule, file: str = "x.cedar") -> ImportReport:
    return ImportReport("Cedar", "Cedar 4", file, POLICY, rules, (("wider", "nulls"),))


@pytest.mark.parametrize(("kinds", "status", "settled"), STATUSES)
def test_the_gravest_difference_is_the_status(kinds: list[Status], status: Status, settled: bool) -> None:
    rule = ImportedRule(1, "permit", ("r",), "true", tuple((kind, "why") for kind in kinds))
    assert (rule.status, report(rule).settled) == (status, settled)
    assert json.loads(json.dumps(report(rule).to_dict()))["rules"][0]["status"] == status


def test_texts_of_others_are_code(tmp_path: Path) -> None:
    """Neither a rule nor a file name can forge a row, a link or a line of the policy."""
    rule = ImportedRule(1, "a | b\n[x](http://x.io)\x1b", ("r",), "", (("wider", "`c` | <img>"),))
    text = report(rule, file="a\nversion: 2").to_markdown()
    assert "| 1 | `a \\| b [x](http://x.io)" in text
    assert "| `` `c` \\| <img> `` |" in text
    path = tmp_path / "policies.yaml"
    path.write_text(report(file="a\nversion: 2").policy_text())
    assert load_policies(path).session().check("pay", {"amount": 6}).label == 1
