"""Cedar: translated policies decide as Cedar does, and the report names each difference."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from guardagent.errors import ContentError
from guardagent.translation.imports.cedar import FORMAT
from guardagent.translation.imports.report import ImportOptions, ImportReport
from tests.translation.imports.cedar_requests import PolicyMaker, decide

ANN = {"uid": {"type": "User", "id": "ann"}, "attrs": {"dept": "it"}, "parents": [{"type": "Group", "id": "admins"}]}
DOC = {"uid": {"type": "Doc", "id": "d"}, "attrs": {"owner": {"type": "User", "id": "ann"}}, "parents": []}
FACTS = {"principal": ANN, "resource": DOC, "context": {"hour": 9, "tags": ["a"]}}


def read(text: str, **options: Any) -> ImportReport:
    return FORMAT.read(text, "x.cedar", ImportOptions(**options))


def allows(report: ImportReport, tool: str, **arguments: Any) -> bool:
    return report.load().session(facts=FACTS).check(tool, arguments).label == 0


# --- files, each with calls that are allowed and calls that are not

FILES = {
    "an amount": (
        'permit(principal, action == Action::"pay", resource) when { context.input.amount <= 500 };',
        [("pay", {"amount": 500})],
        [("pay", {"amount": 501}), ("pay", {}), ("pay", {"amount": "5"}), ("wipe", {"amount": 1})],
    ),
    "a rule that forbids wins": (
        'permit(principal, action, resource);\nforbid(principal, action, resource) when { context.input.path like "/etc/*" };',  # noqa: E501 - a rule on one line
        [("read", {"path": "/home"})],
        [("read", {"path": "/etc/passwd"}), ("read", {})],
    ),
    "a group of people": (
        (
            'permit(principal in Group::"admins", action in [Action::"wipe", Action::"read"], resource);\n'
            'permit(principal in Group::"staff", action == Action::"pay", resource);'
        ),
        [("wipe", {}), ("read", {})],
        [("pay", {})],
    ),
    "the owner": (
        'permit(principal is User, action, resource is Doc) when { resource.owner == principal && principal.dept == "it" };',  # noqa: E501 - a rule on one line
        [("read", {})],
        [],
    ),
    "an optional argument": (
        (
            'permit(principal, action == Action::"send", resource) '
            'unless { context.input has cc && !["boss@x.io", "hr@x.io"].contains(context.input.cc) };'
        ),
        [("send", {}), ("send", {"cc": "hr@x.io"})],
        [("send", {"cc": "eve@x.io"})],
    ),
    "conditions on the context": (
        (
            'permit(principal, action, resource) when { context.hour >= 8 && context.tags.containsAll(["a"]) } '
            "unless { context has frozen };"
        ),
        [("read", {})],
        [],
    ),
    "if and numbers": (
        (
            'permit(principal, action == Action::"pay", resource) '
            "when { if context.input.express then context.input.n * 2 < 10 else context.input.n - 1 < 100 };"
        ),
        [("pay", {"express": True, "n": 4}), ("pay", {"express": False, "n": 100})],
        [("pay", {"express": True, "n": 5}), ("pay", {"n": 1})],
    ),
    "decimals and instants": (
        (
            'permit(principal, action == Action::"pay", resource) when { context.input.amount.lessThan(decimal("0.5")) '
            '&& context.system.now > datetime("2024-10-15T11:35:00Z") };'
        ),
        [("pay", {"amount": 0.25})],
        [("pay", {"amount": 0.5}), ("pay", {"amount": "0.25"})],
    ),
    "a gateway's tool": (
        'permit(principal, action == AgentCore::Action::"Shop___refund", resource) when { context.input["order id"] == "W1" };',  # noqa: E501 - a rule on one line
        [("Shop___refund", {"order id": "W1"})],
        [("refund", {"order id": "W1"}), ("Shop___refund", {"order id": "W2"})],
    ),
    "an order of reading": (
        "permit(principal, action, resource) when { context.input.a == 1 || context.input.b == 2 };",
        [("x", {"a": 1}), ("x", {"a": 0, "b": 2})],
        [("x", {"b": 2}), ("x", {"a": 0})],
    ),
}


@pytest.mark.parametrize(("text", "allowed", "denied"), FILES.values(), ids=list(FILES))
def test_a_file_decides_as_written(text: str, allowed: list[Any], denied: list[Any]) -> None:
    """Each rule is beside its translation."""
    report = read(text)
    assert [allows(report, tool, **arguments) for tool, arguments in allowed] == [True] * len(allowed)
    assert [allows(report, tool, **arguments) for tool, arguments in denied] == [False] * len(denied)
    assert len(report.rules) == text.count(";")
    assert all(rule.source in text.replace("\n", " ") and rule.translation and rule.policies for rule in report.rules)


# --- random requests, with Cedar's engine beside


def difference(seed: int, on_error: Any, *, wrong: bool) -> str:
    """Compares both on some requests; a call with arguments of a wrong type may be denied here alone."""
    maker = PolicyMaker(Random(seed))  # noqa: S311 - the same every time
    text = "\n".join(maker.policy() for _ in range(maker.random.randrange(1, 5)))
    report = read(text, on_error=on_error)
    if not report.settled:
        return ""
    policies = report.load()
    for _ in range(4):
        request = maker.request(wrong=wrong)
        allowed, errors = decide(text, request)
        ours = policies.session(facts=request["facts"]).check(request["tool"], request["args"]).label == 0
        stricter = allowed and (wrong or (errors and on_error == "deny"))
        if ours != allowed and (ours or not stricter):
            return f"{text}\n{request}\nCedar: {allowed} {errors}, here: {ours}"
    return ""


@pytest.mark.parametrize("on_error", ["deny", "skip"])
@pytest.mark.parametrize("wrong", [False, True])
@pytest.mark.parametrize("seeds", [range(8), pytest.param(range(8, 170), marks=pytest.mark.slow)])
def test_random_requests_get_the_decision_of_cedar(seeds: range, on_error: str, wrong: bool) -> None:
    """Over 2,000 requests in all. Only a rule that forbids and errs, or values of wrong types, may deny here alone."""
    pytest.importorskip("cedarpy")
    assert [problem for seed in seeds if (problem := difference(seed, on_error, wrong=wrong))] == []


# --- the report


def test_a_rule_that_errs_denies_unless_it_is_skipped() -> None:
    """Cedar skips it; the report says so."""
    text = 'permit(principal, action == Action::"pay", resource);\nforbid(principal, action, resource) when { context.input.amount > 9 };'  # noqa: E501 - a rule on one line
    strict, skipping = read(text), read(text, on_error="skip")
    assert (allows(strict, "pay"), allows(skipping, "pay"), allows(skipping, "pay", amount=10)) == (False, True, False)
    assert [rule.status for rule in strict.rules] == ["same", "stricter"]
    assert [rule.status for rule in skipping.rules] == ["same", "same"]


def test_nothing_is_dropped() -> None:
    """A permit that cannot be translated permits nothing; a rule that forbids concerns every call of its tools."""
    condition = 'when { ip("10.0.0.1").isInRange(context.input.range) };'
    report = read(
        f'permit(principal, action, resource);\npermit(principal, action == Action::"a", resource) {condition}\n'
        f'@id("net") forbid(principal, action == Action::"b", resource) {condition}'
    )
    assert [rule.status for rule in report.rules] == ["same", "not translated", "not translated"]
    assert not report.settled
    assert (allows(report, "a"), allows(report, "b"), allows(report, "c")) == (True, False, True)
    assert "it forbids every call of its tools" in report.to_markdown()
    alone = read(f'permit(principal, action == Action::"a", resource) {condition}')
    assert not allows(alone, "a", range="10.0.0.0/8")


def test_groups_of_actions_come_from_the_schema() -> None:
    """Without it, a permit of a group permits nothing, and a rule that forbids concerns each tool."""
    text = 'permit(principal, action in Action::"reads", resource);\nforbid(principal, action in Action::"writes", resource);'  # noqa: E501 - a rule on one line
    schema = 'action "get", list in [Action::"reads"] appliesTo { principal: [User], resource: [Doc] };\naction put in Action::"puts";\naction puts in Action::"writes";'  # noqa: E501 - a rule on one line
    known, unknown = read(text, schema=schema), read(text)
    assert (allows(known, "get"), allows(known, "list"), allows(known, "put")) == (True, True, False)
    assert [allows(unknown, tool) for tool in ("get", "list", "put")] == [False] * 3
    assert [rule.status for rule in unknown.rules] == ["stricter", "stricter"]


def test_a_target_gives_short_names() -> None:
    """Those of the other targets keep their prefix."""
    text = 'permit(principal, action in [Action::"Shop___refund", Action::"Bank___pay"], resource);'
    report = read(text, target="Shop")
    assert [allows(report, tool) for tool in ("refund", "Shop___refund", "Bank___pay", "pay")] == [
        True,
        False,
        True,
        False,
    ]


def test_a_file_that_is_not_cedar_names_the_place() -> None:
    """With its line, and the text there."""
    with pytest.raises(ContentError, match=r"(?s)x\.cedar:2: this is not a policy of Cedar, at:.*allow\(principal"):
        read("\nallow(principal, action, resource);")
    with pytest.raises(ContentError, match=r"x\.cedar:1: this is not"):
        read("permit(principal, action, resource)")


def test_an_empty_file_permits_nothing(tmp_path: Path) -> None:
    """As Cedar without a policy."""
    assert not allows(read(""), "pay")
    assert read("").to_dict()["rules"] == []
    (tmp_path / "policies.yaml").write_text(read("").policy_text())


@pytest.mark.parametrize("name", ["state", "input", "count", "é", "9", "a-b", "permit_pay", "all", "keys", "i", "x"])
def test_any_id_makes_a_policy(name: str) -> None:
    """Words of the language, and names that others have, get another one."""
    text = f'@id("{name}") permit(principal, action == Action::"pay", resource) when {{ context.input.n == 1 }};'
    report = read(f"{text}\n{text}")
    assert (allows(report, "pay", n=1), allows(report, "pay", n=2)) == (True, False)


def test_agent_core_is_a_gateway_with_tags() -> None:
    """The principal has the claims of its token as tags; the gateway is the resource."""
    report = read(
        'permit(principal is AgentCore::OAuthUser, action == AgentCore::Action::"Shop___pay", '
        'resource == AgentCore::Gateway::"arn:aws:x") '
        'when { principal.hasTag("role") && principal.getTag("role") == "clerk" };'
    )
    assert report.rules[0].status == "same"
    for tags, label in (({"role": "clerk"}, 0), ({"role": "guest"}, 1), ({}, 1)):
        user = {"uid": {"type": "AgentCore::OAuthUser", "id": "u"}, "tags": tags}
        gateway = {"uid": {"type": "AgentCore::Gateway", "id": "arn:aws:x"}}
        session = report.load().session(facts={"principal": user, "resource": gateway})
        assert session.check("Shop___pay", {}).label == label
