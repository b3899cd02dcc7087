"""The report as one self-contained page: the graph, the findings and the rules, with witnesses to walk through.

Readers open it from a disk or from build artefacts, and it shows names that others chose. The template therefore
escapes every string, the script changes only classes, attributes and plain text, and the content security policy of the
page forbids it to load anything.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from guardagent._version import __version__
from guardagent.workflow.analysis.report import Report
from guardagent.workflow.drawing import svg
from guardagent.workflow.drawing._style import TEXT, dark
from guardagent.workflow.reports._legend import legend
from guardagent.workflow.reports._page_view import PageView

SUFFIX = ".html"


def render(report: Report) -> str:
    """Returns the page."""
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    view = PageView(report)
    size, picture = svg.picture(view.graph, view.marks())
    template = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return template.from_string(_file("page.html.j2")).render(
        view=view,
        version=__version__,
        script=Markup(_file("page.js")),  # noqa: S704 - a constant of this package
        style=Markup(_style()),  # noqa: S704 - as above
        picture=Markup(picture),  # noqa: S704 - the drawing escapes names
        legend=[(kind, Markup(drawn)) for kind, drawn in legend(view.graph)],  # noqa: S704 - as above
        size=size,
        view_box=svg.view_box(size),
    )


@cache
def _file(name: str) -> str:
    return (files("guardagent.workflow.reports") / "page" / name).read_text(encoding="utf-8")


@cache
def _style() -> str:
    # The theme of the reader overrides that of the system; paper is always light. Colours of a walk override both.
    system = f"@media screen and (prefers-color-scheme: dark) {{\n{dark(':where(:root:not([data-theme=light]))')}\n}}"
    chosen = f"@media screen {{\n{dark(':where(:root[data-theme=dark])')}\n}}"
    return "\n".join([_file("page.css"), TEXT, system, chosen])
