"""Metrics of the clients over HTTP, in the format of Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any


class HttpMetrics:
    """Counts requests by their status.

    Args:
        sessions: returns the number of open sessions.
        requests: returns the number of requests in flight.
    """

    def __init__(self, sessions: Callable[[], int], requests: Callable[[], int]) -> None:
        self._sessions, self._requests = sessions, requests
        self._statuses = Counter[int]()

    def count(self, send: Any) -> Any:
        """Returns a `send` of ASGI that counts the answers."""

        async def counting(message: Any) -> None:
            if message["type"] == "http.response.start":
                self._statuses[message["status"]] += 1
            await send(message)

        return counting

    def exposition(self) -> tuple[bytes, bytes] | None:
        """Returns the content type and the text; None if prometheus-client is not installed."""
        try:
            from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
        except ImportError:
            return None
        registry = CollectorRegistry()
        registry.register(self)
        return CONTENT_TYPE_LATEST.encode(), generate_latest(registry)

    def collect(self) -> Iterator[Any]:
        """Yields the metrics, as a collector of prometheus-client."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        yield GaugeMetricFamily("guardagent_mcp_sessions", "Open sessions.", self._sessions())
        yield GaugeMetricFamily("guardagent_mcp_requests_in_flight", "Requests in flight.", self._requests())
        answers = CounterMetricFamily("guardagent_mcp_requests", "Answered requests.", labels=["status"])
        for status, count in sorted(self._statuses.items()):
            answers.add_metric([str(status)], count)
        yield answers
