"""Metrics of a server, in the format of Prometheus. No label has text of users."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any


class ServerMetrics:
    """Counts and times requests.

    Args:
        verdicts: returns the numbers of verdicts by policy and decision.
        requests: returns the number of requests in flight.
        webhooks: returns the numbers of webhooks by host and result.
    """

    def __init__(
        self,
        verdicts: Callable[[], Mapping[tuple[str, str], int]],
        requests: Callable[[], int],
        webhooks: Callable[[], Mapping[tuple[str, str], int]],
    ) -> None:
        from prometheus_client import CollectorRegistry, Histogram

        self._verdicts, self._requests, self._webhooks = verdicts, requests, webhooks
        self._answers = Counter[tuple[str, str, int]]()
        self._registry = CollectorRegistry()
        self._seconds = Histogram(
            "guardagent_request_seconds", "The time of requests.", ["method", "route"], registry=self._registry
        )
        self._registry.register(self)

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Counts an answered request."""
        self._answers[method, route, status] += 1
        self._seconds.labels(method, route).observe(seconds)

    def exposition(self) -> tuple[str, bytes]:
        """Returns the content type and the text."""
        from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

        return CONTENT_TYPE_LATEST, generate_latest(self._registry)

    def collect(self) -> Iterator[Any]:
        """Yields the metrics, as a collector of prometheus-client."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        yield GaugeMetricFamily("guardagent_requests_in_flight", "Requests in flight.", self._requests())
        verdicts = CounterMetricFamily("guardagent_verdicts", "Verdicts.", labels=["policy", "decision"])
        for (policy, decision), count in sorted(self._verdicts().items()):
            verdicts.add_metric([policy, decision], count)
        yield verdicts
        webhooks = CounterMetricFamily("guardagent_webhooks", "Webhooks.", labels=["host", "result"])
        for (host, result), count in sorted(self._webhooks().items()):
            webhooks.add_metric([host, result], count)
        yield webhooks
        answers = CounterMetricFamily("guardagent_requests", "Answers.", labels=["method", "route", "status"])
        failures = 0
        for (method, route, status), count in sorted(self._answers.items()):
            answers.add_metric([method, route, str(status)], count)
            failures += count if status == 503 else 0
        yield answers
        yield CounterMetricFamily("guardagent_unavailable", "Requests that no store or limit admitted.", failures)
