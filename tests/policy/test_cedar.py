"""Policies in Cedar are judged by Cedar's engine, and what it cannot decide denies."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from guardagent import load_policies
from guardagent.errors import InputError
from guardagent.policy.load import read_policies
from guardagent.policy.policies import Policies
from guardagent.types import Decision
from tests.translation.imports.cedar_requests import PolicyMaker, decide, with_references

pytest.importorskip("cedarpy")
SHOP = """@id("refunds")
permit(principal, action == Action::"refund", resource) when { context.input.amount <= 500 };
@id("lent")
forbid(principal, action, resource) when { principal.home.contains(ip("10.0.0.1")) || resource in principal.boss };
"""
ANN = {"uid": {"type": "User", "id": "ann"}, "attrs": {"home": [], "boss": {"__entity": {"type": "User", "id": "bob"}}}}
BOX = {"uid": {"type": "Box", "id": "b"}, "parents": [{"type": "User", "id": "eve"}]}
FACTS: dict[str, Any] = {"principal": ANN, "resource": BOX}


def policies(folder: Path, text: str = SHOP, **keys: str) -> Policies:
    (folder / "shop.cedar").write_text(text)
    rows = "".join(f", {name}: {value}" for name, value in keys.items())
    return load_policies(
        text=f"version: 1\npolicies: [{{id: shop, cedar: {{policies: shop.cedar{rows}}}}}]", folder=folder
    )


def label(loaded: Policies, tool: str, args: Mapping[str, Any], facts: Mapping[str, Any] = FACTS) -> int:
    return loaded.session(facts=facts).check(tool, args).label


def test_the_engine_decides(tmp_path: Path) -> None:
    """Also what the translation does not know: addresses, and ancestors of further entities."""
    loaded = policies(tmp_path)
    assert label(loaded, "refund", {"amount": 500}) == 0
    assert label(loaded, "pay", {"amount": 5}) == 1
    verdict = loaded.session(facts=FACTS).check("refund", {"amount": 501})
    assert verdict.rules == ("shop",)
    assert "no policy of shop.cedar permits it" in str(verdict.violations[0].evidence)
    eve = {"uid": {"type": "User", "id": "eve"}, "attrs": {}, "parents": [{"type": "User", "id": "bob"}]}
    verdict = loaded.session(facts={**FACTS, "entities": [eve]}).check("refund", {"amount": 5})
    assert "lent of shop.cedar forbids it" in str(verdict.violations[0].evidence)


@pytest.mark.parametrize(
    ("args", "facts", "problem"),
    [
        ({"amount": 5}, {"resource": BOX}, "'principal' is missing"),
        ({"amount": 5}, {"principal": ANN, "resource": "b"}, "'resource' is not an entity"),
        ({"amount": 5.5}, FACTS, "failed to build request"),
        ({"amount": None}, FACTS, "null"),
        ({"amount": 2**70}, FACTS, "failed to build request"),
        ({"amount": 5}, {**FACTS, "entities": [{"uid": {"type": "Secret"}}]}, "cannot read the facts"),
        ({"amount": 5}, {**FACTS, "entities": [{**ANN, "attrs": {}}]}, "cannot read the facts"),
        ({"amount": 5}, {**FACTS, "principal": {**ANN, "attrs": {}}}, "does not have the attribute"),
    ],
)
def test_what_it_cannot_decide_denies(
    args: dict[str, Any], facts: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    verdict = policies(tmp_path).session(facts=facts).check("refund", args)
    assert verdict.label == 1
    assert problem in " ".join(verdict.errors)
    assert "Secret" not in str(verdict.errors)


def test_an_error_may_be_skipped(tmp_path: Path) -> None:
    """As in Cedar, for a policy that forbids; a request that it rejects denies all the same."""
    loaded = policies(tmp_path, on_error="skip")
    assert label(loaded, "refund", {"amount": 5}, {**FACTS, "principal": {**ANN, "attrs": {}}}) == 0
    assert label(loaded, "refund", {"amount": 5.5}) == 1


def test_arguments_cannot_make_entities(tmp_path: Path) -> None:
    """Cedar's JSON has escapes; the arguments are a model's."""
    text = 'permit(principal, action, resource) when { context.input.by in Group::"staff" };'
    staff = {"__entity": {"type": "Group", "id": "staff"}}
    for by in (staff, [staff], {"a": staff}):
        verdict = policies(tmp_path, text).session(facts=FACTS).check("pay", {"by": by})
        assert "an escape of Cedar's JSON" in verdict.errors[0]


def test_only_the_actions_that_it_names_are_listed(tmp_path: Path) -> None:
    """So `unlisted: deny` holds for others, and so does the comparison of names that look alike."""
    text = 'permit(principal, action, resource); forbid(principal, action == Action::"refund", resource);'
    (tmp_path / "shop.cedar").write_text(text)
    rule = "version: 1\nunlisted: {}\npolicies: [{{id: shop, cedar: {{policies: shop.cedar}}}}]"
    for unlisted, expected in (("allow", [1, 1, 1, 0]), ("deny", [1, 1, 1, 1])):
        loaded = load_policies(text=rule.format(unlisted), folder=tmp_path)
        assert [label(loaded, tool, {}) for tool in ("refund", "Refund", "refund\u200b", "zap")] == expected


@pytest.mark.parametrize(
    "facts",
    [
        {**FACTS, "entities": None},
        {**FACTS, "context": 5},
        {**FACTS, "principal": {"uid": {"type": "User", "id": 3}}},
        {**FACTS, "context": {"at": object()}},
    ],
)
def test_facts_of_another_form_deny_with_the_reason(facts: dict[str, Any], tmp_path: Path) -> None:
    verdict = policies(tmp_path).session(facts=facts).check("refund", {"amount": 5})
    assert verdict.label == 1
    assert "raised" not in str(verdict.errors)


def test_lint_reads_the_policies(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("version: 1\npolicies: [{id: shop, cedar: {policies: shop.cedar}}]")
    (tmp_path / "shop.cedar").write_text("permit(principal")
    with pytest.raises(InputError, match=r"shop\.cedar"):
        read_policies(tmp_path / "p.yaml")


def test_actions_of_a_gateway(tmp_path: Path) -> None:
    text = 'permit(principal, action == Bank::Action::"Shop___refund", resource);'
    loaded = policies(tmp_path, text, namespace="Bank", target="Shop")
    assert [label(loaded, tool, {}) for tool in ("refund", "Shop___refund", "Shop___pay")] == [0, 0, 1]


def test_a_schema_validates_policies_and_requests(tmp_path: Path) -> None:
    (tmp_path / "s.cedarschema").write_text(
        "entity User, Box; action refund appliesTo "
        "{principal: [User], resource: [Box], context: {input: {amount: Long}}};"
    )
    text = 'permit(principal, action == Action::"refund", resource) when { context.input.amount < 9 };'
    loaded = policies(tmp_path, text, schema="s.cedarschema")
    facts = {"principal": {"uid": ANN["uid"]}, "resource": {"uid": BOX["uid"]}}
    assert [label(loaded, "refund", args, facts) for args in ({"amount": 1}, {"amount": "1"}, {})] == [0, 1, 1]
    assert label(loaded, "pay", {"amount": 1}, facts) == 1
    with pytest.raises(InputError, match="by the schema"):
        policies(tmp_path, text.replace("amount", "sum"), schema="s.cedarschema")


@pytest.mark.parametrize("text", ["permit(principal, action;", "permit(principal == ?principal, action, resource);"])
def test_wrong_policies_are_an_error_of_the_file(text: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"shop\.cedar"):
        policies(tmp_path, text)


def test_a_changed_file_is_another_policy(tmp_path: Path) -> None:
    assert policies(tmp_path).digest != policies(tmp_path, SHOP.replace("500", "501")).digest


def test_random_requests_beside_the_engine(tmp_path: Path) -> None:
    writer = PolicyMaker(random.Random(7))  # noqa: S311 - a test
    decided = set()
    for _ in range(40):
        text = "\n".join(writer.policy() for _ in range(3))
        loaded = policies(tmp_path, text)
        for _ in range(5):
            request = writer.request(wrong=True)
            is_allowed, errors = decide(text, request)
            facts = dict(request["facts"])
            for name in ("principal", "resource"):
                facts[name] = facts[name] | {"attrs": with_references(facts[name]["attrs"])}
            verdict = loaded.session(facts=facts).check(request["tool"], request["args"])
            expected = Decision.ALLOW if is_allowed and not errors else Decision.DENY
            assert verdict.decision is expected, (text, request, verdict.errors)
            decided.add((expected, bool(errors)))
    assert len(decided) == 3
