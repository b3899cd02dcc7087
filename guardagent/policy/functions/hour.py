"""`hour(instant, zone)`: the hour of the day, 0 to 23."""

from __future__ import annotations

from guardagent.policy.functions._local_time import of_local_time

FUNCTION = of_local_time(lambda local: local.hour, limits=(0, 23))
