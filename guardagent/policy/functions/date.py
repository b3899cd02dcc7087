"""`date(instant, zone)`: the date in ISO 8601, such as `"2026-01-31"`."""

from __future__ import annotations

from guardagent.policy.functions._local_time import of_local_time

FUNCTION = of_local_time(lambda local: local.date().isoformat(), "text")
