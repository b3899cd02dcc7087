"""Rules about any change, and the tools that they judge."""

from __future__ import annotations

import pytest

from guardagent.translation.drafts import Draft
from guardagent.translation.tools import ToolSchema
from tests.translation.examination.shop import problems, rule

TOOLS = tuple(ToolSchema(name, "", {"type": "object"}) for name in ("refund", "cancel", "rename", "get_order"))


def found(temporal: str, words: str = "before any other change") -> list[str]:
    draft = Draft((2,), (rule(temporal, quotes={2: words}, cases=()),))
    return [problem.message for problem in problems(draft, "any_tool", tools=TOOLS)]


def test_a_writing_tool_that_is_left_out_is_named() -> None:
    """A tool that only reads may be."""
    (message,) = found("forall(refund|cancel(), fact(user_confirmed) == true)")
    assert "'any other change'" in message
    assert "judges cancel, refund, but not rename, which may" in message


@pytest.mark.parametrize(
    ("temporal", "words"),
    [
        ("forall(refund|cancel|rename(), fact(user_confirmed) == true)", "any other change"),
        ("forall(f:*(), fact(user_confirmed) == true)", "any other change"),
        ("forall(refund|cancel(), fact(user_confirmed) == true)", "any refund"),
        ("forall(refund(), fact(user_confirmed) == true)", "any update of a refund"),
    ],
)
def test_a_rule_about_all_of_them_or_about_one_kind_is_right(temporal: str, words: str) -> None:
    assert found(temporal, words) == []
