"""All routes of the interface."""

from __future__ import annotations

import importlib
import pkgutil

from guardagent.server.http import routes
from guardagent.server.http.api_route import ApiRoute


def api_routes() -> tuple[ApiRoute, ...]:
    """Returns the routes of all modules of `routes/`."""
    names = sorted(one.name for one in pkgutil.iter_modules(routes.__path__))
    found = [importlib.import_module(f"{routes.__name__}.{name}").ROUTES for name in names]
    return tuple(route for table in found for route in table)
