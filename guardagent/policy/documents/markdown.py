"""Reads Markdown: CommonMark with tables, footnotes and front matter, by way of HTML, which it may contain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from guardagent.errors import InputError
from guardagent.policy.documents.html import walk
from guardagent.policy.documents.sentences import Blocks, DocumentFinding

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_NO_LIMIT = 100_000  # of nesting: beyond its limit the parser drops text


def read_markdown(text: str) -> Blocks:
    """Reads a Markdown document.

    Raises:
        InputError: its blocks are nested too deep.
    """
    parser, env = _parser(has_front_matter=text.startswith("---")), dict[str, Any]()
    try:
        tokens = parser.parse(text, env)
    except RecursionError:
        raise InputError("links, lists or quotes are nested too deep; expected a plain document") from None
    for token in tokens:
        _mark(token)
    read = walk(parser.renderer.render(tokens, parser.options, env), lambda _: "line 1")
    read.findings += _definitions(env)
    return read


def _parser(*, has_front_matter: bool) -> MarkdownIt:
    from markdown_it import MarkdownIt
    from mdit_py_plugins.footnote import footnote_plugin
    from mdit_py_plugins.front_matter import front_matter_plugin

    parser = MarkdownIt("commonmark", {"maxNesting": _NO_LIMIT}).enable(["table", "strikethrough"])
    footnote_plugin(parser, inline=False, move_to_end=False)
    if has_front_matter:  # the plugin also takes a list item such as '- a--' for it
        front_matter_plugin(parser)
    return parser


def _mark(token: Token) -> None:
    """Keeps the line of a block, and what the renderer would leave out."""
    if token.map and token.type != "html_block":
        token.attrSet("data-line", str(token.map[0] + 1))
    if token.type == "front_matter":
        token.type = "code_block"
    elif token.type in ("footnote_reference_open", "footnote_reference_close"):
        token.tag = "aside"
        if token.nesting == 1:
            token.attrSet("data-footnote", str(token.meta["label"]))
    for child in token.children or ():
        if child.type == "footnote_ref":
            child.type, child.content = "text", f"[{child.meta['label']}]"


def _definitions(env: dict[str, Any]) -> list[DocumentFinding]:
    """Reports the titles of link definitions, which some authors use for comments."""
    found = [*env.get("references", {}).values(), *env.get("duplicate_refs", ())]
    return [
        DocumentFinding("hidden", "the title of a link definition is not shown", f"line {one['map'][0] + 1}", title)
        for one in found
        if (title := one["title"])
    ]
