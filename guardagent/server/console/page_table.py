"""All pages of the console."""

from __future__ import annotations

import importlib
import pkgutil

from guardagent.server.access import Caller
from guardagent.server.access.permissions import PERMITTED
from guardagent.server.console import pages
from guardagent.server.console.console_page import ConsolePage


def console_pages() -> tuple[ConsolePage, ...]:
    """Returns the pages of all modules of `pages/`."""
    names = sorted(one.name for one in pkgutil.iter_modules(pages.__path__))
    found = [importlib.import_module(f"{pages.__name__}.{name}").PAGES for name in names]
    return tuple(page for table in found for page in table)


def navigation(table: tuple[ConsolePage, ...], caller: Caller) -> list[ConsolePage]:
    """Returns the pages that a person may open from everywhere, in order."""
    found = [one for one in table if one.title and caller.roles & PERMITTED[one.operation]]
    return sorted(found, key=lambda one: one.place)
