"""The table of libraries."""

from __future__ import annotations

import pytest

from guardagent.workflow.python_source.calls import effect_of


@pytest.mark.parametrize(
    ("path", "effect"),
    [
        ("json.loads", "harmless"),
        ("langchain_openai.ChatOpenAI", "model"),
        ("langchain_community.tools.DuckDuckGoSearchRun", "tools"),
        ("langchain_community.chat_models.ChatOllama", "model"),
        ("langchain.agents.create_agent", "agents"),
        ("somewhere.run", None),
        ("", None),
    ],
)
def test_the_longest_entry_counts(path: str, effect: str | None) -> None:
    """A package that is not in the table has no known effect."""
    assert effect_of(path) == effect
