"""Addresses of shared stores: what is read, what is refused, and that no message shows a password."""

from __future__ import annotations

import pytest

from guardagent import InputError
from guardagent._support.stores import StoreAddress
from tests.stores import new_counters, new_ledger

SECRET = "s3cr%40t"  # noqa: S105 - of nobody


def test_own_options_are_taken_out() -> None:
    read = StoreAddress.read("redis", f"//u:{SECRET}@h:1/0?prefix=p&socket_timeout=2", ("prefix",))
    assert (read.url, read.options) == (f"redis://u:{SECRET}@h:1/0?socket_timeout=2", {"prefix": "p"})
    assert read.shown == "redis://h:1/0"


@pytest.mark.parametrize(
    "address",
    [
        "postgresql:u:s3cr@t",
        "postgresql://u:s3cr@t@127.0.0.1:1/db",
        "postgresql://u:s3cr%40t@127.0.0.1:1/db",
        "postgresql://u:s3cr%zzt@127.0.0.1:1/db",
        "postgresql://u:s3cr@127.0.0.1:port/db",
        "postgresql://u:s3cr@127.0.0.1:99999/db",
        "postgresql://127.0.0.1:1/db?password=s3cr",
        "postgresql://127.0.0.1:1/db?password=s3cr&password=s3cr",
        "postgresql://u:s3cr@127.0.0.1:1/db?no_option=1",
        "postgresql://u:s3cr@127.0.0.1:1/db#s3cr",
        "postgresql://u:s3cr@[::1/db",
        "postgresql://u:s3cr\x1b[2J@127.0.0.1:1/db",
        "postgresql://u:s3cr@127.0.0.1:1/db?schema=x;drop",
        "redis://u:s3cr@127.0.0.1:1/0",
        "redis://:s3cr%40t@127.0.0.1:1/0?no_option=1",
        "redis://:s3cr@127.0.0.1:1/0?durability=none",
        "redis://:s3cr@127.0.0.1:1/0?socket_timeout=soon",
        "rediss://:s3cr@127.0.0.1:1/0?prefix=",
        "redis:s3cr",
    ],
)
def test_no_message_shows_a_password(address: str) -> None:
    if address.startswith("postgresql"):
        pytest.importorskip("psycopg")
    pytest.importorskip("redis")
    for new in (new_ledger, new_counters):
        with pytest.raises(InputError) as raises:
            new(address)
        assert "s3cr" not in str(raises.value)
        assert "\x1b" not in str(raises.value)
        assert "expected" in str(raises.value)
