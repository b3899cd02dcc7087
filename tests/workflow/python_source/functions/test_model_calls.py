"""Model calls, tool calls and placeholders, by the names in the code."""

from __future__ import annotations

import ast

import pytest

from guardagent.workflow.python_source.calls import calls_model, is_placeholder, runs_named_tools

MODELS = ["self.llm.invoke", "(prompt | model).ainvoke", "client.chat.completions.create", "call_llm", "agent.run"]
OTHERS = ["retriever.invoke", "self.tools[name].invoke", "json.dumps", "model.dump", "ChatOpenAI", "state.get", "Agent"]


@pytest.mark.parametrize("call", [*MODELS, *OTHERS])
def test_a_model_call_is_known_by_its_names(call: str) -> None:
    """A model is called by its methods or by a function that names it; making one calls nothing."""
    assert calls_model([call], []) == (call in MODELS)


def test_tools_are_known_by_their_names() -> None:
    """A model with tools is no tool."""
    assert runs_named_tools(["tools_by_name[name].invoke"])
    assert runs_named_tools(["session.call_tool"])
    assert not runs_named_tools(["llm_with_tools.invoke", "json.loads"])


def test_a_placeholder_computes_nothing() -> None:
    """Control flow and constants are no computation."""
    plain = "def f(s):\n    if s.get('x'): return Command(goto='b')\n    return {'x': [s['y']]}"
    assert is_placeholder(_function(plain))
    assert not is_placeholder(_function("def f(s): return {'x': s['y'] + 1}"))
    assert not is_placeholder(_function("def f(s): return {'x': clean(s)}"))


def _function(code: str) -> ast.FunctionDef:
    tree = ast.parse(code).body[0]
    assert isinstance(tree, ast.FunctionDef)
    return tree
