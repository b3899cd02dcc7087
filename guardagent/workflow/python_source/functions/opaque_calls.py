"""Finds opaque calls, which can run any tool.

A call is opaque if its function or the object of its method is unknown, if it runs code from a string, or if it calls a
missing import that is not from a known library. A model runs nothing by itself.
"""

from __future__ import annotations

import ast
from types import FunctionType

from guardagent.workflow.python_source.builtins import BINDS
from guardagent.workflow.python_source.evaluator import Evaluator
from guardagent.workflow.python_source.functions.libraries import effect_of
from guardagent.workflow.python_source.values import (
    Attribute,
    CallResult,
    Class,
    Function,
    ImportedName,
    Instance,
    NameScope,
    Stub,
    Values,
    path_of,
)

RUN_METHODS = {
    "invoke", "ainvoke", "stream", "astream", "batch", "abatch", "stream_events", "astream_events",
    "run", "arun", "func", "coroutine", "_run", "_arun", "__call__", "run_sync", "run_async", "run_live", "run_stream",
    "run_streamed", "run_json", "on_messages", "on_messages_stream", "on_invoke_tool", "call_tool", "initiate_chat",
    "kickoff", "kickoff_async", "kickoff_for_each", "akickoff", "execute_task",
}  # fmt: skip
_AGENTS = (
    "agents", "autogen_agentchat", "autogen_core", "autogen_ext", "crewai", "crewai_tools", "fastmcp", "google.adk",
    "langgraph", "llama_index", "mcp", "pydantic_ai", "pydantic_graph", "smolagents",
)  # fmt: skip
_FROM_TEXT = {"builtins.exec", "builtins.eval", "builtins.__import__"}
_RUNS_TOOLS = (".agents", ".tools", ".mcp", "langgraph.", "langchain_mcp")


def is_opaque(call: ast.Call, callee: Values, evaluator: Evaluator, scope: NameScope, opens: frozenset[str]) -> bool:
    """Whether a call is opaque to an extractor that reads the results of the functions in `opens`."""
    function = call.func
    if isinstance(function, ast.Attribute) and function.attr in RUN_METHODS:
        return not _is_transparent(function.value, evaluator, scope, opens)
    if any(path_of(one) in _FROM_TEXT or _is_missing_import(one) for one in callee.known):
        return True
    named = isinstance(function, ast.Name | ast.Subscript | ast.Call)
    return named and not callee.known and not callee.cyclic


def _is_transparent(owner: ast.expr, evaluator: Evaluator, scope: NameScope, opens: frozenset[str]) -> bool:
    """Whether an object is known well enough to know what it runs."""
    match owner:
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in BINDS:
            return _is_transparent(inner, evaluator, scope, opens)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _is_transparent(left, evaluator, scope, opens) and _is_transparent(right, evaluator, scope, opens)
    values = evaluator.value(owner, scope)
    seen = bool(values.known) and all(_is_identified(one, opens) for one in values.known)
    return seen and (values.complete or all(isinstance(one, CallResult) for one in values.known))


def _is_identified(one: object, opens: frozenset[str]) -> bool:
    if isinstance(one, CallResult):
        if isinstance(one.callee, Attribute):
            # A model returns a model or a string.
            return one.callee.owner is None or _is_identified(one.callee.owner, opens)
        path = path_of(one.callee)
        name = path.rpartition(".")[2]
        return isinstance(one.callee, Class) or name in BINDS | opens or _is_known(path)
    if isinstance(one, Instance):
        return isinstance(one.of, Class) or _runs_nothing(path_of(one.of))
    if isinstance(one, ImportedName):
        return _is_known(one.path)
    return not isinstance(one, Attribute | Function | FunctionType)  # a decorated function can be anything


def _is_known(path: str) -> bool:
    """Whether it runs nothing, or an extractor reads it."""
    return _runs_nothing(path) or (not path.startswith("langgraph") and _agents(path) is not None)


def _runs_nothing(path: str) -> bool:
    """Whether it is a model, a prompt or a parser of LangChain, or from the standard library."""
    root = path.partition(".")[0]
    if any(part in path for part in _RUNS_TOOLS):
        return False
    return root.startswith("langchain") or effect_of(path) in {"harmless", "model"}


def foreign(owner: object, own: tuple[str, ...]) -> str | None:
    """Returns the package of an object that runs agents or tools of a framework other than the extractor's own.

    If the extractor has no framework, every stub of the program counts as such an object.
    """
    if isinstance(owner, Stub) and not own:
        return "the program"
    kind = owner.callee if isinstance(owner, CallResult) else owner.of if isinstance(owner, Instance) else owner
    found = _agents(path_of(kind) or type(kind).__module__)
    return None if found is None or (own and found.startswith(own)) else found


def _agents(path: str) -> str | None:
    return next((one for one in _AGENTS if path == one or path.startswith(f"{one}.")), None)


def _is_missing_import(one: object) -> bool:
    """Whether a function is from a module that is neither readable nor in the table of libraries."""
    if not isinstance(one, ImportedName) or one.path.rpartition(".")[2][:1].isupper():
        return False
    return effect_of(one.path) is None
