"""Whether a function calls a model, runs tools that cannot be seen, or is only a placeholder.

The kind of a node rests on this, no proof does: where an object is unknown, its name in the source decides.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

from guardagent.workflow.python_source.functions.libraries import effect_of
from guardagent.workflow.python_source.values import CallResult, FunctionTree, path_of

_METHODS = {
    *"complete acomplete chat achat stream_chat astream_chat stream_complete astream_complete predict apredict".split(),
    *"structured_predict astructured_predict chat_with_tools achat_with_tools model_request model_request_sync".split(),
    *"completion acompletion generate_content generate_content_async generate_text".split(),
}
_CALLS = ("completions.create", "completions.parse", "responses.create", "responses.parse", "messages.create")
_INVOKES = {"invoke", "ainvoke", "stream", "astream", "batch", "abatch", "astream_events"}
_TOOL_RUNS = {"invoke", "ainvoke", "run", "arun", "_run", "_arun", "func", "coroutine", "execute"}
_MODELS = frozenset(
    "llm llms lm model models gpt chatgpt openai claude anthropic gemini chat chain agent agents bind "
    "structured".split()
)
_TOOLS = frozenset({"tool", "tools"})
_NO_MODELS = _TOOLS | {
    "retriever",
    "retrievers",
    "search",
    "store",
    "vectorstore",
    "index",
    "db",
    "database",
    "session",
}
_VERBS = frozenset("call ask query invoke ainvoke prompt run arun complete generate agenerate predict respond".split())
_NOUNS = frozenset({"response", "completion", "reply"})
_PLAIN = (
    ast.stmt, ast.Constant, ast.Dict, ast.List, ast.Tuple, ast.Set, ast.Name, ast.Attribute, ast.Subscript,
    ast.Starred, ast.IfExp, ast.Compare, ast.BoolOp, ast.UnaryOp, ast.ListComp, ast.comprehension, ast.keyword,
    ast.expr_context, ast.cmpop, ast.boolop, ast.unaryop, ast.arguments, ast.arg,
)  # fmt: skip


def calls_model(calls: Iterable[str], runs: Iterable[tuple[object, str]]) -> bool:
    """Returns whether a function calls a model or an agent.

    Args:
        calls: its callees, as in the source.
        runs: the objects and names of its method calls.
    """
    models = (isinstance(one, CallResult) and _is_model(one) for one, method in runs if method in _INVOKES)
    return any(map(_is_model_call, calls)) or any(models)


def runs_named_tools(calls: Iterable[str]) -> bool:
    """Returns whether a function runs something that its code calls a tool."""
    return any(map(_is_tool_call, calls))


def is_placeholder(tree: FunctionTree) -> bool:
    """Returns whether a function computes nothing: it only chooses among constants and parts of its arguments."""
    statements: Iterable[ast.AST] = [tree.body] if isinstance(tree, ast.Lambda) else tree.body
    nodes = (node for one in statements for node in ast.walk(one))
    return all(isinstance(node, _PLAIN) or (isinstance(node, ast.Call) and _is_plain(node)) for node in nodes)


def _is_plain(call: ast.Call) -> bool:
    """Whether a call reads a dictionary, or constructs an object: classes have capital names."""
    name = ast.unparse(call.func).rpartition(".")[2]
    return name == "get" or name[:1].isupper()


def _is_model(one: CallResult) -> bool:
    name = path_of(one.callee).rpartition(".")[2]
    return effect_of(path_of(one.callee)) == "model" and bool(_words(name) & _MODELS)


def _is_model_call(call: str) -> bool:
    owner, _, name = call.rpartition(".")
    if name in _METHODS or call.endswith(_CALLS):
        return True
    if not owner or owner == "self":
        return _names_a_model(name)
    words = _words(owner)
    if name in _INVOKES:
        return bool(words & _MODELS) or not words & _NO_MODELS
    return bool(words & _MODELS) and bool(_words(name) & _VERBS)


def _names_a_model(name: str) -> bool:
    """Whether the name of a function says that it calls a model: `call_llm`, `llm`."""
    words = _words(name)
    return not name[:1].isupper() and (
        (len(words) == 1 and words <= _MODELS) or bool(words & _MODELS and words & (_VERBS | _NOUNS))
    )


def _is_tool_call(call: str) -> bool:
    owner, _, name = call.rpartition(".")
    if call.endswith("]"):  # a tool from a table
        return bool(_words(call) & _TOOLS)
    return name == "call_tool" or (name in _TOOL_RUNS and bool(_words(owner) & _TOOLS) and not _words(owner) & _MODELS)


def _words(text: str) -> set[str]:
    """The words in some code, in lower case: `ChatModel.call_llm` has chat, model, call, llm."""
    return {one.lower() for one in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", text)}
