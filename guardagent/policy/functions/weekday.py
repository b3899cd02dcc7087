"""`weekday(instant, zone)`: the day of the week in ISO 8601, from 1 for Monday to 7 for Sunday."""

from __future__ import annotations

from guardagent.policy.functions._local_time import of_local_time

FUNCTION = of_local_time(lambda local: local.isoweekday(), limits=(1, 7))
