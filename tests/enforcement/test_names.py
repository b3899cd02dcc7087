"""Tool names, and the comparison of rules and tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from guardagent import InputError, load_policies
from guardagent.enforcement import HostCall, ToolGuard, ToolSpec
from tests.enforcement.guards import LIMIT, guard


def specs(*names: str) -> list[ToolSpec]:
    return [ToolSpec(name) for name in names]


def test_an_alias_is_resolved_once() -> None:
    """Rules about `refund` apply to the host's alias of it and to the name itself."""
    tool_guard = guard(LIMIT, aliases={"mcp__shop__refund": "refund"})
    tool_guard.attach(specs("mcp__shop__refund"))
    for name in ("mcp__shop__refund", "refund"):
        assert tool_guard.before(HostCall(name, {"amount": 500}, "c")).label == 1


@pytest.mark.parametrize("aliases", [{"a": "b", "b": "c"}, {"a": ""}, {"a": 1}, {1: "a"}, {"": "a"}])
def test_an_invalid_alias_is_an_error(aliases: Any) -> None:
    """Empty names, non-strings and aliases of aliases are refused."""
    with pytest.raises(InputError, match="alias"):
        guard(LIMIT, aliases=aliases)


@pytest.mark.parametrize("tools", [["refunt"], ["Refund"], ["REFUND"], ["refund_"], ["look", "re_fund"]])
def test_a_misspelt_name_is_an_error_at_attach(tools: list[str]) -> None:
    """The error names the rule, the tool and the remedy; a tool that the host declares absent is accepted."""
    with pytest.raises(InputError, match=r"rule 'rule 1' names the tool 'refund'.*did you mean.*declare an alias"):
        guard(LIMIT).attach(specs(*tools))
    guard(LIMIT, absent={"refund"}).attach(specs(*tools))


def test_a_misspelt_alias_is_an_error_at_attach() -> None:
    """It would leave the intended tool without its rules."""
    with pytest.raises(InputError, match="did you mean 'mcp__shop__refund'"):
        guard(LIMIT, aliases={"mcp_shop_refund": "refund"}).attach(specs("mcp__shop__refund"))


def test_attaching_reports_unmatched_rules_and_tools() -> None:
    """The report lists rules without tools, and tools without rules."""
    coverage = guard(LIMIT, "G !tool:wire").attach(specs("refund", "look"))
    assert dict(coverage.rules_without_tools) == {"rule 2": ("wire",)}
    assert coverage.tools_without_rules == ("look",)
    assert coverage.lines() == ["rule 'rule 2' names wire, which this agent does not have", "no rule restricts look"]


def test_attaching_reports_the_tools_that_unlisted_denies() -> None:
    """The tools that a rule demands are no part of them, and no line speaks of those."""
    text = "version: 1\nunlisted: deny\npolicies: [{id: a, temporal: 'before(refund(), true, get_order(), true)'}]"
    coverage = ToolGuard(load_policies(text=text)).attach(specs("refund", "get_order", "wipe", "look"))
    assert coverage.lines() == ["no rule names, and 'unlisted: deny' denies every call of it: look, wipe"]


def test_tools_that_change_are_reported() -> None:
    """The report lists the tools that were added, removed or changed in their schema."""
    tool_guard = guard(LIMIT)
    assert tool_guard.attach(specs("refund", "look")).changed == ()
    coverage = tool_guard.attach([ToolSpec("refund", {"properties": {"amount": {}}}), ToolSpec("write")])
    assert (coverage.changed, coverage.added, coverage.removed) == (("refund",), ("write",), ("look",))


def test_two_tools_of_one_name_are_an_error() -> None:
    """So are two tools that have the same name after an alias is resolved."""
    with pytest.raises(InputError, match="two tools are named 'refund'"):
        guard(LIMIT).attach(specs("refund", "refund"))
    with pytest.raises(InputError, match="two tools resolve to 'refund'"):
        guard(LIMIT, aliases={"pay_back": "refund"}).attach(specs("refund", "pay_back"))


SCHEMA = {"type": "object", "properties": {"order_id": {}, "amount": {}}}


def located(rule: str, **kinds: Any) -> ToolGuard:
    policies = load_policies(text=f"version: 1\npolicies:\n  - id: a\n    temporal: {rule}\n")
    return ToolGuard(policies, **kinds)


@pytest.mark.parametrize("rule", ["G(tool:refund -> O look)", "look -> F tool:refund", "G(tool:wire -> O ledger)"])
def test_a_bare_name_of_an_attached_tool_is_an_error(rule: str) -> None:
    """A tag never holds for the calls of the tool, so the rule would not mean what it says."""
    tool_guard = located(rule, aliases={"ledger": "look"}, absent={"wire"})
    with pytest.raises(InputError, match=r"text:3: rule 'a' uses '(look|ledger)' as a tag.*did you mean 'tool:look'"):
        tool_guard.attach([ToolSpec("refund"), ToolSpec("ledger")])
    tool_guard.attach(specs("refund", "other"))


@pytest.mark.parametrize(
    "rule",
    [
        "forall(refund(amuont=a), a <= 5)",
        "forall(f:refund(), known(args(f).amuont))",
        "before(wire(), true, refund(amuont=.*), true)",
        "forall(wire(), count(f:refund(amuont=5), true) < 2)",
        "forall(wire(), args(last(refund())).amuont == 1)",
    ],
)
def test_a_misspelt_argument_is_an_error_at_attach(rule: str) -> None:
    """The error has the place of the rule and the nearest name."""
    tool_guard = located(f"'{rule}'", absent={"wire"})
    with pytest.raises(InputError, match=r"text:3: rule 'a': unknown argument 'amuont' of 'refund'.*'amount'"):
        tool_guard.attach([ToolSpec("refund", SCHEMA)])
    open_schemas: tuple[dict[str, Any], ...] = (
        {},
        {"type": "object"},
        {**SCHEMA, "additionalProperties": True},
        {**SCHEMA, "$ref": "http://x"},
    )
    for schema in (*open_schemas, {**SCHEMA, "patternProperties": {"^a": {}}}):
        tool_guard.attach([ToolSpec("refund", schema)])
    tool_guard.attach([ToolSpec("refund", SCHEMA, unlisted_arguments=frozenset({"amuont"}))])
    tool_guard.attach([ToolSpec("refund", SCHEMA, unlisted_arguments=None)])


def test_arguments_of_other_tools_and_right_ones_are_accepted() -> None:
    """A repeated label is ambiguous, and is left to the rule's own errors."""
    rule = "(forall(f:refund(amount=a), args(f).order_id == a)) AND (forall(f:wire(to=t), args(f).to == t))"
    located(f"'{rule}'").attach([ToolSpec("refund", SCHEMA), ToolSpec("wire")])


def test_the_names_of_a_pack_are_alternatives() -> None:
    """An agent has one of the usual names: the others are no mistakes; a pack without any of its tools is one line."""
    text = (
        "version: 1\ninclude: [guardagent:shell, guardagent:sql]\n"
        "policies: [{id: limit, temporal: 'forall(refund(amount=a), a <= 100)'}]\n"
    )
    tool_guard = ToolGuard(load_policies(text=text))
    coverage = tool_guard.attach(specs("refund", "run_sql", "run_shel"))
    assert dict(coverage.rules_without_tools) == {}
    assert coverage.inclusions_without_tools == ("shell.",)
    assert coverage.lines()[0].startswith("no tool of this agent is in a tag of the included 'shell'")


def test_a_misspelt_name_in_an_included_file_is_an_error(tmp_path: Path) -> None:
    """Only the names of packs are alternatives."""
    (tmp_path / "money.yaml").write_text(
        "version: 1\ntags: {money: [refunt, look]}\npolicies: [{id: limit, temporal: 'G !@money'}]\n"
    )
    (tmp_path / "p.yaml").write_text("version: 1\ninclude: [money.yaml]\n")
    with pytest.raises(InputError, match="refunt"):
        ToolGuard(load_policies(tmp_path / "p.yaml")).attach(specs("refund", "look"))
