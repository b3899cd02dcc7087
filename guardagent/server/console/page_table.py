"""All pages of the console."""

from __future__ import annotations

import importlib
import pkgutil

from guardagent.server.access import Caller
from guardagent.server.access.permissions import PERMITTED
from guardagent.server.console import page_tables, pages
from guardagent.server.console.console_page import ConsolePage


def console_pages() -> tuple[ConsolePage, ...]:
    """Returns the pages for approvals, and those of all modules of `page_tables/`."""
    names = sorted(one.name for one in pkgutil.iter_modules(page_tables.__path__))
    found = [importlib.import_module(f"{page_tables.__name__}.{name}").PAGES for name in names]
    return tuple(page for table in [pages.PAGES, *found] for page in table)


def navigation(table: tuple[ConsolePage, ...], caller: Caller) -> list[ConsolePage]:
    """Returns the pages that a person may open from everywhere, in order."""
    found = [one for one in table if one.title and caller.roles & PERMITTED[one.operation]]
    return sorted(found, key=lambda one: one.place)
