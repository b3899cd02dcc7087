"""Calls in a function of which it cannot be seen what they run: it could be any tool.

A call is such a one where what is called, or the object whose method runs it, is not known; where code is put together
while the program runs; and where what is imported is neither there nor known to be a library's. A model is known to
run nothing by itself.
"""

from __future__ import annotations

import ast
import sys
from functools import cache
from importlib.util import find_spec
from types import FunctionType

from guardagent.workflow.python_source.evaluation.builtin_calls import BINDS
from guardagent.workflow.python_source.evaluation.evaluator import Evaluator
from guardagent.workflow.python_source.evaluation.values import (
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
    """Whether it cannot be seen what a call runs, by an extractor that opens what some functions give."""
    function = call.func
    if isinstance(function, ast.Attribute) and function.attr in RUN_METHODS:
        return not _is_transparent(function.value, evaluator, scope, opens)
    if any(path_of(one) in _FROM_TEXT or _is_missing_import(one) for one in callee.known):
        return True
    named = isinstance(function, ast.Name | ast.Subscript | ast.Call)
    return named and not callee.known and not callee.cyclic


def _is_transparent(owner: ast.expr, evaluator: Evaluator, scope: NameScope, opens: frozenset[str]) -> bool:
    """Whether it is known what an object is, as far as that matters to what it runs."""
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
            return one.callee.owner is None or _is_identified(
                one.callee.owner, opens
            )  # what a model gives is one, or a text
        path = path_of(one.callee)
        name = path.rpartition(".")[2]
        return isinstance(one.callee, Class) or name in BINDS | opens or _is_known(path)
    if isinstance(one, Instance):
        return isinstance(one.of, Class) or _runs_nothing(path_of(one.of))
    if isinstance(one, ImportedName):
        return _is_known(one.path)
    return not isinstance(one, Attribute | Function | FunctionType)  # a decorated function may be anything


def _is_known(path: str) -> bool:
    """Whether it runs nothing, or is for an extractor to tell."""
    return _runs_nothing(path) or (not path.startswith("langgraph") and _agents(path) is not None)


def _runs_nothing(path: str) -> bool:
    """Whether a class or function is a model's, a prompt's or a parser's of LangChain, or comes with Python."""
    root = path.partition(".")[0]
    if any(part in path for part in _RUNS_TOOLS):
        return False
    return root.startswith("langchain") or root in sys.stdlib_module_names


def foreign(owner: object, own: tuple[str, ...]) -> str | None:
    """The package of an object that runs agents or tools, and is of another framework than an extractor's own.

    Where nothing is an extractor's own, what stands for any object of the program is one, too.
    """
    if isinstance(owner, Stub) and not own:
        return "the program"
    kind = owner.callee if isinstance(owner, CallResult) else owner.of if isinstance(owner, Instance) else owner
    found = _agents(path_of(kind) or type(kind).__module__)
    return None if found is None or (own and found.startswith(own)) else found


def _agents(path: str) -> str | None:
    return next((one for one in _AGENTS if path == one or path.startswith(f"{one}.")), None)


def _is_missing_import(one: object) -> bool:
    """Whether a function is imported from where it can be neither read nor taken for a library's."""
    return isinstance(one, ImportedName) and not one.path.rpartition(".")[2][:1].isupper() and _is_missing(_root(one))


def _root(one: ImportedName) -> str:
    return one.path.partition(".")[0]


@cache
def _is_missing(root: str) -> bool:
    if root in sys.stdlib_module_names or root == "builtins":
        return False
    try:
        return not root or find_spec(root) is None
    except (ImportError, ValueError):
        return True
