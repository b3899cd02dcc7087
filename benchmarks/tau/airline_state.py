"""State functions over the airline's records; None if the records have no answer.

`state` has `now`, and `users`, `reservations` and `flights`, each a mapping of ids to records, as tau-bench keeps them.
Times without a zone are EST.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from numbers import Rational
from typing import Any

_EST = timezone(timedelta(hours=-5), "EST")
_TIERS = ("regular", "silver", "gold")
_CABINS = ("basic_economy", "economy", "business")
_KINDS = ("certificate", "credit_card", "gift_card")


def reservation(state: Any, reservation_id: Any) -> Mapping[str, Any] | None:
    """The record of a reservation: `user_id`, `cabin`, `flights`, `passengers`, `insurance`, ..."""
    record = _at(state, "reservations", reservation_id)
    return record if isinstance(record, Mapping) else None


def hours_since_booking(state: Any, reservation_id: Any) -> float | None:
    """The hours since a reservation was made."""
    now, booked = _moment(_at(state, "now")), _moment(_at(state, "reservations", reservation_id, "created_at"))
    return None if now is None or booked is None else (now - booked).total_seconds() / 3600


def membership(state: Any, user_id: Any) -> str | None:
    """The tier of a member: "regular", "silver" or "gold"."""
    tier = _at(state, "users", user_id, "membership")
    return tier if tier in _TIERS else None


def extra_bags(
    state: Any, user_id: Any, cabin: Any, passengers: Any, bags: Any, regular: Any, silver: Any, gold: Any
) -> int | None:
    """The number of bags that are not free.

    Args:
        state: the records.
        user_id: the user who books, whose tier counts.
        cabin: "basic_economy", "economy" or "business".
        passengers: the number of passengers.
        bags: the number of checked bags of all passengers together.
        regular: the free bags per passenger in basic economy, economy and business, for a regular member.
        silver: the same for a silver member.
        gold: the same for a gold member.
    """
    tier = membership(state, user_id)
    if tier is None or cabin not in _CABINS:
        return None
    free = _list([regular, silver, gold][_TIERS.index(tier)]) or []
    numbers = [_whole(value) for value in (*free, passengers, bags)]
    if len(free) != len(_CABINS) or None in numbers:
        return None
    known = [number for number in numbers if number is not None]
    return max(0, known[-1] - known[_CABINS.index(cabin)] * known[-2])


def profile_payments(state: Any, user_id: Any) -> list[str] | None:
    """The payment methods in a user's profile."""
    methods = _at(state, "users", user_id, "payment_methods")
    return list(methods) if isinstance(methods, Mapping) else None


def payment_kind(state: Any, user_id: Any, payment_id: Any) -> str | None:
    """The kind of a payment method: "certificate", "credit_card" or "gift_card".

    Read from the profile, else from the prefix of its id.
    """
    known = _at(state, "users", user_id, "payment_methods", payment_id, "source")
    if known in _KINDS:
        return str(known)
    return next((kind for kind in _KINDS if str(payment_id).startswith(f"{kind}_")), None)


def new_flights(state: Any, reservation_id: Any, flights: Any) -> list[Any] | None:
    """The flights that the reservation lacks, by number and date."""
    wanted, booked = _list(flights), _booked(state, reservation_id)
    if wanted is None or booked is None:
        return None
    return [flight for flight in wanted if _key(flight) not in [_key(kept) for kept in booked]]


def left_out_flights(state: Any, reservation_id: Any, flights: Any) -> list[Any] | None:
    """The flights of the reservation that are not in a list of flights."""
    wanted, booked = _list(flights), _booked(state, reservation_id)
    if wanted is None or booked is None:
        return None
    return [flight for flight in booked if _key(flight) not in [_key(kept) for kept in wanted]]


def starts_at(state: Any, flights: Any) -> str | None:
    """The origin of the first flight."""
    first = (_list(flights) or [None])[0]
    return _text(_at(state, "flights", _at(first, "flight_number"), "origin"))


def ends_at(state: Any, flights: Any) -> str | None:
    """The destination of the last flight."""
    return (stops(state, flights) or [None])[-1]


def stops(state: Any, flights: Any) -> list[str | None] | None:
    """The destinations of the flights, in order; None for an unknown flight."""
    wanted = _list(flights)
    if wanted is None:
        return None
    return [_text(_at(state, "flights", _at(flight, "flight_number"), "destination")) for flight in wanted]


def flight_status(state: Any, flight_number: Any, date: Any) -> str | None:
    """The status of a flight on a day: "available", "on time", "delayed", "flying", "landed" or "cancelled"."""
    return _text(_at(state, "flights", flight_number, "dates", date, "status"))


def minutes_late(state: Any, flight_number: Any, date: Any) -> float | None:
    """The delay of a landed flight in minutes; negative if it was early."""
    flight = _at(state, "flights", flight_number)
    landed = _moment(_at(flight, "dates", date, "actual_arrival_time_est"))
    due = _scheduled(date, _at(flight, "scheduled_arrival_time_est"))
    return None if landed is None or due is None else (landed - due).total_seconds() / 60


def _booked(state: Any, reservation_id: Any) -> list[Any] | None:
    return _list(_at(state, "reservations", reservation_id, "flights"))


def _key(flight: Any) -> tuple[Any, Any]:
    return _at(flight, "flight_number"), _at(flight, "date")


def _scheduled(date: Any, time: Any) -> datetime | None:
    """A time of a day in the timetable; `+1` behind it means the day after."""
    hour, _, days = str(time).partition("+")
    moment = _moment(f"{date}T{hour}")
    if moment is None or days not in {"", "1", "2"}:
        return None
    try:
        return moment + timedelta(days=int(days or 0))
    except OverflowError:  # beyond the last day of the calendar
        return None


def _moment(value: Any) -> datetime | None:
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value).removesuffix(" EST"))
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=_EST)


def _at(value: Any, *keys: Any) -> Any:
    """The value at a path of keys, or None if the path does not exist."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) and isinstance(key, str) else None
    return value


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _list(value: Any) -> list[Any] | None:
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str | bytes) else None


def _whole(value: Any) -> int | None:
    number = isinstance(value, int | float | Rational) and not isinstance(value, bool)
    return int(value) if number and value % 1 == 0 else None
