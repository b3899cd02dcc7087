"""All routes of the interface."""

from __future__ import annotations

import importlib
import pkgutil

from guardagent.server.http import route_tables, routes
from guardagent.server.http.api_route import ApiRoute


def api_routes() -> tuple[ApiRoute, ...]:
    """Returns the routes of all modules of `route_tables/`, and those of sessions."""
    names = [one.name for one in pkgutil.iter_modules(route_tables.__path__)]
    tables = {name: importlib.import_module(f"{route_tables.__name__}.{name}").ROUTES for name in names}
    tables["sessions"] = routes.ROUTES
    return tuple(route for _, table in sorted(tables.items()) for route in table)
