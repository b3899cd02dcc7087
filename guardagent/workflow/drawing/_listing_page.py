"""One self-contained HTML page with several workflows: a list, and for each its picture and facts.

It shows names that others chose: the template escapes every string, pictures are images without scripts, and the
content security policy of the page forbids it to load anything.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from guardagent._version import __version__
from guardagent.errors import InputError
from guardagent.workflow.drawing import svg
from guardagent.workflow.drawing._text import single_line
from guardagent.workflow.model.graph import Graph
from guardagent.workflow.model.listing import UnreadPlace


@dataclass(frozen=True)
class PageSection:
    """One workflow on the page.

    Attributes:
        title: its name.
        facts: a line about it.
        graph: its graph.
        status: `passed`, `failed`, or empty for a graph that is only drawn.
        groups: lines below headings.
    """

    title: str
    facts: str
    graph: Graph
    status: str = ""
    groups: Mapping[str, Sequence[str]] | None = None

    @property
    def picture(self) -> str:
        """The picture as a data URL; empty if the graph is too large for one."""
        try:
            return f"data:image/svg+xml;base64,{b64encode(svg.render(self.graph).encode('utf-8', 'replace')).decode()}"
        except InputError:
            return ""


def listing_page(title: str, summary: str, sections: Iterable[PageSection], unread: Iterable[UnreadPlace]) -> str:
    """Returns the page."""
    from jinja2 import Environment, StrictUndefined

    template = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return template.from_string(_template()).render(
        title=single_line(title), summary=summary, sections=list(sections),
        unread=[single_line(str(one)) for one in unread], version=__version__,
    )  # fmt: skip


def graph_facts(graph: Graph) -> str:
    """Returns the framework and the size of a graph."""
    return single_line(f"{graph.framework} · {len(graph.nodes):,} nodes, {len(graph.edges):,} edges")


@cache
def _template() -> str:
    return (files("guardagent.workflow.drawing") / "listing.html.j2").read_text(encoding="utf-8")
