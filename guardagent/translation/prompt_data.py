"""The part of a prompt that all requests of a translation share."""

from __future__ import annotations

import json
from typing import Any

from guardagent.translation.context import TranslationContext
from guardagent.translation.document_text import document_text
from guardagent.translation.samples_pieces.rendering import render
from guardagent.translation.tools import ToolSchema

MOST_SAMPLES = 30_000


def shared_data(context: TranslationContext) -> dict[str, str]:
    """Returns the document, the tools, the samples and the operator's functions as strings.

    Raises:
        InputError: a file of functions cannot be read.
    """
    return {
        "document": document_text(context.document.sentences),
        "tools": "\n".join(map(_tool, context.tools)),
        "samples": render(context.samples, MOST_SAMPLES) if context.samples else "",
        "functions": _functions(context),
    }


def facts_text(context: TranslationContext) -> str:
    """Returns the facts that the host gives, one per line."""
    return "\n".join(
        f"{one.name}{f' ({one.type})' if one.type else ''}{f': {one.description}' if one.description else ''}"
        for one in context.facts
    )


def _tool(tool: ToolSchema) -> str:
    shown: dict[str, Any] = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    if tool.output_schema is not None:
        shown["output"] = tool.output_schema
    return json.dumps(shown, ensure_ascii=False, default=str)


def _functions(context: TranslationContext) -> str:
    if not context.toolbox:
        return ""
    from guardagent.sandbox.toolbox import Toolbox

    return "\n\n".join(tool.describe() for tool in Toolbox(list(context.toolbox)).values())
