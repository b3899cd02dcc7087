"""Runs a server at an address."""

from __future__ import annotations

from guardagent._support.http.endpoint import HttpEndpoint, serve
from guardagent._support.http.request_limits import RequestLimits
from guardagent._support.requirements import require
from guardagent.server.access import AccessControl
from guardagent.server.http.garbage_collection import rare_full_collections
from guardagent.server.settings.server_settings import ServerSettings


async def run_server(settings: ServerSettings, access: AccessControl, endpoint: HttpEndpoint[RequestLimits]) -> None:
    """Serves until it is stopped.

    Raises:
        InputError: a setting is invalid, a store cannot be opened, or the address is not available.
    """
    require({"starlette": "0.46", "uvicorn": "0.34", "prometheus-client": "0.26"}, "server")
    from guardagent.server.http.application import ServerApplication
    from guardagent.server.service.guard_service import GuardService

    service = GuardService(settings, access.tokens)
    try:
        with rare_full_collections(), service.webhooks.running(), service.retention.running():
            await serve(ServerApplication(service, access, endpoint.hosts, endpoint.limits), endpoint)
    finally:
        service.close()
