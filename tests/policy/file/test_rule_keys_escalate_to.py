"""The key `escalate_to:` of a rule: how it can be written, what is refused, and where it counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from guardagent import InputError, Policies, load_policies
from guardagent.policy.file.file_keys import policy_schema
from guardagent.policy.lint import lint
from guardagent.policy.review import rule_hashes
from guardagent.policy.scope import EscalationStage
from guardagent.policy.words import policy_in_words

LIMIT = "forall(refund(amount=a), a <= 100)"


def policies_of(escalate_to: str, response: str = "on_violation: escalate, ") -> Policies:
    rule = f"{{id: a, temporal: '{LIMIT}', {response}escalate_to: {escalate_to}}}"
    return load_policies(text=f"version: 1\npolicies:\n  - {rule}\n")


@pytest.mark.parametrize(
    ("text", "stages"),
    [
        ("{roles: [lead], quorum: 2, deadline: 10m}", [(("lead",), 2, 600.0)]),
        (
            "[{roles: [lead, ceo], deadline: 1.5h}, {quorum: 1}, {}]",
            [(("lead", "ceo"), None, 5400.0), (None, 1, None), ()],
        ),
        ("{}", [()]),
        ("{roles: [Finance Leads], deadline: 30d}", [(("Finance Leads",), None, 2592000.0)]),
    ],
)
def test_it_can_be_written_in_several_ways(text: str, stages: list[Any]) -> None:
    assert policies_of(text).escalations == {"a": tuple(EscalationStage(*stage) for stage in stages)}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[]", "'escalate_to' is an empty list; expected a mapping"),
        ("", "'escalate_to' is empty; expected a mapping"),
        ("lead", "'escalate_to' is the string 'lead'; expected a mapping"),
        ("{role: [lead]}", "unknown key 'role' in escalate_to; did you mean 'roles'"),
        ("{roles: lead}", "'roles' is the string 'lead'; expected a list of groups"),
        ("{roles: []}", "'roles' is an empty list"),
        ("{roles: [a, a]}", "'roles' contains 'a' twice"),
        ("{roles: [1]}", "'role' is '1', which YAML reads as a number; expected a string"),
        *(
            (f"{{quorum: {value}}}", "expected a number from 1 to 100")
            for value in ("0", "101", "true", "'2'", "1.0", "-1")
        ),
        *(
            (f"{{deadline: {value}}}", "expected a duration such as 10m, up to 30d")
            for value in ("0m", "31d", "10", "5 m", "-1m")
        ),
    ],
)
def test_a_wrong_one_is_refused_with_its_line(text: str, says: str) -> None:
    with pytest.raises(InputError, match=f"text:3: .*{says}"):
        policies_of(text)


@pytest.mark.parametrize("response", ["", "on_violation: block, ", "on_violation: warn, ", "on_violation: halt, "])
def test_it_needs_a_rule_that_escalates(response: str) -> None:
    with pytest.raises(InputError, match="text:3: 'escalate_to' without 'on_violation: escalate'"):
        policies_of("{roles: [lead]}", response)


def test_an_included_rule_that_only_warns_asks_nobody(tmp_path: Path) -> None:
    rule = f"{{id: a, temporal: '{LIMIT}', on_violation: escalate, escalate_to: {{roles: [lead]}}}}"
    (tmp_path / "inner.yaml").write_text(f"version: 1\npolicies: [{rule}]\n")
    (tmp_path / "outer.yaml").write_text("version: 1\ninclude: {file: inner.yaml, on_violation: warn}\n")
    (tmp_path / "plain.yaml").write_text("version: 1\ninclude: inner.yaml\n")
    assert load_policies(tmp_path / "outer.yaml").escalations == {}
    assert load_policies(tmp_path / "plain.yaml").escalations["inner.a"] == (EscalationStage(("lead",)),)


def test_the_schema_for_editors_agrees() -> None:
    validator = pytest.importorskip("jsonschema").Draft202012Validator(policy_schema())
    rule = {"id": "a", "temporal": LIMIT, "on_violation": "escalate"}
    good: list[Any] = [{"roles": ["lead"], "quorum": 2, "deadline": "10m"}, [{"deadline": "1h"}, {}]]
    bad: list[Any] = [[], "lead", {"role": ["x"]}, {"roles": "x"}, {"quorum": 0}, {"deadline": 10}, {"deadline": "x"}]
    for value in (*good, *bad):
        file = {"version": 1, "policies": [{**rule, "escalate_to": value}]}
        assert validator.is_valid(file) == (value in good), value
    assert not validator.is_valid(
        {"version": 1, "policies": [{**rule, "on_violation": "warn", "escalate_to": good[0]}]}
    )


def test_another_one_is_another_version_in_other_words_to_confirm() -> None:
    policies = policies_of("[{roles: [lead, ceo], quorum: 2, deadline: 10m}, {roles: [director]}]")
    assert policy_in_words(policies, "a").text.endswith(
        "It waits for 2 approvers of the group `lead` or `ceo` within 10 minutes, "
        "then for an approver of the group `director`."
    )
    other = policies_of("{roles: [director]}")
    assert other.digest != policies.digest
    assert rule_hashes(other) != rule_hashes(policies)


def test_a_rule_without_it_keeps_its_hash() -> None:
    """Confirmations of the last release stay valid."""
    rule = {"id": "a", "temporal": LIMIT, "on_violation": "escalate"}
    (value,) = rule_hashes(load_policies(data={"version": 1, "policies": [rule]})).values()
    assert value == "fea8509c28883eea1465e10860e20e5c3479043b2c802017e174bd175d0f5a07"


@pytest.mark.parametrize(("second", "kinds"), [("lead", ["duplicate"]), ("director", [])])
def test_equal_rules_that_ask_other_people_are_no_duplicates(second: str, kinds: list[str], tmp_path: Path) -> None:
    rules = "".join(
        f"  - {{id: {name}, temporal: 'G !tool:wipe', on_violation: escalate, escalate_to: {{roles: [{group}]}}}}\n"
        for name, group in {"a": "lead", "b": second}.items()
    )
    (tmp_path / "p.yaml").write_text(f"version: 1\nunlisted: allow\npolicies:\n{rules}")
    assert [finding.kind for finding in lint(tmp_path / "p.yaml")] == kinds
