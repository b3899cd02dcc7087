"""The commands of a script that decide its exit status: it fails whenever one of them does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from guardagent.packs.shell.script import bash_parser
from guardagent.packs.shell.words import text_of

_STRICT = re.compile(r"\s*set -[a-z]*e")
_PIPEFAIL = re.compile(r"\s*set -(?:[a-z]*o |[a-z]+ -o )pipefail|set -euo pipefail")


def decisive_commands(text: str) -> list[str]:
    """Returns the source of these commands, without redirections."""
    root = bash_parser().parse(text.encode("utf-8", "surrogatepass")).root_node
    if root.has_error:
        return []
    statements = [one for one in root.named_children if one.type != "comment"]
    is_strict = any(_STRICT.match(text_of(one)) for one in statements[:1])
    in_pipes = bool(_PIPEFAIL.search(text)) and text.lstrip().startswith("set ")
    background = [one for one in root.children if one.type == "&"]
    if background:
        return []
    chosen = statements if is_strict else statements[-1:]
    return [found for one in chosen for found in _of(one, in_pipes=in_pipes)]


def _of(node: Any, *, in_pipes: bool) -> Iterator[str]:
    """Yields the commands whose failure is that of a statement."""
    if node.type == "command":
        yield " ".join(text_of(node).split())
    for part in _decisive_parts(node, in_pipes=in_pipes):
        yield from _of(part, in_pipes=in_pipes)


def _decisive_parts(node: Any, *, in_pipes: bool) -> list[Any]:
    parts = [one for one in node.named_children if one.type != "comment"]
    match node.type:
        case "list":
            return parts if not any(one.type == "||" for one in node.children) else []
        case "pipeline":
            return parts if in_pipes else parts[-1:]
        case "redirected_statement":
            return parts[:1]
        case "subshell":
            return parts[-1:]
    return []
