"""The tools that a function calls from libraries and from modules that cannot be read."""

from __future__ import annotations

import ast

import pytest

from guardagent.workflow.python_source.calls import RUN_METHODS, effect_of, tools_run_by
from guardagent.workflow.python_source.evaluator import Evaluator
from guardagent.workflow.python_source.values import ImportedName, Values, exactly

NAMES = {
    "Search": "langchain_community.tools.Search",
    "Tavily": "tavily.TavilyClient",
    "make": "langgraph.prebuilt.create_react_agent",
    "Agent": "crewai.Agent",
    "Crew": "crewai.Crew",
    "imported": "elsewhere.imported",
    "session": "mcp.ClientSession",
    "TOOLS": "elsewhere.TOOLS",
}


class _Names(Evaluator):
    """An evaluator that knows imports only."""

    def name(self, name: str, scope: object) -> Values:
        return exactly(ImportedName(NAMES[name])) if name in NAMES else super().name(name, scope)  # type: ignore[arg-type]


class _Nothing:
    parent = None

    def find(self, name: str) -> list[object]:
        return []


CASES = [
    ("Search().invoke(1)", ["langchain_community.Search"], True),
    ("Tavily().search(1)", ["tavily.TavilyClient"], True),
    ("make(1, tools=[Search()]).invoke(1)", ["langchain_community.Search"], True),
    ("make(1, [imported]).invoke(1)", ["elsewhere.imported"], False),
    ("make(1, TOOLS).invoke(1)", [], False),
    ("Crew(agents=[Agent(tools=[Search()])]).kickoff()", ["langchain_community.Search"], True),
    ("Crew(agents=[]).kickoff()", [], False),
    ("session.call_tool('find', {})", ["find"], True),
    ("imported.invoke(1)", ["elsewhere.imported"], False),
    ("imported.describe(1)", [], True),
]


@pytest.mark.parametrize(("code", "names", "complete"), CASES, ids=[case[0] for case in CASES])
def test_a_call_names_the_tools_that_it_runs(code: str, names: list[str], complete: bool) -> None:
    """It says so if there can be others."""
    call = ast.parse(code, mode="eval").body
    assert isinstance(call, ast.Call)
    tools = tools_run_by(call, _Names(), _Nothing(), frozenset(RUN_METHODS))  # type: ignore[arg-type]
    assert (tools.names, not tools.unseen) == (names, complete)


# --- the table of libraries


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
