"""The names of nodes that the source does not determine: such a node has the text of the expression for its name."""

from __future__ import annotations

import ast

from guardagent.frameworks.langgraph.source.objects import SourceGraph, names_in
from guardagent.workflow.python_source.interpreter import Interpreter
from guardagent.workflow.python_source.values import Arguments


def new_name(interpreter: Interpreter, graph: SourceGraph, line: int) -> str:
    """Returns a name for the node that the current call adds, as its first argument is written."""
    text = _text(interpreter, "node", 0)
    of_text = graph.written.setdefault(text, {})
    if line not in of_text:
        of_text[line] = text if text and text not in graph.nodes else f"{text} line {line}".strip()
    return of_text[line]


def node_names(
    interpreter: Interpreter, graph: SourceGraph, arguments: Arguments, keyword: str, place: int
) -> list[str] | None:
    """Returns the nodes that an argument of the current call names; None if they are unknown."""
    names = names_in(arguments.get(keyword, place))
    if names is None and (written := graph.written.get(_text(interpreter, keyword, place))):
        return list(written.values())
    return names


def _text(interpreter: Interpreter, keyword: str, place: int) -> str:
    """The text of an argument of the current call; empty if there is none."""
    call = interpreter.current_call
    if call is None:
        return ""
    named = [one.value for one in call.keywords if one.arg == keyword]
    found = named or call.args[place : place + 1]
    if not found or isinstance(found[0], ast.Starred):
        return ""
    text = ast.unparse(found[0])
    return text[2:-1] if isinstance(found[0], ast.JoinedStr) else text
