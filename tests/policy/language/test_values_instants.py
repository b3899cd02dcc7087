"""Instants and the names of time zones."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from fractions import Fraction
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from guardagent.policy.language.values import LAST, moment_of, name_of_zone, parsed_instant, seconds_of, zone_named

OFFSETS = st.timedeltas(dt.timedelta(hours=-23, minutes=-59), dt.timedelta(hours=23, minutes=59)).map(
    lambda offset: dt.timedelta(seconds=int(offset.total_seconds()))
)


@given(st.integers(0, LAST - 1))
def test_every_microsecond_survives_all_forms(moment: int) -> None:
    """As exact seconds and as a datetime; as a float, in which events carry it, up to the year 2100."""
    assert moment_of(seconds_of(moment)) == moment
    utc = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=moment)
    assert moment_of(utc) == moment_of(parsed_instant(utc.isoformat())) == moment
    assert moment > 4_102_444_800_000_000 or moment_of(moment / 1_000_000) == moment


@given(st.floats(0, 2**34) | st.integers(0, 2**34 * 10**7).map(lambda tenths: tenths / 10**7))
def test_a_float_is_the_decimal_that_it_prints_as(seconds: float) -> None:
    """It is rounded to the microsecond as this decimal is, half to even."""
    assert moment_of(seconds) == round(Fraction(Decimal(repr(seconds))) * 1_000_000)


@given(OFFSETS)
def test_an_offset_has_a_name(offset: dt.timedelta) -> None:
    zone = zone_named(name_of_zone(dt.timezone(offset)))
    assert zone is not None
    assert zone.utcoffset(None) == offset


def test_zones_have_names() -> None:
    assert name_of_zone(ZoneInfo("Europe/Berlin")) == "Europe/Berlin"
    assert name_of_zone(dt.UTC) == "UTC"
    assert name_of_zone(dt.timezone(dt.timedelta(hours=2), "anything")) == "+02:00"


def test_a_zone_without_a_name_is_refused() -> None:
    class HostZone(dt.tzinfo):
        """A zone of the host."""

        def utcoffset(self, _: dt.datetime | None) -> dt.timedelta:
            return dt.timedelta(hours=1)

        def dst(self, _: dt.datetime | None) -> None: ...

        def tzname(self, _: dt.datetime | None) -> None: ...

    with pytest.raises(ValueError, match="expected a zone of 'zoneinfo'"):
        name_of_zone(HostZone())


@pytest.mark.parametrize("text", ["", "12:00", "2026-01-01", "2026-01-01T12:00", "2026-13-01T00:00Z", "now", "1" * 999])
def test_other_texts_are_no_instants(text: str) -> None:
    with pytest.raises(ValueError, match="expected seconds since the epoch, or a date and time"):
        parsed_instant(text)
