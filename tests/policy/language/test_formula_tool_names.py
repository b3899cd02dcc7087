from __future__ import annotations

import pytest

from guardagent import InputError, load_policies
from guardagent.policy.language.parser import read_rule, rule_text


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        ("G(refund -> O login)", "refund"),
        ("G !delete_user", "delete_user"),
        ("G(tool:pay -> O verifyIdentity)", "verifyIdentity"),
        ("F order_cancel", "order_cancel"),
        ("send-mail -> F tool:log", "send-mail"),
        ("G(mcp__files__write -> H !pii)", "mcp__files__write"),
        ("G(pii -> !HTTPGet)", "HTTPGet"),
    ],
)
def test_a_bare_name_that_looks_like_a_tool_is_an_error_with_its_line(rule: str, name: str) -> None:
    with pytest.raises(InputError, match=rf"2:.*{name} without 'tool:' is a tag.*write tool:{name}"):
        load_policies(text=f"version: 1\npolicies: [{{id: a, temporal: '{rule}'}}]")


@pytest.mark.parametrize("tag", ["pii", "injection", "external", "untrusted_text", "approved", "high_risk", '"refund"'])
def test_other_tags_of_the_host_stand_bare_and_any_tag_in_quotes(tag: str) -> None:
    text = f"G !{tag}"
    policies = load_policies(data={"version": 1, "policies": [{"id": "a", "temporal": text}]})
    assert policies.session().check("look", {}, tags={tag.strip('"')}).label == 1
    assert read_rule(rule_text(read_rule(text))) == read_rule(text)
