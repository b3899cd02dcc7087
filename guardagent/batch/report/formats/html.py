"""The report as one HTML page with plots, which loads nothing and runs nothing.

It shows strings that others chose: the template escapes each of them, and the content security policy of the page
forbids scripts and requests.
"""

from __future__ import annotations

from importlib.resources import files

from guardagent._support.requirements import require
from guardagent._version import __version__
from guardagent.batch.report.figures import AuditReport
from guardagent.batch.report.formats._sections import sections, warning

SUFFIX = ".html"


def render(report: AuditReport) -> bytes:
    """Returns the page.

    Raises:
        InputError: matplotlib is missing or too old.
    """
    require({"matplotlib": "3.8"}, "report")
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    from guardagent.batch.report.formats._plots import plots

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = files("guardagent.batch.report.formats").joinpath("page.html.j2").read_text(encoding="utf-8")
    page = environment.from_string(template).render(
        warning=warning(report),
        sections=list(sections(report)),
        plots={name: Markup(svg) for name, svg in plots(report).items()},  # noqa: S704 - the drawing escapes labels
        version=__version__,
    )
    return page.encode("utf-8", "replace")
