"""`minute(instant, zone)`: the minute of the hour, 0 to 59."""

from __future__ import annotations

from guardagent.policy.functions._local_time import of_local_time

FUNCTION = of_local_time(lambda local: local.minute, limits=(0, 59))
