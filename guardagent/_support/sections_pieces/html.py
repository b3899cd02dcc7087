"""Sections as one HTML page, which loads nothing and runs nothing.

It shows strings that others chose: the template escapes each of them, and the content security policy of the page
forbids scripts and requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.resources import files
from types import MappingProxyType

from guardagent._support.sections_pieces.section import ReportSection
from guardagent._version import __version__

_NO_PLOTS: Mapping[str, str] = MappingProxyType({})


def html(title: str, warning: str, sections: Iterable[ReportSection], plots: Mapping[str, str] = _NO_PLOTS) -> str:
    """Returns the page.

    Args:
        title: the heading.
        warning: a sentence before everything else; may be empty.
        sections: the content.
        plots: SVG drawings, by the names that the sections use. Their labels are escaped already.
    """
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = files("guardagent._support").joinpath("page.html.j2").read_text(encoding="utf-8")
    return environment.from_string(template).render(
        title=title,
        warning=warning,
        sections=list(sections),
        plots={name: Markup(svg) for name, svg in plots.items()},  # noqa: S704 - the drawing escapes labels
        version=__version__,
    )
