"""Tool names, and the comparison of rules and tools."""

from __future__ import annotations

from typing import Any

import pytest

from guardagent import InputError
from guardagent.enforcement import HostCall, ToolSpec
from tests.enforcement.guards import LIMIT, guard


def specs(*names: str) -> list[ToolSpec]:
    return [ToolSpec(name) for name in names]


def test_an_alias_is_resolved_once() -> None:
    """Rules about `refund` apply to the host's alias of it and to the name itself."""
    one = guard(LIMIT, aliases={"mcp__shop__refund": "refund"})
    one.attach(specs("mcp__shop__refund"))
    for name in ("mcp__shop__refund", "refund"):
        assert one.before(HostCall(name, {"amount": 500}, "c")).label == 1


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
    assert coverage.lines() == [
        "rule 'rule 2' names wire, which this agent does not have",
        "no rule concerns look",
    ]


def test_tools_that_change_are_reported() -> None:
    """The report lists the tools that were added, removed or changed in their schema."""
    one = guard(LIMIT)
    assert one.attach(specs("refund", "look")).changed == ()
    coverage = one.attach([ToolSpec("refund", {"properties": {"amount": {}}}), ToolSpec("write")])
    assert (coverage.changed, coverage.added, coverage.removed) == (("refund",), ("write",), ("look",))


def test_two_tools_of_one_name_are_an_error() -> None:
    """So are two tools that have the same name after an alias is resolved."""
    with pytest.raises(InputError, match="two tools are named 'refund'"):
        guard(LIMIT).attach(specs("refund", "refund"))
    with pytest.raises(InputError, match="two tools resolve to 'refund'"):
        guard(LIMIT, aliases={"pay_back": "refund"}).attach(specs("refund", "pay_back"))
