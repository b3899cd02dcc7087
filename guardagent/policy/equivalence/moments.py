"""The moments of witnesses."""

from __future__ import annotations

import datetime as dt

NOON = dt.datetime(2026, 1, 28, 12, tzinfo=dt.UTC)
"""The time of a proposed call: a Wednesday."""
