"""Reports on the results of an audit: rules by week, near misses, telling traces, time, and repeated tasks.

    folder of an audit -> batches of verdicts -> figures -> one of `FORMATS`

Memory grows with the rules, the weeks and, up to a limit, the tasks; not with the traces.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from guardagent._support.plugins import Plugins
from guardagent._support.requirements import require

if TYPE_CHECKING:
    from pathlib import Path

    from guardagent.batch.report.figures import AuditReport
    from guardagent.batch.report.period import Period

FORMATS = Plugins("report format", f"{__name__}.writers", ("SUFFIX", "render"))


def make_report(address: str, period: Period | None = None, *, top: int = 10) -> AuditReport:
    """Reads the results of an audit, and returns the figures: see `audit_report`.

    Raises:
        InputError: a package of the extra `arrow` is missing, the results cannot be read, or no trace remains.
    """
    require({"pyarrow": "17", "fsspec": "2024.6"}, "arrow")
    from guardagent.batch.report.audit_report import audit_report

    return audit_report(address, period, top=top)


def format_of(path: Path | None) -> str:
    """Returns the format whose files have the suffix of a path; `markdown` if none has."""
    names = (name for name, module in FORMATS.load_all() if path is not None and path.suffix == module.SUFFIX)
    return next(names, "markdown")


def render(report: AuditReport, format: str) -> bytes:  # noqa: A002 - as the option is called
    """Returns the report in one of `FORMATS`.

    Raises:
        UnknownNameError: the format does not exist.
        InputError: a package that the format needs is missing.
    """
    rendered: bytes = FORMATS.load(format).render(report)
    return rendered
